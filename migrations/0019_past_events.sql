-- Events of an instance that was removed, whose id another one may have: its versions begin with 1 again.
ALTER TABLE service_instance_event ADD COLUMN is_past BOOLEAN NOT NULL DEFAULT FALSE;
