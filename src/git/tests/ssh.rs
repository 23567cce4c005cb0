use std::process::Command;
use std::time::{Duration, Instant};

use super::*;

/// A program that stands in for `ssh`: notes its arguments and environment, then does what `script` says.
/// `$last` is the command for the other side.
fn stand_in(world: &World, script: &str) -> FetchOptions {
    let (program, log) = (world.path("ssh"), world.path("log"));
    let text = format!(
        "#!/bin/sh\nfor last; do :; done\nprintf '%s\\n' \"$@\" > {log}\nenv > {log}.env\n{script}\n",
        log = log.display()
    );
    // Written by a child: if this process had it open for writing, a program that another test starts at this
    // moment would hold it open too, and running it would fail with "text file busy".
    let write = Command::new("sh")
        .args([
            "-c",
            "printf '%s' \"$2\" > \"$1\" && chmod 755 \"$1\"",
            "sh",
        ])
        .arg(&program)
        .arg(text)
        .status();
    assert!(write.unwrap().success());
    FetchOptions {
        ssh: program,
        time: Duration::from_secs(20),
        ..FetchOptions::default()
    }
}

const SERVE: &str = "export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'\n\
    PATH=/usr/local/bin:$PATH eval \"exec $last\"";

fn mirror_of(world: &World, url: &str) -> Mirror {
    let url = RepositoryUrl::parse(url, &AddressPolicy::default()).unwrap();
    Mirror::open_or_create(&world.path("mirrors"), &url).unwrap()
}

fn fetch_by(world: &World, script: &str) -> Result<CommitId, Error> {
    let mirror = mirror_of(
        world,
        &format!("ssh://git@example.com:2222{}", world.source().display()),
    );
    mirror.fetch(None, &Credentials::default(), &stand_in(world, script))
}

#[test]
fn a_branch_comes_over_ssh() {
    let world = World::new();
    assert_eq!(fetch_by(&world, SERVE).unwrap(), world.head());
    for i in 0..40 {
        world.write("main.cf", &i.to_string());
        world.commit("more");
    }
    assert_eq!(fetch_by(&world, SERVE).unwrap(), world.head());
    assert_eq!(fetch_by(&world, SERVE).unwrap(), world.head());
    let mirror = mirror_of(&world, &format!("example.com:{}", world.source().display()));
    let error = mirror
        .fetch(
            Some("nope"),
            &Credentials::default(),
            &stand_in(&world, SERVE),
        )
        .unwrap_err();
    assert!(matches!(error, Error::BranchMissing { .. }), "{error}");
}

#[test]
fn ssh_is_called_with_nothing_left_to_chance() {
    let world = World::new();
    fetch_by(&world, SERVE).unwrap();
    let arguments = fs::read_to_string(world.path("log")).unwrap();
    let arguments: Vec<&str> = arguments.lines().collect();
    for option in [
        "BatchMode=yes",
        "StrictHostKeyChecking=yes",
        "ClearAllForwardings=yes",
    ] {
        assert!(arguments.contains(&option), "{arguments:?}");
    }
    let tail = &arguments[arguments.len() - 7..];
    let upload_pack = format!("git-upload-pack '{}'", world.source().display());
    assert_eq!(
        tail,
        [
            "-p",
            "2222",
            "-l",
            "git",
            "--",
            "example.com",
            upload_pack.as_str()
        ]
    );
    let environment = fs::read_to_string(world.path("log.env")).unwrap();
    let names: Vec<&str> = environment
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0))
        .collect();
    assert!(
        names
            .iter()
            .all(|name| ["PATH", "LC_ALL", "PWD", "SHLVL", "_", "OLDPWD"].contains(name)),
        "{names:?}"
    );
}

