//! What values of a configuration may be. Errors name the field.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::file::{
    ActionLogsSection, CompileSection, ExecutorSection, FactsSection, RepositoriesSection,
};
use super::secret::Secret;
use super::{Database, Error};
use crate::compile::PoolOptions;
use crate::domain::FactTimes;
use crate::executor::limits::{Limits, MAX_CONNECTIONS, MAX_HOSTS};
use crate::git::RepositoryRules;
use crate::observe::ActionLogs;

/// What is wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) field: String,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
        }
    }

    /// The error as one of the whole file.
    pub(super) fn of(self, path: &str) -> Error {
        Error::Field {
            path: path.to_owned(),
            field: self.field,
            message: self.message,
        }
    }
}

pub(super) fn listen(text: &str) -> Result<SocketAddr, Fault> {
    text.parse().map_err(|_| {
        let message = format!("`{text}` is no address and port, such as 127.0.0.1:8888");
        Fault::new("listen", message)
    })
}

/// The token that requests must show.
pub(super) fn api_token(
    token: Option<Secret>,
    listen: &SocketAddr,
) -> Result<Option<String>, Fault> {
    let fault = |message: &str| Fault::new("api_token", message);
    let Some(token) = token else {
        if super::is_private(listen) {
            return Ok(None);
        }
        let message = "is needed, because `listen` can be reached from other machines";
        return Err(fault(message));
    };
    let token = token.value().map_err(|message| fault(&message))?;
    if token.len() < 16 {
        return Err(fault("a token needs at least 16 characters"));
    }
    // No other can be shown: it goes into a header.
    if !token.chars().all(|c| c.is_ascii_graphic()) {
        let message =
            "a token has letters, digits and signs of ASCII only: no space, no line break";
        return Err(fault(message));
    }
    Ok(Some(token))
}

pub(super) fn database(database: Option<Secret>) -> Result<Database, Fault> {
    let fault = |message: &str| Fault::new("database", message);
    let Some(database) = database else {
        return Ok(Database::Sqlite);
    };
    match database.value().map_err(|message| fault(&message))? {
        text if text == "sqlite" => Ok(Database::Sqlite),
        url if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
            Ok(Database::Postgres(url))
        }
        _ => Err(fault(
            "write `sqlite` or a URL that begins with postgres://",
        )),
    }
}

pub(super) fn pool(section: &CompileSection) -> Result<PoolOptions, Fault> {
    let mut pool = PoolOptions::default();
    if let Some(slots) = section.slots {
        if slots == 0 || slots > 1024 {
            return Err(Fault::new(
                "compile.slots",
                "between 1 and 1024 compiles at the same time are possible",
            ));
        }
        pool.slots = slots;
    }
    // With no time at all every compile would be rejected.
    if let Some(timeout) = &section.timeout {
        pool.timeout = some_duration("compile.timeout", timeout)?;
    }
    if let Some(timeout) = &section.install_timeout {
        pool.install_timeout = some_duration("compile.install_timeout", timeout)?;
    }
    if let Some(timeout) = &section.fetch_timeout {
        pool.git.time = some_duration("compile.fetch_timeout", timeout)?;
    }
    if let Some(memory_mib) = section.fetch_memory_mib {
        if !(MIN_FETCH_MEMORY_MIB..=1 << 20).contains(&memory_mib) {
            return Err(Fault::new(
                "compile.fetch_memory_mib",
                "between 512 and 1048576 MiB are possible",
            ));
        }
        pool.git.memory_bytes = memory_mib << 20;
    }
    if let Some(memory_mib) = section.memory_mib {
        if !(MIN_MEMORY_MIB..=1 << 20).contains(&memory_mib) {
            return Err(Fault::new(
                "compile.memory_mib",
                "between 1024 and 1048576 MiB are possible",
            ));
        }
        pool.memory_bytes = memory_mib << 20;
    }
    if let Some(scratch_mib) = section.scratch_mib {
        if !(16..=1 << 20).contains(&scratch_mib) {
            return Err(Fault::new(
                "compile.scratch_mib",
                "between 16 and 1048576 MiB are possible",
            ));
        }
        pool.scratch_bytes = scratch_mib << 20;
    }
    Ok(pool)
}

/// What a fetch of a few files needs: the limit counts what is mapped, this program among it.
const MIN_FETCH_MEMORY_MIB: u64 = 512;

/// What a compile of one line needs: the limit counts what is mapped, a stack of 256 MiB among it.
const MIN_MEMORY_MIB: u64 = 1024;

