-- A million resources: what a start reads, and lists.

-- The start of the last run that changed something, or may have: after a start the schedule reads no history.
ALTER TABLE resource_state ADD COLUMN last_change_us BIGINT;
UPDATE resource_state SET last_change_us = (
    SELECT MAX(a.started_us)
    FROM resource_action a
    WHERE a.environment_id = resource_state.environment_id AND a.resource_id = resource_state.resource_id
        AND a.action = 'deploy' AND (a.change IS NULL OR a.change <> 'nochange'));

-- The resources of an agent, by id: a list of them does not look at those of others.
CREATE INDEX resource_state_agent ON resource_state (agent, environment_id, resource_id);
