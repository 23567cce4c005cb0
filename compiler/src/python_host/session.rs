//! One compile's use of a Python host, and the hosts that are kept between compiles.
//!
//! # What for
//!
//! To import the modules of a project, with the packages that they use, takes a second and more; a
//! compile whose model is small takes milliseconds. But a Python process that has run one compile
//! can not run another: plugins leave things in module variables, caches and the classes of others,
//! and the second compile would see them.
//!
//! So a host that is kept is never used for a compile itself. It imports the modules once, and then
//! gives each compile a *fork* of itself: a child that has all modules as they were right after the
//! import, made by the kernel in a millisecond, since memory is copied only where it is written.
//! When the compile ends, the fork is gone with all that plugins have left in it
//! (`python/steward_host/forks.py`).
//!
//! ```text
//! host         start → import modules → fork ─ waits for the fork to end ─ fork ─ waits …
//! fork 1                                 └ reads calls … stop (status 77)
//! fork 2                                                                   └ waits for the next compile
//! compile 1    load_compile ── calls ── stop
//! compile 2                                    again ── calls ── stop       (modules unchanged)
//! ```
//!
//! The pipe has one reader at a time: the host reads until it forks, then the fork does, while the
//! host only waits for it. So this end needs not to know to whom it speaks. The next fork is made
//! when the one before has ended, ahead of need: an idle host has one that waits for its first
//! message.
//!
//! # When a host is used again
//!
//! When the modules are the same ([`key`]): the interpreter and its packages, the project's folder,
//! the environment's id and variables, and every Python file by content. Of the variables those are
//! left out that say which service instance the compile is for; a module that reads one of them
//! while it is imported has a host for that compile alone. Modules may also read other files while they are imported; which, the host tells with what it loaded, and their
//! contents are compared, too. If any of it differs, the compile gets a new host, and this one is
//! dropped.
//!
//! # Invariants
//!
//! - A host is in [`WarmHosts`] or in use by one [`Session`], never both.
//! - It goes back only after the whole farewell: `stop` was sent, the fork has said goodbye, and
//!   its standard error has been read up to the mark that ends the session. So no output of one
//!   compile shows up in the next.
//! - A fork that ends in any other way than by `stop` (it crashed, or was killed at the time limit)
//!   takes its host with it. What it did to files or sockets that it shared is not known.
//! - Where something would not live on in a fork (other threads, after the import), the host says
//!   so, is used for one compile, and ends with it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

use crate::protocol::{FromHost, PythonModule, ToHost};
use crate::python_host::asleep::{Asleep, Woken};
use crate::python_host::declarations::Declarations;
use crate::python_host::load::{HostReport, NoModel};
use crate::python_host::memo::Memo;
use crate::python_host::process::{HostError, Process, TimeLimit};
use crate::python_host::{HostCallbacks, PluginHost};
use crate::{CHANGING_VARIABLES, Options, PythonRuntime, Variables};

/// A digest of what makes two compiles have the same modules. As in `declarations`, nobody must be able to write two with one.
pub(in crate::python_host) type Key = [u8; 32];

/// Where a host is kept after a compile, and under which key.
pub(in crate::python_host) type Shelf = (Arc<WarmHosts>, Key);

/// Hosts with imported modules, for compiles to come. Each takes memory, so there are few.
#[derive(Debug, Default)]
pub struct WarmHosts {
    idle: Mutex<Vec<Warm>>,
}

/// A host that waits for another compile with the same modules.
pub(in crate::python_host) struct Warm {
    key: Key,
    pub(in crate::python_host) process: Process,
    /// What it said about the modules when it had imported them.
    pub(in crate::python_host) loaded: FromHost,
    /// Other files that the modules read while they were imported.
    pub(in crate::python_host) read: BTreeMap<String, Option<Key>>,
}

impl std::fmt::Debug for Warm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Warm").finish_non_exhaustive()
    }
}

/// How many hosts are kept; the one that was used longest ago goes.
const KEPT: usize = 2;

