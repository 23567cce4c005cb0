-- Since when an agent is paused, and an environment halted: NULL where it is not, or was before this was noted.
ALTER TABLE agent ADD COLUMN paused_us BIGINT;
ALTER TABLE environment ADD COLUMN halted_us BIGINT;
