-- Where the model says that agents run: a JSON object from names of agents to URIs. What the setting `agent_map` says of an
-- agent comes first.
ALTER TABLE version ADD COLUMN agent_places TEXT NOT NULL DEFAULT '{}';
-- Tokens of an environment that can be revoked. Those without an id of their own are not here.
CREATE TABLE token (
    jti TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    -- Whom it is for, as the token says it: `api,agent,compiler`.
    client_types TEXT NOT NULL,
    issued_us BIGINT NOT NULL,
    -- NULL: never.
    expires_us BIGINT,
    revoked_us BIGINT,
    -- To the minute.
    last_used_us BIGINT
);
CREATE INDEX token_of_environment ON token (environment_id, issued_us);
