//! What Python modules declare, kept between compiles: Python is started only when it is asked something, and whatever the
//! answer depends on is noticed when it changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use steward_compiler::{
    AnswerStore, Options, PythonLauncher, PythonRuntime, PythonSource, Severity, export_json,
};

use crate::disk::{Disk, interpreter, python_at};

/// Answers in memory.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<BTreeMap<String, Vec<u8>>>);

impl MemoryStore {
    pub fn options(options: &Options) -> Options {
        Options {
            declarations: Some(Arc::new(Self::default())),
            ..options.clone()
        }
    }

    fn damage(&self, damaged: impl Fn(&mut Vec<u8>)) {
        let mut answers = self.0.lock().expect("nobody panics here");
        answers.values_mut().for_each(damaged);
    }
}

impl AnswerStore for MemoryStore {
    fn get(&self, digest: &str) -> Option<Vec<u8>> {
        self.0
            .lock()
            .expect("nobody panics here")
            .get(digest)
            .cloned()
    }

    fn put(&self, digest: &str, answer: &[u8]) {
        let mut answers = self.0.lock().expect("nobody panics here");
        answers.insert(digest.to_owned(), answer.to_owned());
    }

    fn remove(&self, digest: &str) {
        self.0.lock().expect("nobody panics here").remove(digest);
    }
}

const MODULE: &str = "name: m\nversion: 1.0.0\nlicense: Apache-2.0\n";
const MODEL: &str = "entity Thing extends std::Resource:\n    string name\n    string agent\nend\n\
                     implement Thing using std::none\n";
/// Resources of a class with plain fields.
const THINGS: &str =
    "import m\nm::Thing(name=\"a\", agent=\"x\")\nm::Thing(name=\"b\", agent=\"y\")\n";
const CLASS: &str = "from inmanta.plugins import plugin\nfrom inmanta.resources import Resource, resource\n\n\
                     @resource(\"m::Thing\", id_attribute=\"name\", agent=\"agent\")\n\
                     class Thing(Resource):\n    fields = (\"name\",)\n\n\
                     @plugin\ndef shout(text: \"string\") -> \"string\":\n    return text.upper()\n\n";

/// [`CLASS`] with a plugin that has to be called, since it does more than compute, as far as anybody can see.
fn impure() -> String {
    CLASS.replace("text.upper()", "id(text) and text.upper()")
}

pub struct Case {
    disk: Disk,
    store: Arc<MemoryStore>,
    interpreter: PathBuf,
    variables: Vec<(String, String)>,
    /// Each start of Python writes a line here.
    starts: tempfile::NamedTempFile,
}

/// What a compile gives, and how often it started Python.
#[derive(Debug, PartialEq)]
pub struct Seen {
    pub export: String,
    pub printed: String,
    pub n_starts: usize,
}

impl Case {
    /// Damages all that is kept.
    pub fn damage(&self, damaged: impl Fn(&mut Vec<u8>)) {
        self.store.damage(damaged);
    }

