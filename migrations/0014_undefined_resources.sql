-- The old list of versions names the resources that are undefined in them: few of a million.
CREATE INDEX desired_resource_undefined ON desired_resource (environment_id, resource_id, from_version, to_version)
    WHERE is_undefined;
