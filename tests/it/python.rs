//! The Python package has its own tests; they run with the rest.

use std::path::Path;
use std::process::Command;

use crate::harness::{Host, Repo, finish, steward};

#[test]
fn the_tests_of_the_python_package_pass() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    let interpreter = std::env::var("STEWARD_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut command = Command::new(interpreter);
    command.args([
        "-m",
        "unittest",
        "discover",
        "-s",
        "python/tests",
        "-t",
        "python",
    ]);
    command
        .current_dir(python.parent().unwrap())
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let output = finish(command);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let ran = said.lines().find_map(|line| {
        line.strip_prefix("Ran ")?
            .split(' ')
            .next()?
            .parse::<u32>()
            .ok()
    });
    assert!(ran.is_some_and(|ran| ran > 20), "{said}");
}

#[test]
fn a_python_that_does_not_do_is_named_with_its_variable_and_the_reason() {
    let (repo, host) = (Repo::new(""), Host::new());
    let plugin =
        "from inmanta.plugins import plugin\n@plugin\ndef one() -> \"int\":\n    return 1\n";
    repo.write_module("small", "", plugin);
    repo.write("main.cf", "import small\nx = small::one()\n");
    let compile = |python: &str| {
        let mut command = steward();
        command.current_dir(repo.path()).arg("compile");
        command.env("STEWARD_PYTHON", python);
        command.env("XDG_CACHE_HOME", host.root());
        finish(command)
    };
    for command in ["compile", "deploy"] {
        let mut refused = steward();
        refused.current_dir(repo.path()).arg(command);
        refused.env("STEWARD_PYTHON", "/nonexistent/python");
        let output = finish(refused);
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let expected = "/nonexistent/python (named by STEWARD_PYTHON) is not a Python that runs here: there is no such file; \
            name another with --python";
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(expected), "{text}");
    }
    // It is one, but not one that the modules run with.
    let no_python = String::from_utf8(compile("/bin/echo").stderr).unwrap();
    assert!(
        no_python.contains("/bin/echo (named by STEWARD_PYTHON) is not a Python"),
        "{no_python}"
    );
    // An empty variable names none.
    let output = compile("");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn without_a_home_directory_modules_with_python_are_compiled() {
    let (repo, host) = (Repo::new(""), Host::new());
    let plugin =
        "from inmanta.plugins import plugin\n@plugin\ndef one() -> \"int\":\n    return 1\n";
    repo.write_module("small", "", plugin);
    repo.write("main.cf", "import small\nx = small::one()\n");
    for home in [Some(""), Some("/nonexistent"), Some("relative"), None] {
        let mut command = steward();
        command.current_dir(repo.path()).arg("compile");
        command.env_remove("HOME").env_remove("XDG_CACHE_HOME");
        command.env("TMPDIR", host.root());
        if let Some(home) = home {
            command.env("HOME", home);
        }
        let output = finish(command);
        assert!(output.status.success(), "{home:?}: {output:?}");
    }
    // All that is kept is below one folder among the temporary files, and only its user may write to it.
    let user = rustix::process::geteuid().as_raw();
    let cache = host.root().join(format!("steward-{user}"));
    let mode = std::fs::metadata(cache).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&mode.permissions());
    assert_eq!(mode & 0o777, 0o700);
    assert!(!repo.path().join(".cache").exists() && !repo.path().join("relative").exists());

    let mut up = steward();
    up.current_dir(repo.path()).args(["up", ".", "--once"]);
    up.env("HOME", "").env_remove("XDG_STATE_HOME");
    let output = finish(up);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("name a data directory with --data"), "{text}");
}
