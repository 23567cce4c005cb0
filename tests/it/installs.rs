//! Modules that real build backends install in a virtual environment, in every way that each of them has, and compiles that
//! find them there. `STEWARD_BUILDERS` is a Python with the backends, flit and uv; nothing is asked of a network.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::harness::{finish, skip, steward};

const SETUP: &str = "[metadata]\nname = inmanta-module-hello\nversion = 1.2.3\nlicense = X\n";
const PACKAGES: &str = "[options]\npackages = find_namespace:\ninclude_package_data = True\n[options.packages.find]\ninclude = inmanta_plugins*\n";
const PROJECT: &str = "[project]\nname = \"inmanta-module-hello\"\nversion = \"1.2.3\"\ndescription = \"x\"\nauthors = [{name = \"x\", email = \"x@example.org\"}]\n";
const PLUGIN: &str = "from inmanta.plugins import plugin\nfrom . import other\n@plugin\ndef where() -> \"string\":\n    return other.NAME\n";

/// A build backend, and what a module says to it.
struct Backend {
    name: &'static str,
    requires: &'static str,
    more: &'static str,
    /// Of `setup.cfg`, beside the metadata.
    setup: &'static str,
}

const SETUPTOOLS: Backend = Backend {
    name: "setuptools.build_meta",
    requires: "setuptools",
    more: "",
    setup: PACKAGES,
};
const HATCH: Backend = Backend {
    name: "hatchling.build",
    requires: "hatchling",
    more: "[tool.hatch.build.targets.wheel]\npackages = [\"inmanta_plugins\"]\n",
    setup: "",
};
const POETRY: Backend = Backend {
    name: "poetry.core.masonry.api",
    requires: "poetry-core",
    more: "[tool.poetry]\npackages = [{include = \"inmanta_plugins\"}]\n",
    setup: "",
};
const PDM: Backend = Backend {
    name: "pdm.backend",
    requires: "pdm-backend",
    more: "[tool.pdm.build]\nincludes = [\"inmanta_plugins\"]\n",
    setup: "",
};
const FLIT: Backend = Backend {
    name: "flit_core.buildapi",
    requires: "flit_core",
    more: "[tool.flit.module]\nname = \"inmanta_plugins.hello\"\n",
    setup: "",
};
const UV: Backend = Backend {
    name: "uv_build",
    requires: "uv_build",
    more: "[tool.uv.build-backend]\nmodule-name = \"inmanta_plugins.hello\"\nmodule-root = \"\"\n",
    setup: "",
};

/// Where the model lies.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    /// Beside the packages, as an author has it.
    Beside,
    /// In the package, as a built module has it.
    Inside,
}

/// A project with an environment of its own, and the sources of a module.
struct Lab {
    dir: TempDir,
    builders: PathBuf,
}

impl Lab {
    fn new(backend: &Backend, layout: Layout) -> Option<Self> {
        let Some(builders) = std::env::var_os("STEWARD_BUILDERS") else {
            skip("STEWARD_BUILDERS, a Python with build backends");
            return None;
        };
        let lab = Self {
            dir: tempfile::tempdir().unwrap(),
            builders: builders.into(),
        };
        lab.write("project.yml", "name: test\nmodulepath: libs\n");
        lab.write(
            "main.cf",
            "import hello\nstd::print(hello::where())\nstd::print(hello::text)\n",
        );
        lab.sources(backend, layout);
        let mut command = Command::new(&lab.builders);
        command.args(["-m", "venv", "--without-pip"]);
        good(finish(lab.with(command, &[&lab.path(".env")])));
        Some(lab)
    }

