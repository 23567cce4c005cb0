//! Native handlers: read what is, compare with what shall be, change what differs.
//!
//! A handler reads, creates, updates and deletes one kind of resource on this host; the order of calls, the comparison,
//! skipping, dry runs and logging are here, the same for all. Source: docs/reference/deployment.md § 5.5,
//! docs/reference/python.md § 5.3 and § 5.4.

mod accounts;
mod archive;
mod attributes;
mod checkout;
mod cron;
mod directory;
mod dnf;
mod dpkg;
mod fetch;
mod file;
mod group;
mod http;
mod null;
mod owner;
mod package;
mod program;
pub(crate) mod references;
mod replacement;
mod run;
mod service;
mod symlink;
mod unit;
mod user;

use std::borrow::Cow;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use self::attributes::{
    flag, given, is_not_there, parent, path, path_in, path_of_file, seconds, text, texts,
};
use self::references::{AskServer, Secrets};
use crate::domain::{Change, HandlerStatus, LogLevel, ResourceStatus, Timestamp};
use crate::executor::protocol::{Dependency, LogLine, Task, TaskKind, TaskOutcome};

type Attributes = Map<String, Value>;

/// Stands for a secret value, here and in what handlers in Python report (`python/steward_host/hidden.py`).
pub(crate) const HIDDEN: &str = "(hidden)";

/// Why a handler could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action} {path}: {source}{}", hint(.source))]
    Io {
        action: &'static str,
        path: String,
        source: std::io::Error,
    },
    #[error("{0}")]
    Failed(String),
    /// Not now; tried again later without counting as broken.
    #[error("{0}")]
    Skip(String),
}

/// What a person can do about it.
fn hint(error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    let hint = match error.kind() {
        ErrorKind::PermissionDenied if rustix::process::geteuid().is_root() => {
            "; root is refused as well: it may be immutable (`lsattr`), or in a file system that keeps others' rights"
        }
        ErrorKind::PermissionDenied => {
            let user = rustix::process::geteuid();
            return format!(
                "; Steward runs as user {user}: give it the right, or run Steward as root"
            );
        }
        ErrorKind::ReadOnlyFilesystem => "; mount it writable, or leave it out of the model",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; make room there",
        ErrorKind::NotADirectory => "; something above it is not a directory: remove that first",
        ErrorKind::DirectoryNotEmpty => "; remove what is inside first",
        ErrorKind::ResourceBusy => "; it is in use, perhaps as a mount point",
        _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            "; symlinks above it lead in a circle: remove one of them"
        }
        _ => "",
    };
    hint.to_owned()
}

impl Error {
    fn io(action: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.display().to_string();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}

/// One kind of resource on this host.
pub trait Handler: Sync {
    /// The attributes as they are on the host, those that it manages; `None`: there is no such thing.
    fn read(
        &self,
        context: &mut Context,
        desired: &Attributes,
    ) -> Result<Option<Attributes>, Error>;
    /// What differs; of use for what is more than a row of values.
    fn compare(&self, current: &Attributes, desired: &Attributes) -> Attributes {
        differences(current, desired)
    }
    /// The attributes whose values are not to be seen in differences.
    fn secrets(&self) -> &'static [&'static str] {
        &[]
    }
    fn create(&self, context: &mut Context, desired: &Attributes) -> Result<(), Error>;
    fn update(
        &self,
        context: &mut Context,
        desired: &Attributes,
        changes: &Attributes,
    ) -> Result<(), Error>;
    fn delete(&self, context: &mut Context, desired: &Attributes) -> Result<(), Error>;
    /// Whether attributes that references fill are as good as any: nothing is made from them.
    fn ignores_attributes(&self) -> bool {
        false
    }
    /// A dependency changed since the last success.
    fn reload(&self, _context: &mut Context, _desired: &Attributes) -> Result<(), Error> {
        Ok(())
    }
}