impl WarmHosts {
    /// The host with this key, if it still lives and the files that its modules read are unchanged.
    /// It is taken out; one that does not fit any more is dropped.
    pub(in crate::python_host) fn take(&self, key: &Key) -> Option<Warm> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let at = idle.iter().rposition(|warm| warm.key == *key)?;
        let warm = idle.remove(at);
        drop(idle);
        let unchanged = warm.read.iter().all(|(path, was)| digest(path) == *was);
        (unchanged && warm.process.is_alive()).then_some(warm)
    }

    /// Whether there is a host with this key.
    pub(in crate::python_host) fn has(&self, key: &Key) -> bool {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.iter().any(|warm| warm.key == *key)
    }

    /// Keeps the idle hosts whose process is good by `is_clean`, and ends the others; the ids of
    /// the processes that are kept. What is in use by a compile is not looked at.
    pub fn keep(&self, is_clean: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let all = std::mem::take(&mut *idle);
        let (kept, unclean): (Vec<Warm>, Vec<Warm>) = all
            .into_iter()
            .partition(|warm| warm.process.id().is_some_and(&is_clean));
        let ids = kept.iter().filter_map(|warm| warm.process.id()).collect();
        *idle = kept;
        drop(idle);
        drop(unclean);
        ids
    }

    /// Puts a host back after a compile. If there are too many, the one that was used longest ago
    /// ends.
    fn put(&self, warm: Warm) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(warm);
        let oldest = (idle.len() > KEPT).then(|| idle.remove(0));
        drop(idle);
        drop(oldest);
    }
}

/// The digest of a file's content; `None`: it can not be read.
pub(in crate::python_host) fn digest(path: &str) -> Option<Key> {
    crate::world::read_plain(path)
        .ok()
        .map(|content| Sha256::digest(content).into())
}

/// What makes two compiles have the same modules.
fn key(runtime: &PythonRuntime, request: &ToHost) -> Option<Key> {
    let ToHost::LoadCompile {
        modules,
        project_dir,
        env,
        environment_id,
        ..
    } = request
    else {
        return None;
    };
    let mut hasher = Sha256::new();
    let mut add = |part: &[u8]| crate::hash::add_part(&mut hasher, part);
    add(runtime.interpreter.as_os_str().as_encoded_bytes());
    add(runtime.package.as_os_str().as_encoded_bytes());
    for packages in site_packages(&runtime.interpreter) {
        add(&packages);
    }
    add(project_dir.as_bytes());
    add(environment_id.as_deref().unwrap_or_default().as_bytes());
    add(&serde_json::to_vec(&changing(env).1).ok()?);
    add(&serde_json::to_vec(modules).ok()?);
    for file in modules
        .iter()
        .flat_map(|module: &PythonModule| &module.files)
    {
        add(&digest(&file.path)?);
    }
    Some(hasher.finalize().into())
}

/// The variables that a host takes on for each compile, and the others.
pub(in crate::python_host) fn changing(env: &Variables) -> (Variables, Variables) {
    let is_changing = |name: &str| CHANGING_VARIABLES.contains(&name);
    let env = env.clone().into_iter();
    env.partition(|(name, _)| is_changing(name))
}

/// When packages came to or left the environment of an interpreter.
fn site_packages(interpreter: &Path) -> Vec<[u8; 16]> {
    let Some(environment) = interpreter.ancestors().nth(2) else {
        return Vec::new();
    };
    let Ok(versions) = std::fs::read_dir(environment.join("lib")) else {
        return Vec::new();
    };
    let mut stamps: Vec<[u8; 16]> = versions
        .flatten()
        .filter_map(|version| {
            let changed = std::fs::metadata(version.path().join("site-packages"))
                .and_then(|metadata| metadata.modified())
                .ok()?;
            let since = changed.duration_since(UNIX_EPOCH).ok()?;
            Some(since.as_nanos().to_be_bytes())
        })
        .collect();
    stamps.sort_unstable();
    stamps
}

/// One compile's use of a host. When it is dropped, the session ends, and the host is kept or ends.
pub(in crate::python_host) struct Session {
    /// Present until the end, once it was started.
    process: Option<Process>,
    /// It was not needed yet.
    asleep: Option<Asleep>,
    /// What the host is kept with; `None`: it ends with this compile.
    keep: Option<(Arc<WarmHosts>, Key, FromHost)>,
    read: BTreeMap<String, Option<Key>>,
    report: HostReport,
    /// Where the memo is kept, and what there is of it; `None`: nothing is kept.
    declarations: Option<Declarations>,
    memo: Option<Memo>,
}

