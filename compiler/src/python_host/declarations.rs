//! What the Python modules of a project declare, kept between compiles, so that Python is started only when somebody asks it
//! something.
//!
//! To start Python and to import the modules takes longer than most compiles. What comes of it (signatures of plugins, resource
//! classes and their fields, dataclasses) is the same as long as all is the same that it depends on. That is known in two
//! steps. The *question* is known before Python runs: the interpreter, our package, the variables, the modules' files by
//! content. Its digest is the name under which an answer is kept. What else the import *depends on* only the import tells
//! (`python/steward_host/dependencies.py`): files of other packages, folders that were searched, files that it read. It is kept
//! with the answer, with a stamp of each path, and the answer counts if all stamps are still the same.
//!
//! Nothing is kept of an import that did anything that somebody could notice: that wrote, printed, logged, or used a socket, a
//! process or a thread; nor where each compile asks Python something anyway (finalizers, dependency managers).
//!
//! What none of this sees (a module that throws a dice) shows when Python is started after all. Its answer is compared with the
//! kept one. If they differ, the answer is forgotten, and the compile begins again without it (see `compile_here`).

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::file_stamp::{self, FileStamp};
use crate::protocol::{self, Depends, FromHost, PythonModule, ToHost};
use crate::python_host::memo::Memo;
use crate::{CHANGING_VARIABLES, Options, PythonRuntime};

/// Where answers are kept between compiles, by a digest: a name of lower-case hexadecimal digits. Nothing there may fail: what
/// can not be kept is asked for again.
pub trait AnswerStore: std::fmt::Debug + Send + Sync {
    /// What was put under the digest last.
    fn get(&self, digest: &str) -> Option<Vec<u8>>;
    /// Keeps the bytes of an answer, in the place of what was there.
    fn put(&self, digest: &str, answer: &[u8]);
    /// Forgets an answer that turned out to be wrong.
    fn remove(&self, digest: &str);
}

/// The form of what is kept. Another one is another question.
const FORM: u32 = 3;

/// The state of a path on which an answer depends.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum PathState {
    Missing,
    /// A folder that nobody has listed: what is in it does not matter.
    Folder,
    Stamped(FileStamp),
}

#[derive(Serialize, Deserialize)]
struct Kept {
    read: Vec<(String, PathState)>,
    looked_at: Vec<(String, PathState)>,
    loaded: FromHost,
}

/// The place of one compile's answer.
#[derive(Debug, Clone)]
pub(in crate::python_host) struct Declarations {
    store: Arc<dyn AnswerStore>,
    digest: String,
    /// Before anything of the question was read.
    started: SystemTime,
    is_outdated: Arc<AtomicBool>,
    /// The digest of the answer and of all that it depends on, once that is known: what calls gave is kept with it.
    identity: Arc<OnceLock<[u8; 32]>>,
}

impl Declarations {
    /// `None`: the options keep nothing, or the question can not be told from others.
    pub(in crate::python_host) fn of(
        options: &Options,
        runtime: &PythonRuntime,
        request: &ToHost,
        is_outdated: &Arc<AtomicBool>,
    ) -> Option<Self> {
        let store = options.declarations.as_ref()?;
        let started = file_stamp::now();
        Some(Self {
            store: Arc::clone(store),
            digest: question(runtime, request)?,
            started,
            is_outdated: Arc::clone(is_outdated),
            identity: Arc::default(),
        })
    }

    /// The kept answer, if all that it depends on is as it was.
    pub(in crate::python_host) fn get(&self) -> Option<FromHost> {
        let bytes = self.store.get(&self.digest)?;
        let kept: Kept = protocol::decode(&bytes).ok()?;
        let is_same = |paths: &[(String, PathState)], state: fn(&str) -> PathState| {
            paths.iter().all(|(path, was)| state(path) == *was)
        };
        let is_valid = is_same(&kept.read, state_read) && is_same(&kept.looked_at, state_looked_at);
        is_valid.then(|| {
            let _ = self.identity.set(Sha256::digest(&bytes).into());
            kept.loaded
        })
    }

    /// What calls of plugins gave in earlier compiles with the same answer.
    pub(in crate::python_host) fn memo(&self) -> Memo {
        let kept = self.identity.get();
        let kept =
            kept.and_then(|identity| Some((self.store.get(&self.memo_digest())?, *identity)));
        kept.map_or_else(Memo::empty, |(bytes, identity)| {
            Memo::from_bytes(bytes, identity)
        })
    }

    /// Keeps what calls of plugins gave, if there is an answer with which it is kept.
    pub(in crate::python_host) fn keep_memo(&self, memo: &Memo) {
        let identity = self.identity.get();
        let bytes = identity.and_then(|identity| memo.to_bytes(*identity));
        if let Some(bytes) = bytes.filter(|_| !self.is_outdated.load(Ordering::Relaxed)) {
            self.store.put(&self.memo_digest(), &bytes);
        }
    }

    fn memo_digest(&self) -> String {
        hex(Sha256::digest(format!("memo of {}", self.digest)).into())
    }

