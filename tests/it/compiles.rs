//! Compiles that somebody asks a server for: what is done, what is reported, and who is told of a failure.
//! Source: docs/reference/deployment.md § 6.

use serde_json::{Value, json};

use crate::environments::{Logged, configure};
use crate::harness::{Repo, request, wait_until};

const SLOW: &str = r#"
import time

from inmanta.plugins import plugin


@plugin
def wait(seconds: "int" = 1) -> "int":
    time.sleep(seconds)
    return 1
"#;

/// A repository that is looked at only when somebody asks, with a model that takes a second.
fn start(directory: &tempfile::TempDir) -> (Repo, Logged, String) {
    let repo = Repo::new("import slow\nx = slow::wait()\nstd::print(\"first\")\n");
    repo.write_module("slow", "", SLOW);
    repo.commit("a slow one");
    let config = format!(
        "repositories: {{allow_local: [{}]}}\nenvironments:\n  - {{project: p, name: one, repository: {}, branch: main, poll: 24h, watch: false}}\n",
        repo.path().display(),
        repo.path().display()
    );
    let served = Logged::start(&configure(directory.path(), &config));
    let id = served.environment("one")["id"].as_str().unwrap().to_owned();
    (repo, served, id)
}

/// The report of a compile, once it is done.
fn done(served: &Logged, environment: &str, compile: &str) -> Value {
    let path = format!("/api/v2/compilereport/{compile}");
    let mut report = Value::Null;
    wait_until("the compile is done", || {
        report = served.get(&path, environment)["data"].clone();
        !report["completed"].is_null()
    });
    report
}

/// Asks for a compile; gives its report, once it is done.
fn compiled(served: &Logged, environment: &str, update: bool) -> Value {
    let (path, body) = (
        format!("/api/v1/notify/{environment}"),
        json!({"update": update}),
    );
    let (status, answer) = served.call("POST", &path, "", &body);
    assert_eq!(status, 200, "{answer}");
    done(served, environment, answer["compile_id"].as_str().unwrap())
}

/// Given: a cron expression for one second of one day of one year. Expected: the compile comes, though there is no next one.
//: deploy 131
#[test]
fn a_full_compile_that_is_due_once_and_never_again_comes() {
    let directory = tempfile::tempdir().unwrap();
    let (_repo, served, id) = start(&directory);
    let soon = chrono::Utc::now() + chrono::TimeDelta::seconds(20);
    let once = soon.format("%S %M %H %d %m * %Y").to_string();
    let (status, answer) = served.call(
        "POST",
        "/api/v2/environment_settings/auto_full_compile",
        &id,
        &json!({"value": once}),
    );
    assert_eq!(status, 200, "{answer}");
    wait_until("it comes", || {
        let reports = served.get("/api/v2/compilereport", &id)["data"].clone();
        let mut reports = reports.as_array().unwrap().iter();
        reports.any(|report| report["metadata"]["type"] == "schedule")
    });
}

