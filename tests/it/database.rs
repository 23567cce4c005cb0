//! A database that goes away, is full, or is another one, under a running server (docs/reference/security.md § 4.9).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{finish, request, signal, steward, wait_until};
use crate::serve::{Served, serve};

impl Served {
    pub fn health(&self) -> u16 {
        request("GET", &format!("{}/api/v2/health", self.api), None, None).0
    }

    fn add_project(&self, name: &str) -> (u16, Value) {
        let url = format!("{}/api/v2/project", self.api);
        request("PUT", &url, None, Some(&json!({ "name": name })))
    }

    fn projects(&self) -> Vec<String> {
        let url = format!("{}/api/v2/project", self.api);
        let (_, body) = request("GET", &url, None, None);
        let projects = body["data"].as_array().cloned().unwrap_or_default();
        projects
            .iter()
            .map(|project| project["name"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// Input: `rm steward.db`, `cp` of another file over it, and its end or its log cut off, under the running server (docs/reference/security.md § 4.9). Answer: health is 503, writes are 503 and not lost, and a restart is good again.
#[test]
fn a_database_that_was_deleted_or_overwritten_takes_no_writes_and_health_says_so() {
    let cut = |file: &Path, n_bytes: u64| {
        let file = std::fs::File::options().write(true).open(file).unwrap();
        file.set_len(n_bytes).unwrap();
    };
    for what in ["deleted", "overwritten", "cut off", "log cut off"] {
        let dir = tempfile::tempdir().unwrap();
        let served = serve(dir.path(), "");
        assert_eq!(
            (served.health(), served.add_project("before").0),
            (200, 200)
        );
        let database = dir.path().join("data/steward.db");
        match what {
            "deleted" => std::fs::remove_file(&database).unwrap(),
            "overwritten" => std::fs::write(&database, [b'x'; 10_000]).unwrap(),
            "cut off" => cut(&database, database.metadata().unwrap().len() / 2),
            _ => cut(&database.with_extension("db-wal"), 0),
        }
        // At once, not when somebody looks the next time.
        let (status, body) = served.add_project("lost");
        assert_eq!(status, 503, "{what}: {body}");
        wait_until("health says so", || served.health() == 503);
        let status = request(
            "GET",
            &format!("{}/api/v1/serverstatus", served.api),
            None,
            None,
        )
        .1;
        assert_eq!(status["data"]["status"], "Error");
        drop(served);
        for name in ["steward.db", "steward.db-wal", "steward.db-shm"] {
            let _ = std::fs::remove_file(dir.path().join("data").join(name));
        }
        let served = serve(dir.path(), "");
        let (status, body) = served.add_project("after");
        assert_eq!(status, 200, "{what}: {body}: {}", served.log());
    }
}

/// A small file system, gone with this value. `None`: not allowed here.
pub struct Small(PathBuf);

impl Small {
    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    pub fn mount(at: &Path, size: &str) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        let mounted = Command::new("mount")
            .args([
                "-t",
                "tmpfs",
                "-o",
                &format!("size={size},mode=700"),
                "tmpfs",
            ])
            .arg(at)
            .output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(at.to_owned()));
        }
        eprintln!("SKIPPED: this user may not mount a small file system");
        None
    }

    fn remount(&self, options: &str) -> bool {
        let mut command = Command::new("mount");
        command
            .args(["-o", &format!("remount,{options}")])
            .arg(&self.0);
        command.status().unwrap().success()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Input: the disk of the database is full, or read-only (docs/reference/security.md § 4.9, § 3.33). Answer: health is 503, writes fail and what was acknowledged stays; with room again all is well, without a restart.
#[test]
fn a_full_or_read_only_disk_is_told_and_survived() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let Some(small) = Small::mount(&data, "6m") else {
        return;
    };
    let served = serve(dir.path(), "");
    assert_eq!(served.add_project("first").0, 200);
    let filler = data.join("filler");
    let fill = || {
        let mut file = std::fs::File::create(&filler).unwrap();
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
    };
    fill();
    let mut acknowledged = vec!["first".to_owned()];
    let mut n = 0;
    wait_until("writes fail", || {
        n += 1;
        let name = format!("project{n}");
        let (status, body) = served.add_project(&name);
        match status {
            200 => acknowledged.push(name),
            503 => assert!(
                body.to_string().contains("disk of the database is full"),
                "{body}"
            ),
            _ => panic!("{status}: {body}"),
        }
        status != 200
    });
    wait_until("health says so", || served.health() == 503);
    // The same advice as in the answer, and which file it is about.
    wait_until("the log says what to do", || {
        served.log().lines().any(|line| {
            line.contains("the database is not well: the disk of the database is full")
                && line.contains("make it larger")
                && line.contains("/data/steward.db")
        })
    });
    std::fs::remove_file(&filler).unwrap();
    wait_until("there is room again", || served.health() == 200);
    assert_eq!(served.add_project("second").0, 200);
    acknowledged.push("second".to_owned());
    // In use for writing, a file system does not become read-only; if it does here, that is told, too.
    if small.remount("ro") {
        wait_until("health says so", || served.health() == 503);
        assert_ne!(served.add_project("third").0, 200);
        assert!(small.remount("rw"));
        wait_until("it can be written to", || served.health() == 200);
    }
    let known = served.projects();
    for name in acknowledged {
        assert!(known.contains(&name), "{name} was acknowledged");
    }
    drop(served);
}

/// Given: a damaged database, a file that is none, a PostgreSQL server that does not answer, when the server starts. Expected: exit
/// code 3, and the text names the database and says what to do.
#[test]
fn a_database_that_cannot_be_opened_is_named_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let database = dir.path().join("data/steward.db");
    drop(serve(dir.path(), ""));
    let start = |database: &str| {
        let file = dir.path().join("steward.yaml");
        let data = dir.path().join("data");
        let config = format!("listen: 127.0.0.1:0\ndata: {}\n{database}", data.display());
        std::fs::write(&file, config).unwrap();
        let mut command = steward();
        command.args(["serve", "--config"]).arg(&file);
        let output = finish(command);
        assert_eq!(output.status.code(), Some(3));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let text = start("database: postgres://postgres@127.0.0.1:1/none\n");
    assert!(
        text.contains("127.0.0.1:1/none: nothing answered there in time; is PostgreSQL running"),
        "{text}"
    );
    let mut bytes = std::fs::read(&database).unwrap();
    bytes[4096..].fill(b'x');
    for bytes in [bytes, b"a letter to my aunt".to_vec()] {
        std::fs::write(&database, bytes).unwrap();
        let text = start("");
        let named = format!(
            "{}: the file is damaged, or no database",
            database.display()
        );
        assert!(
            text.contains(&named) && text.contains("put a backup in its place"),
            "{text}"
        );
    }
}

/// Given: a second server on a PostgreSQL database that another one uses. Expected: it says that it waits, without alarm, ends when
/// it is asked to, and takes over when the first one is killed.
#[test]
fn a_second_server_on_postgresql_says_that_it_waits_and_takes_over() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let url = format!(
        "database: postgres://postgres@127.0.0.1:{}/postgres\n",
        postgres.port
    );
    let first = serve(one.path(), &url);
    assert_eq!(first.add_project("before").0, 200);
    stopped_while_it_waits(&url);
    let ending = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(3));
        drop(first);
    });
    let second = serve(other.path(), &url);
    ending.join().unwrap();
    let log = second.log();
    assert!(
        log.contains("INFO another server uses the database; it is waited for up to 30s"),
        "{log}"
    );
    assert!(
        !log.contains("WARN") && !log.contains("ERROR") && !log.contains("relation"),
        "{log}"
    );
    assert_eq!(second.projects(), ["before"]);
}