impl Session {
    /// A host with the modules of a request, and what they declare (or why they can not be loaded).
    pub(in crate::python_host) fn begin(
        options: &Options,
        runtime: Option<PythonRuntime>,
        request: ToHost,
        limit: Option<TimeLimit>,
        report: &HostReport,
        print: &mut dyn FnMut(&str),
    ) -> Result<(Session, FromHost), HostError> {
        let mut session = Session {
            process: None,
            asleep: None,
            keep: None,
            read: BTreeMap::new(),
            report: report.clone(),
            declarations: None,
            memo: None,
        };
        let runtime = match (runtime, options.python.attached()) {
            // It was greeted when it was first asked for something: see `locate`.
            (_, Some(stream)) => {
                let mut process = Process::attach(stream)?;
                process.limit(limit);
                session.process = Some(process);
                let answer = session.request(request, &mut NoModel::new(print))?;
                if let (FromHost::Loaded { forks, .. }, Some(process)) =
                    (&answer, &mut session.process)
                {
                    process.take_turns(*forks);
                }
                return Ok((session, answer));
            }
            (Some(runtime), None) => runtime,
            (None, None) => return Err(HostError::ended("this compile has no Python")),
        };
        let shelf = options.hosts.as_ref();
        let shelf = shelf.and_then(|hosts| Some((Arc::clone(hosts), key(&runtime, &request)?)));
        let declarations = Declarations::of(options, &runtime, &request, &report.is_outdated);
        let mut asleep = Asleep::new(runtime, request, limit, declarations.clone(), shelf);
        if let Some(known) = asleep.known() {
            session.declarations = declarations;
            session.memo = asleep.take_memo();
            session.asleep = Some(asleep);
            return Ok((session, known));
        }
        // What a host that was kept declares was not looked at closely enough to be kept itself.
        if let Some(woken) = asleep.wake_warm() {
            let answer = woken.loaded.clone();
            session.take(woken);
            return Ok((session, answer));
        }
        session.memo = asleep.take_memo();
        session.declarations = declarations;
        let woken = asleep.wake(print)?;
        let answer = woken.loaded.clone();
        session.take(woken);
        Ok((session, answer))
    }

    /// Goes on with a host that has the modules.
    fn take(&mut self, woken: Woken) {
        let Woken {
            mut process,
            loaded,
            read,
            shelf,
        } = woken;
        let forks = matches!(loaded, FromHost::Loaded { forks: true, .. });
        if matches!(loaded, FromHost::Loaded { .. }) {
            process.take_turns(forks);
        }
        self.process = Some(process);
        self.read = read;
        self.keep = shelf
            .filter(|_| forks)
            .map(|(hosts, key)| (hosts, key, loaded));
    }

    /// The Python that the host is: its version, and what it was started as.
    pub(in crate::python_host) fn python(&self) -> (&str, &str) {
        self.process
            .as_ref()
            .map_or(("", ""), |process| process.python())
    }

    fn send(&mut self, message: &ToHost) -> Result<(), HostError> {
        match &mut self.process {
            Some(process) => process.send(message),
            None => Err(HostError::ended("the Python host ended")),
        }
    }
}

impl PluginHost for Session {
    fn request(
        &mut self,
        message: ToHost,
        callbacks: &mut dyn HostCallbacks,
    ) -> Result<FromHost, HostError> {
        self.wake(callbacks)?;
        self.send(&message)?;
        self.answer(callbacks)
    }

    fn is_asleep(&self) -> bool {
        self.asleep.is_some()
    }

    fn say(&mut self, line: &str) {
        let process = self.process.as_ref();
        let output = process.map_or(&self.report.output, |process| &process.output);
        output.add_line(line);
    }

    fn take_memo(&mut self) -> Option<Memo> {
        self.memo.take()
    }

    fn keep_memo(&mut self, memo: &Memo) {
        if let Some(declarations) = &self.declarations {
            declarations.keep_memo(memo);
        }
    }

    fn start_ahead(&mut self) {
        if let Some(asleep) = &mut self.asleep {
            asleep.start_ahead();
        }
    }

    fn wake(&mut self, callbacks: &mut dyn HostCallbacks) -> Result<(), HostError> {
        let Some(asleep) = self.asleep.take() else {
            return Ok(());
        };
        let woken = asleep.wake(&mut |line| callbacks.print(line))?;
        self.take(woken);
        Ok(())
    }

    fn reads_calls(&self) -> bool {
        self.process.as_ref().is_some_and(Process::reads_calls)
    }

    fn send_calls(&mut self, body: &[u8]) -> Result<(), HostError> {
        match &mut self.process {
            Some(process) => process.send_body(body),
            None => Err(HostError::ended("the Python host ended")),
        }
    }

