//! `steward lsm` on a real server: what it says, and its exit codes. The way of a whole service is in `services_guide.rs`.

use std::process::{Command, Output};

use serde_json::Value;

use crate::embedded::text;
use crate::harness::{Host, Repo, Running, finish, steward, wait_until};
use crate::service_world::LINKS;

struct World {
    host: Host,
    running: Running,
    _repo: Repo,
}

impl World {
    fn new() -> Self {
        Self::with(LINKS)
    }

    fn with(model: &str) -> Self {
        let (repo, host) = (Repo::new(model), Host::new());
        let running = Running::start(host.up(repo.path()));
        wait_until("the service is in the catalog", || {
            running.get("/lsm/v1/service_catalog/link").0 == 200
        });
        Self {
            host,
            running,
            _repo: repo,
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let port = self.running.api.rsplit(':').next().unwrap();
        let mut command = steward();
        command
            .arg("lsm")
            .args(arguments)
            .args(["--server-port", port]);
        command.current_dir(self.host.root());
        command
    }

    fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let Output {
            status,
            stdout,
            stderr,
        } = finish(self.command(arguments));
        (status.code(), text(&stdout), text(&stderr))
    }

    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        let (code, out, err) = self.run(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {out}{err}");
        out
    }
}

#[test]
fn every_command_writes_json_and_an_instance_that_ends_badly_is_an_error() {
    let world = World::new();
    let json = |arguments: &[&str]| -> Value {
        let out = world.ok(&[arguments, &["--json"]].concat());
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments:?} {error}: {out}"))
    };
    assert_eq!(json(&["catalog"])[0]["name"], "link");
    assert_eq!(
        json(&["catalog", "list"])[0]["instance_summary"]["total"],
        0
    );
    assert_eq!(
        json(&["catalog", "show", "link"])["service_identity"],
        "site"
    );
    assert_eq!(json(&["catalog", "schema", "link"])["required"][0], "site");
    assert!(
        json(&["catalog", "diagram", "link"])["diagram"]
            .as_str()
            .unwrap()
            .contains("up")
    );
    assert!(
        world
            .ok(&["catalog", "diagram", "link", "--format", "svg"])
            .starts_with("<svg ")
    );
    let made = json(&["create", "link", "--set", "site=ams1"]);
    assert_eq!(made["state"], "start");
    let states = world.ok(&["watch", "link", "ams1", "--json", "--until", "up"]);
    let last: Value = serde_json::from_str(states.lines().last().unwrap()).unwrap();
    assert_eq!(last["state"], "up");
    assert_eq!(json(&["list", "link"])[0]["id"], made["id"]);
    assert_eq!(
        json(&["list", "link", "--state", "start"]),
        serde_json::json!([])
    );
    assert_eq!(
        json(&["show", "link", made["id"].as_str().unwrap()])["state"],
        "up"
    );
    assert_eq!(json(&["log", "link", "site=ams1"])[0]["version"], 4);
    assert!(json(&["events", "link", "ams1"]).as_array().unwrap().len() > 5);
    assert_eq!(
        json(&["diagnose", "link", "ams1"])["rejections"],
        serde_json::json!([])
    );

    // The model refuses this one: the instance stays in a bad state, and says why.
    let (code, out, _) = world.run(&[
        "create",
        "link",
        "--set",
        "site=ams2",
        "--set",
        "mbps=666",
        "--watch",
    ]);
    assert_eq!(code, Some(1), "{out}");
    assert!(out.trim_end().ends_with("rejected"), "{out}");
    let why = world.ok(&["diagnose", "link", "ams2"]);
    assert!(
        why.contains("ams2 is rejected") && why.contains("main.cf:"),
        "{why}"
    );
}

/// Given: an instance with a list of members. Expected: a path leads to one of them, and the others stay as they are.
#[test]
fn an_update_sets_what_a_path_leads_to() {
    let model = LINKS
        .replace(
            "index Link(site)\n",
            "index Link(site)\nentity Member extends lsm::EmbeddedEntity:\n    string name\n    int weight = 1\n    \
             lsm::attribute_modifier weight__modifier = \"rw+\"\nend\nLink.members [0:] lsm::__rwplus__ Member._link [1]\n\
             index Member(_link, name)\nimplement Member using std::none\n",
        )
        .replace(
            "**i[\"attributes\"]",
            "site=i[\"attributes\"][\"site\"], mbps=i[\"attributes\"][\"mbps\"], vlan=i[\"attributes\"][\"vlan\"], \
             members=[Member(**member) for member in i[\"attributes\"][\"members\"]]",
        );
    let world = World::with(&model);
    let members = "members=[{name: a}, {name: b=c, weight: 3}]";
    world.ok(&[
        "create",
        "link",
        "--set",
        "site=ams1",
        "--set",
        members,
        "--watch",
    ]);
    let paths = [
        "--set",
        "members[name=b=c].weight=7",
        "--set",
        "members[name=d].name=d",
    ];
    let update = [&["update", "link", "ams1", "--watch"], &paths[..]].concat();
    let (code, out, err) = world.run(&update);
    assert_eq!(code, Some(2), "{out}{err}");
    assert!(err.contains("members[name=b=c].weight"), "{err}");
    let paths = [r"members[name=b\=c].weight=7", "members[name=d].weight=9"];
    let update = [
        "update", "link", "ams1", "--watch", "--set", paths[0], "--set", paths[1],
    ];
    world.ok(&update);
    let shown: Value =
        serde_json::from_str(&world.ok(&["show", "link", "ams1", "--json"])).unwrap();
    let expected = serde_json::json!([
        {"name": "a", "weight": 1}, {"name": "b=c", "weight": 7}, {"name": "d", "weight": 9}
    ]);
    assert_eq!(shown["active_attributes"]["members"], expected, "{shown:#}");
    let (code, _, err) = world.run(&["create", "link", "--set", paths[0]]);
    assert!(
        code == Some(2) && err.contains("takes whole attributes"),
        "{err}"
    );
    let (code, _, err) = world.run(&["update", "link", "ams1", "--set", "members[name=a].nope=1"]);
    assert!(code == Some(2) && err.contains("nope"), "{err}");
}

