-- Each run writes the row of its resource again. Where the page has room for it, no index has to be told: pages that are
-- written from now on keep some.
ALTER TABLE resource_state SET (fillfactor = 70);
