-- Versions as intervals of resources, and states with counts: a page of a list reads the rows that it shows, however many
-- versions and resources there are, and a version writes the rows that differ from the one before it.

-- What a resource shall be in the versions from_version <= n < to_version. A content that stays is one row for all of them.
CREATE TABLE desired_resource (
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    -- type[agent,attribute=value]
    resource_id TEXT NOT NULL,
    from_version BIGINT NOT NULL,
    -- 9223372036854775807: up to the newest version.
    to_version BIGINT NOT NULL,
    -- Empty: it is in no set.
    set_name TEXT NOT NULL,
    -- SHA-256 over id, attributes, requires and undefined.
    digest TEXT NOT NULL,
    resource_type TEXT NOT NULL,
    agent TEXT NOT NULL,
    id_attribute TEXT NOT NULL,
    id_value TEXT NOT NULL,
    attributes TEXT NOT NULL,
    attribute_hash TEXT NOT NULL,
    -- JSON list of resource ids.
    requires TEXT NOT NULL,
    is_undefined BOOLEAN NOT NULL,
    created_us BIGINT NOT NULL,
    -- The end, not the begin: in the order of ids, what a version has is found by the index alone.
    PRIMARY KEY (environment_id, resource_id, to_version)
);

-- From which version to which a set has these resources.
CREATE TABLE desired_set (
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    set_name TEXT NOT NULL,
    from_version BIGINT NOT NULL,
    to_version BIGINT NOT NULL,
    -- SHA-256 over the digests of its resources.
    digest TEXT NOT NULL,
    n_resources BIGINT NOT NULL,
    PRIMARY KEY (environment_id, set_name, to_version)
);

-- Before, a version was a list of revisions of sets, and a revision a list of contents: neighbours with the same content
-- become one row.
INSERT INTO desired_resource (environment_id, resource_id, from_version, to_version, set_name, digest, resource_type, agent,
    id_attribute, id_value, attributes, attribute_hash, requires, is_undefined, created_us)
WITH member AS (
    SELECT r.environment_id, r.resource_id, r.digest, i.set_name, i.from_version,
        COALESCE(i.to_version, 9223372036854775807) AS to_version
    FROM set_interval i
    JOIN set_member m ON m.revision_id = i.revision_id
    JOIN resource r ON r.environment_id = i.environment_id AND r.digest = m.digest
), marked AS (
    SELECT environment_id, resource_id, digest, set_name, from_version, to_version,
        CASE WHEN LAG(to_version) OVER neighbours = from_version AND LAG(digest) OVER neighbours = digest
            AND LAG(set_name) OVER neighbours = set_name THEN 0 ELSE 1 END AS is_first
    FROM member
    WINDOW neighbours AS (PARTITION BY environment_id, resource_id ORDER BY from_version)
), numbered AS (
    SELECT environment_id, resource_id, digest, set_name, from_version, to_version,
        SUM(is_first) OVER (PARTITION BY environment_id, resource_id ORDER BY from_version) AS island
    FROM marked
), merged AS (
    SELECT environment_id, resource_id, digest, set_name, MIN(from_version) AS from_version, MAX(to_version) AS to_version
    FROM numbered
    GROUP BY environment_id, resource_id, digest, set_name, island
)
SELECT m.environment_id, m.resource_id, m.from_version, m.to_version, m.set_name, m.digest, r.resource_type, r.agent,
    r.id_attribute, r.id_value, r.attributes, r.attribute_hash, r.requires, r.is_undefined, r.created_us
FROM merged m
JOIN resource r ON r.environment_id = m.environment_id AND r.digest = m.digest;

INSERT INTO desired_set (environment_id, set_name, from_version, to_version, digest, n_resources)
SELECT i.environment_id, i.set_name, i.from_version, COALESCE(i.to_version, 9223372036854775807), s.digest, s.n_resources
FROM set_interval i
JOIN set_revision s ON s.id = i.revision_id;

DROP TABLE set_interval;
DROP TABLE set_member;
DROP TABLE set_revision;
DROP TABLE resource;

-- What began and what ended between two versions.
CREATE INDEX desired_resource_from ON desired_resource (environment_id, from_version);
CREATE INDEX desired_resource_to ON desired_resource (environment_id, to_version) WHERE to_version < 9223372036854775807;
-- The resources that a set has in the newest version. Here and below the environment is not the first column: nobody shall
-- take these indexes for a way to all rows of an environment.
CREATE INDEX desired_resource_set ON desired_resource (set_name, environment_id) WHERE to_version = 9223372036854775807;
CREATE INDEX desired_set_open ON desired_set (environment_id, set_name) WHERE to_version = 9223372036854775807;

-- A dependency from one set into another, which a partial export cannot keep true: "id requires id", empty if there is none,
-- NULL if nobody looked yet.
ALTER TABLE version ADD COLUMN crossing TEXT;

-- The one-word status by which lists are filtered and counted; src/store/state.rs derives the same.
CREATE INDEX resource_state_status ON resource_state ((CASE
    WHEN orphaned_after IS NOT NULL THEN 'orphaned'
    WHEN is_deploying THEN 'deploying'
    WHEN is_undefined THEN 'undefined'
    WHEN blocked = 'blocked' THEN 'skipped_for_undefined'
    WHEN deployed_hash IS NULL OR deployed_hash <> intent_hash THEN 'available'
    ELSE last_status END), environment_id, resource_id);

-- How many states there are of each status, kept by all that writes states: nobody counts a million rows for a page.
CREATE TABLE resource_count (
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    status TEXT NOT NULL,
    n_resources BIGINT NOT NULL,
    PRIMARY KEY (environment_id, status)
);
INSERT INTO resource_count (environment_id, status, n_resources)
SELECT environment_id, CASE
    WHEN orphaned_after IS NOT NULL THEN 'orphaned'
    WHEN is_deploying THEN 'deploying'
    WHEN is_undefined THEN 'undefined'
    WHEN blocked = 'blocked' THEN 'skipped_for_undefined'
    WHEN deployed_hash IS NULL OR deployed_hash <> intent_hash THEN 'available'
    ELSE last_status END, COUNT(*)
FROM resource_state
GROUP BY 1, 2;
