-- The store of design.md section 3, in the SQL that SQLite and PostgreSQL share. Times are UTC microseconds,
-- ids are UUIDs as text, documents are JSON as text.

CREATE TABLE project (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    created_us BIGINT NOT NULL
);

CREATE TABLE environment (
    id TEXT NOT NULL PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES project (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    description TEXT NOT NULL DEFAULT '',
    icon TEXT NOT NULL DEFAULT '',
    -- Empty: the environment has no repository.
    repo_url TEXT NOT NULL DEFAULT '',
    -- Empty: the branch that the remote's HEAD names.
    repo_branch TEXT NOT NULL DEFAULT '',
    -- What std::get_env of the model sees: a JSON object of strings.
    variables TEXT NOT NULL DEFAULT '{}',
    halted BOOLEAN NOT NULL DEFAULT FALSE,
    -- The last number given to a version.
    last_version BIGINT NOT NULL DEFAULT 0,
    -- The version whose desired state is in force; NULL before the first release.
    active_version BIGINT,
    created_us BIGINT NOT NULL,
    UNIQUE (project_id, name)
);

CREATE TABLE environment_setting (
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    -- JSON.
    value TEXT NOT NULL,
    PRIMARY KEY (environment_id, name)
);

-- "Look again": something outside said that a repository moved. The row outlives a crash; the look clears it only if
-- nothing was asked for since it began.
CREATE TABLE repository_look (
    environment_id TEXT NOT NULL PRIMARY KEY REFERENCES environment (id) ON DELETE CASCADE,
    requested_us BIGINT NOT NULL,
    trigger_kind TEXT NOT NULL,
    message TEXT NOT NULL
);

CREATE TABLE webhook_delivery (
    hook_id TEXT NOT NULL,
    delivery_id TEXT NOT NULL,
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    event TEXT NOT NULL,
    received_us BIGINT NOT NULL,
    PRIMARY KEY (hook_id, delivery_id)
);

CREATE TABLE compile (
    id TEXT NOT NULL PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    remote_id TEXT,
    -- Order of the queue.
    requested_us BIGINT NOT NULL,
    started_us BIGINT,
    completed_us BIGINT,
    attempts BIGINT NOT NULL DEFAULT 0,
    -- 'queued' 'running' 'exported' 'compiled' 'rejected' (the model is wrong) 'aborted' (our world failed)
    state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'exported', 'compiled', 'rejected', 'aborted')),
    -- Why it ended so, for 'rejected' and 'aborted'.
    reason TEXT,
    -- The request.
    do_export BOOLEAN NOT NULL,
    update_repository BOOLEAN NOT NULL,
    metadata TEXT NOT NULL,
    variables TEXT NOT NULL,
    -- The result, and what it is a pure function of.
    commit_id TEXT,
    tree_id TEXT,
    compiler_version TEXT,
    inputs_digest TEXT,
    result_digest TEXT,
    diagnostics TEXT NOT NULL DEFAULT '[]',
    version BIGINT,
    -- The compile that did the work of this request too.
    substitute_compile_id TEXT
);
CREATE INDEX compile_queue ON compile (environment_id, state, requested_us);
CREATE INDEX compile_requested ON compile (environment_id, requested_us);

CREATE TABLE compile_stage (
    id TEXT NOT NULL PRIMARY KEY,
    compile_id TEXT NOT NULL REFERENCES compile (id) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    name TEXT NOT NULL,
    command TEXT NOT NULL,
    started_us BIGINT NOT NULL,
    completed_us BIGINT,
    outstream TEXT NOT NULL,
    errstream TEXT NOT NULL,
    returncode BIGINT
);
CREATE INDEX compile_stage_compile ON compile_stage (compile_id, position);

-- A resource once by content.
CREATE TABLE resource (
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    -- SHA-256 over id, attributes, requires and undefined.
    digest TEXT NOT NULL,
    -- type[agent,attribute=value]
    resource_id TEXT NOT NULL,
    resource_type TEXT NOT NULL,
    agent TEXT NOT NULL,
    id_attribute TEXT NOT NULL,
    id_value TEXT NOT NULL,
    attributes TEXT NOT NULL,
    attribute_hash TEXT NOT NULL,
    -- JSON list of resource ids.
    requires TEXT NOT NULL,
    is_undefined BOOLEAN NOT NULL,
    created_us BIGINT NOT NULL,
    PRIMARY KEY (environment_id, digest)
);
CREATE INDEX resource_by_id ON resource (environment_id, resource_id);