#[test]
fn a_deletion_that_is_refused_is_an_error_though_the_instance_is_well() {
    let model = LINKS
        .replace("lsm::fsm::simple", "lsm::fsm::simple_with_delete_validate")
        .replace(
            "implement Link using deploy, parents\n",
            "implementation beside for Link:\n    other = Link[site=\"ams1\"]\nend\n\
             implement Link using beside when self.site == \"ams2\"\nimplement Link using deploy, parents\n",
        );
    let world = World::with(&model);
    for site in ["ams1", "ams2"] {
        world.ok(&[
            "create",
            "link",
            "--set",
            &format!("site={site}"),
            "--watch",
        ]);
    }
    let watched = world.ok(&["watch", "link", "ams1"]);
    assert!(watched.contains("  ams1   4  up"), "{watched}");
    let (code, out, err) = world.run(&["delete", "link", "ams1", "--watch"]);
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.trim_end().ends_with("up"), "{out}");
    assert!(
        err.contains("the change did not succeed") && err.contains("the validation failed"),
        "{err}"
    );
    world.ok(&["delete", "link", "ams2", "--watch"]);
    world.ok(&["delete", "link", "ams1", "--watch"]);
}

#[test]
fn what_can_not_be_done_says_why_and_has_its_exit_code() {
    let world = World::new();
    world.ok(&["create", "link", "--set", "site=ams1"]);
    world.ok(&["watch", "link", "ams1", "--until", "up"]);
    let refused: &[(&[&str], i32, &str)] = &[
        (
            &["show", "link", "nobody"],
            1,
            "link has no instance `nobody`",
        ),
        (
            &["catalog", "show", "lnik"],
            1,
            "no service `lnik`: it has link",
        ),
        (
            &["list", "link", "--state", "nowhere"],
            1,
            "has no state `nowhere`",
        ),
        (
            &["set-state", "link", "ams1", "nowhere"],
            1,
            "has no state `nowhere`",
        ),
        (
            &["set-state", "link", "ams1", "rollback"],
            1,
            "can not be set from up to rollback",
        ),
        (
            &[
                "update",
                "link",
                "ams1",
                "--set",
                "mbps=1",
                "--version",
                "2",
            ],
            1,
            "the version 2 was given",
        ),
        (&["update", "link", "ams1", "--set", "site=b"], 2, "site: "),
        (&["update", "link", "ams1"], 2, "give attributes"),
        (&["create", "link", "-f", "none.yaml"], 2, "none.yaml"),
        (
            &["create", "link", "--set", "site=ams1"],
            1,
            "there is an instance of link with the service identity ams1 already",
        ),
        (
            &["show", "link", "a,b=c[d]"],
            1,
            "link has no instance `a,b=c[d]`",
        ),
        (
            &["watch", "link", "ams1", "--until", "nowhere"],
            2,
            "has no state `nowhere`",
        ),
        (
            &[
                "watch",
                "link",
                "ams1",
                "--until",
                "failed",
                "--timeout",
                "0",
            ],
            1,
            "ams1 is still up",
        ),
        (
            &["list", "link", "-e", "other"],
            1,
            "has no environment `other`",
        ),
        (&["list"], 2, "SERVICE"),
        (&["list", "link", "--limit", "0"], 2, "--limit"),
    ];
    for (arguments, expected, said) in refused {
        let (code, out, err) = world.run(arguments);
        assert_eq!(code, Some(*expected), "{arguments:?}: {out}{err}");
        assert!(err.contains(said), "{arguments:?}: {err}");
    }
    let mut away = steward();
    away.args(["lsm", "catalog", "--server-port", "1"]);
    let away = finish(away);
    assert_eq!(away.status.code(), Some(3), "{}", text(&away.stderr));
}

/// Names with escape sequences come from whoever orders.
#[test]
fn what_others_named_does_not_steer_the_terminal() {
    let world = World::new();
    // The last one turns the direction of what follows around.
    let site = "a\u{1b}]0;x\u{7}b\u{202e}c";
    let body = serde_json::json!({"attributes": {"site": site}});
    let made = world
        .running
        .call("POST", "/lsm/v1/service_inventory/link", Some(&body));
    assert_eq!(made.0, 200);
    let id = made.1["data"]["id"].as_str().unwrap();
    for arguments in [
        vec!["list", "link"],
        vec!["show", "link", id],
        vec!["log", "link", id],
        vec!["diagnose", "link", id],
    ] {
        let out = world.ok(&arguments);
        assert!(!out.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{out:?}");
    }
}

/// Given: a standard output that takes nothing. Expected: the command says so and fails.
#[test]
fn an_answer_that_can_not_be_written_is_an_error() {
    let world = World::new();
    let full = std::fs::File::options().write(true).open("/dev/full");
    let mut command = world.command(&["catalog", "list"]);
    let output = command.stdout(full.unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("cannot write the answer"), "{said}");
}
