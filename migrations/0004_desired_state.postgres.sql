-- Ids in the order of their bytes, as SQLite has them: pages are the same on both, whatever the locale of the database.
ALTER TABLE desired_resource ALTER COLUMN resource_id TYPE TEXT COLLATE "C";
ALTER TABLE resource_state ALTER COLUMN resource_id TYPE TEXT COLLATE "C";
