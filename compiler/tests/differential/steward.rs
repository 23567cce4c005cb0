//! Our compiler, in this process.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::{Duration, SystemTime};

use steward_compiler::{
    AnswerStore, Compiled, Diagnostic, DirWorld, Inputs, Limits, MemWorld, Options, PythonRuntime,
    PythonSource, Severity, Tiling, compile, export_json,
};

use crate::answer::{Answer, Found, Outcome, base_name};
use crate::tree::{Case, VARIABLES};
use crate::warm;

/// No case is large: what takes longer does not end.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What does not end stops early, so that a run of hours keeps its memory.
const LIMITS: Limits = Limits {
    iterations: None,
    instances: 50_000,
    chain: 2_000,
    steps: 2_000_000,
    text_bytes: 1 << 26,
    memory_bytes: None,
};

fn world(case: &Case) -> MemWorld {
    let mut world = MemWorld::default();
    for (path, text) in case.rendered() {
        world = world.file(&path, &text);
    }
    for (name, value) in VARIABLES {
        world = world.variable(name, value);
    }
    world
}

fn options(case: &Case) -> Options {
    Options {
        limits: LIMITS,
        export: case.export,
        dump_model: true,
        // A server that knows no fact, which is how the reference runs beside it.
        inputs: Inputs {
            facts: Some(BTreeMap::new()),
            ..Inputs::default()
        },
        ..Options::default()
    }
}

/// All that our compiler makes of a case, and whether its steps ran in tiles to the end.
pub fn bytes(case: &Case, tiling: Tiling) -> (String, bool) {
    let world = world(case);
    let compiled = compile(
        &world,
        &Options {
            tiling,
            ..options(case)
        },
    );
    let text = format!(
        "{}{:#?}\n{:#?}\n{}",
        world.printed(),
        compiled.diagnostics,
        compiled.export,
        compiled.model.unwrap_or_default()
    );
    (text, compiled.ran_in_tiles)
}

/// A case with Python code is compiled on disk, with a real Python.
fn has_python(case: &Case) -> bool {
    case.files.iter().any(|(path, _)| path.ends_with(".py"))
}

fn run_in_memory(case: &Case) -> Answer {
    let world = world(case);
    let compiled = compile(&world, &options(case));
    answer(&compiled, world.printed())
}

fn run_on_disk(case: &Case) -> std::io::Result<Answer> {
    let directory = tempfile::Builder::new()
        .prefix("steward-oracle-")
        .tempdir()?;
    let project = directory.path().join("project");
    for (path, text) in case.rendered() {
        let path = project.join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(&project))?;
        std::fs::write(&path, text)?;
    }
    let printed = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&printed);
    let variables = VARIABLES
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let world = DirWorld::new(project.clone(), variables, move |line| {
        let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.push_str(line);
        sink.push('\n');
    });
    let options = Options {
        python: python(),
        ..options(case)
    };
    let run = |options: &Options| {
        let compiled = compile(&world, options);
        let mut printed = printed.lock().unwrap_or_else(PoisonError::into_inner);
        answer(&compiled, std::mem::take(&mut *printed))
    };
    let found = run(&options);
    // What is known from an earlier compile changes nothing.
    make_old(&project)?;
    let options = Options {
        declarations: Some(Arc::new(Kept::default())),
        ..options
    };
    for time in ["first", "second"] {
        let kept = run(&options);
        let is_same = without_addresses(&kept) == without_addresses(&found);
        assert!(
            is_same,
            "the {time} compile that keeps what it learns differs: {kept:#?}\n{found:#?}\n{}",
            case.listing()
        );
    }
    Ok(found)
}

/// An answer as a text, but for the addresses of Python objects and of instances that some messages show: which instances a
/// plugin has made before the error depends on how far the calls that went ahead had come.
fn without_addresses(answer: &Answer) -> String {
    let text = format!("{answer:?}").replace(" 7f00", " 0x7f00");
    let mut parts = text.split("0x");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |before, part| {
        before + part.trim_start_matches(|letter: char| letter.is_ascii_hexdigit())
    })
}

