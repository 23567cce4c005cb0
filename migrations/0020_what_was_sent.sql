-- What exporters and clients say of a version and of a dry run, which nobody here reads and which they ask for again.
ALTER TABLE version ADD COLUMN partial_base BIGINT;
-- Ids of the resources that a partial export brought, as JSON; NULL: the version came as a whole.
ALTER TABLE version ADD COLUMN sent_ids TEXT;
ALTER TABLE version ADD COLUMN pip_config TEXT;
ALTER TABLE version ADD COLUMN project_constraints TEXT;
ALTER TABLE dry_run ADD COLUMN resource_filter TEXT;
ALTER TABLE dry_run ADD COLUMN context TEXT;
