-- The start of the server that uses this database: one row. Health writes it and reads it back.
CREATE TABLE server_start (
    nonce TEXT NOT NULL PRIMARY KEY,
    started_us BIGINT NOT NULL,
    beat_us BIGINT NOT NULL
);