/// The native handler of a resource type.
pub fn native(resource_type: &str) -> Option<&'static dyn Handler> {
    match resource_type {
        "fs::File" | "std::File" | "steward::File" => Some(&file::File),
        "fs::Directory" | "std::Directory" | "steward::Directory" => Some(&directory::Directory),
        "fs::Symlink" | "steward::Symlink" => Some(&symlink::SYMLINK),
        "std::Symlink" => Some(&symlink::OF_STD),
        "exec::Run" | "steward::Command" => Some(&run::Run),
        "steward::Group" => Some(&group::Group),
        "steward::User" => Some(&user::User),
        "steward::Package" => Some(&package::Package),
        "std::Package" => Some(&package::OfStd),
        "steward::Unit" => Some(&unit::Unit),
        "steward::Service" => Some(&service::SERVICE),
        "std::Service" => Some(&service::OF_STD),
        "steward::Checkout" => Some(&checkout::Checkout),
        "steward::Archive" => Some(&archive::Archive),
        "steward::Cron" => Some(&cron::Cron),
        "steward::HttpObject" => Some(&http::HttpObject),
        "std::testing::NullResource" => Some(&null::NullResource),
        "std::AgentConfig" => Some(&null::AgentConfig),
        #[cfg(test)]
        "test::Hangs" => Some(&crate::executor::native::tests::Hangs),
        _ => None,
    }
}

/// What a run logs and finds.
#[derive(Debug, Default)]
pub struct Context {
    logs: Vec<LogLine>,
    changes: Attributes,
    change: Option<Change>,
    /// When the time of the run is over; `None`: never.
    deadline: Option<Instant>,
    /// The handler worked, and found that all was well.
    has_changed_nothing: bool,
    /// The handler has just started what it would otherwise have to restart.
    is_started: bool,
    /// Nothing is changed, so what this resource requires may not be there yet.
    is_dry_run: bool,
}

impl Context {
    pub fn debug(&mut self, message: &str) {
        self.log(LogLevel::Debug, message);
    }

    pub fn info(&mut self, message: &str) {
        self.log(LogLevel::Info, message);
    }

    pub fn warning(&mut self, message: &str) {
        self.log(LogLevel::Warning, message);
    }

    pub fn error(&mut self, message: &str) {
        self.log(LogLevel::Error, message);
    }

    /// What the handler was about to change was so already.
    fn nothing_changed(&mut self) {
        self.has_changed_nothing = true;
    }

    /// What is left of the time of the run; `None`: it has no limit.
    fn left(&self) -> Option<Duration> {
        let deadline = self.deadline?;
        Some(deadline.saturating_duration_since(Instant::now()))
    }

    pub fn log(&mut self, level: LogLevel, message: &str) {
        let timestamp_us = Timestamp::now().0;
        let line = LogLine {
            level,
            msg: message.to_owned(),
            kwargs: Map::new(),
            timestamp_us,
        };
        self.logs.push(line);
    }

    pub fn into_outcome(self, status: HandlerStatus) -> TaskOutcome {
        TaskOutcome {
            status,
            change: self.change.unwrap_or(Change::NoChange),
            changes: self.changes,
            logs: self.logs,
            facts: Vec::new(),
            discovered: Vec::new(),
        }
    }
}

/// Brings one resource to its desired state, or only compares in a dry run. `ask`: for what its references need.
pub(crate) fn run(
    handler: &dyn Handler,
    task: &Task,
    desired: &Attributes,
    ask: AskServer<'_>,
) -> TaskOutcome {
    let mut context = Context {
        deadline: Instant::now().checked_add(task.limit()),
        is_dry_run: task.is_dry_run(),
        ..Context::default()
    };
    let (requires, dependency_changed) = match &task.kind {
        // None of ours has any.
        TaskKind::CollectFacts => return context.into_outcome(HandlerStatus::Deployed),
        TaskKind::DryRun { .. } => (&[][..], false),
        TaskKind::Deploy {
            requires,
            dependency_changed,
        } => (&requires[..], *dependency_changed),
    };
    context.debug(&format!(
        "Start run because {} (deploy_id: {})",
        task.reason, task.action
    ));
    let report_only = flag(desired, "report_only");
    let mut secrets = Secrets::default();
    let status = match waits_for(task, requires).filter(|_| !report_only) {
        Some((level, message)) => {
            context.log(level, &message);
            HandlerStatus::SkippedForDependency
        }
        None => match filled(handler, desired, ask, &mut secrets)
            .and_then(|desired| execute(handler, &mut context, task, &desired, dependency_changed))
        {
            Ok(status) => status,
            Err(Error::Skip(reason)) => {
                context.warning(&format!("{} was skipped: {reason}", task.resource_id));
                HandlerStatus::Skipped
            }
            Err(error) => {
                context.error(&error.to_string());
                if task.is_dry_run() {
                    let failed =
                        json!({"current": "FAILED", "desired": format!("Handler failed: {error}")});
                    context.changes.insert("handler".to_owned(), failed);
                    HandlerStatus::Dry
                } else {
                    HandlerStatus::Failed
                }
            }
        },
    };
    context.debug("End run");
    secrets.hide(&mut context, &task.resource_id);
    context.into_outcome(status)
}