/// What compiles keep, in memory.
#[derive(Debug, Default)]
struct Kept(Mutex<BTreeMap<String, Vec<u8>>>);

impl Kept {
    fn all(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AnswerStore for Kept {
    fn get(&self, digest: &str) -> Option<Vec<u8>> {
        self.all().get(digest).cloned()
    }

    fn put(&self, digest: &str, answer: &[u8]) {
        self.all().insert(digest.to_owned(), answer.to_owned());
    }

    fn remove(&self, digest: &str) {
        self.all().remove(digest);
    }
}

/// As if the files had been there for long: of those that were written just now nothing is kept.
fn make_old(directory: &Path) -> std::io::Result<()> {
    let before = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            make_old(&path)?;
        } else {
            std::fs::File::options()
                .write(true)
                .open(&path)?
                .set_modified(before)?;
        }
    }
    std::fs::File::open(directory)?.set_modified(before)
}

/// `STEWARD_PYTHON`, else the `python3` of the path, with our package for it.
fn python() -> PythonSource {
    static INTERPRETER: OnceLock<std::ffi::OsString> = OnceLock::new();
    let interpreter = INTERPRETER.get_or_init(|| {
        std::env::var_os("STEWARD_PYTHON").unwrap_or_else(|| {
            // What is on the path may be a script that chooses one, with which nothing is kept.
            let asked = std::process::Command::new("python3")
                .args(["-c", "import sys; print(sys.executable)"])
                .output();
            let asked = asked.map(|asked| String::from_utf8_lossy(&asked.stdout).trim().to_owned());
            asked.unwrap_or_else(|_| "python3".to_owned()).into()
        })
    });
    let mut runtime = PythonRuntime {
        interpreter: interpreter.clone().into(),
        package: Path::new(env!("CARGO_MANIFEST_DIR")).join("../python"),
        files: None,
        launcher: Default::default(),
    };
    runtime.launcher = warm::launcher(&runtime);
    PythonSource::At(runtime)
}

/// What our compiler makes of a case.
pub fn run(case: &Case) -> Answer {
    let own = case.clone();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let answer = match has_python(&own) {
            true => run_on_disk(&own),
            false => Ok(run_in_memory(&own)),
        };
        let _ = sender.send(answer.unwrap_or_else(|error| panic!("no disk: {error}")));
    });
    receiver.recv_timeout(TIMEOUT).unwrap_or_else(|_| {
        // Its thread can not be stopped: whoever looks for what eats the memory finds it here.
        eprintln!("this does not end:\n{}", case.listing());
        Answer {
            outcome: Outcome::Timeout,
            output: String::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
            model: None,
            resources: None,
        }
    })
}

fn answer(compiled: &Compiled, output: String) -> Answer {
    let of_severity = |severity: Severity| -> Vec<Found> {
        let diagnostics = compiled.diagnostics.iter();
        let of_severity = diagnostics.filter(|diagnostic| diagnostic.severity == severity);
        of_severity.map(found).collect()
    };
    let errors = of_severity(Severity::Error);
    let outcome = if errors
        .iter()
        .any(|error| error.kind == "InvalidCompilerState")
    {
        Outcome::Crashed
    } else if errors.is_empty() {
        Outcome::Accepted
    } else {
        Outcome::Rejected
    };
    Answer {
        outcome,
        output,
        errors,
        warnings: of_severity(Severity::Warning),
        model: compiled
            .model
            .as_ref()
            .and_then(|model| serde_json::from_str(model).ok()),
        resources: compiled
            .export
            .as_ref()
            .and_then(|export| serde_json::from_str(&export_json(export)).ok()),
    }
}

fn found(diagnostic: &Diagnostic) -> Found {
    let location = diagnostic.location.as_ref();
    Found {
        kind: diagnostic.kind.clone(),
        message: diagnostic.message.clone(),
        file: location.map(|location| base_name(&location.file)),
        line: location.map(|location| u64::from(location.line)),
        causes: diagnostic.causes.iter().map(found).collect(),
    }
}