-- One content of a resource set, keyed by the digest of its resources.
CREATE TABLE set_revision (
    id TEXT NOT NULL PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    -- Empty: the resources outside of any set.
    set_name TEXT NOT NULL,
    digest TEXT NOT NULL,
    n_resources BIGINT NOT NULL,
    UNIQUE (environment_id, set_name, digest)
);

CREATE TABLE set_member (
    revision_id TEXT NOT NULL REFERENCES set_revision (id) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (revision_id, position)
);

CREATE INDEX set_member_digest ON set_member (digest);

-- A version is the set revisions whose interval holds its number: from_version <= n < to_version.
CREATE TABLE set_interval (
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    set_name TEXT NOT NULL,
    from_version BIGINT NOT NULL,
    -- NULL: up to the newest version.
    to_version BIGINT,
    revision_id TEXT NOT NULL REFERENCES set_revision (id),
    PRIMARY KEY (environment_id, set_name, from_version)
);

CREATE INDEX set_interval_revision ON set_interval (revision_id);

CREATE TABLE version (
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    number BIGINT NOT NULL,
    created_us BIGINT NOT NULL,
    released_us BIGINT,
    compile_id TEXT,
    commit_id TEXT,
    tree_id TEXT,
    metadata TEXT NOT NULL,
    -- The Python modules whose code the handlers of this version need: JSON.
    modules TEXT NOT NULL DEFAULT '[]',
    unknowns TEXT NOT NULL DEFAULT '[]',
    n_resources BIGINT NOT NULL,
    PRIMARY KEY (environment_id, number)
);

-- The current state of a resource. Source: deploy.md 3.1.
CREATE TABLE resource_state (
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    resource_id TEXT NOT NULL,
    resource_type TEXT NOT NULL,
    agent TEXT NOT NULL,
    id_value TEXT NOT NULL,
    created_us BIGINT NOT NULL,
    -- The last version that had it, when no newer active one has.
    orphaned_after BIGINT,
    is_undefined BOOLEAN NOT NULL,
    is_deploying BOOLEAN NOT NULL,
    -- 'not_blocked' 'blocked' 'temporarily_blocked'
    blocked TEXT NOT NULL,
    intent_hash TEXT NOT NULL,
    deployed_hash TEXT,
    deployed_version BIGINT,
    -- 'new' 'successful' 'failed' 'skipped'
    last_run TEXT NOT NULL,
    last_run_compliant BOOLEAN,
    last_run_us BIGINT,
    last_success_us BIGINT,
    last_events_us BIGINT,
    -- The status to show when it is not deploying.
    last_status TEXT NOT NULL,
    n_failures BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (environment_id, resource_id)
);

-- What happened, append-only with retention.
CREATE TABLE resource_action (
    id TEXT NOT NULL PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    -- 'store' 'deploy' 'dryrun' 'getfact' 'other'
    action TEXT NOT NULL,
    version BIGINT NOT NULL,
    -- Empty for 'store', which is about a whole version.
    resource_id TEXT NOT NULL,
    started_us BIGINT NOT NULL,
    finished_us BIGINT,
    status TEXT,
    change TEXT,
    changes TEXT NOT NULL DEFAULT '{}',
    messages TEXT NOT NULL DEFAULT '[]'
);
CREATE INDEX resource_action_resource ON resource_action (environment_id, resource_id, started_us);
CREATE INDEX resource_action_started ON resource_action (environment_id, started_us);
CREATE INDEX resource_action_open ON resource_action (environment_id) WHERE finished_us IS NULL;

CREATE TABLE agent (
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    paused BOOLEAN NOT NULL DEFAULT FALSE,
    unpause_on_resume BOOLEAN,
    PRIMARY KEY (environment_id, name)
);

CREATE TABLE dry_run (
    id TEXT NOT NULL PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    version BIGINT NOT NULL,
    requested_us BIGINT NOT NULL,
    total BIGINT NOT NULL
);

CREATE TABLE dry_run_result (
    dry_run_id TEXT NOT NULL REFERENCES dry_run (id) ON DELETE CASCADE,
    resource_id TEXT NOT NULL,
    -- 'changes' or a pre-marked status: 'undefined' 'skipped_for_undefined' 'agent_down'
    status TEXT NOT NULL,
    changes TEXT NOT NULL,
    PRIMARY KEY (dry_run_id, resource_id)
);

-- Facts of resources. Source: deploy.md 5.7.
CREATE TABLE fact (
    environment_id TEXT NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    resource_id TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    expires BOOLEAN NOT NULL,
    updated_us BIGINT NOT NULL,
    PRIMARY KEY (environment_id, resource_id, name)
);
