//! `steward::Service` and `std::Service`: whether a unit of systemd runs, and whether it is started with the host.

use std::time::Duration;

use serde_json::{Value, json};

use super::program::Program;
use super::unit::{SUFFIXES, is_systemd_running, reload_units};
use super::{Attributes, Context, Error, Handler, given, text};

/// A service may take its time to start; systemd ends it before, with its own limits (90 s by default).
const LIMIT: Duration = Duration::from_secs(600);
const PROPERTIES: &str = "--property=LoadState,ActiveState,SubState,UnitFileState,\
    NeedDaemonReload,Result,NRestarts,ActiveEnterTimestampMonotonic";
/// How often, and after which pauses, a service that was started is looked at.
const LOOKS: u32 = 4;
/// The same for one that systemd had to start anew before.
const LOOKS_AGAIN: u32 = 20;
const LOOK: Duration = Duration::from_millis(150);
/// A service that systemd started anew this short a time ago may be one that ends again and again.
const SETTLED: Duration = Duration::from_secs(3);

pub(super) struct Service {
    /// The attribute that says whether it is started with the host.
    enabled: &'static str,
}

pub(super) const SERVICE: Service = Service { enabled: "enabled" };
pub(super) const OF_STD: Service = Service { enabled: "onboot" };

impl Service {
    /// Has it started with the host, or not any more.
    fn enable(&self, context: &mut Context, desired: &Attributes, unit: &str) -> Result<(), Error> {
        let is_wanted = desired.get(self.enabled) == Some(&Value::Bool(true));
        let verb = if is_wanted { "enable" } else { "disable" };
        systemctl(context, verb, unit)
    }
}

impl Handler for Service {
    fn read(
        &self,
        context: &mut Context,
        desired: &Attributes,
    ) -> Result<Option<Attributes>, Error> {
        let unit = unit(desired)?;
        let wanted = desired.get(self.enabled).cloned().unwrap_or_default();
        let mut current = Attributes::new();
        let file_state = if is_systemd_running() {
            let found = Found::of(context, &unit)?;
            current.insert(
                "state".to_owned(),
                json!(found.state(text(desired, "state"))),
            );
            match found.file_state.as_str() {
                // Perhaps from a script in `/etc/init.d`, which other links start: another program knows them.
                "generated" if !wanted.is_null() => is_enabled(context, &unit)?,
                _ => found.file_state,
            }
        } else if given(desired, "state").is_some() {
            return Err(Error::Failed(format!(
                "systemd does not run on this host, so {unit} can not; set `state` to null to manage `{}` alone",
                self.enabled
            )));
        } else {
            is_enabled(context, &unit)?
        };
        let enabled = match file_state.as_str() {
            "enabled" | "alias" => json!(true),
            // What something else starts has no place in the order of the start of a host.
            "static" | "indirect" | "generated" | "transient" if !wanted.is_null() => {
                context.debug(&format!("{unit} is {file_state}: it can not be enabled"));
                wanted
            }
            _ => json!(false),
        };
        current.insert(self.enabled.to_owned(), enabled);
        Ok(Some(current))
    }

    fn create(&self, _context: &mut Context, _desired: &Attributes) -> Result<(), Error> {
        Ok(())
    }

    fn update(
        &self,
        context: &mut Context,
        desired: &Attributes,
        changes: &Attributes,
    ) -> Result<(), Error> {
        let unit = unit(desired)?;
        // What goes is stopped first: without its links, the alias of a unit is no name of it any more.
        let stops = text(desired, "state") == "stopped";
        if changes.contains_key(self.enabled) && !stops {
            self.enable(context, desired, &unit)?;
        }
        if changes.contains_key("state") {
            read_again_if_needed(context, &unit)?;
            let is_wanted = text(desired, "state") == "running";
            let verb = if is_wanted { "start" } else { "stop" };
            let before = Found::of(context, &unit)?;
            systemctl(context, verb, &unit)?;
            if is_wanted {
                check_start(context, &unit, before.restarts)?;
            }
            context.is_started = is_wanted;
        }
        if changes.contains_key(self.enabled) && stops {
            self.enable(context, desired, &unit)?;
        }
        Ok(())
    }

    fn delete(&self, _context: &mut Context, _desired: &Attributes) -> Result<(), Error> {
        Ok(())
    }

    fn reload(&self, context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        let verb = match text(desired, "on_change") {
            "none" => return Ok(()),
            "reload" => "try-reload-or-restart",
            _ => "try-restart",
        };
        if context.is_started || !is_systemd_running() || text(desired, "state") == "stopped" {
            return Ok(());
        }
        let unit = unit(desired)?;
        let before = Found::of(context, &unit)?;
        if before.must_read_again {
            reload_units(context)?;
        }
        context.info(&format!("what {unit} requires has changed: {verb}"));
        systemctl(context, verb, &unit)?;
        if matches!(before.state("running"), "running" | "restarting") {
            check_start(context, &unit, before.restarts)?;
        }
        Ok(())
    }
}