/// Source: docs/reference/deployment.md § 5.7.
pub(super) fn facts(section: &FactsSection) -> Result<FactTimes, Fault> {
    let mut times = FactTimes::default();
    if let Some(expire) = &section.expire {
        times.expire = some_duration("facts.expire", expire)?;
        times.renew = times.expire / 3;
    }
    if let Some(renew) = &section.renew {
        times.renew = some_duration("facts.renew", renew)?;
    }
    if times.renew >= times.expire {
        let message = format!(
            "less than facts.expire ({} s) is needed",
            times.expire.as_secs()
        );
        return Err(Fault::new("facts.renew", message));
    }
    if let Some(block) = &section.resource_block {
        times.resource_block = duration("facts.resource_block", block)?;
    }
    Ok(times)
}

/// Source: docs/reference/deployment.md § 5.8.
pub(super) fn action_logs(section: ActionLogsSection) -> Result<ActionLogs, Fault> {
    const FILE_MIB: u64 = 100;
    const OLDER_FILES: usize = 5;
    let file_mib = section.file_mib.unwrap_or(FILE_MIB);
    if !(1..=1 << 20).contains(&file_mib) {
        let message = "between 1 and 1048576 MiB are possible";
        return Err(Fault::new("action_logs.file_mib", message));
    }
    let n_older = section.older_files.unwrap_or(OLDER_FILES);
    if n_older > 1000 {
        return Err(Fault::new(
            "action_logs.older_files",
            "at most 1000 are possible",
        ));
    }
    let folder = section.folder;
    if !folder.is_dir() {
        let message = format!("{} is no folder: make it first", folder.display());
        return Err(Fault::new("action_logs.folder", message));
    }
    Ok(ActionLogs {
        folder,
        file_bytes: file_mib << 20,
        n_older,
    })
}

/// Source: docs/reference/deployment.md § 5.3.
pub(super) fn executor(section: &ExecutorSection) -> Result<Limits, Fault> {
    let mut limits = Limits::default();
    if let Some(hosts) = section.hosts {
        if hosts == 0 || hosts > MAX_HOSTS {
            let message = format!("between 1 and {MAX_HOSTS} Python hosts at once are possible");
            return Err(Fault::new("executor.hosts", message));
        }
        limits.hosts = hosts;
    }
    if let Some(connections) = section.connections {
        if connections == 0 || connections > MAX_CONNECTIONS {
            let message =
                format!("between 1 and {MAX_CONNECTIONS} connections at once are possible");
            return Err(Fault::new("executor.connections", message));
        }
        limits.connections = connections;
    }
    if let Some(keep) = &section.keep {
        limits.keep = duration("executor.keep", keep)?;
    }
    if let Some(timeout) = &section.import_timeout {
        limits.import = some_duration("executor.import_timeout", timeout)?;
    }
    Ok(limits)
}

pub(super) fn repositories(section: RepositoriesSection) -> Result<RepositoryRules, Fault> {
    let is_relative = |folder: &&PathBuf| !folder.is_absolute();
    if let Some(folder) = section.allow_local.iter().find(is_relative) {
        let message = format!("`{}` is no absolute path of a folder", folder.display());
        return Err(Fault::new("repositories.allow_local", message));
    }
    Ok(RepositoryRules {
        allow_private: section.allow_private,
        allow_local: section.allow_local,
    })
}

/// Reads a duration that is not zero.
pub(super) fn some_duration(field: &str, text: &str) -> Result<Duration, Fault> {
    let duration = duration(field, text)?;
    if duration.is_zero() {
        return Err(Fault::new(field, "more than 0 s is needed"));
    }
    Ok(duration)
}

/// `90`, `90s`, `15m`, `2h`, `1d`.
pub(super) fn duration(field: &str, text: &str) -> Result<Duration, Fault> {
    let refuse = || {
        let message = format!("`{text}` is no duration, such as 30s, 15m or 2h (at most 30 days)");
        Fault::new(field, message)
    };
    let text = text.trim();
    let (number, unit) = match text.char_indices().find(|(_, c)| !c.is_ascii_digit()) {
        Some((at, _)) => text.split_at(at),
        None => (text, "s"),
    };
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(refuse()),
    };
    let seconds = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor));
    seconds
        .filter(|seconds| *seconds <= 30 * 86_400)
        .map(Duration::from_secs)
        .ok_or_else(refuse)
}