    fn answer(&mut self, callbacks: &mut dyn HostCallbacks) -> Result<FromHost, HostError> {
        match &mut self.process {
            Some(process) => answer(process, callbacks),
            None => Err(HostError::ended("the Python host ended")),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some(mut process) = self.process.take() else {
            return;
        };
        let lives = process.end_session();
        process.output.move_to(&self.report.output);
        if let Some((hosts, key, loaded)) = self.keep.take().filter(|_| lives) {
            hosts.put(Warm {
                key,
                process,
                loaded,
                read: std::mem::take(&mut self.read),
            });
        }
    }
}

/// Answers what a host asks until it answers what it was asked.
pub(in crate::python_host) fn answer(
    process: &mut Process,
    callbacks: &mut dyn HostCallbacks,
) -> Result<FromHost, HostError> {
    loop {
        match process.receive()? {
            FromHost::Get {
                instance,
                attribute,
            } => {
                let reads = match process.reads_calls() {
                    true => callbacks.expected_reads(instance, &attribute),
                    false => None,
                };
                if let Some(reads) = reads {
                    process.send_body(&reads)?;
                } else {
                    let outcome = callbacks.get(instance, &attribute);
                    process.send(&ToHost::AttributeValue { outcome })?;
                }
            }
            FromHost::Lookup { name } => {
                let outcome = callbacks.lookup(&name);
                process.send(&ToHost::AttributeValue { outcome })?;
            }
            FromHost::Entity { name } => {
                let info = callbacks.entity(&name);
                process.send(&info)?;
            }
            FromHost::Entities {} => {
                let names = callbacks.entities();
                process.send(&names)?;
            }
            FromHost::Instances { entity } => {
                let found = callbacks.instances(&entity);
                process.send(&found)?;
            }
            FromHost::Typedef { name } => {
                let info = callbacks.typedef(&name);
                process.send(&info)?;
            }
            FromHost::Validate { typedef, value } => {
                let outcome = callbacks.validate(&typedef, &value);
                process.send(&ToHost::AttributeValue { outcome })?;
            }
            FromHost::Locate { instance } => {
                let place = callbacks.place(instance);
                process.send(&place)?;
            }
            FromHost::Native {
                plugin,
                args,
                kwargs,
                identity,
            } => {
                let outcome = callbacks.native(&plugin, &args, &kwargs, identity);
                process.send(&ToHost::AttributeValue { outcome })?;
            }
            FromHost::Services { question } => {
                let found = callbacks.services(question);
                process.send(&found)?;
            }
            FromHost::Log { level, message } => callbacks.log(&level, &message),
            FromHost::Printed { line } => callbacks.print(&line),
            FromHost::WriteService { write } => callbacks.write_service(write),
            answer => return Ok(answer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the first of two contents with one MD5 (Wang and others, 2004), and where the other has another first bit.
    const ONE: &str = "d131dd02c5e6eec4693d9a0698aff95c2fcab58712467eab4004583eb8fb7f8955ad340609f4b30283e488832571415a085125e8f7cdc99fd91dbdf280373c5bd8823e3156348f5bae6dacd436c919c6dd53e2b487da03fd02396306d248cda0e99f33420f577ee8ce54b67080a80d1ec69821bcb6a8839396f9652b6ff72a70";
    const DIFFERENT: [usize; 6] = [19, 45, 59, 83, 109, 123];

    /// Input: two Python modules that were made to have one MD5, of which one has been compiled (docs/reference/security.md § 3.38). Answer: they are two; the second is not given what the first one declared.
    #[test]
    fn modules_that_were_made_alike_are_two() {
        let digit = |at: usize| u8::from_str_radix(&ONE[at..at + 2], 16).unwrap();
        let one: Vec<u8> = (0..ONE.len()).step_by(2).map(digit).collect();
        let mut other = one.clone();
        for at in DIFFERENT {
            other[at] ^= 0x80;
        }
        assert_eq!(md5_of(&one), md5_of(&other));
        let dir = tempfile::tempdir().unwrap();
        let digest_of = |content: &[u8]| {
            let path = dir.path().join("plugins.py");
            std::fs::write(&path, content).unwrap();
            digest(path.to_str().unwrap()).unwrap()
        };
        assert_ne!(digest_of(&one), digest_of(&other));
    }

    fn md5_of(content: &[u8]) -> [u8; 16] {
        use md5::Digest as _;
        md5::Md5::digest(content).into()
    }
}
