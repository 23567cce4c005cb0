-- The catalog and the inventory of services (docs/reference/lsm.md § 1): what can be ordered, what was ordered, and all that
-- happened to it. An instance is one row; its log and its events are only ever added to.

-- One row for each environment that has a catalog. Whatever changes a definition takes it for itself, whatever follows one
-- shares it, so a definition never changes under a transfer. The revision says whether what a server remembers still holds.
CREATE TABLE service_catalog (
    environment_id TEXT NOT NULL PRIMARY KEY REFERENCES environment (id) ON DELETE CASCADE,
    revision BIGINT NOT NULL
);

CREATE TABLE service_entity (
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    version BIGINT NOT NULL,
    -- The record as it was exported: JSON.
    record TEXT NOT NULL,
    -- What was set for switches of the lifecycle over the API: a JSON object of booleans.
    config TEXT NOT NULL DEFAULT '{}',
    -- Instances that name no version are of this one.
    is_default BOOLEAN NOT NULL,
    -- Whether the model keeps several versions of it.
    is_versioned BOOLEAN NOT NULL,
    updated_us BIGINT NOT NULL,
    PRIMARY KEY (environment_id, name, version)
);

CREATE TABLE service_instance (
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    entity TEXT NOT NULL,
    entity_version BIGINT NOT NULL,
    version BIGINT NOT NULL,
    desired_state_version BIGINT NOT NULL,
    state TEXT NOT NULL,
    -- The value of the identity attribute; NULL: the service has none.
    identity TEXT,
    -- The instance that its relation to the owning service names; NULL: the service has no owner.
    owner_id TEXT,
    -- JSON objects; NULL: there is no such set.
    candidate TEXT,
    active TEXT,
    rollback TEXT,
    -- Its own values for switches of the lifecycle: a JSON object of booleans.
    config TEXT NOT NULL,
    -- What clients remember with it: a JSON object of texts.
    metadata TEXT NOT NULL,
    -- The result of the last deployment of this desired state version; NULL: it is not known, or does not matter.
    known_result BOOLEAN,
    -- In a final state.
    is_deleted BOOLEAN NOT NULL,
    created_us BIGINT NOT NULL,
    updated_us BIGINT NOT NULL,
    PRIMARY KEY (environment_id, id)
);
-- An identity is free again when its holder has ended.
CREATE UNIQUE INDEX service_instance_identity ON service_instance (environment_id, entity, identity)
    WHERE is_deleted = FALSE AND identity IS NOT NULL;
-- Lists in the order of creation, and how many are in each state.
CREATE INDEX service_instance_created ON service_instance (environment_id, entity, created_us, id);
CREATE INDEX service_instance_state ON service_instance (environment_id, entity, is_deleted, entity_version, state, id);

CREATE INDEX service_instance_owner ON service_instance (environment_id, owner_id) WHERE owner_id IS NOT NULL;

-- Which instances another one names in a relation between services, in any of its sets.
CREATE TABLE service_reference (
    environment_id TEXT NOT NULL,
    target_id TEXT NOT NULL,
    source_id TEXT NOT NULL,
    PRIMARY KEY (environment_id, target_id, source_id),
    FOREIGN KEY (environment_id, source_id) REFERENCES service_instance (environment_id, id) ON DELETE CASCADE
);
CREATE INDEX service_reference_source ON service_reference (environment_id, source_id);

-- The instance as it was in each of its versions.
CREATE TABLE service_instance_log (
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    instance_id TEXT NOT NULL,
    version BIGINT NOT NULL,
    timestamp_us BIGINT NOT NULL,
    -- JSON.
    snapshot TEXT NOT NULL,
    PRIMARY KEY (environment_id, instance_id, version)
);

CREATE TABLE service_instance_event (
    id TEXT NOT NULL PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    instance_id TEXT NOT NULL,
    entity TEXT NOT NULL,
    -- Of the instance before the transfer.
    instance_version BIGINT NOT NULL,
    desired_state_version BIGINT NOT NULL,
    timestamp_us BIGINT NOT NULL,
    event_type TEXT NOT NULL,
    message TEXT NOT NULL,
    source TEXT,
    destination TEXT,
    correlation_id TEXT NOT NULL,
    severity BIGINT NOT NULL,
    compile_id TEXT,
    is_error BOOLEAN NOT NULL,
    is_ignored BOOLEAN NOT NULL
);
CREATE INDEX service_instance_event_time ON service_instance_event (environment_id, instance_id, timestamp_us, id);

-- Updates that were taken: the same one again has no effect.
CREATE TABLE service_update (
    environment_id TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    update_id TEXT NOT NULL,
    PRIMARY KEY (environment_id, instance_id, update_id),
    FOREIGN KEY (environment_id, instance_id) REFERENCES service_instance (environment_id, id) ON DELETE CASCADE
);

-- Where events are sent to.
CREATE TABLE service_callback (
    id TEXT NOT NULL PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    url TEXT NOT NULL,
    entity TEXT NOT NULL,
    -- A JSON list of their types; NULL: all.
    event_types TEXT,
    -- NULL: all.
    minimal_severity BIGINT,
    created_us BIGINT NOT NULL
);
CREATE INDEX service_callback_entity ON service_callback (environment_id, entity);
