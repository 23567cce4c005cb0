//! The configuration file: what is good, and what is said of what is not.

use super::file::parse;

const GOOD: &str = r"
listen: 127.0.0.1:9999
data: /tmp/data
environments:
  - project: infra
    name: prod
    repository: https://git.example.com/infra.git
    branch: main
    poll: 5m
    env: {ROOT: /srv, PORT: 8080, DEBUG: true}
    settings: {autostart_agent_repair_interval: 30}
    webhooks:
      - {id: prod, forge: github, secret: correct-horse}
";

#[test]
fn a_whole_file_is_read() {
    let config = parse(GOOD, "f").unwrap();
    let environment = &config.environments[0];
    assert_eq!(environment.poll.as_secs(), 300);
    assert_eq!(environment.variables["PORT"], "8080");
    assert_eq!(environment.variables["DEBUG"], "true");
    assert_eq!(
        environment.settings["autostart_agent_repair_interval"],
        "30"
    );
    assert!(!format!("{config:?}").contains("correct-horse"));
    assert_eq!(config.facts, crate::domain::FactTimes::default());
    let facts = |text: &str| parse(&format!("{GOOD}facts: {text}\n"), "f");
    let times = facts("{expire: 10m, resource_block: 0s}").unwrap().facts;
    let seconds = [times.expire, times.renew, times.resource_block].map(|time| time.as_secs());
    assert_eq!(seconds, [600, 200, 0]);
    for bad in [
        "{expire: 0s}",
        "{expire: 1m, renew: 1m}",
        "{renew: 2h}",
        "{other: 1s}",
    ] {
        assert!(facts(bad).is_err(), "{bad}");
    }
}

#[test]
fn an_executor_has_as_many_hosts_for_as_long_as_the_file_says() {
    let limits = |text: &str| {
        let config = parse(&format!("{GOOD}executor: {text}\n"), "f");
        config.map(|config| config.executor)
    };
    let given = limits("{hosts: 4, keep: 0s, import_timeout: 5m, connections: 7}").unwrap();
    let seconds = [given.keep, given.import].map(|time| time.as_secs());
    assert_eq!((given.hosts, seconds), (4, [0, 300]));
    assert_eq!(given.connections, 7);
    assert_eq!(limits("{}").unwrap(), Default::default());
    for bad in [
        "{hosts: 0}",
        "{hosts: 5000}",
        "{import_timeout: 0s}",
        "{connections: 0}",
        "{connections: 5000}",
    ] {
        let error = limits(bad).unwrap_err().to_string();
        let field = bad[1..].split(':').next().unwrap();
        assert!(error.contains(&format!("executor.{field}: ")), "{error}");
    }
}

/// What is said of the changed file: of the whole, or of its first bad environment.
#[track_caller]
fn verdict_on(from: &str, to: &str) -> (bool, String) {
    assert!(GOOD.contains(from));
    match parse(&GOOD.replace(from, to), "steward.yaml") {
        Ok(config) => (false, config.refused[0].to_string()),
        Err(error) => (true, error.to_string()),
    }
}

/// Nothing starts.
#[track_caller]
fn check_error(from: &str, to: &str, expected: &str) {
    let (is_whole, error) = verdict_on(from, to);
    assert!(
        is_whole && error.contains(expected) && error.starts_with("steward.yaml"),
        "{error}"
    );
}

/// Only the environment does not run.
#[track_caller]
fn check_refused(from: &str, to: &str, expected: &str) {
    let (is_whole, error) = verdict_on(from, to);
    assert!(
        !is_whole && error.contains(expected) && error.starts_with("steward.yaml: environments[0]"),
        "{error}"
    );
}

