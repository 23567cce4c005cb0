-- What people are told without having asked. Source: docs/reference/deployment.md § 7.3.
CREATE TABLE notification (
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    id TEXT NOT NULL PRIMARY KEY,
    created_us BIGINT NOT NULL,
    title TEXT NOT NULL,
    message TEXT NOT NULL,
    -- 'message' 'info' 'success' 'warning' 'error'
    severity TEXT NOT NULL,
    -- A path of the API; NULL: it leads nowhere.
    uri TEXT,
    compile_id TEXT,
    is_read BOOLEAN NOT NULL DEFAULT FALSE,
    is_cleared BOOLEAN NOT NULL DEFAULT FALSE
);
CREATE INDEX notification_created ON notification (environment_id, created_us);

-- What was measured in a minute. Source: docs/reference/deployment.md § 7.2.
CREATE TABLE environment_metric (
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    -- Of a gauge: what was counted, such as a status; else empty.
    category TEXT NOT NULL,
    -- The end of the minute.
    minute_us BIGINT NOT NULL,
    -- Of a gauge 1; of a timer how many there were.
    n_values BIGINT NOT NULL,
    -- Of a gauge what was counted; of a timer the microseconds of all together.
    total BIGINT NOT NULL,
    PRIMARY KEY (environment_id, name, minute_us, category)
);

-- The resources that a dry run is about, a JSON list of ids; NULL: all of its version.
ALTER TABLE dry_run ADD COLUMN resource_ids TEXT;
