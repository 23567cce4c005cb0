-- Orders: changes to several instances that a client asks for in one call (docs/reference/lsm.md § 5.10).
CREATE TABLE service_order (
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    description TEXT NOT NULL,
    created_us BIGINT NOT NULL,
    -- When the last of its items ended; NULL: it is in progress.
    completed_us BIGINT,
    PRIMARY KEY (environment_id, id)
);
CREATE INDEX service_order_created ON service_order (environment_id, created_us, id);
-- What a server takes up again when it starts.
CREATE INDEX service_order_open ON service_order (environment_id, id) WHERE completed_us IS NULL;

CREATE TABLE service_order_item (
    environment_id TEXT NOT NULL,
    order_id TEXT NOT NULL,
    -- Its place in the order, from 0.
    position BIGINT NOT NULL,
    instance_id TEXT NOT NULL,
    entity TEXT NOT NULL,
    -- create, update, delete
    action TEXT NOT NULL,
    -- Attributes, edits and switches as the client gave them: a JSON object.
    request TEXT NOT NULL,
    -- The instances of the same order whose items have to be completed before: a JSON list of ids.
    dependencies TEXT NOT NULL,
    -- What all events of its change have in common: by it the change is known again after a crash.
    correlation_id TEXT NOT NULL,
    -- acknowledged, in_progress, completed, failed
    state TEXT NOT NULL,
    -- The version that the instance had before, 0 if there was none; NULL: the item has not begun.
    base_version BIGINT,
    -- How it ended: a JSON object.
    outcome TEXT NOT NULL,
    PRIMARY KEY (environment_id, order_id, position),
    FOREIGN KEY (environment_id, order_id) REFERENCES service_order (environment_id, id) ON DELETE CASCADE
);
