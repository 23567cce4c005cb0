//! What goes wrong with the database, and which of it passes.

use std::fmt;
use std::path::Path;

use crate::domain::chain;

/// What went wrong with the database.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot open the database {url}{}", Hint(source))]
    Open { url: String, source: sqlx::Error },
    #[error("cannot bring the database's schema up to date{hint}", hint = newer(.0))]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// What is written would be lost; the text says what to do.
    #[error("{0}")]
    Lost(String),
    #[error("the database failed{hint}", hint = obstacle(.0))]
    Query(#[source] sqlx::Error),
    #[error("row {id} of table {table} has an unreadable {column}")]
    Row {
        table: &'static str,
        column: &'static str,
        id: String,
    },
    #[error("{0} exists already")]
    Exists(String),
    #[error("there is no {0}")]
    NotFound(String),
    #[error("{0}")]
    Conflict(String),
    /// A setting does not allow it; the text names it.
    #[error("{0}")]
    Denied(String),
    /// What was to be stored breaks a rule; the text names the rule and what broke it.
    #[error("{0}")]
    Refused(String),
    /// No partial export can be built on the newest version, whatever it holds; the text says why. After a full export it can.
    #[error("{0}")]
    Base(String),
}

/// What to do with a database that has steps which this release does not know.
fn newer(error: &sqlx::migrate::MigrateError) -> &'static str {
    match error {
        sqlx::migrate::MigrateError::VersionMissing(_) => {
            ": a newer release of Steward has used it; run that one, or put back the backup from before the upgrade"
        }
        _ => "",
    }
}

/// What stands in the way of writing, where people can see to it.
fn obstacle(error: &sqlx::Error) -> &'static str {
    match outage_of(error) {
        Some(Outage::Full) => ": its disk is full; make room there",
        Some(Outage::ReadOnly) => ": it may only be read",
        _ => "",
    }
}

/// PostgreSQL's code for a character that its encoding does not have: of all that Rust's texts can hold that is NUL.
const CHARACTER_NOT_IN_REPERTOIRE: &str = "22021";

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        let of_database = error.as_database_error();
        // Rows refer to what they belong to: an environment, a compile, a dry run, an instance.
        let is_of_nothing = of_database.is_some_and(|error| error.is_foreign_key_violation());
        let code = of_database.and_then(|error| error.code());
        match code.as_deref() {
            // Whatever was to be written, writing it again would fail again.
            Some(CHARACTER_NOT_IN_REPERTOIRE) => Self::Refused(
                "a text contains the character NUL (U+0000), which the database cannot store"
                    .to_owned(),
            ),
            _ if is_of_nothing => {
                Self::NotFound("longer what this belongs to: it was deleted meanwhile".to_owned())
            }
            _ => Self::Query(error),
        }
    }
}

impl Error {
    /// What to say of a database that takes nothing now: the same request may succeed later. `None`: it is something else.
    pub fn outage(&self) -> Option<&'static str> {
        let Self::Query(error) = self else {
            return None;
        };
        outage_of(error).map(Outage::message)
    }

    /// The same for the log: what is wrong, what to do, and in brackets what the database itself says of it.
    pub(super) fn logged(&self, place: Option<&Path>) -> String {
        let cause = chain(self);
        let Self::Query(error) = self else {
            return cause;
        };
        let cause = match place {
            Some(path) => format!("{}: {cause}", path.display()),
            None => cause,
        };
        match outage_of(error) {
            Some(outage) => format!("{} ({cause})", outage.advice()),
            None => cause,
        }
    }
}

/// Why a database takes nothing just now.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Outage {
    Full,
    Gone,
    /// `PostgreSQL` is there, and has no such database.
    Dropped,
    /// All connections are in use, or none can be made.
    Waited,
    ReadOnly,
    Locked,
    Damaged,
}

impl Outage {
    fn message(self) -> &'static str {
        match self {
            Self::Full => {
                "the disk of the database is full, so nothing is written; it goes on when there is room: delete or move what else is on that disk, or make it larger; nothing that was stored is lost"
            }
            Self::Gone => "the database does not answer; the log of the server says why",
            Self::Dropped => {
                "PostgreSQL has no such database any more: somebody dropped it, or gave it another name; the log of the server says which"
            }
            Self::Waited => {
                "no connection to the database came free in time: it is away, or has more to do than it can; try again later, and look at its load and at the log of the server"
            }
            Self::ReadOnly => {
                "the database takes no writes, only reads; it goes on when it takes them again"
            }
            Self::Locked => {
                "another process has locked the database; it goes on when that lets go of it"
            }
            Self::Damaged => {
                "the file of the database cannot be read or written; the log of the server says why: if the disk is well, stop the server, keep the file, and put a backup in its place"
            }
        }
    }

    /// The same without a reference to the log, where it stands.
    fn advice(self) -> &'static str {
        match self {
            Self::Gone => "the database does not answer; it is waited for, and nothing is lost",
            Self::Dropped => {
                "PostgreSQL has no such database any more: somebody dropped it, or gave it another name; stop the server, and put a backup in its place"
            }
            Self::Waited => {
                "no connection to the database came free in time: it is away, or has more to do than it can; look at its load"
            }
            Self::Damaged => {
                "the file of the database cannot be read or written: if the disk is well, stop the server, keep the file, and put a backup in its place"
            }
            Self::Full | Self::ReadOnly | Self::Locked => self.message(),
        }
    }
}

