-- A service that the model has no more stays in the catalog, for the instances that it has; nothing deploys these.
ALTER TABLE service_entity ADD COLUMN is_in_model BOOLEAN NOT NULL DEFAULT TRUE;

-- How much one discovery resource has found is limited.
CREATE INDEX discovered_resource_finder ON discovered_resource (environment_id, discovery_resource_id);
