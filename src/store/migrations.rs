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
        "0005_refresh_request",
        include_str!("../../migrations/0005_refresh_request.sql"),
    ),
];

/// All steps from an empty database to the schema that this version of Steward uses.
pub(super) fn migrator() -> Migrator {
    let migrations = FILES.iter().filter_map(|(name, sql)| {
        let (number, description) = name.split_once('_')?;
        let description = description.replace('_', " ");
        let kind = MigrationType::Simple;
        let sql = Cow::Borrowed(*sql);
        let number = number.parse().ok()?;
        Some(Migration::new(number, description.into(), kind, sql, false))
    });
    Migrator {
        migrations: migrations.collect(),
        ..Migrator::DEFAULT
    }
}

#[cfg(test)]
mod upgrades;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_a_migration_in_the_order_of_the_names() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        let files = std::fs::read_dir(folder).unwrap().flatten();
        let mut names: Vec<String> = files
            .map(|file| {
                file.path()
                    .file_stem()
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        names.sort();
        let embedded: Vec<_> = FILES.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, embedded);
        let numbers: Vec<i64> = migrator().iter().map(|step| step.version).collect();
        assert_eq!(numbers, [1, 2, 3, 5]);
    }

    /// Servers that ran a migration refuse to start when its text is another, be it by a comment.
    #[test]
    fn the_text_of_a_migration_that_servers_have_run_never_changes() {
        let digests = [
            "abf13f5abb48f94d82616a24c3c074eb6ec9a9c10dda3370bfc33f02e6e8f6480bb563fed7d3b58919dcaf73e3a12289",
            "b67140330e02190e6b7095d0ed5cc90e26d036c39a038844cb45b02ffb9d5efce5b0aafd29d051499393928d0ab8010d",
            "4f4d75d19cd74ffeb7ceacec4630c756ae40e0611a1137b83b966a2a57595cb5b0748db8c2dfd2bbe526f98057ccc403",
            "5833ba45e2607c719cf5b81ed30764ad2be79de08ea11ea60e820675cc04ad5090197833fbbbb89d01ac81bc435b9672",
        ];
        assert_eq!(digests.len(), FILES.len());
        for (step, digest) in migrator().iter().zip(digests) {
            assert_eq!(hex::encode(&step.checksum), digest, "{}", step.description);
        }
    }
}