/// Input: wrong syntax, types, unknown and repeated keys, `listen`, `api_token`, `data` (docs/reference/security.md § 4.7). Answer: nothing starts, and file and field are named.
#[test]
fn what_is_wrong_with_the_whole_file_is_named_with_its_field() {
    check_error("127.0.0.1:9999", "nowhere", "listen");
    check_error("127.0.0.1:9999", "0.0.0.0:80", "api_token");
    check_error(
        "poll: 5m",
        "pool: 5m",
        "line 9: environments[0]: `pool` is no key here; did you mean `poll`?",
    );
    let whole_file = crate::config::words::in_words(
        "invalid type: sequence, expected keys such as `environments:`",
    );
    assert_eq!(
        whole_file,
        "keys such as `environments:` are needed, not a list"
    );
    check_error(
        "poll: 5m",
        "watch: often",
        "true or false is needed, not `often`",
    );
    check_error(
        "data: /tmp/data",
        "data: /tmp/data\ndata: /tmp/other",
        "duplicate",
    );
    check_error("data: /tmp/data", "data: ''", "data");
    check_error("data: /tmp/data", "data: ~/steward", "data");
    check_error("    env:", "   env:", "line");
    // What has a wrong type, too, names its place.
    check_error("poll: 5m", "poll: [5]", "environments[0].poll");
    check_error("poll: 5m", "poll: [5]", "line");
    check_error("secret: correct-horse", "secret: []", "a text, or one of");
    check_error("PORT: 8080", "PORT: [1]", "a text, a number, true or false");
    check_error("PORT: 8080", "PORT: [1]", "environments[0].env.PORT: ");
    check_error(
        "PORT: 8080",
        "PORT: {files: x}",
        "environments[0].env.PORT: `files` is no key here; did you mean `file`?",
    );
    // A secret that is taken for a number is not shown.
    check_error(
        "secret: correct-horse",
        "secret: 12345678",
        "webhooks[0].secret: a text is needed",
    );
    let (_, error) = verdict_on("secret: correct-horse", "secret: 12345678");
    assert!(!error.contains("12345678"), "{error}");
    for token in [
        "short",
        "'with a space in the token'",
        "\"line\\nbreak-in-the-token\"",
    ] {
        let with = format!("data: /tmp/data\napi_token: {token}");
        check_error("data: /tmp/data", &with, "api_token");
    }
}

/// Input: `compile.timeout: 0s`, durations `-1s`, `99999999999h`, `NaN`, `0 slots`, 1 MiB of memory (docs/reference/security.md § 3.32, § 4.15). Answer: refused with the field's name.
#[test]
fn limits_that_make_no_sense_are_refused() {
    for (section, field) in [
        ("compile: {timeout: 0s}", "compile.timeout"),
        ("compile: {timeout: 0d}", "compile.timeout"),
        ("compile: {timeout: -1s}", "compile.timeout"),
        ("compile: {timeout: NaN}", "compile.timeout"),
        ("compile: {timeout: 99999999999h}", "compile.timeout"),
        (
            "compile: {timeout: 18446744073709551616}",
            "compile.timeout",
        ),
        ("compile: {install_timeout: 0s}", "compile.install_timeout"),
        ("compile: {fetch_timeout: 0s}", "compile.fetch_timeout"),
        (
            "compile: {fetch_memory_mib: 511}",
            "compile.fetch_memory_mib",
        ),
        ("compile: {slots: 0}", "compile.slots"),
        ("compile: {memory_mib: 1023}", "compile.memory_mib"),
        ("housekeeping: 0s", "housekeeping"),
        ("facts: {expire: 0s}", "facts.expire"),
        ("facts: {renew: 0s}", "facts.renew"),
        (
            "action_logs: {folder: /no/such/folder}",
            "action_logs.folder",
        ),
        (
            "action_logs: {folder: /tmp, file_mib: 0}",
            "action_logs.file_mib",
        ),
        (
            "action_logs: {folder: /tmp, older_files: 1001}",
            "action_logs.older_files",
        ),
        (
            "repositories: {allow_local: [git]}",
            "repositories.allow_local",
        ),
    ] {
        let with = format!("data: /tmp/data\n{section}");
        check_error("data: /tmp/data", &with, field);
    }
}

