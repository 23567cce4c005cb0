//! Packages that the code of handlers requires, on other machines: they are installed there.

use serde_json::json;

use crate::agentless::Far;
use crate::external::{Agent, TOKEN, World, statuses};
use crate::external_python::{CODE, MAIN, MODEL};
use crate::harness::{wait_patiently, wait_until};
use crate::packages::Wheels;
use crate::push::{export, paint, said, shelves};
use crate::serve::Served;

/// What exported code requires is installed on the machine of the agent, with the Python there; the server has no such package.
#[test]
fn an_agent_installs_what_the_code_of_its_handlers_requires() {
    let wheels = Wheels::new();
    let files = [("paint.py".to_owned(), "COVER = 'far away'\n".to_owned())];
    wheels.wheel("paint", "1.0", &[], &files);
    let world = World::new("", "agent_map: {a: 'external:', b: 'external:'}");
    let served = world.serve();
    let environment = served.environment("prod");
    // What is exported before it would be replaced by it.
    wait_until("the commit is compiled", || {
        let reports = served.get(&environment, "/api/v2/compilereport");
        reports["data"][0]["success"] == true
    });
    let places = [
        format!("PIP_FIND_LINKS={}", wheels.path().display()),
        "PIP_NO_INDEX=1".to_owned(),
    ];
    let wrapper = ["env", &places[0], &places[1]];
    let data = world.dir.path().join("agent");
    let _agent = Agent::start_in(&wrapper, &served.api, "a,b", TOKEN, &data);
    let port = served.api.rsplit(':').next().unwrap();
    let project = shelves(&format!(
        "[config]\nenvironment = {environment}\n\n[compiler_rest_transport]\nhost = 127.0.0.1\nport = {port}\n",
    ));
    let push = |requirement: &str, color: &str| {
        project.write("libs/shelf/requirements.txt", requirement);
        project.write("main.cf", &paint(color));
        export(&project, &["-d"]);
    };
    let both = |status: &str| json!({"a": status, "b": status, "n": "deployed"});
    push("paint\nno-such-paint\n", "red");
    wait_until("it says what is missing", || {
        statuses(&served) == both("unavailable")
    });
    let text = said(&served, &environment, "b");
    let why = "All resources of type `shelf::Shelf` failed to install handler code dependencies: ";
    assert!(
        text.contains(why) && text.contains("no-such-paint"),
        "{text}"
    );
    push("paint>=1\n", "green");
    wait_until("it is deployed", || statuses(&served) == both("deployed"));
    let text = said(&served, &environment, "a");
    assert!(text.contains("painted green, far away"), "{text}");
    let venvs = std::fs::read_dir(data.join("python/environments/agent")).unwrap();
    let venvs = venvs.flatten().filter(|entry| entry.path().is_dir());
    assert_eq!(venvs.count(), 1, "what failed leaves nothing");
}

/// A module whose handler needs a package, of which the repository has two versions: the server takes the newer one. On another
/// machine there is a third one, which it does not take. Gives the packages, of here and there, and where `pip` finds them there.
fn add_painted(world: &World) -> ([Wheels; 2], [String; 2]) {
    let wheel = |wheels: &Wheels, version: &str| {
        let files = [("paint.py".to_owned(), format!("VERSION = '{version}'\n"))];
        wheels.wheel("paint", version, &[], &files);
    };
    let (here, there) = (Wheels::new(), Wheels::new());
    for version in ["1.0", "1.1"] {
        wheel(&here, version);
        wheel(&there, version);
    }
    wheel(&there, "2.0");
    let repo = &world.repo;
    let code = CODE.replacen("import os", "import os\nimport paint", 1);
    let code = code.replacen("{resource.value}", "{resource.value} {paint.VERSION}", 1);
    repo.write_module("row", MODEL, &code);
    let project = "name: test\nmodulepath: libs\npip:\n  use-system-config: true\n";
    repo.write("project.yml", project);
    let packages = here.path().display();
    let asked = format!("--no-index\n--find-links {packages}\n");
    repo.write("requirements.txt", &asked);
    repo.write("libs/row/requirements.txt", "paint>=1\n");
    repo.write("main.cf", MAIN);
    repo.commit("a module that needs a package");
    let places = [
        format!("PIP_FIND_LINKS={}", there.path().display()),
        "PIP_NO_INDEX=1".to_owned(),
    ];
    ([here, there], places)
}

fn deployed_or_failed(served: &Served) {
    wait_patiently("it has run", || {
        let all = statuses(served).to_string();
        all.contains("deployed") || all.contains("unavailable") || all.contains("failed")
    });
}

fn actions(served: &Served) -> String {
    let environment = served.environment("prod");
    let actions = served.get(&environment, "/api/v2/resource_actions");
    actions.to_string()
}

/// It was deployed with the versions that the server has.
#[track_caller]
fn check_row(world: &World, served: &Served) {
    let row = std::fs::read_to_string(world.host.file("row")).unwrap_or_default();
    assert!(row.starts_with("7 1.1 None "), "{row} {}", actions(served));
}

/// What the server has installed for a compile, an agent elsewhere installs, too, in the same versions.
#[test]
fn an_agent_installs_what_a_compile_of_the_server_has_installed() {
    let world = World::new("", "agent_map: {localhost: 'external:'}");
    let (_wheels, places) = add_painted(&world);
    let served = world.serve();
    let data = world.dir.path().join("agent");
    let wrapper = ["env", &places[0], &places[1]];
    let _agent = Agent::start_in(&wrapper, &served.api, "localhost", TOKEN, &data);
    deployed_or_failed(&served);
    check_row(&world, &served);
}

