//! A server that installs from a repository over ssh, with the key of its user, and a real sshd at the other end.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::environments::{Logged, configure};
use crate::harness::{Host, Repo, Running, files, wait_until};
use crate::packages::{environments, source_folder};

const PROGRAM: &str = "/usr/sbin/sshd";

/// An sshd of our own, that lets one key in.
pub struct Sshd {
    pub child: Child,
    pub port: u16,
    pub user: String,
    /// The home of who has the key.
    pub home: TempDir,
}

#[track_caller]
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

impl Sshd {
    /// `None`: there is none on this machine.
    pub fn start() -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            assert!(std::env::var_os("CI").is_none(), "there is no {PROGRAM}");
            eprintln!("ssh: SKIPPED, there is no {PROGRAM} (openssh-server)");
            return None;
        }
        let home = tempfile::tempdir().unwrap();
        let ssh = home.path().join(".ssh");
        fs::create_dir(&ssh).unwrap();
        let at = |name: &str| ssh.join(name).display().to_string();
        for name in ["key", "host_key"] {
            said(
                "ssh-keygen",
                &["-q", "-t", "ed25519", "-N", "", "-f", &at(name)],
            );
        }
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let user = said("id", &["-un"]);
        let config = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
             UsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n",
            at("host_key"),
            at("key.pub"),
        );
        let file = home.path().join("sshd_config");
        fs::write(&file, config).unwrap();
        let host_key = fs::read_to_string(at("host_key.pub")).unwrap();
        fs::write(at("known_hosts"), format!("[127.0.0.1]:{port} {host_key}")).unwrap();
        let command = format!(
            "[core]\n\tsshCommand = ssh -F none -o BatchMode=yes -o IdentitiesOnly=yes -i {} -o UserKnownHostsFile={}\n",
            at("key"),
            at("known_hosts"),
        );
        fs::write(home.path().join(".gitconfig"), command).unwrap();
        // Where root's sshd separates its privileges.
        let _ = fs::create_dir("/run/sshd");
        let log = fs::File::create(home.path().join("sshd_log")).unwrap();
        let child = Command::new(PROGRAM)
            .args(["-D", "-e", "-f"])
            .arg(&file)
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        wait_until("sshd listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Some(Self {
            child,
            port,
            user,
            home,
        })
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.home.path().join("sshd_log")).unwrap_or_default()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Input: a repository that is asked through ssh (docs/reference/security.md § 3.37). Answer: the process that fetches reads the key that its environment names, in a sandbox that hides it from compiles.
#[test]
fn a_repository_is_fetched_over_ssh_with_the_key_of_its_environment() {
    let Some(sshd) = Sshd::start() else {
        return;
    };
    let (repo, host) = (Repo::new(&files(&[("a", "over ssh")])), Host::new());
    fs::set_permissions(repo.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| sshd.home.path().join(".ssh").join(name);
    let config = format!(
        "environments:\n- project: p\n  name: e\n  repository: ssh://{}@127.0.0.1:{}{}\n  branch: main\n  \
         env: {{ROOT: {}}}\n  credentials: {{ssh_key: {}, known_hosts: {}}}\n",
        sshd.user,
        sshd.port,
        repo.path().display(),
        host.root().display(),
        at("key").display(),
        at("known_hosts").display(),
    );
    let served = Logged::start(&configure(home.path(), &config));
    wait_until("it is deployed", || {
        let failed = served.said().contains("cannot fetch");
        assert!(!failed, "{}\n{}", served.said(), sshd.log());
        host.read("a") == "over ssh\n"
    });
}

#[test]
fn a_module_is_installed_over_ssh_with_a_key_that_its_build_does_not_see() {
    let Some(sshd) = Sshd::start() else {
        return;
    };
    let module = Repo::new("");
    // Who serves it may be another user than who wrote it.
    fs::set_permissions(module.path(), fs::Permissions::from_mode(0o755)).unwrap();
    source_folder(module.path(), "1.0");
    let key = sshd.home.path().join(".ssh/key");
    let wheel = fs::read_to_string(module.path().join("wheel.py")).unwrap();
    let probe = format!(
        "try:\n    open({key:?}).read()\nexcept PermissionError:\n    pass\nelse:\n    raise Exception('read the key')\n"
    );
    module.write("wheel.py", &format!("{wheel}\n{probe}"));
    let commit = module.commit("version 1.0");
    let repo = Repo::new("import greet\nstd::print(greet::version())\n");
    let url = format!(
        "git+ssh://{}@127.0.0.1:{}{}",
        sshd.user,
        sshd.port,
        module.path().display()
    );
    repo.write("requirements.txt", &format!("--no-index\n{url}@main\n"));
    repo.commit("asks for a module over ssh");
    let host = Host::new();
    let mut command = host.up(repo.path());
    command.env("HOME", sshd.home.path());
    let mut running = Running::start(command);
    let compiled = running.wait_for(|event| event["event"] == "compiled");
    assert_eq!(compiled["success"], true, "{compiled}\n{}", sshd.log());
    let [environment] = environments(&host).try_into().unwrap();
    let lock = fs::read_to_string(environment.with_extension("complete")).unwrap();
    assert!(lock.contains(commit.trim()), "{lock}");
    assert!(running.stop().success());
}