/// Input: an environment with a wrong duration, setting, webhook, branch, repository, name or secret (docs/reference/security.md § 4.7). Answer: that one is refused, with its field.
#[test]
fn what_is_wrong_with_one_environment_is_its_own() {
    for poll in ["5 minutes", "99999999999h", "-1s"] {
        check_refused("poll: 5m", &format!("poll: {poll}"), "environments[0].poll");
    }
    check_refused(
        "forge: github",
        "forge: svn",
        "environments[0].webhooks[0].forge",
    );
    check_refused("id: prod", "id: a/b", "environments[0].webhooks[0].id");
    let secret = "secret: correct-horse";
    check_refused(secret, "secret: ''", "environments[0].webhooks[0].secret");
    check_refused(secret, "secret: {file: /no/such}", "/no/such");
    check_refused(secret, "secret: {file: /dev/zero}", "no plain file");
    check_refused(
        secret,
        "secret: {env: NO_SUCH_VARIABLE}",
        "NO_SUCH_VARIABLE",
    );
    check_refused(secret, "secret: {file: /a, env: B}", "exactly one of");
    check_refused(
        "PORT: 8080",
        "PORT: {file: /no/such}",
        "environments[0].env.PORT",
    );
    check_refused("PORT: 8080", "'A=B': 8080", "environments[0].env.A=B");
    check_refused(
        "interval: 30",
        "interval: often",
        "settings.autostart_agent_repair_interval",
    );
    check_refused("branch: main", "branch: 'a b'", "environments[0].branch");
    check_refused(
        "branch: main",
        "branch: --upload-pack=x",
        "environments[0].branch",
    );
    check_refused("name: prod", "name: ' '", "environments[0].name");
    let repository = "repository: https://git.example.com/infra.git";
    for bad in [
        "/no/such/folder",
        "https://u:p4ssword@git.example.com/x",
        "'ext::sh -c x'",
        "--upload-pack=x",
        "git@-x:y",
        "ssh://-oProxyCommand=x/y",
    ] {
        let (is_whole, error) = verdict_on(repository, &format!("repository: {bad}"));
        assert!(
            !is_whole && error.contains("environments[0].repository"),
            "{error}"
        );
        assert!(!error.contains("p4ssword"), "{error}");
    }
    for (credentials, expected) in [
        (
            "ssh_key: /dev/zero",
            "credentials.ssh_key: cannot read /dev/zero: it is no plain file",
        ),
        ("known_hosts: /no/such", "credentials.known_hosts"),
        ("ssh_key: key", "credentials.ssh_key"),
        ("token: {file: /dev/zero}", "credentials.token"),
        ("token: ''", "credentials.token"),
        ("user: 'a:b', token: x", "credentials.user"),
    ] {
        let with = format!("poll: 5m\n    credentials: {{{credentials}}}");
        let (_, error) = verdict_on("poll: 5m", &with);
        assert!(error.contains(expected), "{credentials}: {error}");
    }
}

/// Input: an environment's name, or the id of a webhook, twice (docs/reference/security.md § 4.7). Answer: the second environment is refused.
#[test]
fn of_two_environments_with_one_name_or_hook_the_second_is_refused() {
    let second = |name: &str, hook: &str| {
        let section = GOOD.split_once("environments:\n").unwrap().1;
        let section = section
            .replace("name: prod", &format!("name: {name}"))
            .replace("id: prod", &format!("id: {hook}"));
        parse(&format!("{GOOD}{section}"), "f").unwrap()
    };
    assert_eq!(second("other", "other").environments.len(), 2);
    let config = second("prod", "other");
    assert_eq!(config.environments.len(), 1);
    assert_eq!(config.refused[0].field, "environments[1]");
    assert!(!config.refused[0].is_named);
    let config = second("other", "prod");
    assert_eq!(config.environments[0].name, "prod");
    assert_eq!(config.refused[0].field, "environments[1].webhooks");
    assert!(config.refused[0].is_named);
}

#[test]
fn a_secret_variable_is_no_plain_one_and_is_read_again_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("secret");
    let text = GOOD.replace("PORT: 8080", &format!("KEY: {{file: {}}}", file.display()));
    let refused = parse(&text, "f").unwrap().refused.remove(0);
    assert_eq!(refused.field, "environments[0].env.KEY");
    assert!(refused.again().is_err());
    std::fs::write(&file, "abc\n").unwrap();
    let environment = refused.again().unwrap();
    assert!(!environment.variables.contains_key("KEY"));
    assert!(!environment.secrets.is_empty());
    assert!(!format!("{environment:?}").contains("abc"));
    // Too short to be found again in a report.
    assert!(environment.warnings[0].contains("environments[0].env.KEY"));
}