/// A server on a database that another one uses ends at the first signal, and not when it has waited long enough.
fn stopped_while_it_waits(database: &str) {
    let dir = tempfile::tempdir().unwrap();
    let (file, log) = (dir.path().join("steward.yaml"), dir.path().join("log"));
    let data = dir.path().join("data");
    let config = format!("listen: 127.0.0.1:0\ndata: {}\n{database}", data.display());
    std::fs::write(&file, config).unwrap();
    let mut server = steward()
        .args(["serve", "--config"])
        .arg(&file)
        .env("STEWARD_LOG", "info")
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let written = || std::fs::read_to_string(&log).unwrap();
    wait_until("it waits", || written().contains("it is waited for"));
    let signalled = std::time::Instant::now();
    signal(server.id(), rustix::process::Signal::TERM);
    assert!(server.wait().unwrap().success());
    assert!(signalled.elapsed() < Duration::from_secs(10));
    assert!(written().contains("stopped before the start was over"));
}

/// A PostgreSQL server of our own, on a port of its own.
pub struct Postgres {
    bin: PathBuf,
    dir: tempfile::TempDir,
    pub port: u16,
}

impl Postgres {
    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    pub fn start() -> Option<Self> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok();
        let bins = versions.into_iter().flatten().flatten();
        let bin = bins
            .map(|version| version.path().join("bin"))
            .filter(|bin| bin.join("initdb").exists())
            .max();
        let Some(bin) = bin else {
            eprintln!("SKIPPED: PostgreSQL is not installed");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        if rustix::process::geteuid().is_root() {
            let given = Command::new("chown").arg("nobody").arg(dir.path()).status();
            assert!(given.unwrap().success());
        }
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        drop(socket);
        let postgres = Self { bin, dir, port };
        let data = postgres.data();
        let made = postgres.run("initdb", &["-D", &data, "-A", "trust", "-U", "postgres"]);
        assert!(made, "initdb fails");
        postgres.up();
        Some(postgres)
    }

