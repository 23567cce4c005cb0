//! Modules that are installed as packages, in every way in which their files lie.
//! Source: docs/reference/language.md § 11.3 and § 11.4.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use steward_compiler::{
    Compiled, DirWorld, LocatedPackages, MemWorld, Options, PackageQuestion, PythonPackages,
    PythonRuntime, Variables, compile, locate,
};

const SITE: &str = ".env/lib/python3.13/site-packages";
const SETUP: &str = "[metadata]\nname = inmanta-module-m\nversion = 1.2.0\nlicense = X\n";

/// A project that imports `m`, with these files.
fn compiled(files: &[(&str, &str)]) -> (Compiled, String) {
    let mut world = MemWorld::default()
        .file("project.yml", "name: case\nmodulepath: libs")
        .file("main.cf", "import m\nstd::print(m::where)");
    for (name, text) in files {
        world = world.file(name, text);
    }
    let compiled = compile(&world, &Options::default());
    (compiled, world.printed())
}

#[track_caller]
fn check_printed(files: &[(&str, &str)], wanted: &str) {
    let (compiled, printed) = compiled(files);
    assert!(compiled.succeeded(), "{:#?}", compiled.diagnostics);
    assert_eq!(printed, wanted);
}

/// The messages of the first error and what caused it.
#[track_caller]
fn refused(files: &[(&str, &str)]) -> String {
    let (compiled, printed) = compiled(files);
    assert!(!compiled.succeeded(), "it compiles and prints {printed}");
    compiled.diagnostics[0].to_json().to_string()
}

#[test]
fn an_installed_module_is_found_in_the_projects_environment() {
    for directory in [".env", ".venv", "venv"] {
        let package = format!("{directory}/lib/python3.12/site-packages/inmanta_plugins/m");
        check_printed(
            &[
                (&format!("{directory}/pyvenv.cfg"), ""),
                (&format!("{package}/__init__.py"), ""),
                (
                    &format!("{package}/model/_init.cf"),
                    "where = \"installed\"",
                ),
                (&format!("{package}/setup.cfg"), SETUP),
            ],
            "installed\n",
        );
    }
}

/// As `inmanta module build --byte-code` makes it.
#[test]
fn a_module_that_is_published_without_sources_is_found() {
    let package = format!("{SITE}/inmanta_plugins/m");
    check_printed(
        &[
            (&format!("{package}/__init__.pyc"), ""),
            (
                &format!("{package}/model/_init.cf"),
                "where = \"installed\"",
            ),
            (&format!("{package}/setup.cfg"), SETUP),
        ],
        "installed\n",
    );
}

#[test]
fn a_module_that_is_installed_in_place_is_found_by_the_path_file() {
    let sources = [
        ("/src/m/inmanta_plugins/m/__init__.py", ""),
        ("/src/m/model/_init.cf", "where = \"in place\""),
        ("/src/m/setup.cfg", SETUP),
    ];
    for text in [
        "# a comment\n/src/m\n",
        "\u{feff}/src/m/",
        "/nowhere\n/src/m  \n",
        "import _virtualenv\n/src/m",
    ] {
        let file = format!("{SITE}/__editable__.m.pth");
        check_printed(&[&sources[..], &[(&file, text)]].concat(), "in place\n");
    }
    // Python leaves files out that begin with a dot.
    let hidden = format!("{SITE}/.m.pth");
    refused(&[&sources[..], &[(&hidden, "/src/m\n")]].concat());
}

#[test]
fn a_path_file_may_name_a_folder_beside_it() {
    check_printed(
        &[
            (&format!("{SITE}/m.pth"), "more\n"),
            (&format!("{SITE}/more/inmanta_plugins/m/__init__.py"), ""),
            (
                &format!("{SITE}/more/inmanta_plugins/m/model/_init.cf"),
                "where = \"more\"",
            ),
        ],
        "more\n",
    );
}

#[test]
fn what_is_installed_counts_before_the_module_path_and_the_compile_says_so() {
    let package = format!("{SITE}/inmanta_plugins/m");
    let model = format!("{package}/model/_init.cf");
    let (initial, setup) = (
        format!("{package}/__init__.py"),
        format!("{package}/setup.cfg"),
    );
    let installed = [
        (initial.as_str(), ""),
        (model.as_str(), "where = \"installed\""),
        (setup.as_str(), SETUP),
        ("libs/m/model/_init.cf", "where = \"project\""),
    ];
    for (file, text, wanted) in [
        (
            "libs/m/module.yml",
            "name: m\nversion: 1.0.0",
            "Module m is installed as a V1 module and a V2 module: V1 will be ignored.",
        ),
        (
            "libs/m/setup.cfg",
            SETUP,
            "Module m is installed, and in the module path: libs/m is ignored.",
        ),
    ] {
        let (compiled, printed) = compiled(&[&installed[..], &[(file, text)]].concat());
        assert!(compiled.succeeded(), "{:#?}", compiled.diagnostics);
        assert_eq!(printed, "installed\n");
        let said: Vec<&str> = compiled
            .diagnostics
            .iter()
            .map(|found| found.message.as_str())
            .collect();
        assert_eq!(said, [wanted]);
    }
}