#[test]
fn the_real_ssh_understands_the_options() {
    let world = World::new();
    let options = stand_in(&world, "/usr/bin/ssh -G \"$@\" > \"$0.out\" 2>&1");
    if !Path::new("/usr/bin/ssh").exists() {
        return;
    }
    let credentials = Credentials {
        ssh_key: Some(PathBuf::from("/run/a key%d")),
        known_hosts: Some(PathBuf::from("/etc/known hosts")),
        login: None,
    };
    let mirror = mirror_of(&world, "git@example.com:team/x.git");
    assert!(mirror.fetch(None, &credentials, &options).is_err());
    let understood = fs::read_to_string(world.path("ssh.out")).unwrap();
    for line in [
        "user git",
        "hostname example.com",
        "batchmode yes",
        "stricthostkeychecking true",
        "identitiesonly yes",
        "identityfile /run/a key%%d",
        "userknownhostsfile /etc/known hosts",
        "forwardagent no",
    ] {
        assert!(
            understood.lines().any(|found| found == line),
            "{line}: {understood}"
        );
    }
}

#[test]
fn an_unreachable_host_is_explained_by_the_real_ssh() {
    let world = World::new();
    if Command::new("/usr/bin/ssh").arg("-V").output().is_err() {
        return;
    }
    let mirror = mirror_of(&world, "ssh://git@127.0.0.1:1/x");
    let error = mirror
        .fetch(None, &Credentials::default(), &FetchOptions::default())
        .unwrap_err();
    assert!(
        matches!(&error, Error::Unreachable { cause, .. } if cause.contains("refused")),
        "{error}"
    );
}

/// Input: an unknown and a changed ssh host key, a key that is not accepted (docs/reference/security.md § 3.19). Answer: refused, each with its reason.
#[test]
fn what_ssh_complains_about_is_told_apart() {
    let world = World::new();
    let check = |complaint: &str, expected: fn(&Error) -> bool| {
        let error = fetch_by(
            &world,
            &format!("printf '%b\\n' '{complaint}' >&2; exit 255"),
        )
        .unwrap_err();
        assert!(expected(&error), "{complaint}: {error:?}");
        assert!(!error.to_string().contains(['\x1b', '\n']));
    };
    check("git@example.com: Permission denied (publickey).", |error| {
        matches!(error, Error::Authentication { .. })
    });
    check(
        "No ED25519 host key is known for example.com and you have requested strict checking.",
        |error| error.to_string().contains("known_hosts"),
    );
    check("Host key verification failed.", |error| {
        error.to_string().contains("known_hosts")
    });
    check(
        "@ REMOTE HOST IDENTIFICATION HAS CHANGED! @\\nHost key verification failed.",
        |error| error.to_string().contains("has changed"),
    );
    check(
        "fatal: /x does not appear to be a git repository",
        |error| matches!(error, Error::NotARepository { .. }),
    );
    check("ssh: \\033[31mconnect\\033[0m to host failed", |error| {
        matches!(error, Error::Unreachable { .. })
    });
    check("", |error| matches!(error, Error::Unreachable { .. }));
}

#[test]
fn a_silent_or_endless_ssh_is_killed_with_what_it_started() {
    let world = World::new();
    for script in [
        "sleep 60 & echo $! > \"$0.pid\"; wait",
        "exec 1>&-; sleep 60",
    ] {
        let options = FetchOptions {
            silence: Duration::from_millis(300),
            ..stand_in(&world, script)
        };
        let start = Instant::now();
        let error = mirror_of(&world, "h:x")
            .fetch(None, &Credentials::default(), &options)
            .unwrap_err();
        assert!(
            matches!(error, Error::TimedOut { .. } | Error::Unreachable { .. }),
            "{error}"
        );
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "{:?}",
            start.elapsed()
        );
    }
    let pid = fs::read_to_string(world.path("ssh.pid")).unwrap();
    let stat = format!("/proc/{}/stat", pid.trim());
    let gone = || fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
    let start = Instant::now();
    while !gone() {
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "the grandchild lives on"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let endless = stand_in(
        &world,
        "yes 003d1111111111111111111111111111111111111111 refs/heads/x",
    );
    let endless = FetchOptions {
        bytes: 1 << 20,
        ..endless
    };
    assert!(
        mirror_of(&world, "h:x")
            .fetch(None, &Credentials::default(), &endless)
            .is_err()
    );
}

