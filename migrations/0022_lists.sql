-- Lists are read page by page, in the order of an index: nothing of them is read whole.

-- How many rows lists have, kept by triggers on their tables (0022_lists.sqlite.sql, 0022_lists.postgres.sql): nobody counts a
-- million rows for a page. A number is the sum of the rows here. In SQLite it is one row; in PostgreSQL each statement that adds
-- or removes rows adds one, so that nobody waits for others whatever they write, and now and then they are added up. No reference
-- to the environment: the last rows are counted while it goes.
CREATE TABLE row_count (
    environment_id TEXT NOT NULL,
    -- The table, or `parameter` for the facts of no resource.
    list TEXT NOT NULL,
    n_rows BIGINT NOT NULL
);
INSERT INTO row_count (environment_id, list, n_rows)
SELECT environment_id, 'fact', COUNT(*) FROM fact WHERE resource_id <> '' GROUP BY environment_id
UNION ALL
SELECT environment_id, 'parameter', COUNT(*) FROM fact WHERE resource_id = '' GROUP BY environment_id
UNION ALL
SELECT environment_id, 'discovered_resource', COUNT(*) FROM discovered_resource GROUP BY environment_id
UNION ALL
SELECT environment_id, 'notification', COUNT(*) FROM notification GROUP BY environment_id
UNION ALL
SELECT environment_id, 'compile', COUNT(*) FROM compile GROUP BY environment_id
UNION ALL
SELECT environment_id, 'agent', COUNT(*) FROM agent GROUP BY environment_id
UNION ALL
SELECT environment_id, 'version', COUNT(*) FROM version GROUP BY environment_id;

-- Facts by name; by resource they are in the order of the primary key, and parameters by name.
CREATE INDEX fact_by_name ON fact (environment_id, name, resource_id) WHERE resource_id <> '';
CREATE INDEX fact_parameter_source ON fact (environment_id, source, name) WHERE resource_id = '';
CREATE INDEX fact_parameter_updated ON fact (environment_id, updated_us, name) WHERE resource_id = '';

-- The parts of the id; empty if it is none.
ALTER TABLE discovered_resource ADD COLUMN resource_type TEXT NOT NULL DEFAULT '';
ALTER TABLE discovered_resource ADD COLUMN agent TEXT NOT NULL DEFAULT '';
ALTER TABLE discovered_resource ADD COLUMN id_value TEXT NOT NULL DEFAULT '';
CREATE INDEX discovered_resource_type ON discovered_resource (environment_id, resource_type, resource_id);
CREATE INDEX discovered_resource_agent ON discovered_resource (environment_id, agent, resource_id);
CREATE INDEX discovered_resource_value ON discovered_resource (environment_id, id_value, resource_id);

-- With what people filter by, so that only rows that are shown are looked up.
DROP INDEX notification_created;
CREATE INDEX notification_listed ON notification (environment_id, created_us, id, is_read, is_cleared, severity);

DROP INDEX compile_requested;
CREATE INDEX compile_listed ON compile (environment_id, requested_us, id);
-- Of a million compiles few failed, and few are under way: who asks for these does not read the others.
CREATE INDEX compile_unsuccessful ON compile (environment_id, requested_us, id) WHERE state NOT IN ('exported', 'compiled');

-- Sets of attributes are mostly so: nothing to come, something in force, nothing to go back to. The others are few.
CREATE INDEX service_instance_candidate ON service_instance (environment_id, entity, created_us, id)
    WHERE is_deleted = FALSE AND candidate IS NOT NULL;
CREATE INDEX service_instance_inactive ON service_instance (environment_id, entity, created_us, id)
    WHERE is_deleted = FALSE AND active IS NULL;
CREATE INDEX service_instance_rollback ON service_instance (environment_id, entity, created_us, id)
    WHERE is_deleted = FALSE AND rollback IS NOT NULL;

-- Levels that few actions have, each alone: among a hundred thousand errors a warning is as rare.
DROP INDEX resource_action_loud;
CREATE INDEX resource_action_critical ON resource_action (environment_id, started_us, id) WHERE messages LIKE '%"level":"CRITICAL"%';
CREATE INDEX resource_action_error ON resource_action (environment_id, started_us, id) WHERE messages LIKE '%"level":"ERROR"%';
CREATE INDEX resource_action_warning ON resource_action (environment_id, started_us, id) WHERE messages LIKE '%"level":"WARNING"%';
CREATE INDEX resource_action_trace ON resource_action (environment_id, started_us, id) WHERE messages LIKE '%"level":"TRACE"%';

CREATE INDEX agent_by_status ON agent (environment_id,
    (CASE WHEN paused THEN 'paused' WHEN away_us IS NULL THEN 'up' ELSE 'down' END), name);
CREATE INDEX agent_by_paused ON agent (environment_id, (CASE WHEN paused THEN 'true' ELSE 'false' END), name);
