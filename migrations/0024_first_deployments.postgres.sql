-- As in migration 16: PostgreSQL looked the environment up for each row of a release. What writes these rows holds the row of the
-- environment in the same transaction (src/store/version.rs, version/rows.rs, action.rs), and the trigger deletes them with it.
ALTER TABLE resource_state DROP CONSTRAINT resource_state_environment_id_fkey;
ALTER TABLE desired_set DROP CONSTRAINT desired_set_environment_id_fkey;
CREATE OR REPLACE FUNCTION delete_rows_of_environment() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM resource_action WHERE environment_id = OLD.id;
    DELETE FROM desired_resource WHERE environment_id = OLD.id;
    DELETE FROM desired_set WHERE environment_id = OLD.id;
    DELETE FROM resource_state WHERE environment_id = OLD.id;
    RETURN NULL;
END
$$;

-- A repair writes each row of a page in one transaction. With half of it free all of them find room beside their old versions,
-- and no index is written: a row takes 2 us instead of 12.
ALTER TABLE resource_state SET (fillfactor = 50);

-- PostgreSQL looks at the tables while the first resources are deployed (src/store/statistics.rs). By these columns nothing is
-- looked for, or only by an index of its own, and to sort samples of them took two thirds of the time.
ALTER TABLE desired_resource
    ALTER attributes SET STATISTICS 0,
    ALTER requires SET STATISTICS 0,
    ALTER digest SET STATISTICS 0,
    ALTER attribute_hash SET STATISTICS 0,
    ALTER is_undefined SET STATISTICS 0,
    ALTER created_us SET STATISTICS 0;
ALTER TABLE resource_state
    ALTER created_us SET STATISTICS 0,
    ALTER is_undefined SET STATISTICS 0,
    ALTER is_deploying SET STATISTICS 0,
    ALTER blocked SET STATISTICS 0,
    ALTER intent_hash SET STATISTICS 0,
    ALTER deployed_hash SET STATISTICS 0,
    ALTER deployed_version SET STATISTICS 0,
    ALTER last_run SET STATISTICS 0,
    ALTER last_run_us SET STATISTICS 0,
    ALTER last_success_us SET STATISTICS 0,
    ALTER last_events_us SET STATISTICS 0,
    ALTER last_change_us SET STATISTICS 0,
    ALTER last_status SET STATISTICS 0,
    ALTER n_failures SET STATISTICS 0;
ALTER TABLE resource_action
    ALTER changes SET STATISTICS 0,
    ALTER messages SET STATISTICS 0;
