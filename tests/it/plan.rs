//! `steward plan`: what a deploy would do. Source: docs/reference/deployment.md § 5.10, § 6.9.

use serde_json::{Value, json};

use crate::embedded::{Project, text};
use crate::harness::{Host, Repo, Running, files, segment, steward, wait_until};

#[test]
fn a_command_in_a_directory_that_the_deploy_makes_is_in_the_plan() {
    let project = Project::new(
        "import fs\nimport exec\nroot = std::get_env(\"ROOT\")\nhost = std::Host(name=\"localhost\", os=std::linux)\n\
         dir = fs::Directory(host=host, path=f\"{root}/made\")\n\
         exec::Run(host=host, command=\"touch done\", unless=\"test -e done\", cwd=f\"{root}/made\", requires=dir)\n",
    );
    let output = project.run(&["plan", "--detailed-exitcode"]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{shown}");
    assert!(shown.contains("1 to add, 1 to change"), "{shown}");
    assert_eq!(project.deploy(&[]).0, Some(0));
    let output = project.run(&["plan", "--detailed-exitcode"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

//: deploy 136
#[test]
fn a_plan_says_what_a_deploy_would_do_and_changes_nothing() {
    let project = Project::new(&files(&[("a", "one\\ntwo"), ("b", "b"), ("c", "c")]));
    let plan = |arguments: &[&str]| {
        let output = project.run(&[&["plan"], arguments].concat());
        (output.status.code(), text(&output.stdout))
    };
    let (code, shown) = plan(&["--detailed-exitcode"]);
    assert_eq!(code, Some(2), "{shown}");
    assert!(
        shown.contains("plan of version 1: 3 to add, 1 unchanged"),
        "{shown}"
    );
    assert!(!project.root().join("a").exists(), "nothing is deployed");
    assert_eq!(project.deploy(&[]).0, Some(0));

    let changed = files(&[("a", "one\\n2"), ("b", "b")])
        + "fs::File(host=host, path=root + \"/d\", content=\"d\")\n";
    project.write("main.cf", &changed);
    let (code, shown) = plan(&[]);
    assert_eq!(code, Some(0), "{shown}");
    let of = |name: &str| {
        format!(
            "fs::File[localhost,path={}/{name}]",
            project.root().display()
        )
    };
    let expected = [
        format!(
            "  ~ {}\n      content\n          one\n        - two\n        + 2\n",
            of("a")
        ),
        format!("  + {}\n", of("d")),
        format!("  ! {}\n      no longer in the model", of("c")),
        "plan of version 3: 1 to add, 1 to change, 1 no longer managed, 2 unchanged\n".to_owned(),
    ];
    for part in expected {
        assert!(shown.contains(&part), "{part} is not in\n{shown}");
    }
    assert!(
        !shown.contains(&of("b")),
        "what stays as it is is only counted: {shown}"
    );
    assert_eq!(project.read("a"), "one\ntwo\n");

    // The next deploy does exactly this; a dry run of it is the plan again.
    let output = project.run(&["deploy", "--dry-run"]);
    assert!(
        text(&output.stdout).contains("1 to add, 1 to change"),
        "{}",
        text(&output.stdout)
    );
    let (code, mut ran, _) = project.deploy(&[]);
    ran.sort();
    let done = ["a deployed updated", "d deployed created"].map(str::to_owned);
    assert_eq!((code, ran), (Some(0), done.to_vec()));
    let (code, shown) = plan(&["--detailed-exitcode"]);
    assert_eq!(
        (code, shown.contains("4 unchanged")),
        (Some(0), true),
        "{shown}"
    );
}

#[test]
fn a_plan_does_not_try_again_what_the_last_deploy_could_not() {
    let project = Project::new(&files(&[("a", "a"), ("sub/b", "b")]));
    assert_eq!(project.deploy(&[]).0, Some(1), "its folder is missing");
    std::fs::create_dir(project.root().join("sub")).unwrap();
    for command in [&["plan"][..], &["deploy", "--dry-run"]] {
        let output = project.run(command);
        let shown = text(&output.stdout);
        assert!(shown.contains("1 to add, 2 unchanged"), "{shown}");
        assert!(!project.root().join("sub/b").exists(), "{command:?}");
    }
    let explained = project.run(&["explain", "sub/b", "--json"]);
    let explained: Value = serde_json::from_slice(&explained.stdout).unwrap();
    assert_eq!(explained["chain"][0]["n_failures"], 1, "{explained}");
    assert_eq!(project.deploy(&[]).1, ["b deployed created"]);
}

/// Given: resources that are only reported: one that differs, one that is not there, and one that is to be removed. Expected:
/// the plan shows how they differ, and promises no change, since a deploy makes none.
#[test]
fn a_plan_promises_no_change_of_what_is_only_reported() {
    let project = Project::new("");
    std::fs::write(project.root().join("a"), "as it is\n").unwrap();
    std::fs::write(project.root().join("c"), "c").unwrap();
    let file = |rest: &str| format!("fs::File(host=host, report_only=true, {rest})\n");
    project.write(
        "main.cf",
        &[
            files(&[("d", "d")]),
            file("path=root + \"/a\", content=\"as it shall be\\n\""),
            file("path=root + \"/b\", content=\"b\""),
            file("path=root + \"/c\", content=\"c\", purged=true"),
        ]
        .concat(),
    );
    let output = project.run(&["deploy"]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "not all is as it shall be");
    assert!(shown.contains("≠ differs"), "{shown}");
    assert!(
        shown.contains(", 3 only reported"),
        "nothing has failed: {shown}"
    );
    for command in [
        &["plan", "--detailed-exitcode"][..],
        &["deploy", "--dry-run"],
    ] {
        let output = project.run(command);
        let shown = text(&output.stdout);
        assert_eq!(
            output.status.code(),
            Some(0),
            "nothing would change: {shown}"
        );
        for part in [
            "/a]\n      differs, and is only reported: it stays as it is\n      content\n        - as it is\n        + as it shall be",
            ": 3 only reported, 2 unchanged\n",
        ] {
            assert!(shown.contains(part), "{part} is not in\n{shown}");
        }
    }
    assert_eq!(project.read("a"), "as it is\n");
    assert!(project.root().join("c").exists() && !project.root().join("b").exists());
}

#[test]
fn a_plan_hides_secrets_and_says_why_something_cannot_be_compared() {
    let project = Project::with_box(
        "box::Box(name=\"a\", secret_word=\"abrakadabra\", size=\"1\")\nbox::Box(name=\"gone\")\n",
    );
    let (code, ran, _) = project.deploy(&[]);
    assert_eq!(code, Some(0), "{ran:?}");
    project.write(
        "main.cf",
        "import box\nbox::Box(name=\"a\", secret_word=\"simsalabim\", size=\"2\")\nbox::Box(name=\"gone\", purged=true)\n\
         box::Box(name=\"shy\", mood=\"shy\")\nangry = box::Box(name=\"angry\", mood=\"angry\")\n\
         waits = box::Box(name=\"waits\", size=std::getfact(angry, \"x\"))\nbox::Box(name=\"behind\", requires=waits)\n",
    );
    let output = project.run(&["plan", "--server-port", "1"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.contains("--server-port is for a version of a server: give --remote"),
        "{said}"
    );
    let output = project.run(&["plan", "--json"]);
    assert_eq!(
        output.status.code(),
        Some(1),
        "one cannot be compared: {}",
        text(&output.stderr)
    );
    let shown = text(&output.stdout);
    assert!(
        !shown.contains("abrakadabra") && !shown.contains("simsalabim"),
        "{shown}"
    );
    let plan: Value = serde_json::from_str(&shown).unwrap();
    let summary = json!({
        "added": 0, "changed": 1, "removed": 1, "unmanaged": 0, "unchanged": 0, "reported": 0, "skipped": 1,
        "undefined": 2, "agent_down": 0, "failed": 1,
    });
    assert_eq!(plan["summary"], summary, "{plan:#}");
    let of = |name: &str| {
        let id = format!("box::Box[{name},name={name}]");
        let resources = plan["resources"].as_array().unwrap();
        resources
            .iter()
            .find(|found| found["resource_id"] == id)
            .unwrap()
            .clone()
    };
    assert_eq!(of("a")["attributes"]["secret_word"]["to_value"], "(hidden)");
    assert_eq!(of("a")["attributes"]["size"]["to_value"], "2");
    let why = of("angry")["attributes"]["handler"]["to_value"].to_string();
    assert!(why.contains("the box is angry"), "{why}");
    assert_eq!(of("shy")["status"], "unmodified");
    assert!(
        of("shy")["skipped"]
            .as_str()
            .unwrap()
            .contains("come again later"),
        "{plan:#}"
    );
    assert_eq!(of("gone")["status"], "deleted");

    let output = project.run(&["plan", "--detailed-exitcode"]);
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stdout);
    for part in [
        "secret_word  (hidden) → (hidden)",
        "size         \"1\" → \"2\"",
        "- box::Box[gone,name=gone]\n      is removed from its target",
        "not compared: its handler skips it: ",
        "cannot be compared: ",
        "not compared: it waits for a value that is not known yet",
        "not compared: a resource that it requires waits for a value",
        "1 to change, 1 to remove, 1 skipped by their handlers, 2 waiting for a value, 1 cannot be compared",
    ] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
}

//: deploy 111, 112, 113, 114
#[test]
fn a_server_plans_the_newest_version_of_an_environment() {
    let project = Project::with_box(
        "box::Box(name=\"a\", size=\"1\")\nbox::Box(name=\"gone\")\nbox::Box(name=\"down\")\n",
    );
    let (repo, host) = (Repo::new(""), Host::new());
    let copy = |main: &str| {
        for file in [
            "libs/box/module.yml",
            "libs/box/model/_init.cf",
            "libs/box/plugins/__init__.py",
        ] {
            let content = std::fs::read_to_string(project.path().join(file)).unwrap();
            let place = format!(
                "__import__('pathlib').Path({:?}) / (\"boxes-\" + resource.name)",
                host.root()
            );
            let own = "os.path.join(os.path.dirname(os.path.abspath(__file__)), \"boxes-\" + resource.name)";
            repo.write(file, &content.replace(own, &place));
        }
        repo.write("project.yml", "name: test\nmodulepath: libs\n");
        repo.write("main.cf", main);
        repo.commit("next");
    };
    copy(&std::fs::read_to_string(project.path().join("main.cf")).unwrap());
    let mut running = Running::start(host.up(repo.path()));
    running.settled(1);
    let setting = json!({"value": false});
    running.call(
        "POST",
        "/api/v2/environment_settings/auto_deploy",
        Some(&setting),
    );
    copy(
        "import box\nbox::Box(name=\"a\", size=\"2\")\nbox::Box(name=\"gone\", purged=true)\nbox::Box(name=\"down\")\n\
         box::Box(name=\"new\")\nangry = box::Box(name=\"angry\", mood=\"angry\")\n\
         w = box::Box(name=\"waits\", size=std::getfact(angry, \"x\"))\nbox::Box(name=\"behind\", requires=w)\n",
    );
    wait_until("the second version is stored", || {
        running.get_ok("/api/v2/desiredstate")["data"][0]["version"] == 2
    });
    let (status, _) = running.call("POST", "/api/v2/agent/down/pause", None);
    assert_eq!(status, 200);
    let resources = || running.get_ok("/api/v2/resource?limit=100")["data"].clone();
    let before = resources();
    let port = running.api.rsplit(':').next().unwrap().to_owned();
    let plan = |arguments: &[&str]| {
        let mut command = steward();
        command.args([
            "plan",
            "--remote",
            "--server-address",
            "127.0.0.1",
            "--server_port",
            &port,
        ]);
        command.args(arguments).current_dir(host.root());
        let output = crate::harness::finish(command);
        (
            output.status.code(),
            text(&output.stdout) + &text(&output.stderr),
        )
    };
    let (code, shown) = plan(&["-e", "default"]);
    assert_eq!(code, Some(1), "one cannot be compared: {shown}");
    let counts = "plan of version 2: 1 to add, 1 to change, 1 to remove, 2 waiting for a value, 1 on paused agents, \
                  1 cannot be compared";
    assert!(shown.contains(counts), "{shown}");
    assert_eq!(resources(), before, "no state has changed");
    check_dry_run(&running);
    let (code, shown) = plan(&["-e", "nobody"]);
    assert_eq!(code, Some(2), "{shown}");
    assert!(shown.contains("has no environment `nobody`"), "{shown}");
    running.stop();
}

/// What the API says of the dry run beneath the plan.
#[track_caller]
fn check_dry_run(running: &Running) {
    let report = running.get_ok("/api/v2/dryrun/2");
    assert_eq!(
        (&report["data"][0]["todo"], &report["data"][0]["total"]),
        (&json!(0), &json!(7))
    );
    let id = report["data"][0]["id"].as_str().unwrap();
    let report = running.get_ok(&format!("/api/v2/dryrun/2/{id}"));
    let statuses: Vec<String> = report["data"]["diff"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| {
            let id = found["resource_id"].as_str().unwrap();
            let name = id.rsplit('=').next().unwrap().trim_end_matches(']');
            format!("{name} {}", found["status"].as_str().unwrap())
        })
        .collect();
    let expected = [
        "a modified",
        "angry modified",
        "behind skipped_for_undefined",
        "down agent_down",
        "gone deleted",
        "new added",
        "waits undefined",
    ];
    assert_eq!(statuses, expected);
    let angry = &report["data"]["diff"][1]["attributes"]["handler"];
    assert_eq!(angry["from_value"], "FAILED", "{angry}");
    let logs = running.get_ok(&format!(
        "/api/v2/resource/{}/logs",
        segment("box::Box[a,name=a]")
    ));
    assert!(!logs.to_string().contains("behind"), "{logs}");
}