#[test]
fn ssh_that_is_not_there_and_paths_it_cannot_take_are_errors() {
    let world = World::new();
    let options = FetchOptions {
        ssh: world.path("nowhere"),
        ..FetchOptions::default()
    };
    let error = mirror_of(&world, "h:x")
        .fetch(None, &Credentials::default(), &options)
        .unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    for key in ["relative", "/a\"b", "/a\nb", "/$x"] {
        let credentials = Credentials {
            ssh_key: Some(PathBuf::from(key)),
            ..Credentials::default()
        };
        let error = mirror_of(&world, "h:x")
            .fetch(None, &credentials, &stand_in(&world, SERVE))
            .unwrap_err();
        assert!(
            error.to_string().contains("cannot be used as a path"),
            "{error}"
        );
    }
}

#[test]
fn formats_that_are_not_supported_are_named_over_ssh() {
    let world = World::empty();
    fs::remove_dir_all(world.source().join(".git")).unwrap();
    world.git(&["init", "--quiet", "--object-format=sha256"]);
    world.git(&["commit", "--quiet", "--allow-empty", "-m", "x"]);
    let error = fetch_by(&world, SERVE).unwrap_err();
    assert!(matches!(error, Error::UnsupportedFormat { .. }), "{error}");
}

/// Input: a repository on an ssh host that is private by its address or by what its name resolves to (docs/reference/security.md § 3.16). Answer: refused before `ssh` runs, when only public hosts may be reached.
#[test]
fn private_hosts_are_not_asked_over_ssh_when_only_public_ones_may_be() {
    let world = World::new();
    let options = FetchOptions {
        reach: Reach::Public,
        ..stand_in(&world, SERVE)
    };
    let path = world.source();
    for host in ["127.0.0.1", "localhost", "[::1]", "10.1.2.3:2222"] {
        let mirror = mirror_of(&world, &format!("ssh://git@{host}{}", path.display()));
        let error = mirror.fetch(None, &Credentials::default(), &options);
        let error = error.unwrap_err();
        assert!(matches!(error, Error::PrivateHost { .. }), "{error}");
        assert!(!world.path("log").exists());
    }
}

/// Input: a host name whose address changes between the check and its use, over ssh (docs/reference/security.md § 3.16). Answer: `ssh` is given the address that was checked, and looks up the host key by the name.
#[test]
fn ssh_connects_to_the_address_that_was_checked() {
    let world = World::new();
    let options = FetchOptions {
        reach: Reach::Public,
        ..stand_in(&world, SERVE)
    };
    let url = format!("ssh://git@1.1.1.1:2222{}", world.source().display());
    let mirror = mirror_of(&world, &url);
    let fetched = mirror.fetch(None, &Credentials::default(), &options);
    assert_eq!(fetched.unwrap(), world.head());
    let arguments = fs::read_to_string(world.path("log")).unwrap();
    for option in ["HostName=1.1.1.1", "HostKeyAlias=[1.1.1.1]:2222"] {
        assert!(arguments.lines().any(|line| line == option), "{arguments}");
    }
}

/// Input: a FIFO or a device as ssh key or known hosts (docs/reference/security.md § 4.2). Answer: an error at once; `ssh` does not run.
#[test]
fn ssh_is_given_plain_files_only() {
    let world = World::new();
    for file in ["/dev/zero", "/tmp"] {
        let credentials = Credentials {
            ssh_key: Some(PathBuf::from(file)),
            ..Credentials::default()
        };
        let fetched = mirror_of(&world, "h:x").fetch(None, &credentials, &stand_in(&world, SERVE));
        let error = fetched.unwrap_err().to_string();
        assert!(error.contains("no plain file"), "{error}");
        assert!(!world.path("log").exists());
    }
}