    pub fn data(&self) -> String {
        self.dir.path().join("data").display().to_string()
    }

    fn run(&self, program: &str, arguments: &[&str]) -> bool {
        let program = self.bin.join(program);
        let mut command = match rustix::process::geteuid().is_root() {
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]);
                command.arg(program);
                command
            }
            false => Command::new(program),
        };
        command
            .args(arguments)
            .current_dir(self.dir.path())
            .env("HOME", self.dir.path())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        command.status().unwrap().success()
    }

    pub fn up(&self) {
        let options = format!(
            "-p {} -k {} -c listen_addresses=127.0.0.1",
            self.port,
            self.dir.path().display()
        );
        let log = self.dir.path().join("log").display().to_string();
        let arguments = [
            "-D",
            &self.data(),
            "-l",
            &log,
            "-w",
            "-o",
            &options,
            "start",
        ];
        assert!(self.run("pg_ctl", &arguments), "PostgreSQL does not start");
    }

    /// Runs statements.
    pub fn sql(&self, statements: &str) {
        let port = self.port.to_string();
        let server = ["-h", "127.0.0.1", "-p", &port, "-U", "postgres"];
        let arguments = [&server[..], &["-v", "ON_ERROR_STOP=1", "-c", statements]].concat();
        assert!(self.run("psql", &arguments), "{statements}");
    }

    /// As a power cut would.
    pub fn kill(&self) {
        assert!(self.run("pg_ctl", &["-D", &self.data(), "-m", "immediate", "stop"]));
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.run("pg_ctl", &["-D", &self.data(), "-m", "immediate", "stop"]);
    }
}

/// Input: PostgreSQL is killed and started again under load, and its database is restored (docs/reference/security.md § 4.9, § 3.33). Answer: health is 503 meanwhile, what was acknowledged is there, no restart is needed; after a restore writes are refused.
#[test]
fn postgresql_that_is_killed_under_load_comes_back_without_a_restart_and_loses_nothing() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", postgres.port);
    let served = Arc::new(serve(dir.path(), &format!("database: {url}\n")));
    let is_over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (served, is_over) = (Arc::clone(&served), Arc::clone(&is_over));
            std::thread::spawn(move || {
                let mut acknowledged = Vec::new();
                for n in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let name = format!("p{writer}-{n}");
                    if served.add_project(&name).0 == 200 {
                        acknowledged.push(name);
                    }
                }
                acknowledged
            })
        })
        .collect();
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(300));
        postgres.kill();
        wait_until("health says so", || served.health() == 503);
        wait_until("the log says that it is waited for", || {
            served
                .log()
                .contains("the database is not well: the database does not answer")
        });
        postgres.up();
        wait_until("it is well again", || served.health() == 200);
    }
    std::thread::sleep(Duration::from_millis(300));
    is_over.store(true, Ordering::Relaxed);
    let acknowledged: Vec<String> = writers
        .into_iter()
        .flat_map(|writer| writer.join().unwrap())
        .collect();
    assert!(!acknowledged.is_empty());
    let known = served.projects();
    for name in acknowledged {
        assert!(known.contains(&name), "{name} was acknowledged");
    }
    // As a restored backup is: of another start of the server.
    let port = postgres.port.to_string();
    let restored = [
        "-h",
        "127.0.0.1",
        "-p",
        &port,
        "-U",
        "postgres",
        "-c",
        "DELETE FROM server_start",
    ];
    assert!(postgres.run("psql", &restored));
    wait_until("health says so", || served.health() == 503);
    assert_eq!(served.add_project("refused").0, 503);
}