#[test]
fn the_version_of_a_module_is_that_of_its_package() {
    let package = format!("{SITE}/inmanta_plugins/m");
    let (initial, model) = (
        format!("{package}/__init__.py"),
        format!("{package}/model/_init.cf"),
    );
    let metadata = format!("{SITE}/inmanta_module_m-1.2.0.dist-info/METADATA");
    let required = "Metadata-Version: 2.1\nRequires-Dist: six\nRequires-Dist: inmanta-module-m>=2\n\nRequires-Dist: inmanta-module-m>=3\n";
    let installed = [
        (initial.as_str(), ""),
        (model.as_str(), "where = \"installed\""),
    ];
    let said = refused(&[&installed[..], &[(&metadata, required)]].concat());
    assert!(
        said.contains("inmanta-module-m>=2 on module m not fulfilled, now at version 1.2.0")
            && !said.contains(">=3"),
        "{said}"
    );
    let required = required.replace(">=2", "<2");
    check_printed(
        &[&installed[..], &[(&metadata, &required)]].concat(),
        "installed\n",
    );
}

#[test]
fn a_package_that_is_no_module_is_refused_with_the_reason() {
    let package = format!("{SITE}/inmanta_plugins/m");
    let said = refused(&[(&format!("{package}/other.py"), "")]);
    assert!(
        said.contains(
            "Package inmanta_plugins.m was installed but no __init__.py file could be found."
        ),
        "{said}"
    );
    let said = refused(&[(&format!("{package}/__init__.py"), "")]);
    assert!(
        said.contains("InvalidModuleException") && said.contains("inmanta module build"),
        "{said}"
    );
}

/// A virtual environment, and a Python that is asked as the program asks it; the questions are counted.
struct Lab {
    dir: tempfile::TempDir,
    python: Arc<Asked>,
}

struct Asked {
    runtime: PythonRuntime,
    n_questions: AtomicUsize,
    answers: Mutex<LocatedPackages>,
}

impl PythonPackages for Asked {
    fn locate(&self, question: PackageQuestion<'_>) -> Option<LocatedPackages> {
        assert!(question.digest.is_some());
        self.n_questions.fetch_add(1, Ordering::Relaxed);
        let mut names = question.others.to_vec();
        names.push(question.name.to_owned());
        let located = locate(&self.runtime, &names).unwrap();
        *self.answers.lock().unwrap() = located.clone();
        Some(located)
    }
}

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let interpreter = std::env::var_os("STEWARD_PYTHON").unwrap_or_else(|| "python3".into());
        let made = std::process::Command::new(interpreter)
            .args(["-m", "venv", "--without-pip"])
            .arg(dir.path().join(".env"))
            .status();
        assert!(made.unwrap().success());
        let runtime = PythonRuntime {
            interpreter: dir.path().join(".env/bin/python"),
            package: Path::new(env!("CARGO_MANIFEST_DIR")).join("../python"),
            files: None,
            launcher: Default::default(),
        };
        let python = Arc::new(Asked {
            runtime,
            n_questions: AtomicUsize::new(0),
            answers: Mutex::default(),
        });
        Self { dir, python }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn packages(&self) -> String {
        let lib = self.dir.path().join(".env/lib");
        let python = std::fs::read_dir(lib).unwrap().next().unwrap().unwrap();
        format!(
            ".env/lib/{}/site-packages",
            python.file_name().to_string_lossy()
        )
    }

    fn module(&self, root: &str, name: &str) {
        self.write(&format!("{root}/inmanta_plugins/{name}/__init__.py"), "");
        self.write(
            &format!("{root}/model/_init.cf"),
            &format!("std::print(\"{name} of {root}\")\n"),
        );
        self.write(
            &format!("{root}/setup.cfg"),
            &SETUP.replace("-m\n", &format!("-{name}\n")),
        );
    }

    /// What a project prints that imports these, and the number of questions.
    fn compiled(&self, names: &[&str]) -> (String, usize) {
        self.write("project.yml", "name: case\nmodulepath: libs");
        let imports: String = names
            .iter()
            .map(|name| format!("import {name}\n"))
            .collect();
        self.write("main.cf", &imports);
        let printed = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&printed);
        let world = DirWorld::new(self.dir.path().to_owned(), Variables::new(), move |line| {
            sink.lock().unwrap().push(line.to_owned());
        })
        .with_packages(None, self.python.clone());
        let options = Options {
            python: Some(self.python.runtime.clone()).into(),
            ..Options::default()
        };
        self.python.n_questions.store(0, Ordering::Relaxed);
        let compiled = compile(&world, &options);
        assert!(compiled.succeeded(), "{:#?}", compiled.diagnostics);
        let mut printed = std::mem::take(&mut *printed.lock().unwrap());
        printed.sort();
        let n_questions = self.python.n_questions.load(Ordering::Relaxed);
        (printed.join("\n"), n_questions)
    }
}