#[test]
fn a_machine_behind_ssh_installs_what_a_compile_of_the_server_has_installed() {
    let Some(far) = Far::new("", "known_hosts") else {
        return;
    };
    let (_wheels, places) = add_painted(&far.world);
    far.sessions_have(&places);
    let mut served = far.world.serve();
    deployed_or_failed(&served);
    check_row(&far.world, &served);
    served.child.kill().unwrap();
    served.child.wait().unwrap();
    wait_until("the other side has cleaned up", || far.left() == 0);
}

/// Modules that are packages: the handler of `row` uses the package `dye_core`, which stands beside the module `dye` in its wheel, and
/// no model imports `dye`. The other machine could have a newer `dye`, which the server has not taken.
fn add_packaged(world: &World) -> ([Wheels; 2], [String; 2]) {
    let dye = |wheels: &Wheels, version: &str| {
        let files = [
            ("inmanta_plugins/dye/__init__.py", String::new()),
            ("inmanta_plugins/dye/model/_init.cf", String::new()),
            (
                "inmanta_plugins/dye/setup.cfg",
                format!(
                    "[metadata]\nname = inmanta-module-dye\nversion = {version}\nlicense = none\n"
                ),
            ),
            ("dye_core/__init__.py", String::new()),
            ("dye_core/colors.py", format!("VERSION = '{version}'\n")),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text));
        wheels.wheel("inmanta-module-dye", version, &[], &files);
    };
    let code = CODE.replacen(
        "import os",
        "import os\nimport inmanta_plugins.dye\nfrom dye_core import colors",
        1,
    );
    let code = code.replacen("{resource.value}", "{resource.value} {colors.VERSION}", 1);
    let row = |wheels: &Wheels| {
        let files = [
            ("inmanta_plugins/row/__init__.py", code.as_str()),
            ("inmanta_plugins/row/model/_init.cf", MODEL),
            (
                "inmanta_plugins/row/setup.cfg",
                "[metadata]\nname = inmanta-module-row\nversion = 1.0\nlicense = none\n",
            ),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        wheels.wheel("inmanta-module-row", "1.0", &["inmanta-module-dye"], &files);
    };
    let (here, there) = (Wheels::new(), Wheels::new());
    for wheels in [&here, &there] {
        row(wheels);
        dye(wheels, "1.1");
    }
    dye(&there, "2.0");
    let repo = &world.repo;
    let project = "name: test\nmodulepath: libs\npip:\n  use-system-config: true\n";
    repo.write("project.yml", project);
    let packages = here.path().display();
    let asked = format!("--no-index\n--find-links {packages}\ninmanta-module-row\n");
    repo.write("requirements.txt", &asked);
    repo.write("main.cf", MAIN);
    repo.commit("modules that are packages");
    let places = [
        format!("PIP_FIND_LINKS={}", there.path().display()),
        "PIP_NO_INDEX=1".to_owned(),
    ];
    ([here, there], places)
}

#[test]
fn an_agent_installs_the_packages_of_modules_with_all_that_is_in_them() {
    let world = World::new("", "agent_map: {localhost: 'external:'}");
    let (_wheels, places) = add_packaged(&world);
    let served = world.serve();
    let data = world.dir.path().join("agent");
    let wrapper = ["env", &places[0], &places[1]];
    let _agent = Agent::start_in(&wrapper, &served.api, "localhost", TOKEN, &data);
    deployed_or_failed(&served);
    check_row(&world, &served);
}

#[test]
fn a_machine_behind_ssh_installs_the_packages_of_modules_with_all_that_is_in_them() {
    let Some(far) = Far::new("", "known_hosts") else {
        return;
    };
    let (_wheels, places) = add_packaged(&far.world);
    far.sessions_have(&places);
    let served = far.world.serve();
    deployed_or_failed(&served);
    check_row(&far.world, &served);
}

/// Without a way to the packages it counts whether somebody has installed them for the Python of the machine.
#[test]
fn an_agent_without_an_index_runs_with_the_packages_of_its_machine_or_says_what_is_missing() {
    let world = World::new("", "agent_map: {localhost: 'external:'}");
    let ([_here, there], _) = add_painted(&world);
    let served = world.serve();
    let python = world.dir.path().join("python");
    let run = |program: &std::path::Path, arguments: &[&str]| {
        let mut command = std::process::Command::new(program);
        let status = command
            .args(arguments)
            .stdout(std::process::Stdio::null())
            .status();
        assert!(status.unwrap().success(), "{arguments:?}");
    };
    run(
        "python3".as_ref(),
        &["-m", "venv", &python.display().to_string()],
    );
    let interpreter = python.join("bin/python");
    let wrapper = [
        "env",
        "PIP_NO_INDEX=1",
        &format!("STEWARD_PYTHON={}", interpreter.display()),
    ];
    let data = world.dir.path().join("agent");
    let agent = Agent::start_in(&wrapper, &served.api, "localhost", TOKEN, &data);
    deployed_or_failed(&served);
    let actions = actions(&served);
    let why = "All resources of type `row::Row` failed to install handler code dependencies: ";
    assert!(
        actions.contains(why) && actions.contains("paint"),
        "{actions}"
    );
    drop(agent);
    let places = [
        "--no-index",
        "--find-links",
        &there.path().display().to_string(),
    ];
    let install = ["-m", "pip", "install", "--quiet"];
    run(
        &interpreter,
        &[&install[..], &places[..], &["paint==2.0"]].concat(),
    );
    let agent = Agent::start_in(&wrapper, &served.api, "localhost", TOKEN, &data);
    wait_patiently("it is deployed", || {
        statuses(&served).to_string().contains("deployed")
    });
    let row = world.host.read("row");
    assert!(row.starts_with("7 2.0 None "), "{row}");
    agent.logs("it runs with the packages of");
}
