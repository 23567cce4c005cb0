-- How many results a dry run has, so that a list of them does not count all rows each time it is read.
ALTER TABLE dry_run ADD COLUMN n_results BIGINT NOT NULL DEFAULT 0;
UPDATE dry_run SET n_results = (SELECT COUNT(*) FROM dry_run_result r WHERE r.dry_run_id = dry_run.id);
