-- Parameters are facts of no resource: `resource_id` is empty. Source: deploy.md 5.7.
ALTER TABLE fact ADD COLUMN source TEXT NOT NULL DEFAULT 'fact';
-- JSON.
ALTER TABLE fact ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}';

-- What handlers of discovery resources found, the newest report of each. Source: deploy.md 5.9.
CREATE TABLE discovered_resource (
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    resource_id TEXT NOT NULL,
    -- JSON.
    found TEXT NOT NULL,
    -- The resource whose handler found it.
    discovery_resource_id TEXT NOT NULL,
    discovered_us BIGINT NOT NULL,
    PRIMARY KEY (environment_id, resource_id)
);
