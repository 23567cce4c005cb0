//! `steward explain`: the chain of reasons from a resource that is not deployed to the root cause.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::embedded::{Project, text};
use crate::harness::{Host, Repo, Running, files, finish, segment, steward, wait_until};

/// Reasons of a chain, with the last part of the resources' ids.
fn chain(explanation: &Value) -> Vec<String> {
    let links = explanation["chain"].as_array().unwrap().iter();
    links
        .map(|link| {
            let id = link["resource_id"].as_str().unwrap();
            let name = id.rsplit(['/', '=']).next().unwrap().trim_end_matches(']');
            format!("{name} {}", link["reason"].as_str().unwrap())
        })
        .collect()
}

const BROKEN: &str = "import fs\nroot = std::get_env(\"ROOT\")\nhost = std::Host(name=\"localhost\", os=std::linux)\n\
    a = fs::File(host=host, path=f\"{root}/none/a\", content=\"a\")\n\
    b = fs::File(host=host, path=f\"{root}/b\", content=\"b\", requires=a)\n\
    c = fs::File(host=host, path=f\"{root}/c\", content=\"c\", requires=b)\n\
    fs::File(host=host, path=f\"{root}/good\", content=\"c\")\n";

#[test]
fn a_skipped_resource_is_explained_by_the_one_that_failed_with_its_log_and_commit() {
    let project = Project::new(BROKEN);
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=A", "-c", "user.email=a@example.org"]);
        command.args(arguments).current_dir(project.path());
        let output = finish(command);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    };
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "break it"]);
    let commit = git(&["rev-parse", "HEAD"]);
    assert_eq!(project.deploy(&[]).0, Some(1));
    let of = |name: &str| {
        format!(
            "fs::File[localhost,path={}/{name}]",
            project.root().display()
        )
    };

    let output = project.run(&["explain", "--json", &of("c")]);
    let explanation: Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = [
        "c requires_not_deployed",
        "b requires_not_deployed",
        "a failed",
    ];
    assert_eq!(chain(&explanation), expected, "{explanation:#}");
    let root = &explanation["chain"][2];
    assert_eq!(root["brought_by"]["commit"], commit.as_str());
    let author = root["brought_by"]["commit_author"].as_str();
    assert!(author.is_some_and(|author| author.ends_with('>')));
    assert_eq!(
        (&root["brought_by"]["version"], &root["run_version"]),
        (&json!(1), &json!(1))
    );
    assert!(
        root["message"].as_str().unwrap().contains("none"),
        "{root:#}"
    );
    let lines = explanation["log"].as_array().unwrap();
    assert!(
        lines.iter().any(|line| line["level"] == "ERROR"),
        "{lines:#?}"
    );

    // A part of an id is enough when it is of one resource only.
    let output = project.run(&["explain", "/c]"]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for part in [
        format!(
            "{}\n   was skipped: it requires {}, which is not deployed\n",
            of("c"),
            of("b")
        ),
        format!("└─ {}\n", of("b")),
        format!("   └─ {}\n         failed\n", of("none/a")),
        format!(
            "in this form since version 1, commit {} \"break it\"",
            &commit[..8]
        ),
        "last log lines of the root cause\n".to_owned(),
    ] {
        assert!(shown.contains(&part), "{part} is not in\n{shown}");
    }
    let output = project.run(&["explain", "/good]"]);
    assert!(
        text(&output.stdout).contains("is deployed as it shall be"),
        "{}",
        text(&output.stdout)
    );
    let output = project.run(&["explain", "fs::File"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("4 resources have `fs::File` in their ids:"),
        "{}",
        text(&output.stderr)
    );
    let output = project.run(&["explain", &of("nowhere")]);
    assert!(
        text(&output.stderr).contains("there is no resource"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn an_undefined_resource_names_the_fact_that_it_waits_for_and_who_would_give_it() {
    let project = Project::with_box(
        "angry = box::Box(name=\"angry\", mood=\"angry\")\n\
         waits = box::Box(name=\"waits\", size=std::getfact(angry, \"colour\"))\n\
         box::Box(name=\"behind\", requires=waits)\nbox::Box(name=\"env\", size=std::get_env(\"NOWHERE\"))\n",
    );
    assert_eq!(project.deploy(&[]).0, Some(1));
    let explain = |name: &str| {
        let output = project.run(&[
            "explain",
            "--json",
            &format!("box::Box[{name},name={name}]"),
        ]);
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let explanation = explain("behind");
    let expected = [
        "behind requires_undefined",
        "waits undefined",
        "angry failed",
    ];
    assert_eq!(chain(&explanation), expected, "{explanation:#}");
    let awaited = &explanation["chain"][1]["awaited"];
    assert_eq!(awaited["attributes"], json!(["size"]));
    let fact = &awaited["facts"][0];
    assert_eq!(
        (&fact["resource_id"], &fact["fact"]),
        (&json!("box::Box[angry,name=angry]"), &json!("colour"))
    );
    assert!(fact["asked"].is_string(), "{awaited:#}");
    let message = explanation["chain"][2]["message"].as_str().unwrap();
    assert!(message.contains("the box is angry"), "{message}");
    let shown = text(&project.run(&["explain", "name=behind]"]).stdout);
    assert!(shown.contains("the model waits for fact `colour` of box::Box[angry,name=angry]; its handler was asked at "), "{shown}");
    assert!(shown.contains("not known: size"), "{shown}");
    // It waits for another value, which no version names.
    let shown = text(&project.run(&["explain", "name=env]"]).stdout);
    let other = "if that is not its value: a variable of the environment has none";
    assert!(shown.contains(other), "{shown}");
}

#[test]
fn a_server_explains_what_stands_still_and_what_is_no_longer_there() {
    let (repo, host) = (
        Repo::new(&files(&[("a", "one"), ("b", "two")])),
        Host::new(),
    );
    let mut running = Running::start(host.up(repo.path()));
    running.settled(1);
    let id = |name: &str| format!("fs::File[localhost,path={}]", host.file(name).display());
    let explain = |name: &str| {
        let path = format!("/api/v2/resource/{}/explain", segment(&id(name)));
        running.get_ok(&path)["data"].clone()
    };
    // The engine takes a version over soon after it is in force.
    let soon = |name: &str, expected: &str| {
        wait_until(expected, || chain(&explain(name)) == [expected]);
    };
    soon("a", "a deployed");
    let unknown = format!("/api/v2/resource/{}/explain", segment("m::X[a,b=c]"));
    assert_eq!(running.get(&unknown).0, 404);

    running.call("POST", "/api/v2/agent/localhost/pause", None);
    repo.write("main.cf", &files(&[("a", "changed")]));
    let commit = repo.commit("change a, drop b");
    wait_until("the second version is in force", || {
        running.get_ok("/api/v2/desiredstate")["data"][0]["status"] == "active"
            && running.get_ok("/api/v2/desiredstate")["data"][0]["version"] == 2
    });
    soon("a", "a agent_paused");
    let explanation = explain("a");
    let waits = explanation["chain"][0]["text"].as_str().unwrap();
    let since = waits.strip_prefix("waits: its agent localhost is paused since ");
    assert!(
        since.is_some_and(|since| since.starts_with("20")),
        "{waits}"
    );
    let brought_by = &explanation["chain"][0]["brought_by"];
    assert_eq!(brought_by["commit"], commit.as_str(), "{brought_by:#}");
    assert_eq!(brought_by["commit_summary"], "change a, drop b");
    soon("b", "b orphaned");
    let gone = explain("b");
    assert!(
        gone["chain"][0]["text"]
            .as_str()
            .unwrap()
            .contains("version 1 was the last"),
        "{gone:#}"
    );
    let removed_by = &gone["chain"][0]["removed_by"];
    assert_eq!(removed_by["version"], 2, "{removed_by:#}");
    assert_eq!(removed_by["commit"], commit.as_str(), "{removed_by:#}");

    running.call("POST", "/api/v2/actions/environment/halt", None);
    soon("a", "a environment_halted");

    // The command asks the server that .inmanta names.
    let port = running.api.rsplit(':').next().unwrap();
    let config = format!(
        "[config]\nenvironment = {}\n[compiler_rest_transport]\nhost = 127.0.0.1\nport = {port}\n",
        running.environment()
    );
    std::fs::write(host.root().join(".inmanta"), config).unwrap();
    let explained = |part: &str| {
        let mut command = steward();
        command.args(["explain", part]).current_dir(host.root());
        let output = finish(command);
        (text(&output.stdout), text(&output.stderr))
    };
    // Any part of the id that no other has.
    let path = format!("path={}", host.file("a").display());
    for part in [
        "/a]",
        &path,
        &format!("File[localhost,{path}"),
        &format!("ost,{path}]"),
    ] {
        let (shown, said) = explained(part);
        assert!(
            shown.contains("the environment is halted"),
            "{part}: {shown}{said}"
        );
    }
    let (shown, said) = explained("/a");
    assert!(
        shown.contains("waits: the environment is halted"),
        "{shown}{said}"
    );
    assert!(
        shown.contains(&format!(
            "commit {} \"change a, drop b\" by A",
            &commit[..8]
        )),
        "{shown}"
    );

    // A port is enough: it names a server, and that has one environment.
    std::fs::remove_file(host.root().join(".inmanta")).unwrap();
    let mut command = steward();
    command.args(["explain", "/a", "--server-port", port]);
    command.current_dir(host.root());
    let output = finish(command);
    let shown = text(&output.stdout);
    assert!(
        shown.contains("waits: the environment is halted"),
        "{shown}{}",
        text(&output.stderr)
    );
    running.stop();
}

/// Given: a resource that only a version has that nobody has released. Expected: the explanation says so, with the version and
/// the commit that brought it, and speaks of no run.
#[test]
fn a_resource_of_a_version_that_is_not_released_is_explained_by_its_version_and_commit() {
    let (repo, host) = (Repo::new(&files(&[("a", "one")])), Host::new());
    let mut running = Running::start(host.up(repo.path()));
    running.settled(1);
    let path = "/api/v2/environment_settings/auto_deploy";
    let (status, body) = running.call("POST", path, Some(&json!({"value": false})));
    assert_eq!(status, 200, "{body}");
    repo.write("main.cf", &files(&[("a", "one"), ("b", "two")]));
    let commit = repo.commit("add b");
    wait_until("the second version is stored", || {
        running.get_ok("/api/v2/desiredstate")["data"][0]["version"] == 2
    });
    let id = format!("fs::File[localhost,path={}]", host.file("b").display());
    let path = format!("/api/v2/resource/{}/explain", segment(&id));
    let explanation = running.get_ok(&path)["data"].clone();
    assert_eq!(chain(&explanation), ["b not_released"], "{explanation:#}");
    let link = &explanation["chain"][0];
    assert_eq!(link["version"], 2, "{link:#}");
    assert_eq!(link["at"], Value::Null, "{link:#}");
    assert_eq!(link["brought_by"]["commit"], commit.as_str(), "{link:#}");
    // The newest commit brings no version at all: that is said as well, and not instead.
    repo.write("main.cf", "x = nothing");
    repo.commit("break it");
    running.wait_for(|event| event["event"] == "compiled" && event["success"] == false);
    let (_, port) = running.api.rsplit_once(':').unwrap();
    let mut command = steward();
    command.args(["explain", &id, "--server-port", port]);
    command.current_dir(host.root());
    let output = finish(command);
    let shown = text(&output.stdout);
    for part in [
        "does not compile",
        "version 2 is stored, but nobody has released it",
    ] {
        assert!(
            shown.contains(part),
            "{part}: {shown}{}",
            text(&output.stderr)
        );
    }
    running.stop();
}

/// Given: a command that goes on, and another one of the same agent. Expected: the first is said to run since then, and is named
/// as what the second waits for.
#[test]
fn what_waits_for_its_turn_is_explained_by_what_its_agent_does_and_since_when() {
    let command =
        |name: &str| format!("touch began; until test -e go; do sleep 0.1; done; touch {name}");
    let runs = ["first", "second"].map(|name| {
        format!(
            "exec::Run(host=host, cwd=root, command=\"{}\")\n",
            command(name)
        )
    });
    let model = format!(
        "import exec\nroot = std::get_env(\"ROOT\")\nhost = std::Host(name=\"localhost\", os=std::linux)\n{}",
        runs.concat()
    );
    let (repo, host) = (Repo::new(&model), Host::new());
    let running = Running::start(host.up(repo.path()));
    wait_until("a command runs", || host.root().join("began").exists());
    let links = || {
        ["first", "second"].map(|name| {
            let id = format!("exec::Run[localhost,command={}]", command(name));
            let path = format!("/api/v2/resource/{}/explain", segment(&id));
            running.get_ok(&path)["data"]["chain"][0].clone()
        })
    };
    wait_until("its beginning is written", || {
        links().iter().any(|link| link["reason"] == "deploying")
    });
    let links = links();
    let of = |reason: &str| links.iter().find(|link| link["reason"] == reason).unwrap();
    let (runs, waits) = (of("deploying"), of("waiting"));
    let text = runs["text"].as_str().unwrap();
    assert!(text.starts_with("is being deployed since "), "{text}");
    let expected = json!({"resource_id": runs["resource_id"], "since": runs["deploying_since"]});
    assert_eq!(waits["busy_with"], expected, "{waits:#}");
    let text = waits["text"].as_str().unwrap();
    assert!(
        text.starts_with("waits for its turn on agent localhost, which deploys exec::Run["),
        "{text}"
    );
    std::fs::write(host.root().join("go"), "").unwrap();
    running.stop();
}

#[test]
fn a_commit_that_does_not_compile_is_said_with_the_resource_that_it_does_not_change() {
    let (repo, host) = (Repo::new(&files(&[("a", "one")])), Host::new());
    let mut running = Running::start(host.up(repo.path()));
    running.settled(1);
    repo.write("main.cf", "x = nosuch\n");
    let commit = repo.commit("a mistake");
    let port = running.api.rsplit(':').next().unwrap().to_owned();
    let explained = |part: &str| {
        let mut command = steward();
        command.args(["explain", part, "--server-port", &port]);
        command.current_dir(host.root());
        let output = finish(command);
        text(&output.stdout) + &text(&output.stderr)
    };
    let expected = format!("the newest commit {} does not compile", &commit[..8]);
    for part in ["/a", "/nosuch"] {
        wait_until("the commit is named", || {
            explained(part).contains(&expected)
        });
    }
    assert!(explained("/a").contains("is deployed as it shall be"));
    running.stop();
}

#[test]
fn who_runs_a_server_here_is_told_once_how_to_ask_it() {
    let (repo, host) = (Repo::new(BROKEN), Host::new());
    let mut command = steward();
    command.arg("up").arg(repo.path());
    command.args(["--listen", "127.0.0.1:0", "--set", "deploy_retry_backoff=1"]);
    command.arg("--data").arg(host.data());
    let root = format!("ROOT={}", host.root().display());
    command.args(["--env", &root]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut shown = Vec::new();
    for line in lines.map_while(Result::ok) {
        shown.push(line);
        // What fails as before is said in short.
        let is_failed = |line: &&String| {
            line.contains("not all deployed") || line.contains("is still failing since")
        };
        if shown.iter().filter(is_failed).count() == 3 {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let text = shown.join("\n");
    assert_eq!(text.matches("not all deployed").count(), 1, "{text}");
    assert!(text.contains(" UTC, 4 times"), "{text}");
    let port = shown.iter().find_map(|line| line.split_once("127.0.0.1:"));
    let port = port.unwrap().1.split_whitespace().next().unwrap();
    let hint = format!(
        "`steward explain RESOURCE --server-port {port}` says why a resource is not deployed"
    );
    assert_eq!(text.matches(&hint).count(), 1, "{text}");
}
