-- For each row that refers to an environment PostgreSQL looks the environment up: a fifth of what it takes to insert a run.
-- What writes thousands of rows of one environment asks for it once (src/store/action.rs), or changes its row in the same
-- transaction (src/store/version/rows.rs). A trigger does what the references did: the rows go with their environment.
ALTER TABLE resource_action DROP CONSTRAINT resource_action_environment_id_fkey;
ALTER TABLE desired_resource DROP CONSTRAINT desired_resource_environment_id_fkey;
CREATE FUNCTION delete_rows_of_environment() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM resource_action WHERE environment_id = OLD.id;
    DELETE FROM desired_resource WHERE environment_id = OLD.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER delete_rows_of_environment AFTER DELETE ON environment
    FOR EACH ROW EXECUTE FUNCTION delete_rows_of_environment();
