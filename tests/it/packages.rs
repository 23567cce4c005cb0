//! Modules and packages of a project: `steward project`, `steward.lock`, and the environments of a server. Real pip, real
//! git, wheels made here; nothing is asked of a network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::environments::{Logged, configure};
use crate::harness::{Host, Repo, Running, events, finish, steward, wait_until};

const WHEEL: &str = include_str!("../../fixtures/packages/wheel.py");

/// A folder with wheels.
pub struct Wheels {
    dir: TempDir,
}

impl Wheels {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn wheel(&self, name: &str, version: &str, requires: &[&str], files: &[(String, String)]) {
        let mut command = Command::new("python3");
        command
            .args(["-c", WHEEL])
            .arg(self.path())
            .args([name, version]);
        command.args(requires).arg("--");
        command.args(files.iter().map(|(path, text)| format!("{path}={text}")));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// A module whose plugin says which version it is of.
    pub fn module(&self, name: &str, version: &str, requires: &[&str]) {
        let package = format!("inmanta_plugins/{name}");
        let files = module_files(name, version)
            .into_iter()
            .map(|(path, text)| (format!("{package}/{path}"), text));
        let files: Vec<(String, String)> = files.collect();
        let distribution = format!("inmanta-module-{}", name.replace('_', "-"));
        self.wheel(&distribution, version, requires, &files);
    }
}

fn module_files(name: &str, version: &str) -> Vec<(String, String)> {
    let setup = format!(
        "[metadata]\nname = inmanta-module-{}\nversion = {version}\nlicense = ASL 2.0\n",
        name.replace('_', "-")
    );
    let plugin = format!(
        "from inmanta.plugins import plugin\n\n@plugin\ndef version() -> \"string\":\n    return \"{version}\"\n"
    );
    vec![
        ("setup.cfg".to_owned(), setup),
        ("__init__.py".to_owned(), plugin),
        ("model/_init.cf".to_owned(), String::new()),
    ]
}

pub fn project(requires: &str, requirements: &str) -> Repo {
    let repo = Repo::new("import greet\nstd::print(greet::version())\n");
    repo.write(
        "project.yml",
        &format!("name: test\nrequires: [{requires}]\n"),
    );
    repo.write("requirements.txt", requirements);
    repo
}

pub fn run(project: &Path, arguments: &[&str], wheels: Option<&Wheels>) -> Output {
    let mut command = steward();
    command.args(arguments).arg("--project").arg(project);
    if let Some(wheels) = wheels {
        command
            .arg("--no-index")
            .arg("--find-links")
            .arg(wheels.path());
    }
    finish(command)
}

#[track_caller]
pub fn good(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
pub fn bad(output: Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn the_newest_that_fits_is_installed_and_locked_and_the_lock_is_kept_to() {
    let wheels = Wheels::new();
    wheels.module("base", "1.0", &[]);
    wheels.module("greet", "1.1", &["inmanta-module-base"]);
    wheels.module("greet", "2.0", &[]);
    let repo = project("greet < 2", "inmanta-module-greet\n");
    let said = good(run(repo.path(), &["project", "install"], Some(&wheels)));
    assert!(said.contains("inmanta-module-greet 1.1\n"), "{said}");
    assert!(said.contains("inmanta-module-base 1.0\n"), "{said}");
    assert_eq!(good(run(repo.path(), &["compile"], None)), "1.1\n");
    good(run(repo.path(), &["project", "verify"], None));

    // A newer one does not come by itself.
    wheels.module("greet", "1.2", &[]);
    let lock = fs::read_to_string(repo.path().join("steward.lock")).unwrap();
    fs::remove_dir_all(repo.path().join(".env")).unwrap();
    good(run(repo.path(), &["project", "install"], Some(&wheels)));
    assert_eq!(good(run(repo.path(), &["compile"], None)), "1.1\n");
    assert_eq!(
        fs::read_to_string(repo.path().join("steward.lock")).unwrap(),
        lock
    );
    good(run(repo.path(), &["project", "update"], Some(&wheels)));
    assert_eq!(good(run(repo.path(), &["compile"], None)), "1.2\n");

    // Other requirements than those of the lock.
    repo.write("requirements.txt", "inmanta-module-greet == 1.1\n");
    let told = bad(run(repo.path(), &["project", "install"], Some(&wheels)));
    assert!(told.contains("steward project update"), "{told}");
    let differences = run(repo.path(), &["project", "verify"], None);
    assert_eq!(differences.status.code(), Some(1), "{differences:?}");
}

#[test]
fn what_is_changed_after_it_was_installed_is_told() {
    let wheels = Wheels::new();
    wheels.module("greet", "1.0", &[]);
    let repo = project("", "inmanta-module-greet\n");
    good(run(repo.path(), &["project", "install"], Some(&wheels)));
    good(run(repo.path(), &["project", "verify"], None));
    let lock = fs::read_to_string(repo.path().join("steward.lock")).unwrap();
    let digest = lock.split("sha256: ").nth(1).unwrap();
    repo.write("steward.lock", &lock.replace(&digest[..8], "deadbeef"));
    let told = run(repo.path(), &["project", "verify"], None);
    assert_eq!(told.status.code(), Some(1), "{told:?}");
    assert!(format!("{told:?}").contains("something else"), "{told:?}");
    repo.write("steward.lock", &lock);
    let packages = fs::read_dir(repo.path().join(".env/lib")).unwrap();
    let packages = packages
        .flatten()
        .next()
        .unwrap()
        .path()
        .join("site-packages");
    let code = packages.join("inmanta_plugins/greet/__init__.py");
    fs::write(&code, fs::read_to_string(&code).unwrap() + "# more\n").unwrap();
    let told = run(repo.path(), &["project", "verify"], None);
    assert_eq!(told.status.code(), Some(1), "{told:?}");
    assert!(
        format!("{told:?}").contains("greet/__init__.py"),
        "{told:?}"
    );
}

#[test]
fn an_archive_that_is_not_the_locked_one_is_refused() {
    let wheels = Wheels::new();
    wheels.module("greet", "1.0", &[]);
    let repo = project("", "inmanta-module-greet\n");
    good(run(repo.path(), &["project", "install"], Some(&wheels)));
    // The same version with other content.
    wheels.module("greet", "1.0", &["inmanta-module-evil"]);
    fs::remove_dir_all(repo.path().join(".env")).unwrap();
    let told = bad(run(repo.path(), &["project", "install"], Some(&wheels)));
    assert!(told.to_lowercase().contains("hash"), "{told}");
}

#[test]
fn a_conflict_names_who_wants_what_and_nothing_changes() {
    let wheels = Wheels::new();
    wheels.module("base", "1.0", &[]);
    wheels.module("base", "2.0", &[]);
    wheels.module("greet", "1.0", &["inmanta-module-base<2"]);
    wheels.module("other", "1.0", &["inmanta-module-base>=2"]);
    let repo = project("", "inmanta-module-greet\ninmanta-module-other\n");
    let told = bad(run(repo.path(), &["project", "install"], Some(&wheels)));
    assert!(
        told.contains("inmanta-module-greet 1.0 depends on inmanta-module-base<2"),
        "{told}"
    );
    assert!(
        told.contains("inmanta-module-other 1.0 depends on inmanta-module-base>=2"),
        "{told}"
    );
    assert!(!repo.path().join("steward.lock").exists());
    repo.write("requirements.txt", "inmanta-module-nowhere\n");
    let told = bad(run(repo.path(), &["project", "install"], Some(&wheels)));
    assert!(told.contains("inmanta-module-nowhere"), "{told}");
    // Nowhere to install from. Source: docs/reference/language.md § 11.2.
    let told = bad(run(repo.path(), &["project", "install"], None));
    assert!(told.contains("pip.index-url"), "{told}");
}

/// A folder that builds itself into a module.
pub fn source_folder(at: &Path, version: &str) {
    let write = |path: &str, text: &str| {
        let path = at.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("wheel.py", WHEEL);
    write(
        "pyproject.toml",
        "[build-system]\nrequires = []\nbuild-backend = \"wheel\"\nbackend-path = [\".\"]\n",
    );
    let files = module_files("greet", version);
    let names: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    let package = serde_json::json!({
        "name": "inmanta-module-greet", "version": version, "prefix": "inmanta_plugins/greet", "files": names,
    });
    write("package.json", &package.to_string());
    for (path, text) in &files {
        write(path, text);
    }
}

#[test]
fn a_module_from_git_is_locked_to_its_commit() {
    let module = Repo::new("");
    source_folder(module.path(), "1.0");
    let first = module.commit("version 1.0");
    let wheels = Wheels::new();
    let url = format!("git+file://{}", module.path().display());
    let repo = project("", &format!("{url}@main\n"));
    good(run(repo.path(), &["project", "install"], Some(&wheels)));
    let lock = fs::read_to_string(repo.path().join("steward.lock")).unwrap();
    assert!(lock.contains(first.trim()), "{lock}");
    source_folder(module.path(), "1.5");
    module.commit("version 1.5");
    fs::remove_dir_all(repo.path().join(".env")).unwrap();
    good(run(repo.path(), &["project", "install"], Some(&wheels)));
    assert_eq!(good(run(repo.path(), &["compile"], None)), "1.0\n");
    good(run(repo.path(), &["project", "verify"], None));
    good(run(repo.path(), &["project", "update"], Some(&wheels)));
    assert_eq!(good(run(repo.path(), &["compile"], None)), "1.5\n");
}

#[test]
fn a_module_from_a_folder_is_locked_to_its_content() {
    let wheels = Wheels::new();
    let repo = project("", "./sources/greet\n");
    source_folder(&repo.path().join("sources/greet"), "1.0");
    good(run(repo.path(), &["project", "install"], Some(&wheels)));
    assert_eq!(good(run(repo.path(), &["compile"], None)), "1.0\n");
    source_folder(&repo.path().join("sources/greet"), "1.1");
    let told = bad(run(repo.path(), &["project", "install"], Some(&wheels)));
    assert!(told.contains("sources/greet"), "{told}");
    good(run(repo.path(), &["project", "update"], Some(&wheels)));
    assert_eq!(good(run(repo.path(), &["compile"], None)), "1.1\n");
}

/// An editable installation as setuptools makes it: only Python knows where its package is.
#[test]
fn a_module_in_place_is_found_by_commands_and_by_a_server() {
    let wheels = Wheels::new();
    let repo = project("", "--no-index\n-e ./sources/greet\n");
    let sources = repo.path().join("sources/greet");
    source_folder(&sources, "1.0");
    good(run(repo.path(), &["project", "install"], Some(&wheels)));
    let packages = fs::read_dir(repo.path().join(".env/lib")).unwrap();
    let packages = packages.flatten().next().unwrap().path();
    assert!(!packages.join("site-packages/inmanta_plugins").exists());
    assert_eq!(good(run(repo.path(), &["compile"], None)), "1.0\n");
    good(run(repo.path(), &["check"], None));
    // Its sources are what counts.
    let plugins = fs::read_to_string(sources.join("__init__.py")).unwrap();
    fs::write(
        sources.join("__init__.py"),
        plugins.replace("1.0", "1.0 and more"),
    )
    .unwrap();
    assert_eq!(good(run(repo.path(), &["compile"], None)), "1.0 and more\n");

    fs::write(sources.join("__init__.py"), plugins).unwrap();
    repo.write(".gitignore", ".env\n");
    repo.commit("a module in place");
    let host = Host::new();
    let mut running = Running::start(host.up(repo.path()));
    running.settled(1);
    repo.write(
        "main.cf",
        "import greet\nstd::print(greet::version())\nx = 1\n",
    );
    repo.commit("another model");
    running.settled(2);
    assert!(running.stop().success());
}

/// The environments that a server made.
pub fn environments(host: &Host) -> Vec<PathBuf> {
    let below = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
    let owners = below(host.data().join("python/environments"));
    let mut all: Vec<PathBuf> = owners
        .flat_map(|owner| below(owner.path()))
        .map(|entry| entry.path())
        .collect();
    all.retain(|path| path.is_dir());
    all
}

/// A project that carries its wheels.
fn self_contained(version: &str) -> Repo {
    let wheels = Wheels::new();
    wheels.module("greet", version, &[]);
    let repo = project(
        "",
        "--no-index\n--find-links wheels\ninmanta-module-greet\n",
    );
    carry(&repo, &wheels);
    repo.commit("asks for a module");
    repo
}

pub fn carry(repo: &Repo, wheels: &Wheels) {
    for entry in fs::read_dir(wheels.path()).unwrap().flatten() {
        let to = repo.path().join("wheels").join(entry.file_name());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(entry.path(), to).unwrap();
    }
}

#[test]
fn a_server_installs_what_a_commit_asks_for_once_and_again_after_a_crash() {
    let repo = self_contained("1.0");
    let host = Host::new();
    let mut running = Running::start(host.up(repo.path()));
    running.settled(1);
    let [environment] = environments(&host).try_into().unwrap();
    let made = fs::metadata(environment.join("pyvenv.cfg"))
        .unwrap()
        .modified()
        .unwrap();
    // Another commit that asks for the same takes the same.
    repo.write(
        "main.cf",
        "import greet\nstd::print(greet::version())\nx = 1\n",
    );
    repo.commit("another model");
    running.settled(2);
    assert_eq!(environments(&host), std::slice::from_ref(&environment));
    assert!(running.stop().success());
    // What a crash in the middle of an installation leaves: no mark.
    fs::remove_file(environment.with_extension("complete")).unwrap();
    fs::remove_dir_all(environment.join("lib")).unwrap();
    let mut running = Running::start(host.up(repo.path()));
    repo.write(
        "main.cf",
        "import greet\nstd::print(greet::version())\nx = 2\n",
    );
    repo.commit("a third one");
    running.settled(3);
    let again = fs::metadata(environment.join("pyvenv.cfg"))
        .unwrap()
        .modified()
        .unwrap();
    assert!(again > made);
    // What cannot be had is told with the commit, and the version in force stays.
    repo.write(
        "requirements.txt",
        "--no-index\n--find-links wheels\ninmanta-module-greet == 9\n",
    );
    repo.commit("asks for too much");
    let event = running.wait_for(|event| {
        event["event"] == "compile_failed" || event.to_string().contains("greet==9")
    });
    assert!(
        event.to_string().contains("inmanta-module-greet==9"),
        "{event}"
    );
    assert!(running.stop().success());
}

#[test]
fn what_a_project_asks_for_later_is_found_by_workers_that_were_there_before_a_housekeeping() {
    let repo = Repo::new("import first\nstd::print(first::number())\n");
    let code =
        "from inmanta.plugins import plugin\n\n@plugin\ndef number() -> \"int\":\n    return 1\n";
    repo.write_module("first", "", code);
    repo.commit("without packages");
    let dir = tempfile::tempdir().unwrap();
    let config = format!(
        "housekeeping: 1s\nenvironments:\n- {{project: p, name: e, repository: {}}}\n",
        repo.path().display()
    );
    let served = Logged::start(&configure(dir.path(), &config));
    let id = served.environment("e")["id"].as_str().unwrap().to_owned();
    let newest = || served.get("/api/v2/compilereport?limit=1", &id)["data"][0].clone();
    wait_until("it compiles", || newest()["success"] == true);
    // What belongs to no environment goes in each; when it is gone twice, one has ended.
    for _ in 0..2 {
        let unknown = uuid::Uuid::new_v4().to_string();
        let unneeded = dir.path().join("data/python/environments").join(unknown);
        fs::create_dir(&unneeded).unwrap();
        wait_until("the housekeeping runs", || !unneeded.exists());
    }
    let wheels = Wheels::new();
    wheels.module("greet", "1.0", &[]);
    carry(&repo, &wheels);
    repo.write(
        "requirements.txt",
        "--no-index\n--find-links wheels\ninmanta-module-greet\n",
    );
    repo.write(
        "main.cf",
        "import first\nimport greet\nstd::print(greet::version())\n",
    );
    let commit = repo.commit("with a module");
    wait_until("the commit is compiled", || {
        newest()["commit"] == commit && newest()["completed"].is_string()
    });
    assert_eq!(newest()["success"], true, "{:#}", newest());
    served.stop();
}

//: deploy 99
#[test]
fn all_environments_go_when_nothing_runs_any_more_and_the_one_in_force_is_made_again() {
    let repo = self_contained("1.0");
    repo.write(
        "main.cf",
        "import greet\nimport exec\nroot = std::get_env(\"ROOT\")\nhost = std::Host(name=\"localhost\", os=std::linux)\n\
         exec::Run(host=host, command=\"/bin/sh -c 'echo run >> {{root}}/runs; sleep 2; echo done >> {{root}}/runs'\", \
         send_event=false)\n",
    );
    repo.commit("something slow");
    let host = Host::new();
    let running = Running::start(host.up(repo.path()));
    wait_until("it runs", || host.read("runs") == "run\n");
    let [environment] = environments(&host).try_into().unwrap();
    // What is in no environment that is made anew.
    fs::write(environment.join("by_hand"), "x").unwrap();
    let remove = "/api/v2/agents/remove_all_agent_venvs";
    assert_eq!(running.call("POST", remove, None).0, 200);
    // What runs goes on to its end, in its environment.
    wait_until("it ends", || {
        let is_there = environment.join("by_hand").is_file();
        let is_done = host.read("runs") == "run\ndone\n";
        assert!(is_there || is_done);
        is_done
    });
    wait_until("a notification says so", || {
        let told = running.get_ok("/api/v2/notification");
        told["data"].as_array().unwrap().iter().any(|one| {
            one["severity"] == "success" && one["title"].as_str().unwrap().contains("venv removal")
        })
    });
    assert_eq!(environments(&host), std::slice::from_ref(&environment));
    assert!(environment.join("pyvenv.cfg").is_file());
    assert!(!environment.join("by_hand").exists());
    // The run was not cut off: it is not repeated.
    wait_until("all is deployed", || {
        let body = running.get_ok("/api/v2/resource?deploy_summary=true");
        body["metadata"]["deploy_summary"]["by_state"]["deployed"] == 1
    });
    assert_eq!(host.read("runs"), "run\ndone\n");
    assert!(running.stop().success());
}

#[test]
fn up_once_runs_with_modules_of_the_projects_own_wheels() {
    let repo = self_contained("3.0");
    let host = Host::new();
    let mut command = host.up(repo.path());
    command.arg("--once");
    let output = finish(command);
    assert!(output.status.success(), "{output:?}");
    let said = events(&output);
    assert!(
        said.iter()
            .any(|event| event.to_string().contains("Installing modules")),
        "{said:?}"
    );
}