    fn with(&self, mut command: Command, arguments: &[&Path]) -> Command {
        command.args(arguments).current_dir(self.dir.path());
        command
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn sources(&self, backend: &Backend, layout: Layout) {
        let Backend {
            name,
            requires,
            more,
            setup,
        } = backend;
        let project = if setup.is_empty() { PROJECT } else { "" };
        let system = format!(
            "[build-system]\nrequires = [\"{requires}\"]\nbuild-backend = \"{name}\"\n{project}{more}"
        );
        self.write("the sources/pyproject.toml", &system);
        self.write("the sources/setup.cfg", &format!("{SETUP}{setup}"));
        self.write("the sources/MANIFEST.in", "graft inmanta_plugins\n");
        let package = "the sources/inmanta_plugins/hello";
        self.write(&format!("{package}/__init__.py"), PLUGIN);
        self.write(&format!("{package}/other.py"), "NAME = \"python\"\n");
        let root = match layout {
            Layout::Beside => "the sources",
            Layout::Inside => {
                self.write(&format!("{package}/setup.cfg"), SETUP);
                package
            }
        };
        self.write(
            &format!("{root}/model/_init.cf"),
            "import hello::sub\ntext = hello::sub::text\n",
        );
        self.write(&format!("{root}/model/sub.cf"), "text = \"model\"\n");
    }

    /// Runs a tool of the builders' Python in the environment, with the backends beside it.
    fn install(&self, words: &[&str]) {
        let python = self.path(".env/bin/python");
        let backends = Command::new(&self.builders)
            .args([
                "-c",
                "import sysconfig; print(sysconfig.get_path('purelib'))",
            ])
            .output()
            .unwrap();
        let backends = String::from_utf8(backends.stdout).unwrap();
        let programs = self.builders.parent().unwrap();
        let (program, words): (PathBuf, Vec<OsString>) = match words[0] {
            "pip" => (
                python.clone(),
                [&["-m"], words]
                    .concat()
                    .iter()
                    .map(OsString::from)
                    .collect(),
            ),
            tool => (
                programs.join(tool),
                words[1..].iter().map(OsString::from).collect(),
            ),
        };
        let path = std::env::var_os("PATH").unwrap();
        let path = std::iter::once(programs.to_owned()).chain(std::env::split_paths(&path));
        let mut command = Command::new(program);
        command
            .args(words)
            .current_dir(self.path("the sources"))
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("PYTHONPATH", backends.trim())
            .env("VIRTUAL_ENV", self.path(".env"))
            .env("FLIT_ROOT_INSTALL", "1")
            .env("UV_CACHE_DIR", self.path("cache"));
        if program_is_flit(&command) {
            command.arg("--python").arg(&python);
        }
        good(finish(command));
    }

    fn compiled(&self) -> Output {
        let mut command = steward();
        command
            .arg("compile")
            .env("XDG_CACHE_HOME", self.path("kept"));
        finish(self.with(command, &[]))
    }
}

fn program_is_flit(command: &Command) -> bool {
    Path::new(command.get_program()).ends_with("flit")
}

#[track_caller]
fn good(output: Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

const PIP: [&str; 7] = [
    "pip",
    "install",
    "--quiet",
    "--disable-pip-version-check",
    "--no-index",
    "--no-deps",
    "--no-build-isolation",
];
const UV_PIP: [&str; 6] = [
    "uv",
    "pip",
    "install",
    "--offline",
    "--no-deps",
    "--no-build-isolation",
];

/// Installs the module in one way after the other, each in an environment of its own.
#[track_caller]
fn check(backend: &Backend, ways: &[&[&str]]) {
    for layout in [Layout::Beside, Layout::Inside] {
        for way in ways {
            let Some(lab) = Lab::new(backend, layout) else {
                return;
            };
            lab.install(way);
            for _ in 0..2 {
                // The second time what Python has said is known.
                let output = lab.compiled();
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(output.status.success(), "{} {way:?}: {said}", backend.name);
                let printed = String::from_utf8(output.stdout).unwrap();
                assert_eq!(printed, "python\nmodel\n", "{} {way:?}", backend.name);
            }
        }
    }
}

fn in_place<'a>(tool: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [tool, more, &["--editable", "."]].concat()
}

#[test]
fn modules_of_setuptools_are_found_in_all_its_modes() {
    let compat = in_place(&PIP, &["--config-settings=editable_mode=compat"]);
    let strict = in_place(&PIP, &["--config-settings=editable_mode=strict"]);
    check(
        &SETUPTOOLS,
        &[
            &in_place(&PIP, &[]),
            &in_place(&UV_PIP, &[]),
            &compat,
            &strict,
        ],
    );
}

#[test]
fn modules_of_hatch_and_poetry_are_found_in_place() {
    check(&HATCH, &[&in_place(&PIP, &[]), &in_place(&UV_PIP, &[])]);
    check(&POETRY, &[&in_place(&PIP, &[]), &in_place(&UV_PIP, &[])]);
}

#[test]
fn modules_of_pdm_and_uv_are_found_in_place() {
    check(&PDM, &[&in_place(&PIP, &[]), &in_place(&UV_PIP, &[])]);
    check(&UV, &[&in_place(&PIP, &[]), &in_place(&UV_PIP, &[])]);
}

#[test]
fn modules_of_flit_are_found_by_path_and_by_link() {
    let link: &[&str] = &["flit", "install", "--symlink", "--deps=none"];
    let path: &[&str] = &["flit", "install", "--pth-file", "--deps=none"];
    check(&FLIT, &[&in_place(&PIP, &[]), link, path]);
}

#[test]
fn modules_are_found_in_wheels_of_every_backend_and_refused_without_a_model() {
    for backend in [SETUPTOOLS, HATCH, POETRY, PDM, FLIT, UV] {
        let Some(lab) = Lab::new(&backend, Layout::Inside) else {
            return;
        };
        let whole = [&PIP[..], &["."]].concat();
        lab.install(&whole);
        assert_eq!(good(lab.compiled()), "python\nmodel\n", "{}", backend.name);
        // The package alone is no module, as the reference finds, too.
        let lab = Lab::new(&backend, Layout::Beside).unwrap();
        lab.install(&whole);
        let output = lab.compiled();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{}: {said}", backend.name);
        assert!(said.contains("inmanta module build"), "{said}");
    }
}

/// A module that another one of the model imports for its code alone need not be part of the model.
#[test]
fn python_code_of_modules_in_place_is_imported_by_others() {
    let Some(lab) = Lab::new(&SETUPTOOLS, Layout::Beside) else {
        return;
    };
    lab.install(&in_place(&PIP, &[]));
    lab.write(
        "libs/user/module.yml",
        "name: user\nversion: 1.0\nlicense: X\n",
    );
    lab.write("libs/user/model/_init.cf", "std::print(name())\n");
    lab.write(
        "libs/user/plugins/__init__.py",
        "from inmanta.plugins import plugin\nfrom inmanta_plugins.hello import other\nimport inmanta_plugins.unseen\n@plugin\ndef name() -> \"string\":\n    return other.NAME + inmanta_plugins.unseen.NAME\n",
    );
    lab.write(
        "libs/unseen/module.yml",
        "name: unseen\nversion: 1.0\nlicense: X\n",
    );
    lab.write("libs/unseen/model/_init.cf", "");
    lab.write(
        "libs/unseen/plugins/__init__.py",
        "NAME = \" and unseen\"\n",
    );
    lab.write("main.cf", "import user\n");
    assert_eq!(good(lab.compiled()), "python and unseen\n");
}

/// `pip install -e .` in an environment that is active, and `python -m inmanta.app compile`: no project has an environment.
#[test]
fn the_python_that_runs_lends_its_modules_to_projects_without_an_environment() {
    let Some(lab) = Lab::new(&SETUPTOOLS, Layout::Beside) else {
        return;
    };
    lab.install(&in_place(&PIP, &[]));
    fs::rename(lab.path(".env"), lab.path("elsewhere")).unwrap();
    let python = lab.path("elsewhere/bin/python");
    let mut command = Command::new(&python);
    command
        .args(["-m", "inmanta.app", "compile"])
        .env(
            "PYTHONPATH",
            Path::new(env!("CARGO_MANIFEST_DIR")).join("python"),
        )
        .env("STEWARD_PROGRAM", env!("CARGO_BIN_EXE_steward"))
        .env("XDG_CACHE_HOME", lab.path("kept"))
        .env_remove("STEWARD_PYTHON");
    assert_eq!(good(finish(lab.with(command, &[]))), "python\nmodel\n");
    // The environment is active.
    let mut command = steward();
    let path = std::env::var_os("PATH").unwrap();
    let programs = std::iter::once(lab.path("elsewhere/bin")).chain(std::env::split_paths(&path));
    command
        .arg("compile")
        .env("PATH", std::env::join_paths(programs).unwrap())
        .env("XDG_CACHE_HOME", lab.path("kept"))
        .env_remove("STEWARD_PYTHON");
    assert_eq!(good(finish(lab.with(command, &[]))), "python\nmodel\n");
}

/// A module of the Python that runs comes before one that is built in, however that Python is named.
#[test]
fn a_module_of_the_named_python_comes_before_a_built_in_one_of_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let python = std::env::var("STEWARD_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut make = Command::new(python);
    make.args(["-m", "venv", "--without-pip"])
        .arg(dir.path().join("venv"));
    assert!(make.status().unwrap().success());
    let python = dir.path().join("venv/bin/python");
    let mut ask = Command::new(&python);
    ask.args([
        "-c",
        "import sysconfig; print(sysconfig.get_path('purelib'), end='')",
    ]);
    let packages = String::from_utf8(ask.output().unwrap().stdout).unwrap();
    let module = Path::new(&packages).join("inmanta_plugins/fs");
    fs::create_dir_all(module.join("model")).unwrap();
    fs::write(module.join("__init__.py"), "").unwrap();
    fs::write(
        module.join("setup.cfg"),
        "[metadata]\nname = inmanta-module-fs\nversion = 9.0.0\nlicense = none\n",
    )
    .unwrap();
    fs::write(
        module.join("model/_init.cf"),
        "std::print(\"of the Python\")\n",
    )
    .unwrap();
    let project = dir.path().join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("project.yml"), "name: test\n").unwrap();
    fs::write(project.join("main.cf"), "import fs\n").unwrap();
    let compile = || {
        let mut command = steward();
        command
            .arg("compile")
            .current_dir(&project)
            .env("XDG_CACHE_HOME", dir.path().join("kept"))
            .env_remove("STEWARD_PYTHON");
        command
    };
    let mut by_option = compile();
    by_option.arg("--python").arg(&python);
    assert_eq!(good(finish(by_option)), "of the Python\n");
    let mut by_variable = compile();
    by_variable.env("STEWARD_PYTHON", &python);
    assert_eq!(good(finish(by_variable)), "of the Python\n");
    assert_eq!(good(finish(compile())), "");
}