    fn new(main: &str, plugins: &str) -> Self {
        let files = [
            ("project.yml", "name: kept\nmodulepath: libs\n"),
            ("main.cf", main),
            ("libs/m/module.yml", MODULE),
            ("libs/m/model/_init.cf", MODEL),
            ("libs/m/plugins/__init__.py", plugins),
        ];
        let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
        Self {
            disk: Disk::new(&files),
            store: Arc::default(),
            interpreter: interpreter(),
            variables: Vec::new(),
            starts: tempfile::NamedTempFile::new().expect("a file"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.disk.path().join(name)
    }

    /// Writes a file of the project. What was changed just now is not kept, so some time goes by.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder of the project");
        std::fs::write(path, text).expect("a file of the project");
        settle();
    }

    fn runtime(&self) -> PythonRuntime {
        let starts = self.starts.path().display();
        let script = format!("echo start >> '{starts}'; exec \"$@\"");
        let words = ["/bin/sh", "-c", &script, "sh"];
        PythonRuntime {
            launcher: PythonLauncher {
                words: words.map(Into::into).into(),
                variables: Vec::new(),
            },
            ..python_at(&self.interpreter)
        }
    }

    pub fn run(&self, keeps: bool) -> (Seen, steward_compiler::Compiled) {
        let n_starts = || {
            let text = std::fs::read_to_string(self.starts.path()).expect("a file");
            text.lines().count()
        };
        let before = n_starts();
        let options = Options {
            export: true,
            declarations: keeps.then(|| Arc::clone(&self.store) as Arc<dyn AnswerStore>),
            python: PythonSource::At(self.runtime()),
            ..Options::default()
        };
        let outcome = self.disk.run_once(&options, &self.variables);
        let export = outcome.compiled.export.as_ref();
        let seen = Seen {
            export: export.map(export_json).unwrap_or_default(),
            printed: outcome.printed,
            n_starts: n_starts() - before,
        };
        (seen, outcome.compiled)
    }

    /// Compiles it with what was kept; as a compile without, but with so many starts of Python.
    #[track_caller]
    pub fn check(&self, n_starts: usize) {
        let (kept, compiled) = self.run(true);
        assert!(compiled.succeeded(), "{:#?}", compiled.diagnostics);
        let (plain, without) = self.run(false);
        assert_eq!(kept.n_starts, n_starts, "starts of Python");
        assert_eq!(kept.export, plain.export);
        assert_eq!(kept.printed, plain.printed);
        assert_eq!(compiled.diagnostics, without.diagnostics);
        assert_eq!(compiled.plugin_output, without.plugin_output);
        assert_eq!(compiled.python_imports, without.python_imports);
    }

    /// What is kept counts until `change` happens.
    #[track_caller]
    fn notices(&self, change: impl FnOnce(&Self)) {
        let (_, compiled) = self.run(true);
        assert!(compiled.succeeded(), "{:#?}", compiled.diagnostics);
        self.check(0);
        change(self);
        self.check(1);
        self.check(0);
    }
}

/// What was written before is told from what is written after.
fn settle() {
    std::thread::sleep(Duration::from_millis(150));
}

/// A case whose files were written some time ago.
pub fn case(main: &str, plugins: &str) -> Case {
    let case = Case::new(main, plugins);
    settle();
    case
}

#[test]
fn python_is_not_started_for_resources_whose_fields_are_plain() {
    let case = case(THINGS, CLASS);
    case.check(1);
    case.check(0);
    let (seen, _) = case.run(true);
    assert!(
        seen.export.contains("m::Thing[x,name=a]"),
        "{}",
        seen.export
    );
}

#[test]
fn python_is_started_when_a_plugin_is_called_and_the_call_is_as_always() {
    let main = format!("{THINGS}std::print(m::shout(\"called\"))\n");
    let case = case(&main, &impure());
    for _ in 0..3 {
        case.check(1);
    }
    assert_eq!(case.run(true).0.printed, "CALLED\n");
}

#[test]
fn python_is_started_for_the_call_that_nobody_saw_coming() {
    // A template calls the plugin.
    let main = "import m\nstd::print(std::template(\"m/t.j2\"))\n";
    let case = case(main, CLASS);
    std::fs::create_dir_all(case.path("libs/m/templates")).expect("a folder");
    case.write("libs/m/templates/t.j2", "{{ 'seen' | m.shout }}");
    case.check(1);
    case.check(0);
    case.write("libs/m/templates/t.j2", "{{ 'seen too' | m.shout }}");
    case.check(1);
    case.check(0);
    case.write("libs/m/templates/t.j2", "{{ 'seen' | m.shout }}");
    case.check(1);
    assert_eq!(case.run(true).0.printed, "SEEN\n");
}

#[test]
fn python_that_was_started_ahead_and_not_asked_does_not_hold_up_the_compile() {
    // Nobody evaluates conditions ahead, so the call looks as if it were made.
    let main = format!("{THINGS}if 1 > 2:\n    std::print(m::shout(\"never\"))\nend\n");
    let case = case(&main, &format!("import time\ntime.sleep(3)\n{CLASS}"));
    let (first, _) = case.run(true);
    let started = std::time::Instant::now();
    let (second, compiled) = case.run(true);
    assert!(compiled.succeeded(), "{:#?}", compiled.diagnostics);
    assert!(
        started.elapsed() < Duration::from_millis(2500),
        "it waited for the import"
    );
    assert_eq!(
        (second.export, second.printed),
        (first.export, first.printed)
    );
}

#[test]
fn python_is_started_for_a_field_that_a_class_computes() {
    let computing = CLASS.replace(
        "fields = (\"name\",)\n",
        "fields = (\"name\", \"long\")\n\n    @staticmethod\n    def get_long(exporter, thing):\n        return str(exporter and thing.name * 3)\n",
    );
    let case = case(THINGS, &computing);
    case.check(1);
    case.check(1);
    assert!(case.run(true).0.export.contains("aaa"));
    // Nothing of this class is made.
    case.write("main.cf", "import m\n");
    case.check(0);
}

#[test]
fn a_module_file_that_changes_is_noticed() {
    let case = case(THINGS, CLASS);
    case.notices(|case| {
        let changed = CLASS.replace("(\"name\",)", "(\"name\", \"agent\")");
        case.write("libs/m/plugins/__init__.py", &changed);
    });
    assert!(case.run(true).0.export.contains("\"agent\": \"x\""));
    case.notices(|case| case.write("libs/m/plugins/more.py", "MORE = 1\n"));
}

#[test]
fn a_file_of_another_package_is_noticed_when_it_comes_changes_and_goes() {
    let plugins = format!(
        "import os, sys\nsys.path.append(os.path.join(os.path.dirname(__file__), '..', 'beside'))\n\
         try:\n    from helper import FIELDS\nexcept ImportError:\n    FIELDS = ('name',)\n{}",
        CLASS.replace("(\"name\",)", "FIELDS")
    );
    let case = case(THINGS, &plugins);
    std::fs::create_dir(case.path("libs/m/beside")).expect("a folder");
    settle();
    case.notices(|case| case.write("libs/m/beside/helper.py", "FIELDS = ('name', 'agent')\n"));
    assert!(case.run(true).0.export.contains("\"agent\": \"x\""));
    case.notices(|case| case.write("libs/m/beside/helper.py", "FIELDS = ('name',)\n#"));
    case.notices(|case| {
        std::fs::remove_file(case.path("libs/m/beside/helper.py")).expect("it is there");
        settle();
    });
}

#[test]
fn data_that_the_import_reads_lists_or_looks_for_are_noticed() {
    let plugins = format!(
        "import os\nHERE = os.path.dirname(__file__)\n\
         FIELDS = open(os.path.join(HERE, 'fields.txt')).read().split()\n\
         if os.path.exists(os.path.join(HERE, 'more.txt')):\n    FIELDS.append('agent')\n\
         FIELDS += [name[:-6] for name in os.listdir(os.path.join(HERE, 'data')) if name.endswith('.field')]\n{}",
        CLASS.replace("(\"name\",)", "tuple(dict.fromkeys(FIELDS))")
    );
    let case = case(THINGS, &plugins);
    std::fs::create_dir(case.path("libs/m/plugins/data")).expect("a folder");
    case.write("libs/m/plugins/fields.txt", "name");
    case.notices(|case| case.write("libs/m/plugins/fields.txt", "name agent"));
    case.notices(|case| case.write("libs/m/plugins/fields.txt", "name"));
    case.notices(|case| case.write("libs/m/plugins/more.txt", ""));
    case.notices(|case| case.write("libs/m/plugins/data/agent.field", ""));
}

#[test]
fn a_variable_that_changes_is_noticed() {
    let plugins = format!(
        "import os\nFIELDS = os.environ.get('FIELDS', 'name').split()\n{}",
        CLASS.replace("(\"name\",)", "tuple(FIELDS)")
    );
    let mut case = case(THINGS, &plugins);
    case.check(1);
    case.check(0);
    let variable = ("FIELDS".to_owned(), "name agent".to_owned());
    case.variables.push(variable);
    case.check(1);
    case.check(0);
    assert!(case.run(true).0.export.contains("\"agent\": \"x\""));
    case.variables.clear();
    case.check(0);
    // A shell counts its commands.
    case.variables
        .push(("OLDPWD".to_owned(), "/elsewhere".to_owned()));
    case.check(0);
}

#[test]
fn another_interpreter_is_asked_itself() {
    let mut case = case(THINGS, CLASS);
    case.check(1);
    case.check(0);
    let environment = tempfile::tempdir().expect("a folder");
    let program = environment.path().join("bin/python");
    std::fs::create_dir(environment.path().join("bin")).expect("a folder");
    let real = std::fs::canonicalize(&case.interpreter).expect("a Python");
    let home = real.parent().expect("it is in a folder").to_owned();
    std::os::unix::fs::symlink(&real, &program).expect("a link");
    std::fs::write(
        environment.path().join("pyvenv.cfg"),
        format!("home = {}\n", home.display()),
    )
    .expect("a file");
    case.interpreter = program;
    case.check(1);
}

#[test]
fn a_damaged_answer_is_asked_for_again() {
    let case = case(THINGS, CLASS);
    case.check(1);
    for damage in [
        |answer: &mut Vec<u8>| answer.clear(),
        |answer: &mut Vec<u8>| answer.truncate(answer.len() / 2),
        |answer: &mut Vec<u8>| answer.fill(0xc1),
        |answer: &mut Vec<u8>| answer.rotate_left(1),
    ] {
        case.store.damage(damage);
        case.check(1);
        case.check(0);
    }
}

#[test]
fn an_import_that_somebody_could_notice_happens_each_time() {
    let noticed = [
        "print('imported')",
        "import sys; print('imported', file=sys.stderr)",
        "import os; os.write(2, b'imported\\n')",
        "import warnings; warnings.warn('imported')",
        "import logging; logging.getLogger('m').warning('imported')",
        "open(__file__ + '.imported', 'a').close()",
        "import os; os.utime(__file__)",
        "import subprocess; subprocess.run(['true'])",
        "import os; os.system('true')",
        "import socket; socket.gethostbyname('localhost')",
        "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "open('/proc/self/stat').read()",
        "import ctypes; ctypes.CDLL('libc.so.6').getpid()",
        "import os, stat; os.mkfifo(__file__ + '.fifo') if not os.path.exists(__file__ + '.fifo') else None",
        "from inmanta import compiler\ncompiler.finalizer(lambda: print('end'))",
        "from inmanta import export\nexport.dependency_manager(lambda model, resources: None)",
    ];
    for code in noticed {
        let case = case(THINGS, &format!("{code}\n{CLASS}"));
        for _ in 0..2 {
            let (seen, compiled) = case.run(true);
            assert!(compiled.succeeded(), "{code}: {:#?}", compiled.diagnostics);
            assert_eq!(seen.n_starts, 1, "{code}");
            let (plain, without) = case.run(false);
            assert_eq!(
                (seen.export, seen.printed),
                (plain.export, plain.printed),
                "{code}"
            );
            assert_eq!(compiled.plugin_output, without.plugin_output, "{code}");
        }
    }
}

#[test]
fn what_packages_do_when_they_are_imported_is_no_reason_to_import_them_again() {
    let harmless = [
        "import logging, dataclasses, typing, ipaddress, json, re, functools, shutil, tempfile, uuid, ctypes",
        "import pathlib; HERE = pathlib.Path(__file__).resolve().parent",
        "import os; os.environ['M_IS_LOADED'] = '1'",
        "import importlib.metadata; importlib.metadata.distributions()",
        "import enum, asyncio, concurrent.futures, urllib.request, subprocess, socket, ssl",
        "try:\n    import nowhere_to_be_found\nexcept ImportError:\n    pass",
        "from inmanta.agent.handler import CRUDHandler, provider\n\
         import logging\nLOGGER = logging.getLogger(__name__)\nLOGGER.debug('imported')",
    ];
    for code in harmless {
        let case = case(THINGS, &format!("{code}\n{CLASS}"));
        let n_starts: Vec<usize> = (0..2).map(|_| case.run(true).0.n_starts).collect();
        assert_eq!(n_starts, [1, 0], "{code}");
    }
}

#[test]
fn a_module_that_declares_something_else_each_time_is_found_out() {
    let class = impure();
    let plugins = format!(
        "import uuid\n{class}\n@plugin(\"at_\" + uuid.uuid4().hex)\ndef at() -> \"int\":\n    return 1\n"
    );
    let main = format!("{THINGS}std::print(m::shout(\"right\"))\n");
    let case = case(&main, &plugins);
    let (first, _) = case.run(true);
    let (second, compiled) = case.run(true);
    assert!(compiled.succeeded(), "{:#?}", compiled.diagnostics);
    assert_eq!(second.export, first.export);
    assert_eq!(second.printed, "RIGHT\n");
    assert_eq!(
        second.n_starts, 2,
        "once for the call, and once for the compile that began again"
    );
}

#[test]
fn a_module_that_can_not_be_imported_any_more_is_told_of() {
    let case = case(THINGS, CLASS);
    case.check(1);
    case.write("libs/m/plugins/__init__.py", "raise ValueError('broken')\n");
    for _ in 0..2 {
        let (_, compiled) = case.run(true);
        let mut errors = compiled.diagnostics.iter();
        let error = errors.find(|found| found.severity == Severity::Error);
        assert!(error.is_some_and(|error| error.message.contains("broken")));
    }
    case.write("libs/m/plugins/__init__.py", CLASS);
    case.check(0);
}

#[test]
fn a_file_that_was_changed_just_now_is_looked_at_again() {
    let plugins = format!(
        "import os\nFIELDS = open(os.path.join(os.path.dirname(__file__), 'fields.txt')).read().split()\n{}",
        CLASS.replace("(\"name\",)", "tuple(FIELDS)")
    );
    let case = case(THINGS, &plugins);
    let file: &Path = &case.path("libs/m/plugins/fields.txt");
    std::fs::write(file, "name").expect("a file");
    // Within a tick of the clock the file could change again, and look the same.
    let (first, _) = case.run(true);
    assert_eq!(first.n_starts, 1);
    settle();
    case.check(1);
    case.check(0);
}