/// Why a dependency keeps this resource from running. Source: docs/reference/python.md § 5.3.
fn waits_for(task: &Task, requires: &[Dependency]) -> Option<(LogLevel, String)> {
    use ResourceStatus as Status;
    let with = |is_bad: &dyn Fn(Status) -> bool| {
        let bad = requires.iter().filter(|one| is_bad(one.status));
        let bad: Vec<&str> = bad.map(|one| one.resource_id.as_str()).collect();
        (!bad.is_empty()).then(|| bad.join(", "))
    };
    let id = &task.resource_id;
    if let Some(bad) = with(&|status| {
        matches!(
            status,
            Status::Dry | Status::Undefined | Status::SkippedForUndefined
        )
    }) {
        return Some((
            LogLevel::Warning,
            format!("Resource {id} skipped: its dependencies are undefined: {bad}"),
        ));
    }
    if let Some(bad) = with(&|status| matches!(status, Status::Available | Status::Deploying)) {
        return Some((
            LogLevel::Info,
            format!("Resource {id} skipped: its dependencies have a newer desired state: {bad}"),
        ));
    }
    with(&|status| status != Status::Deployed).map(|failed| {
        (
            LogLevel::Info,
            format!("Resource {id} skipped due to failed dependencies: {failed}"),
        )
    })
}

/// A resource with what its references stand for. What is not filled stands as null in it, which means "leave it", so that a
/// file would be made without its content.
fn filled<'a>(
    handler: &dyn Handler,
    desired: &'a Attributes,
    ask: AskServer<'_>,
    secrets: &mut Secrets,
) -> Result<Cow<'a, Attributes>, Error> {
    match handler.ignores_attributes() {
        true => Ok(Cow::Borrowed(desired)),
        false => references::fill(desired, ask, secrets),
    }
}

fn execute(
    handler: &dyn Handler,
    context: &mut Context,
    task: &Task,
    desired: &Attributes,
    dependency_changed: bool,
) -> Result<HandlerStatus, Error> {
    let (purged, report_only) = (flag(desired, "purged"), flag(desired, "report_only"));
    context.debug("Calling read_resource");
    let current = handler.read(context, desired)?;
    context.changes = match &current {
        None if purged => Attributes::new(),
        None => Attributes::from_iter([change("purged", &json!(true), &json!(false))]),
        Some(current) => {
            let mut changes = handler.compare(current, desired);
            hide(&mut changes, handler.secrets());
            if purged {
                changes.extend([change("purged", &json!(false), &json!(true))]);
            }
            changes
        }
    };
    if task.is_dry_run() {
        return Ok(HandlerStatus::Dry);
    }
    if report_only {
        return Ok(if context.changes.is_empty() {
            HandlerStatus::Deployed
        } else {
            HandlerStatus::NonCompliant
        });
    }
    if !context.changes.is_empty() {
        let changes = context.changes.clone();
        let (done, change) = match (&current, purged) {
            (None, _) => (handler.create(context, desired), Change::Created),
            (Some(_), true) => (handler.delete(context, desired), Change::Purged),
            (Some(_), false) => (handler.update(context, desired, &changes), Change::Updated),
        };
        done?;
        if context.has_changed_nothing {
            context.changes.clear();
        } else {
            context.change = Some(change);
        }
    }
    if dependency_changed && !purged {
        handler.reload(context, desired)?;
    }
    Ok(HandlerStatus::Deployed)
}

/// The attributes whose current value, as far as the host shows one, is not the desired one; a
/// desired null means "do not care". Source: docs/reference/python.md § 5.5.
fn differences(current: &Attributes, desired: &Attributes) -> Attributes {
    let pairs = current
        .iter()
        .filter_map(|(name, is)| Some((name, is, desired.get(name)?)));
    let different = pairs.filter(|(_, is, shall)| !shall.is_null() && is != shall);
    different
        .map(|(name, is, shall)| change(name, is, shall))
        .collect()
}

/// Leaves only that a secret differs.
fn hide(changes: &mut Attributes, secrets: &[&str]) {
    for secret in secrets {
        if let Some(change) = changes.get_mut(*secret) {
            *change = json!({"current": HIDDEN, "desired": HIDDEN});
        }
    }
}

fn change(name: &str, current: &Value, desired: &Value) -> (String, Value) {
    (
        name.to_owned(),
        json!({"current": current, "desired": desired}),
    )
}

#[cfg(test)]
mod tests;
