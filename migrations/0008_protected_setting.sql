-- Settings that a project's files decide: they are set by its exports, and by nobody else.
CREATE TABLE protected_setting (
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    -- What decides: `project.yml`.
    protected_by TEXT NOT NULL,
    PRIMARY KEY (environment_id, name)
);