fn outage_of(error: &sqlx::Error) -> Option<Outage> {
    match error {
        sqlx::Error::Io(error) if error.kind() == std::io::ErrorKind::StorageFull => {
            Some(Outage::Full)
        }
        sqlx::Error::Io(_) | sqlx::Error::PoolClosed => Some(Outage::Gone),
        sqlx::Error::PoolTimedOut => Some(Outage::Waited),
        sqlx::Error::Database(error) => outage_of_code(&error.code()?),
        _ => None,
    }
}

/// What a database's own code says of it. `PostgreSQL`'s codes have five characters, and a class by the first two; `SQLite`'s are numbers
/// of up to four digits, whose lowest byte is the class.
fn outage_of_code(code: &str) -> Option<Outage> {
    if code.len() == 5 {
        return match code {
            "53100" => Some(Outage::Full),
            "25006" => Some(Outage::ReadOnly),
            // It allows no connections.
            "55000" => Some(Outage::Gone),
            "3D000" => Some(Outage::Dropped),
            // No connection, another password, no resources, ended by an operator.
            _ => ["08", "28", "53", "57P"]
                .iter()
                .any(|class| code.starts_with(class))
                .then_some(Outage::Gone),
        };
    }
    /// The file beside the database, by which its processes share its log, cannot grow.
    const NO_ROOM_FOR_INDEX: u32 = 4874;
    let number: u32 = code.parse().ok()?;
    Some(match number & 0xff {
        5 | 6 => Outage::Locked,
        8 => Outage::ReadOnly,
        13 => Outage::Full,
        10 if number == NO_ROOM_FOR_INDEX => Outage::Full,
        10 | 11 | 14 | 26 => Outage::Damaged,
        _ => return None,
    })
}

/// What people can do about a database that cannot be opened, where its own words do not say it.
struct Hint<'a>(&'a sqlx::Error);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match outage_of(self.0) {
            Some(Outage::Full | Outage::ReadOnly) => f.write_str(obstacle(self.0)),
            Some(Outage::Locked) => f.write_str(": another process has locked it"),
            Some(Outage::Damaged) => f.write_str(
                ": the file is damaged, or no database; keep it, and put a backup in its place, or move it away to begin with an empty one",
            ),
            // The words of PostgreSQL say enough; where nobody answers there are none.
            Some(Outage::Waited) => f.write_str(
                ": nothing answered there in time; is PostgreSQL running, and are host and port right?",
            ),
            Some(Outage::Gone) if matches!(self.0, sqlx::Error::Io(_)) => f.write_str(
                ": nothing answers there; is PostgreSQL running, and are host and port right?",
            ),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_logged_has_what_to_do_and_what_the_database_says() {
        let waited = Error::from(sqlx::Error::PoolTimedOut);
        assert!(waited.outage().unwrap().contains("try again later"));
        let logged = waited.logged(None);
        assert!(
            logged.starts_with("no connection to the database came free in time")
                && logged.contains("look at its load (")
                && !logged.contains("the log"),
            "{logged}"
        );
        let gone = Error::from(sqlx::Error::Io(std::io::ErrorKind::BrokenPipe.into()));
        assert!(
            gone.outage()
                .unwrap()
                .contains("the log of the server says why")
        );
        let logged = gone.logged(Some(Path::new("/data/steward.db")));
        assert!(
            logged.contains("nothing is lost (/data/steward.db: ")
                && logged.contains("broken pipe"),
            "{logged}"
        );
        // That is nothing to wait for.
        let dropped = outage_of_code("3D000").unwrap();
        assert!(dropped.advice().contains("put a backup in its place"));
        let other = Error::from(sqlx::Error::RowNotFound);
        assert_eq!(other.logged(None), chain(&other));
    }

    #[tokio::test]
    async fn a_full_disk_is_named_in_each_error_that_it_makes() {
        use sqlx::Connection;
        let mut connection = sqlx::SqliteConnection::connect("sqlite::memory:")
            .await
            .unwrap();
        let mut run = async |sql: &'static str| sqlx::query(sql).execute(&mut connection).await;
        run("PRAGMA max_page_count = 1").await.unwrap();
        let error = run("CREATE TABLE t (a TEXT)").await.unwrap_err();
        let text = chain(&Error::from(error));
        assert!(
            text.starts_with("the database failed: its disk is full; make room there: "),
            "{text}"
        );
    }

    /// Input: a database that is full, read only, locked, damaged, or takes no connections (docs/reference/security.md § 4.9). Answer: 503 with
    /// what it is, and other errors stay errors of the server.
    #[test]
    fn codes_of_both_databases_say_what_passes() {
        for (code, outage) in [
            ("53100", Some(Outage::Full)),
            ("25006", Some(Outage::ReadOnly)),
            ("55000", Some(Outage::Gone)),
            ("28P01", Some(Outage::Gone)),
            ("57P03", Some(Outage::Gone)),
            ("57014", None),
            ("23505", None),
            ("13", Some(Outage::Full)),
            ("4874", Some(Outage::Full)),
            ("5", Some(Outage::Locked)),
            ("517", Some(Outage::Locked)),
            ("1032", Some(Outage::ReadOnly)),
            ("778", Some(Outage::Damaged)),
            ("11", Some(Outage::Damaged)),
            ("2067", None),
            ("1", None),
        ] {
            assert_eq!(outage_of_code(code), outage, "{code}");
        }
    }
}