    /// Keeps an answer, if all that it depends on is known and was the same while it was made. `false`: something had changed so
    /// shortly before that a change after it could go unnoticed; the same import can be kept a moment later.
    pub(in crate::python_host) fn keep(
        &self,
        runtime: &PythonRuntime,
        request: &ToHost,
        loaded: &FromHost,
    ) -> bool {
        let FromHost::Loaded {
            depends: Some(Depends { read, looked_at }),
            ..
        } = loaded
        else {
            return true;
        };
        let states = |paths: &[String], state: fn(&str) -> PathState| {
            let states = paths.iter().map(|path| (path.clone(), state(path)));
            states.collect::<Vec<_>>()
        };
        let kept = Kept {
            read: states(read, state_read),
            looked_at: states(looked_at, state_looked_at),
            loaded: declared(loaded.clone()),
        };
        let all = kept.read.iter().chain(&kept.looked_at);
        let is_settled = all
            .into_iter()
            .all(|(_, state)| state.is_settled(self.started));
        // A module's file may have changed since its content was read for the digest.
        if is_settled
            && question(runtime, request).as_ref() == Some(&self.digest)
            && let Ok(bytes) = rmp_serde::to_vec_named(&kept)
        {
            self.store.put(&self.digest, &bytes);
            let _ = self.identity.set(Sha256::digest(&bytes).into());
        }
        is_settled
    }

    /// Compares what Python says by now with what was kept; if it differs, the answer goes, and whoever compiles is told.
    pub(in crate::python_host) fn confirm(&self, kept: &FromHost, loaded: FromHost) -> bool {
        let is_same = declared(loaded) == *kept;
        if !is_same {
            self.store.remove(&self.digest);
            self.is_outdated.store(true, Ordering::Relaxed);
        }
        is_same
    }
}

/// An answer without what is of one process only.
fn declared(mut loaded: FromHost) -> FromHost {
    if let FromHost::Loaded {
        forks,
        read,
        depends,
        ..
    } = &mut loaded
    {
        *forks = false;
        read.clear();
        *depends = None;
    }
    loaded
}

impl PathState {
    fn is_settled(&self, now: SystemTime) -> bool {
        match self {
            Self::Missing | Self::Folder => true,
            Self::Stamped(stamp) => stamp.is_settled(now),
        }
    }
}

fn state_read(path: &str) -> PathState {
    FileStamp::of(Path::new(path)).map_or(PathState::Missing, PathState::Stamped)
}

fn state_looked_at(path: &str) -> PathState {
    match FileStamp::of(Path::new(path)) {
        None => PathState::Missing,
        Some(stamp) if stamp.is_folder() => PathState::Folder,
        Some(stamp) => PathState::Stamped(stamp),
    }
}

/// The digest of all that is known to count before Python runs. Nobody must be able to write two modules with one digest, of
/// which one is looked at and the other has answered before.
fn question(runtime: &PythonRuntime, request: &ToHost) -> Option<String> {
    let ToHost::LoadCompile {
        modules,
        project_dir,
        env,
        environment_id,
        // Modules whose import looks at them are not kept, and neither are those that look at changing variables.
        inputs: _,
        ..
    } = request
    else {
        return None;
    };
    let mut hasher = Sha256::new();
    let mut add = |part: &[u8]| crate::hash::add_part(&mut hasher, part);
    add(&FORM.to_be_bytes());
    add(env!("CARGO_PKG_VERSION").as_bytes());
    add(&interpreter(runtime)?);
    add(runtime.package.as_os_str().as_encoded_bytes());
    for word in &runtime.launcher.words {
        add(word.as_encoded_bytes());
    }
    for (name, value) in &runtime.launcher.variables {
        add(name.as_encoded_bytes());
        add(value.as_encoded_bytes());
    }
    add(std::env::current_dir().ok()?.as_os_str().as_encoded_bytes());
    add(project_dir.as_bytes());
    let mut env = env.clone();
    env.retain(|name, _| !is_of_shell(name) && !CHANGING_VARIABLES.contains(&name.as_str()));
    let rest = (modules, env, environment_id);
    add(&rmp_serde::to_vec(&rest).ok()?);
    let files = modules
        .iter()
        .flat_map(|module: &PythonModule| &module.files);
    for file in files {
        let content = crate::world::read_plain(&file.path).ok()?;
        add(&content);
    }
    Some(hex(hasher.finalize().into()))
}

fn hex(digest: [u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Variables in which a shell notes what it has just done. They are others for nearly each command, and say nothing to it.
pub fn is_of_shell(variable: &str) -> bool {
    matches!(variable, "_" | "OLDPWD" | "SHLVL")
}

/// Which interpreter it is. `None`: a script, which may choose one by anything.
fn interpreter(runtime: &PythonRuntime) -> Option<Vec<u8>> {
    let path = &runtime.interpreter;
    let mut start = [0; 2];
    let mut file = crate::plain_file::open(path).ok()?;
    std::io::Read::read_exact(&mut file, &mut start).ok()?;
    if start == *b"#!" {
        return None;
    }
    let environment = path.parent().and_then(Path::parent);
    let configuration = environment.map(|environment| environment.join("pyvenv.cfg"));
    let configuration = configuration.and_then(|path| FileStamp::of(&path));
    rmp_serde::to_vec(&(path, FileStamp::of(path)?, configuration)).ok()
}