//: deploy 121, 122, 123, 125, 127, 128, 130, 132, 139, 145
#[test]
#[expect(
    clippy::too_many_lines,
    reason = "a list of what one server is asked for, whose start takes longer than all of it"
)]
fn a_compile_is_asked_for_watched_reported_and_its_failure_told() {
    let directory = tempfile::tempdir().unwrap();
    let (repo, served, id) = start(&directory);
    let (status, body) = request("GET", &format!("{}/api/v2/health", served.api), None, None);
    assert_eq!(
        (status, &body),
        (200, &json!({"data": null})),
        "without a token"
    );
    let mut first = Value::Null;
    wait_until("the first commit is compiled", || {
        let reports = served.get("/api/v2/compilereport", &id);
        first = reports["data"][0].clone();
        first["success"] == json!(true)
    });
    // Storing is what ends a compile, so this stage is written behind its end.
    let mut report = done(&served, &id, first["id"].as_str().unwrap());
    wait_until("the last stage is written", || {
        report = done(&served, &id, first["id"].as_str().unwrap());
        report["reports"].as_array().unwrap().len() == 4
    });
    let first = report;
    let stages = first["reports"].as_array().unwrap();
    let names: Vec<&str> = stages
        .iter()
        .map(|stage| stage["name"].as_str().unwrap())
        .collect();
    let expected = [
        "Pulling updates",
        "Checking out",
        "Recompiling configuration model",
        "Storing the version",
    ];
    assert_eq!(names, expected);
    assert!(
        stages.iter().all(|stage| stage["returncode"] == 0),
        "{stages:?}"
    );
    assert_eq!(stages[2]["outstream"], "first\n");

    // Without `update` the repository is not asked, with it it is.
    let old = repo.head();
    repo.write(
        "main.cf",
        "import slow\nx = slow::wait()\nstd::print(\"second\")\n",
    );
    let new = repo.commit("another one");
    assert_eq!(compiled(&served, &id, false)["commit"], json!(old));
    assert_eq!(compiled(&served, &id, true)["commit"], json!(new));

    // GET asks for a compile, too, and HEAD says whether one runs. It takes so long that a slow machine sees it run.
    let path = format!("/api/v1/notify/{id}");
    let is_compiling = || served.call("HEAD", &path, "", &Value::Null).0;
    assert_eq!(is_compiling(), 204);
    repo.write("main.cf", "import slow\nx = slow::wait(8)\n");
    repo.commit("a very slow one");
    let asked = served.get(&path, "");
    wait_until("it compiles", || is_compiling() == 200);
    done(&served, &id, asked["compile_id"].as_str().unwrap());
    wait_until("it has compiled", || is_compiling() == 204);
    repo.write("main.cf", "std::print(\"third\")\n");
    let new = repo.commit("a quick one");
    let last = compiled(&served, &id, true);

    // The pause between two compiles.
    let setting = |name: &str, value: Value| {
        let path = format!("/api/v1/environment_settings/{name}");
        let (status, answer) = served.call("POST", &path, &id, &json!({"value": value}));
        assert_eq!((status, &answer), (200, &json!({})));
    };
    setting("recompile_backoff", json!(2));
    compiled(&served, &id, false);
    let next = compiled(&served, &id, false);
    let moment = |report: &Value, name: &str| {
        let text = report[name].as_str().unwrap();
        chrono::DateTime::parse_from_rfc3339(text).unwrap()
    };
    assert!(moment(&next, "started") > moment(&last, "completed"));
    let reports = served.get("/api/v2/compilereport?limit=2", &id);
    let pause = moment(&reports["data"][0], "started") - moment(&reports["data"][1], "completed");
    assert!(pause.num_milliseconds() >= 1900, "{pause}");
    setting("recompile_backoff", json!(0.1));

    // Another branch.
    repo.git(&["checkout", "-q", "-b", "other"]);
    repo.write("main.cf", "std::print(\"other\")\n");
    let other = repo.commit("another branch");
    let moved = json!({"name": "one", "repository": repo.path(), "branch": "other"});
    let (status, answer) = served.call("POST", &format!("/api/v2/environment/{id}"), "", &moved);
    assert_eq!(
        (status, &answer["data"]["repo_branch"]),
        (200, &json!("other")),
        "{answer}"
    );
    assert_eq!(compiled(&served, &id, true)["commit"], json!(other));

    // A repository that is away: no version, and people are told.
    let before = served.get("/api/v2/desiredstate", &id)["metadata"]["total"].clone();
    let none = served.get("/api/v2/notification", &id);
    assert_eq!(none["metadata"]["total"], 0, "{none}");
    std::fs::rename(repo.path().join(".git"), repo.path().join("git")).unwrap();
    let failed = compiled(&served, &id, true);
    assert_eq!(
        (&failed["success"], &failed["version"]),
        (&json!(false), &Value::Null)
    );
    assert!(!failed["failure"].as_str().unwrap().is_empty());
    let of_environment = |id: &str| {
        let environment = served.get(&format!("/api/v2/environment/{id}"), id);
        environment["data"]["failure"].clone()
    };
    let failure = of_environment(&id).to_string();
    assert!(
        failure.contains("the repository cannot be fetched since"),
        "{failure}"
    );
    assert_eq!(
        served.get("/api/v2/desiredstate", &id)["metadata"]["total"],
        before
    );
    wait_until("it is told", || {
        let told = served.get("/api/v2/notification?filter.read=false", &id);
        told["data"][0]["compile_id"] == failed["id"]
    });
    let told = served.get("/api/v2/notification", &id)["data"][0].clone();
    assert_eq!(
        told["title"], "Pulling updates during compile failed",
        "{told}"
    );
    assert_eq!(told["message"], failed["failure"]);
    let path = format!("/api/v2/notification/{}", told["id"].as_str().unwrap());
    let (status, marked) = served.call("PATCH", &path, &id, &json!({"read": true}));
    assert_eq!(
        (status, &marked["data"]["read"]),
        (200, &json!(true)),
        "{marked}"
    );
    let unread = served.get("/api/v2/notification?filter.read=false", &id);
    assert_eq!(unread["metadata"]["total"], 0);

    setting("server_compile", json!(false));
    let path = format!("/api/v1/notify/{id}");
    let (status, answer) = served.call("POST", &path, "", &json!({}));
    assert_eq!(status, 200);
    assert!(answer["compile_id"].is_null());
    assert_eq!(
        answer["metadata"]["warnings"].as_array().unwrap().len(),
        1,
        "{answer}"
    );
    assert_eq!(
        served.get("/api/v1/compilequeue", &id),
        json!({"queue": []})
    );

    // What the server has of the repository is gone: the next compile makes it again.
    std::fs::rename(repo.path().join("git"), repo.path().join(".git")).unwrap();
    setting("server_compile", json!(true));
    served.stop();
    for name in ["checkouts", "mirrors"] {
        std::fs::remove_dir_all(directory.path().join("data").join(name)).unwrap();
    }
    let served = Logged::start(&directory.path().join("steward.yaml"));
    // At its start the server takes the branch of the configuration again.
    let again = compiled(&served, &id, false);
    assert_eq!(
        (&again["success"], &again["commit"]),
        (&json!(true), &json!(new))
    );
    served.stop();
}
