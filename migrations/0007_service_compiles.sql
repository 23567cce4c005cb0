-- What a compile is for when services asked for it (docs/reference/lsm.md § 3.8): 'production', 'validation' or
-- 'definitions'. NULL: it is one of the project, which a push, a person or the clock asked for.
ALTER TABLE compile ADD COLUMN purpose TEXT;
-- Only the resource sets of these instances are compiled and replaced.
ALTER TABLE compile ADD COLUMN is_partial BOOLEAN NOT NULL DEFAULT FALSE;
-- JSON list of the ids of the instances that asked: of a validation the one that is validated.
ALTER TABLE compile ADD COLUMN instances TEXT NOT NULL DEFAULT '[]';
-- Which version of the instance is validated.
ALTER TABLE compile ADD COLUMN instance_version BIGINT;
-- JSON list of resource sets that shall be no more, unless the compile still exports something of them.
ALTER TABLE compile ADD COLUMN removed_sets TEXT NOT NULL DEFAULT '[]';
-- FALSE from the request until the lifecycle manager has taken note of the end, so that no end is lost in a crash.
ALTER TABLE compile ADD COLUMN is_handled BOOLEAN NOT NULL DEFAULT TRUE;
CREATE INDEX compile_remote ON compile (environment_id, remote_id) WHERE remote_id IS NOT NULL;
CREATE INDEX compile_unhandled ON compile (environment_id) WHERE NOT is_handled AND state NOT IN ('queued', 'running');
-- The two lanes of the queue: when thousands of validations wait, an export is found at once, and the other way round.
CREATE INDEX compile_queued_validation ON compile (environment_id, requested_us, id)
    WHERE state = 'queued' AND purpose = 'validation';
CREATE INDEX compile_queued_export ON compile (environment_id, requested_us, id)
    WHERE state = 'queued' AND (purpose IS NULL OR purpose <> 'validation');
