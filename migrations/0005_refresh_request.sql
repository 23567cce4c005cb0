-- The request to look at a repository again has one name, in the schema as in the code (docs/glossary.md). The row
-- outlives a crash; a refresh clears it only if nothing was asked for since it began.
ALTER TABLE repository_look RENAME TO refresh_request;
