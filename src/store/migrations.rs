//! The schema's history: the files of `migrations/`, which the binary carries.
//!
//! `sqlx::migrate!` would embed them, and compile both drivers once more to do so.

use std::borrow::Cow;

use sqlx::migrate::{Migration, MigrationType, Migrator};

/// Name and text of each file, in their order. A file that a server has run is never changed: the database remembers its
/// digest, and refuses to start with another.
const FILES: &[(&str, &str)] = &[
    (
        "0001_initial",
        include_str!("../../migrations/0001_initial.sql"),
    ),
    (
        "0002_facts",
        include_str!("../../migrations/0002_facts.sql"),
    ),
    (
        "0003_server_start",
        include_str!("../../migrations/0003_server_start.sql"),
    ),
    (
        "0004_desired_state",
        include_str!("../../migrations/0004_desired_state.sql"),
    ),
    (
        "0005_refresh_request",
        include_str!("../../migrations/0005_refresh_request.sql"),
    ),
    (
        "0006_services",
        include_str!("../../migrations/0006_services.sql"),
    ),
    (
        "0007_service_compiles",
        include_str!("../../migrations/0007_service_compiles.sql"),
    ),
    (
        "0008_protected_setting",
        include_str!("../../migrations/0008_protected_setting.sql"),
    ),
    (
        "0009_service_orders",
        include_str!("../../migrations/0009_service_orders.sql"),
    ),
    (
        "0010_agents_elsewhere",
        include_str!("../../migrations/0010_agents_elsewhere.sql"),
    ),
    (
        "0011_notifications_and_metrics",
        include_str!("../../migrations/0011_notifications_and_metrics.sql"),
    ),
    (
        "0012_at_scale",
        include_str!("../../migrations/0012_at_scale.sql"),
    ),
    (
        "0013_agent_places_and_tokens",
        include_str!("../../migrations/0013_agent_places_and_tokens.sql"),
    ),
    (
        "0014_undefined_resources",
        include_str!("../../migrations/0014_undefined_resources.sql"),
    ),
    (
        "0015_instance_lists",
        include_str!("../../migrations/0015_instance_lists.sql"),
    ),
    (
        "0016_history_at_scale",
        include_str!("../../migrations/0016_history_at_scale.sql"),
    ),
    (
        "0017_service_in_model",
        include_str!("../../migrations/0017_service_in_model.sql"),
    ),
    (
        "0018_dry_run_counts",
        include_str!("../../migrations/0018_dry_run_counts.sql"),
    ),
    (
        "0019_past_events",
        include_str!("../../migrations/0019_past_events.sql"),
    ),
    (
        "0020_what_was_sent",
        include_str!("../../migrations/0020_what_was_sent.sql"),
    ),
    (
        "0021_service_history",
        include_str!("../../migrations/0021_service_history.sql"),
    ),
    (
        "0022_lists",
        include_str!("../../migrations/0022_lists.sql"),
    ),
    (
        "0023_standstill",
        include_str!("../../migrations/0023_standstill.sql"),
    ),
    (
        "0024_first_deployments",
        include_str!("../../migrations/0024_first_deployments.sql"),
    ),
];

/// What PostgreSQL needs behind the file of that name, and SQLite does not: `0004_x.postgres.sql` for `0004_x`.
const POSTGRES: &[(&str, &str)] = &[
    (
        "0004_desired_state",
        include_str!("../../migrations/0004_desired_state.postgres.sql"),
    ),
    (
        "0014_undefined_resources",
        include_str!("../../migrations/0014_undefined_resources.postgres.sql"),
    ),
    (
        "0016_history_at_scale",
        include_str!("../../migrations/0016_history_at_scale.postgres.sql"),
    ),
    (
        "0022_lists",
        include_str!("../../migrations/0022_lists.postgres.sql"),
    ),
    (
        "0024_first_deployments",
        include_str!("../../migrations/0024_first_deployments.postgres.sql"),
    ),
];

/// What SQLite needs behind the file of that name, and PostgreSQL does not: `0022_x.sqlite.sql` for `0022_x`.
const SQLITE: &[(&str, &str)] = &[(
    "0022_lists",
    include_str!("../../migrations/0022_lists.sqlite.sql"),
)];

/// Which texts are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Sqlite,
    Postgres,
}

/// All steps from an empty database to the schema that this version of Steward uses.
pub(super) fn migrator(dialect: Dialect) -> Migrator {
    let migrations = FILES.iter().filter_map(|(name, sql)| {
        let (number, description) = name.split_once('_')?;
        let description = description.replace('_', " ");
        let kind = MigrationType::Simple;
        let of_dialect = match dialect {
            Dialect::Sqlite => SQLITE,
            Dialect::Postgres => POSTGRES,
        };
        let sql = match of_dialect.iter().find(|(of, _)| of == name) {
            None => Cow::Borrowed(*sql),
            Some((_, more)) => Cow::Owned(format!("{sql}\n{more}")),
        };
        let number = number.parse().ok()?;
        Some(Migration::new(number, description.into(), kind, sql, false))
    });
    Migrator {
        migrations: migrations.collect(),
        ..Migrator::DEFAULT
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod upgrades;