#[test]
fn python_is_asked_once_and_only_where_files_do_not_say_it_all() {
    let lab = Lab::new();
    let packages = lab.packages();
    lab.module("plain", "one");
    let plain = lab.dir.path().join("plain");
    lab.write(
        &format!("{packages}/plain.pth"),
        &format!("{}\nimport _virtualenv\n", plain.display()),
    );
    lab.write(&format!("{packages}/_virtualenv.py"), "");
    assert_eq!(lab.compiled(&["one"]), ("one of plain".to_owned(), 0));

    // A finder as an editable installation has it: no file says what it finds.
    lab.module("hidden", "two");
    lab.write("hidden/model/_init.cf", "std::print(\"hidden\")\n");
    lab.write(
        "libs/four/module.yml",
        "name: four\nversion: 1.0\nlicense: x\n",
    );
    lab.write("libs/four/model/_init.cf", "std::print(\"four\")\n");
    let hidden = lab.dir.path().join("hidden/inmanta_plugins");
    let finder = format!(
        "import sys\nfrom importlib.machinery import PathFinder\nclass Finder:\n    @classmethod\n    def find_spec(cls, name, path=None, target=None):\n        if name.startswith('inmanta_plugins.'):\n            return PathFinder.find_spec(name, [{:?}])\ndef install():\n    sys.meta_path.append(Finder)\n",
        hidden.display().to_string()
    );
    lab.write(&format!("{packages}/hidden_finder.py"), &finder);
    lab.write(
        &format!("{packages}/hidden.pth"),
        "import hidden_finder; hidden_finder.install()\n",
    );
    let (printed, n_questions) = lab.compiled(&["one", "two", "four"]);
    assert_eq!(printed, "four\nhidden\none of plain");
    // What stands in the module path was asked together with the first.
    assert!(n_questions <= 2, "{n_questions}");
    let answers = lab.python.answers.lock().unwrap();
    assert_eq!(answers.modules["four"], None);
}

/// An environment whose Python says nothing when it is asked: it is asked once, and what files say counts.
#[test]
fn a_python_that_does_not_answer_is_asked_once_in_a_compile() {
    struct Silent(AtomicUsize);
    impl PythonPackages for Silent {
        fn locate(&self, _: PackageQuestion<'_>) -> Option<LocatedPackages> {
            self.0.fetch_add(1, Ordering::Relaxed);
            None
        }
    }
    let lab = Lab::new();
    lab.write(
        &format!("{}/x.pth", lab.packages()),
        "import this_is_nowhere\n",
    );
    lab.write(
        "libs/one/module.yml",
        "name: one\nversion: 1.0\nlicense: x\n",
    );
    lab.write("libs/one/model/_init.cf", "import two\n");
    lab.write(
        "libs/two/module.yml",
        "name: two\nversion: 1.0\nlicense: x\n",
    );
    lab.write("libs/two/model/_init.cf", "");
    lab.write("project.yml", "name: case\nmodulepath: libs");
    lab.write("main.cf", "import one\n");
    let silent = Arc::new(Silent(AtomicUsize::new(0)));
    let world = DirWorld::new(lab.dir.path().to_owned(), Variables::new(), |_| {})
        .with_packages(None, silent.clone());
    let compiled = compile(&world, &Options::default());
    assert!(compiled.succeeded(), "{:#?}", compiled.diagnostics);
    assert_eq!(silent.0.load(Ordering::Relaxed), 1);
}

#[test]
fn a_module_is_no_longer_found_when_its_installation_is_gone() {
    let lab = Lab::new();
    let packages = lab.packages();
    lab.module("plain", "one");
    let file = lab.write(
        &format!("{packages}/plain.pth"),
        &lab.dir.path().join("plain").display().to_string(),
    );
    lab.write(
        "libs/one/module.yml",
        "name: one\nversion: 1.0\nlicense: x\n",
    );
    lab.write("libs/one/model/_init.cf", "std::print(\"older\")\n");
    assert_eq!(lab.compiled(&["one"]).0, "one of plain");
    std::fs::remove_file(file).unwrap();
    assert_eq!(lab.compiled(&["one"]).0, "older");
}
