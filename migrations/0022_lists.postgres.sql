-- Pages are in the order of bytes, as everywhere; a language would sort otherwise.
ALTER TABLE fact ALTER COLUMN resource_id TYPE TEXT COLLATE "C";
ALTER TABLE fact ALTER COLUMN name TYPE TEXT COLLATE "C";
ALTER TABLE fact ALTER COLUMN source TYPE TEXT COLLATE "C";
ALTER TABLE discovered_resource ALTER COLUMN resource_id TYPE TEXT COLLATE "C";
ALTER TABLE discovered_resource ALTER COLUMN resource_type TYPE TEXT COLLATE "C";
ALTER TABLE discovered_resource ALTER COLUMN agent TYPE TEXT COLLATE "C";
ALTER TABLE discovered_resource ALTER COLUMN id_value TYPE TEXT COLLATE "C";
ALTER TABLE agent ALTER COLUMN name TYPE TEXT COLLATE "C";

-- The parts of ids that were discovered before.
UPDATE discovered_resource SET resource_type = parts[1], agent = parts[2], id_value = parts[3]
FROM (
    SELECT environment_id AS environment, resource_id AS id,
        REGEXP_MATCH(resource_id, '^([^[]*::[^[]*)\[([^,]+),[^=]+=([^]]+)\]$') AS parts
    FROM discovered_resource
) AS parsed
WHERE environment_id = environment AND resource_id = id AND parts IS NOT NULL;

-- See row_count.
CREATE INDEX row_count_list ON row_count (environment_id, list) INCLUDE (n_rows);
-- All rows of a statement at once.
CREATE FUNCTION count_rows() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO row_count (environment_id, list, n_rows)
    SELECT environment_id, TG_ARGV[0], COUNT(*) * CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END
    FROM changed
    GROUP BY environment_id;
    RETURN NULL;
END
$$;
CREATE FUNCTION count_removed_facts() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO row_count (environment_id, list, n_rows)
    SELECT environment_id, list, -COUNT(*)
    FROM (SELECT environment_id, CASE WHEN resource_id = '' THEN 'parameter' ELSE 'fact' END AS list FROM changed) AS facts
    GROUP BY environment_id, list;
    RETURN NULL;
END
$$;
-- What is mostly written again, and seldom new.
CREATE FUNCTION count_row() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO row_count (environment_id, list, n_rows) VALUES (NEW.environment_id, TG_ARGV[0], 1);
    RETURN NULL;
END
$$;
CREATE TRIGGER fact_more AFTER INSERT ON fact
    FOR EACH ROW WHEN (NEW.resource_id <> '') EXECUTE FUNCTION count_row('fact');
CREATE TRIGGER parameter_more AFTER INSERT ON fact
    FOR EACH ROW WHEN (NEW.resource_id = '') EXECUTE FUNCTION count_row('parameter');
CREATE TRIGGER fact_fewer AFTER DELETE ON fact REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_removed_facts();
CREATE TRIGGER discovered_resource_more AFTER INSERT ON discovered_resource
    FOR EACH ROW EXECUTE FUNCTION count_row('discovered_resource');
CREATE TRIGGER discovered_resource_fewer AFTER DELETE ON discovered_resource REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_rows('discovered_resource');
CREATE TRIGGER notification_more AFTER INSERT ON notification REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_rows('notification');
CREATE TRIGGER notification_fewer AFTER DELETE ON notification REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_rows('notification');
CREATE TRIGGER compile_more AFTER INSERT ON compile REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_rows('compile');
CREATE TRIGGER compile_fewer AFTER DELETE ON compile REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_rows('compile');
CREATE TRIGGER agent_more AFTER INSERT ON agent REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_rows('agent');
CREATE TRIGGER agent_fewer AFTER DELETE ON agent REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_rows('agent');
CREATE TRIGGER version_more AFTER INSERT ON version REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_rows('version');
CREATE TRIGGER version_fewer AFTER DELETE ON version REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_rows('version');
-- At the commit, since rows that go with their environment are counted after it is gone.
CREATE FUNCTION delete_row_counts() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM row_count WHERE environment_id = OLD.id;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER row_count_of_environment AFTER DELETE ON environment
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION delete_row_counts();
