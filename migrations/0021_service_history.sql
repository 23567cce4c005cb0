-- How many instances a service has in each state, kept by all that writes instances: nobody counts a hundred thousand rows
-- for a page. A number is the sum over its shards, which are many so that transfers of different instances seldom wait for one
-- another.
CREATE TABLE service_count (
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    entity TEXT NOT NULL,
    -- Of the definition.
    entity_version BIGINT NOT NULL,
    state TEXT NOT NULL,
    is_deleted BOOLEAN NOT NULL,
    shard BIGINT NOT NULL,
    -- May be negative: an instance that is counted in one shard is taken from another.
    n_instances BIGINT NOT NULL,
    PRIMARY KEY (environment_id, entity, entity_version, state, is_deleted, shard)
);
INSERT INTO service_count (environment_id, entity, entity_version, state, is_deleted, shard, n_instances)
SELECT environment_id, entity, entity_version, state, is_deleted, 0, COUNT(*)
FROM service_instance
GROUP BY environment_id, entity, entity_version, state, is_deleted;

-- Events that were written when their instance was removed already.
UPDATE service_instance_event SET is_past = TRUE
WHERE is_past = FALSE AND NOT EXISTS (
    SELECT 1 FROM service_instance i
    WHERE i.environment_id = service_instance_event.environment_id AND i.id = service_instance_event.instance_id);
-- What is removed when it is old enough, and nobody asks for otherwise.
CREATE INDEX service_instance_event_past ON service_instance_event (environment_id, timestamp_us) WHERE is_past;

-- Of a million runs few changed something, and few had anything to complain of: who asks for these does not read the others.
CREATE INDEX resource_action_changed ON resource_action (environment_id, started_us, id) WHERE change <> 'nochange';
CREATE INDEX resource_action_loud ON resource_action (environment_id, started_us, id)
    WHERE messages LIKE '%"level":"ERROR"%' OR messages LIKE '%"level":"WARNING"%' OR messages LIKE '%"level":"CRITICAL"%';
