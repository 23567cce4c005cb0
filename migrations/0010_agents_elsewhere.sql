-- Since when an agent that runs on another machine is not connected; NULL: it is connected, or it runs here.
ALTER TABLE agent ADD COLUMN away_us BIGINT;