/// Looks for a moment whether a service stays up: of most systemd says that it is started when its program is, whatever becomes
/// of that. `restarts` is how often systemd had started it anew before; it counts from zero again after a service was stopped.
fn check_start(context: &Context, unit: &str, mut restarts: u64) -> Result<(), Error> {
    if !unit.ends_with(".service") {
        return Ok(());
    }
    let looks = if restarts > 0 { LOOKS_AGAIN } else { LOOKS };
    for _ in 0..looks {
        let found = Found::of(context, unit)?;
        let is_restarted = found.sub_state == "auto-restart" || found.restarts > restarts;
        restarts = found.restarts;
        if found.active_state == "failed" || is_restarted {
            return Err(Error::Failed(format!(
                "{unit} was started and has ended at once with a failure ({}): `journalctl -u {unit}` says why",
                found.result
            )));
        }
        if found.active_state == "inactive" {
            // A job that is done.
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// What systemd says of a unit.
struct Found {
    load_state: String,
    active_state: String,
    sub_state: String,
    file_state: String,
    must_read_again: bool,
    /// How often systemd has started it anew by itself.
    restarts: u64,
    /// For how long it has been up, or was when it was up last.
    up_since: Duration,
    /// How its last run ended: `success`, `exit-code`, …
    result: String,
}

impl Found {
    fn of(context: &Context, unit: &str) -> Result<Self, Error> {
        let program = Program::asking("systemctl")?;
        let program = program.arguments(["show", PROPERTIES, "--", unit]);
        let done = program.run(context)?;
        if !done.status.success() {
            return Err(done.failure(&format!("systemctl show {unit}")));
        }
        let value = |name: &str| {
            let mut pairs = done.stdout.lines().filter_map(|line| line.split_once('='));
            let value = pairs.find_map(|(key, value)| (key == name).then(|| value.to_owned()));
            value.unwrap_or_default()
        };
        let number = |name: &str| value(name).parse().unwrap_or_default();
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now = Duration::try_from(now).unwrap_or_default();
        let up_at = Duration::from_micros(number("ActiveEnterTimestampMonotonic"));
        Ok(Self {
            load_state: value("LoadState"),
            active_state: value("ActiveState"),
            sub_state: value("SubState"),
            file_state: value("UnitFileState"),
            must_read_again: value("NeedDaemonReload") == "yes",
            restarts: number("NRestarts"),
            up_since: now.saturating_sub(up_at),
            result: value("Result"),
        })
    }

    /// In the words of the model where these fit, otherwise in those of systemd.
    fn state(&self, wanted: &str) -> &str {
        let is_up = matches!(self.active_state.as_str(), "active" | "reloading")
            // It starts; one that fails again and again does not.
            || (self.active_state == "activating" && self.sub_state != "auto-restart");
        if is_up && self.restarts > 0 && self.up_since < SETTLED {
            return "restarting";
        }
        if is_up {
            return "running";
        }
        match self.active_state.as_str() {
            "inactive" if self.load_state == "not-found" && wanted == "running" => "not-found",
            "inactive" => "stopped",
            "failed" if wanted == "stopped" => "stopped",
            other => other,
        }
    }
}

/// What `systemctl is-enabled` says, which asks for scripts in `/etc/init.d`, too.
fn is_enabled(context: &Context, unit: &str) -> Result<String, Error> {
    let program = Program::asking("systemctl")?.arguments(["is-enabled", "--", unit]);
    Ok(program.run(context)?.stdout.trim().to_owned())
}

/// Files of a unit that have changed on disk count from now on.
fn read_again_if_needed(context: &mut Context, unit: &str) -> Result<(), Error> {
    if is_systemd_running() && Found::of(context, unit)?.must_read_again {
        reload_units(context)?;
    }
    Ok(())
}

fn systemctl(context: &mut Context, verb: &str, unit: &str) -> Result<(), Error> {
    let program = Program::changing("systemctl", LIMIT)?;
    let program = program.arguments([verb, "--", unit]);
    program.must_succeed(context).map(|_| ())
}

/// The name of the unit with its suffix.
fn unit(desired: &Attributes) -> Result<String, Error> {
    let name = text(desired, "name");
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || ":_.@-\\".contains(letter);
    let must_run = given(desired, "state").is_some() || is_systemd_running();
    if must_run && (name.ends_with('@') || name.contains("@.")) {
        return Err(Error::Failed(format!(
            "{name} is a template, which can not run: write an instance of it, such as `{}`",
            name.replacen('@', "@one", 1)
        )));
    }
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(Error::Failed(format!(
            "`{name}` can not be the name of a unit: use letters, digits, `:`, `_`, `.`, `@` and `-`"
        )));
    }
    let has_suffix = name
        .rsplit_once('.')
        .is_some_and(|(_, suffix)| SUFFIXES.contains(&suffix));
    Ok(if has_suffix {
        name.to_owned()
    } else {
        format!("{name}.service")
    })
}
