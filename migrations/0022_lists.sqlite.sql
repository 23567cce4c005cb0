-- The parts of ids that were discovered before.
WITH
    head AS (SELECT resource_id AS id, environment_id AS environment, INSTR(resource_id, '[') AS place FROM discovered_resource),
    type AS (SELECT id, environment, SUBSTR(id, 1, place - 1) AS type, SUBSTR(id, place + 1) AS rest FROM head WHERE place > 1),
    agent AS (SELECT id, environment, type, SUBSTR(rest, 1, INSTR(rest, ',') - 1) AS agent,
        SUBSTR(rest, INSTR(rest, ',') + 1) AS rest FROM type WHERE INSTR(rest, ',') > 1),
    value AS (SELECT id, environment, type, agent, SUBSTR(rest, INSTR(rest, '=') + 1) AS value
        FROM agent WHERE INSTR(rest, '=') > 1)
UPDATE discovered_resource SET resource_type = type, agent = value.agent, id_value = SUBSTR(value, 1, LENGTH(value) - 1)
FROM value
WHERE environment_id = environment AND resource_id = id
    AND LENGTH(value) > 1 AND INSTR(value, ']') = LENGTH(value) AND INSTR(type, '::') > 0;

-- See row_count.
CREATE UNIQUE INDEX row_count_list ON row_count (environment_id, list);
CREATE TRIGGER fact_more AFTER INSERT ON fact BEGIN
    INSERT INTO row_count (environment_id, list, n_rows) VALUES (NEW.environment_id, CASE WHEN NEW.resource_id = '' THEN 'parameter' ELSE 'fact' END, 1)
    ON CONFLICT (environment_id, list) DO UPDATE SET n_rows = n_rows + excluded.n_rows;
END;
CREATE TRIGGER fact_fewer AFTER DELETE ON fact BEGIN
    INSERT INTO row_count (environment_id, list, n_rows) VALUES (OLD.environment_id, CASE WHEN OLD.resource_id = '' THEN 'parameter' ELSE 'fact' END, -1)
    ON CONFLICT (environment_id, list) DO UPDATE SET n_rows = n_rows + excluded.n_rows;
END;
CREATE TRIGGER discovered_resource_more AFTER INSERT ON discovered_resource BEGIN
    INSERT INTO row_count (environment_id, list, n_rows) VALUES (NEW.environment_id, 'discovered_resource', 1)
    ON CONFLICT (environment_id, list) DO UPDATE SET n_rows = n_rows + excluded.n_rows;
END;
CREATE TRIGGER discovered_resource_fewer AFTER DELETE ON discovered_resource BEGIN
    INSERT INTO row_count (environment_id, list, n_rows) VALUES (OLD.environment_id, 'discovered_resource', -1)
    ON CONFLICT (environment_id, list) DO UPDATE SET n_rows = n_rows + excluded.n_rows;
END;
CREATE TRIGGER notification_more AFTER INSERT ON notification BEGIN
    INSERT INTO row_count (environment_id, list, n_rows) VALUES (NEW.environment_id, 'notification', 1)
    ON CONFLICT (environment_id, list) DO UPDATE SET n_rows = n_rows + excluded.n_rows;
END;
CREATE TRIGGER notification_fewer AFTER DELETE ON notification BEGIN
    INSERT INTO row_count (environment_id, list, n_rows) VALUES (OLD.environment_id, 'notification', -1)
    ON CONFLICT (environment_id, list) DO UPDATE SET n_rows = n_rows + excluded.n_rows;
END;
CREATE TRIGGER compile_more AFTER INSERT ON compile BEGIN
    INSERT INTO row_count (environment_id, list, n_rows) VALUES (NEW.environment_id, 'compile', 1)
    ON CONFLICT (environment_id, list) DO UPDATE SET n_rows = n_rows + excluded.n_rows;
END;
CREATE TRIGGER compile_fewer AFTER DELETE ON compile BEGIN
    INSERT INTO row_count (environment_id, list, n_rows) VALUES (OLD.environment_id, 'compile', -1)
    ON CONFLICT (environment_id, list) DO UPDATE SET n_rows = n_rows + excluded.n_rows;
END;
CREATE TRIGGER agent_more AFTER INSERT ON agent BEGIN
    INSERT INTO row_count (environment_id, list, n_rows) VALUES (NEW.environment_id, 'agent', 1)
    ON CONFLICT (environment_id, list) DO UPDATE SET n_rows = n_rows + excluded.n_rows;
END;
CREATE TRIGGER agent_fewer AFTER DELETE ON agent BEGIN
    INSERT INTO row_count (environment_id, list, n_rows) VALUES (OLD.environment_id, 'agent', -1)
    ON CONFLICT (environment_id, list) DO UPDATE SET n_rows = n_rows + excluded.n_rows;
END;
CREATE TRIGGER version_more AFTER INSERT ON version BEGIN
    INSERT INTO row_count (environment_id, list, n_rows) VALUES (NEW.environment_id, 'version', 1)
    ON CONFLICT (environment_id, list) DO UPDATE SET n_rows = n_rows + excluded.n_rows;
END;
CREATE TRIGGER version_fewer AFTER DELETE ON version BEGIN
    INSERT INTO row_count (environment_id, list, n_rows) VALUES (OLD.environment_id, 'version', -1)
    ON CONFLICT (environment_id, list) DO UPDATE SET n_rows = n_rows + excluded.n_rows;
END;
CREATE TRIGGER environment_row_count AFTER DELETE ON environment BEGIN
    DELETE FROM row_count WHERE environment_id = OLD.id;
END;
