-- A page of instances that have not ended reads these rows alone, by whichever column they are sorted, however many there are.
CREATE INDEX service_instance_present_created ON service_instance (environment_id, entity, created_us, id)
    WHERE is_deleted = FALSE;
CREATE INDEX service_instance_present_updated ON service_instance (environment_id, entity, updated_us, id)
    WHERE is_deleted = FALSE;
CREATE INDEX service_instance_present_state ON service_instance (environment_id, entity, state, id)
    WHERE is_deleted = FALSE;
CREATE INDEX service_instance_present_identity ON service_instance (environment_id, entity, (COALESCE(identity, '')), id)
    WHERE is_deleted = FALSE;
CREATE INDEX service_instance_present_id ON service_instance (environment_id, entity, id)
    WHERE is_deleted = FALSE;
