//! A model with mistakes: it is told, and the old version stays in force.

use serde_json::{Value, json};

use crate::harness::{Host, Repo, Running, events, files, finish};

/// A project whose one plugin raises an exception of its module.
fn write_refusing_plugin(repo: &Repo) {
    let plugin = "from inmanta.plugins import plugin, PluginException\nclass Refused(PluginException):\n    pass\n\
        @plugin\ndef refuse() -> \"int\":\n    raise Refused(\"not\\nthat\")\n";
    repo.write_module("picky", "", plugin);
    repo.write("main.cf", "import picky\nx = picky::refuse()\n");
}

/// The error of that exception: its class and its text are those of the module.
#[track_caller]
fn check_refused(error: &Value) {
    assert_eq!(
        (
            &error["category"],
            &error["type"],
            &error["message"],
            &error["location"]["range"]["start"]["line"]
        ),
        (
            &json!("plugin_exception"),
            &json!("inmanta_plugins.picky.Refused"),
            &json!("not\nthat"),
            &json!(1)
        )
    );
}

/// The report of the newest compile, with all that the list of reports leaves out.
fn newest_report(running: &Running) -> Value {
    let report = running.get_ok("/api/v2/compilereport?limit=1")["data"][0].clone();
    let path = format!("/api/v2/compilereport/{}", report["id"].as_str().unwrap());
    running.get_ok(&path)["data"].clone()
}

#[test]
//: lang 182; deploy 19, 133
fn a_bad_commit_is_told_with_file_line_and_caret_and_the_old_version_stays() {
    let (repo, host) = (Repo::new(&files(&[("a", "one")])), Host::new());
    let mut running = Running::start(host.up(repo.path()));
    running.settled(1);
    repo.write(
        "main.cf",
        &format!("{}\nx = 1\nx = 2\n", files(&[("a", "two")])),
    );
    let bad = repo.commit("bad");
    let compiled = running.wait_for(|event| event["event"] == "compiled");
    assert_eq!(
        (&compiled["success"], &compiled["version"]),
        (&json!(false), &json!(null))
    );
    let diagnostic = &compiled["diagnostics"][0];
    assert_eq!(diagnostic["kind"], "DoubleSetException", "{compiled}");
    assert!(diagnostic["file"].as_str().unwrap().ends_with("main.cf"));
    assert_eq!(diagnostic["line"], 9, "{diagnostic}");
    assert_eq!(host.read("a"), "one\n");
    let versions = running.get_ok("/api/v2/desiredstate");
    assert_eq!(
        (
            &versions["data"][0]["version"],
            &versions["data"][0]["status"]
        ),
        (&json!(1), &json!("active"))
    );

    // The same in the API: the report has the diagnostic, the excerpt and the caret.
    let report = running.get_ok("/api/v2/compilereport?limit=1")["data"][0].clone();
    assert_eq!(
        (&report["success"], &report["commit"]),
        (&json!(false), &json!(bad))
    );
    let details = newest_report(&running);
    let error = &details["compile_data"]["errors"][0];
    assert_eq!(
        (&error["category"], &error["type"]),
        (
            &json!("runtime_error"),
            &json!("inmanta.ast.DoubleSetException")
        )
    );
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("value set twice:"), "{message}");
    assert!(!message.contains("reported in"), "{message}");
    let location = &error["location"];
    assert!(location["uri"].as_str().unwrap().ends_with("main.cf"));
    assert_eq!(
        location["range"],
        json!({"start": {"line": 8, "character": 0}, "end": {"line": 8, "character": 5}})
    );
    let stages = details["reports"].as_array().unwrap();
    let stage = stages
        .iter()
        .find(|stage| stage["name"] == "Recompiling configuration model")
        .unwrap();
    let shown = stage["errstream"].as_str().unwrap();
    assert!(
        shown.contains("main.cf:9") && shown.contains("x = 2") && shown.contains('^'),
        "{shown}"
    );

    // A mistake of syntax is of another category.
    // The brace makes no sense after the keyword of the line before.
    repo.write("main.cf", "entity A:\nend\n}\n");
    repo.commit("worse");
    running.wait_for(|event| {
        event["event"] == "compiled" && event["diagnostics"][0]["kind"] == "ParserException"
    });
    let error = newest_report(&running)["compile_data"]["errors"][0].clone();
    assert_eq!(
        (
            &error["category"],
            &error["type"],
            &error["location"]["range"]["start"]["line"]
        ),
        (
            &json!("parse_error"),
            &json!("inmanta.parser.ParserException"),
            &json!(1)
        )
    );

    // What a plugin raises on purpose is of a category of its own, with its class and its text.
    write_refusing_plugin(&repo);
    repo.commit("refused");
    running.wait_for(|event| {
        event["event"] == "compiled" && event["diagnostics"][0]["kind"] == "ExplicitPluginException"
    });
    check_refused(&newest_report(&running)["compile_data"]["errors"][0]);

    // A later good commit goes on from there: those that failed have taken no number.
    repo.write("main.cf", &files(&[("a", "three")]));
    repo.commit("good");
    running.settled(2);
    let newest = running.get_ok("/api/v2/desiredstate")["data"][0]["version"].clone();
    assert_eq!(newest, json!(2));
    assert_eq!(host.read("a"), "three\n");
}

#[test]
fn what_is_wrong_with_a_project_is_said_and_once_fails() {
    for (path, content, expected) in [
        ("main.cf", "entity foo:\nend\n", "must start with a capital"),
        ("main.cf", "import nothing_here\n", "nothing_here"),
        ("main.cf", "x = \"unterminated\n", "main.cf:1"),
        ("project.yml", "name: [\n", "project.yml"),
        ("main.cf", "\u{0}\u{1}\u{2}", "Illegal character"),
    ] {
        let (repo, host) = (Repo::new(""), Host::new());
        repo.write(path, content);
        repo.commit("bad");
        let mut command = host.up(repo.path());
        command.arg("--once");
        let output = finish(command);
        assert_eq!(output.status.code(), Some(1), "{content:?}");
        let compiled = events(&output).pop().unwrap();
        let text = compiled.to_string();
        let located = compiled["diagnostics"][0].clone();
        let location = format!(
            "{}:{}",
            located["file"].as_str().unwrap_or_default(),
            located["line"]
        );
        assert!(
            text.contains(expected) || location.ends_with(expected),
            "{expected}: {text}"
        );
    }
}

#[test]
fn a_source_that_is_none_is_wrong_usage() {
    let empty = tempfile::tempdir().unwrap();
    for source in [
        "/no/such/place",
        empty.path().to_str().unwrap(),
        "ext::sh -c id",
        "https://u:p@example.org/x",
    ] {
        let mut command = crate::harness::steward();
        command
            .args(["up", source, "--once", "--listen", "127.0.0.1:0"])
            .current_dir(empty.path());
        command.env("HOME", empty.path());
        let output = finish(command);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{source}: {text}");
        assert!(
            text.starts_with("steward: ") && !text.contains("u:p@"),
            "{text}"
        );
    }
    assert_eq!(
        std::fs::read_dir(empty.path()).unwrap().count(),
        0,
        "nothing was made"
    );
}
