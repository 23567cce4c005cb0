-- A service that the model has no more stays in the catalog, for the instances that it has; nothing deploys these.
ALTER TABLE service_entity ADD COLUMN is_in_model BOOLEAN NOT NULL DEFAULT TRUE;
