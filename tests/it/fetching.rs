//! Fetches from servers that mean harm, and from good ones whose worker is killed: what the others notice of it, and what is
//! told.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::environments::{Logged, configure};
use crate::git_server::{Reply, Server, root_of};
use crate::harness::{Host, Repo, files, finish, signal, wait_until};
use crate::sandbox::below;

/// A git server that answers what an input of the fuzzer says, again and again.
fn hostile(input: &[u8]) -> Server {
    let answers = steward::fuzzing::git_answers(input);
    Server::start(Path::new("/nonexistent"), move |request| {
        let at = usize::from(request.method == "POST");
        Reply::Raw(answers.get(at).cloned().unwrap_or_default())
    })
}

/// A pack of 258 bytes that libgit2's indexer makes ever more memory of.
fn endless() -> Vec<u8> {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/seeds/git_worker");
    fs::read(seeds.join("fetch_that_never_ends")).unwrap()
}

fn section(name: &str, repository: &str, rest: &str) -> String {
    format!("  - {{project: infra, name: {name}, repository: {repository}, {rest}}}\n")
}

/// The workers that read repositories, without those that supervise them, and without a spare one, which is in no sandbox.
fn git_workers(served: &Logged) -> Vec<i32> {
    let mut workers = all_git_workers(served);
    workers.retain(|id| !is_spare(served, *id));
    workers
}

/// Those that read, and those that wait for what to read.
fn all_git_workers(served: &Logged) -> Vec<i32> {
    let all = below(served.child.id()).into_iter();
    let workers = all
        .filter(|(_, command)| command.contains(" git-worker") && !command.contains("supervise"));
    let workers = workers.filter(|(id, _)| status(*id, "VmRSS:").is_some());
    workers.map(|(id, _)| id).collect()
}

/// Whether a process is in no sandbox but the server's own, as far as the kernel can tell.
fn is_spare(served: &Logged, worker: i32) -> bool {
    let own = i32::try_from(served.child.id()).unwrap();
    steward::sandbox::support().seccomp
        && status(worker, "Seccomp_filters:") == status(own, "Seccomp_filters:")
}

/// A number of the status of a process that runs.
fn status(process: i32, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A server with an environment of a hostile repository, and one whose commits are compiled meanwhile.
struct Pair {
    served: Logged,
    good: Repo,
    host: Host,
    _hostile: Server,
    _home: tempfile::TempDir,
}

impl Pair {
    #[track_caller]
    fn start(input: &[u8], limits: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let hostile = hostile(input);
        let (good, host) = (Repo::new(&files(&[("a", "first")])), Host::new());
        let root = host.root().display().to_string();
        let config = format!(
            "compile: {{{limits}}}\nenvironments:\n{}{}",
            section("bad", &hostile.url("/r.git"), "branch: main, poll: 60s"),
            section(
                "good",
                &good.path().display().to_string(),
                &format!("branch: main, env: {{ROOT: {root}}}")
            ),
        );
        let served = Logged::start(&configure(home.path(), &config));
        Self {
            served,
            good,
            host,
            _hostile: hostile,
            _home: home,
        }
    }

    /// The server is small, whatever its workers were given.
    #[track_caller]
    fn check_server(&self) {
        let peak = status(i32::try_from(self.served.child.id()).unwrap(), "VmHWM:").unwrap();
        assert!(peak < 300 << 10, "the server took {peak} KiB");
    }
}

/// Input: a pack of 258 bytes of which libgit2's indexer makes ever more memory without end (docs/reference/security.md § 3.31, § 4.21). Answer: the process that reads it ends at its limit of memory, the log says so and what to do; commits of other environments are compiled meanwhile.
#[test]
fn a_pack_that_takes_memory_without_end_holds_up_nobody() {
    let pair = Pair::start(&endless(), "fetch_memory_mib: 512");
    wait_until("the hostile pack is read", || {
        let workers = git_workers(&pair.served).into_iter();
        let large = workers.filter(|id| status(*id, "VmRSS:") > Some(200 << 10));
        large.count() == 1
    });
    pair.good.write("main.cf", &files(&[("a", "second")]));
    pair.good.commit("second");
    wait_until("the commit is deployed", || {
        pair.host.read("a") == "second\n"
    });
    let said = "takes more than 512 MiB of memory to read";
    assert!(!pair.served.said().contains(said), "it was not meanwhile");
    wait_until("the fetch ends", || pair.served.said().contains(said));
    assert!(
        pair.served
            .said()
            .contains("compile: {fetch_memory_mib: ...}")
    );
    wait_until("the worker is gone", || {
        git_workers(&pair.served).is_empty()
    });
    pair.check_server();
}

/// Input: a pack whose reading does not end in time (docs/reference/security.md § 3.31, § 4.21). Answer: the process that reads it is killed some seconds after the time limit, and the log names the limit.
#[test]
fn a_pack_that_takes_time_without_end_is_given_up() {
    let pair = Pair::start(&endless(), "fetch_timeout: 1s, fetch_memory_mib: 8192");
    let said = "took longer than 1 s and was stopped";
    wait_until("the fetch ends", || pair.served.said().contains(said));
    wait_until("the worker is gone", || {
        git_workers(&pair.served).is_empty()
    });
    assert!(pair.served.said().contains("compile: {fetch_timeout: ...}"));
    pair.check_server();
}

/// A number as deltas have it.
fn varint(mut number: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while number > 0x7f {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

/// A pack with a delta that says 480 times "all of the other object", which has 1 MiB.
fn bomb() -> Vec<u8> {
    const MIB: usize = 1 << 20;
    const COPIES: usize = 480;
    let refs =
        b"L# service=git-upload-pack\n\n#3 HEAD\0ofs-delta agent=git/2\n#3 refs/heads/main\n";
    let rest = b"\n&&\nt100644 a\0@0100755 b\0@0\n&&\nctree #2\nauthor a <a@b> 1700000000 +0000\n\
                 committer a <a@b> 1700000000 +0000\n\nm\n";
    let mut delta = [varint(MIB), varint(MIB * COPIES)].concat();
    // A copy of 0x100000 bytes from the beginning: only the third byte of its length is not zero.
    for _ in 0..COPIES {
        delta.extend([0x80 | 0x40, 0x10]);
    }
    [
        refs.as_slice(),
        b"\n%%\nOb",
        &vec![b'0'; MIB],
        b"\n&&\nd0",
        &delta,
        rest,
    ]
    .concat()
}

/// Input: a pack of some KiB that becomes an object of 480 MiB (docs/reference/security.md § 3.31, § 4.21). Answer: where that is more than the limit of memory, the fetch fails and says so.
#[test]
fn an_object_that_does_not_fit_the_memory_of_a_fetch_is_refused() {
    let pair = Pair::start(&bomb(), "fetch_memory_mib: 512");
    let said = "takes more than 512 MiB of memory to read";
    wait_until("the fetch ends", || pair.served.said().contains(said));
    wait_until("the worker is gone", || {
        git_workers(&pair.served).is_empty()
    });
    pair.check_server();
}

/// A git server of a real repository that asks for a login and, the first time, stops in the middle of the pack.
fn stalling(repo: &Repo, is_stalled: &Arc<AtomicBool>) -> Server {
    let is_stalled = Arc::clone(is_stalled);
    Server::start(&root_of(repo.path()), move |request| {
        if request.header("Authorization").is_none() {
            return Reply::status("401 Unauthorized", "WWW-Authenticate: Basic\r\n");
        }
        if request.method != "POST" || is_stalled.swap(true, Ordering::SeqCst) {
            return Reply::Git;
        }
        Reply::Stream(Box::new(|mut stream| {
            use std::io::Write;
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\n\
                  Content-Length: 100000\r\n\r\n0008NAK\n0fff\x01PACK\0\0\0\x02\0\0\0\x03",
            );
            std::thread::sleep(Duration::from_secs(120));
        }))
    })
}

/// Given: a repository over http that wants a login. Expected: `up` says how to give one, and deploys with that of a file.
#[test]
fn up_takes_the_login_of_a_repository_from_a_file() {
    let (repo, host) = (Repo::new(&files(&[("a", "private")])), Host::new());
    let server = Server::start(&root_of(repo.path()), |request| {
        // Of `git:canary-token-of-git`.
        match request.header("Authorization") {
            Some("Basic Z2l0OmNhbmFyeS10b2tlbi1vZi1naXQ=") => Reply::Git,
            _ => Reply::status("401 Unauthorized", "WWW-Authenticate: Basic\r\n"),
        }
    });
    let name = repo.path().file_name().unwrap().to_str().unwrap();
    let url = server.url(&format!("/{name}/.git"));
    let up = |arguments: &[&str]| {
        let mut command = host.up(Path::new(&url));
        command.arg("--once").args(arguments);
        let ended = finish(command);
        let text = [ended.stdout, ended.stderr].concat();
        (
            ended.status.code(),
            String::from_utf8_lossy(&text).into_owned(),
        )
    };
    let (code, output) = up(&[]);
    assert_ne!(code, Some(0));
    assert!(output.contains("--token-file"), "{output}");
    let token = tempfile::NamedTempFile::new().unwrap();
    let path = token.path().to_str().unwrap();
    let (code, output) = up(&["--token-file", path]);
    assert!(code == Some(2) && output.contains("empty"), "{output}");
    fs::write(path, "canary-token-of-git\n").unwrap();
    let (code, output) = up(&["--token-file", path]);
    assert_eq!(code, Some(0), "{output}");
    assert_eq!(host.read("a"), "private\n");
    assert!(!output.contains("canary"), "{output}");
}

/// What everybody, or the same user, can read of the processes below the server.
fn shown_of_processes(served: &Logged) -> String {
    let of = |id: i32, name: &str| {
        let bytes = fs::read(format!("/proc/{id}/{name}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let all = below(served.child.id()).into_iter();
    all.map(|(id, _)| of(id, "cmdline") + &of(id, "environ"))
        .collect()
}

/// Input: the kill of the process that fetches, in the middle of a pack (docs/reference/security.md § 3.34, § 3.37). Answer: the fetch fails, says how, and the next one gets all; meanwhile its token was in no arguments and no environment, and it was in a sandbox.
#[test]
fn a_killed_fetch_is_told_and_done_again_and_its_token_was_not_shown() {
    const CANARY: &str = "canary-token-of-git";
    let home = tempfile::tempdir().unwrap();
    let (repo, host) = (Repo::new(&files(&[("a", "first")])), Host::new());
    let is_stalled = Arc::new(AtomicBool::new(false));
    let server = stalling(&repo, &is_stalled);
    let name = repo.path().file_name().unwrap().to_str().unwrap();
    let rest = format!(
        "branch: main, poll: 1s, env: {{ROOT: {}}}, credentials: {{user: u, token: {CANARY}}}",
        host.root().display()
    );
    let config = format!(
        "environments:\n{}",
        section("e", &server.url(&format!("/{name}/.git")), &rest)
    );
    let served = Logged::start(&configure(home.path(), &config));
    wait_until("the pack is on its way", || {
        is_stalled.load(Ordering::SeqCst)
    });
    wait_until("it is found", || git_workers(&served).len() == 1);
    let worker = git_workers(&served)[0];
    let shown = shown_of_processes(&served);
    assert!(
        shown.contains("git-worker") && !shown.contains(CANARY),
        "{shown}"
    );
    if steward::sandbox::support().seccomp {
        let own = i32::try_from(served.child.id()).unwrap();
        assert!(status(worker, "Seccomp_filters:") > status(own, "Seccomp_filters:"));
    }
    signal(
        u32::try_from(worker).unwrap(),
        rustix::process::Signal::KILL,
    );
    wait_until("the kill is told", || {
        let said = served.said();
        said.contains("the process that reads http://") && said.contains("SIGKILL")
    });
    wait_until("the next fetch gets it", || host.read("a") == "first\n");
    assert!(!served.said().contains(CANARY));
    let mirrors: Vec<PathBuf> = fs::read_dir(home.path().join("data/mirrors"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    let packs = fs::read_dir(mirrors[0].join("objects/pack")).unwrap();
    let names: Vec<String> = packs
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        names.iter().all(|name| name.starts_with("pack-")),
        "{names:?}"
    );
}

/// A push does not wait for the start of a process: one waits for it, in no sandbox yet since it is nobody's. It is used once,
/// and one that was killed is nobody's loss.
#[test]
fn a_worker_waits_for_the_next_fetch_and_does_that_one_alone() {
    let home = tempfile::tempdir().unwrap();
    let (repo, host) = (Repo::new(&files(&[("a", "0")])), Host::new());
    let rest = format!("branch: main, env: {{ROOT: {}}}", host.root().display());
    let path = repo.path().display().to_string();
    let config = format!("environments:\n{}", section("e", &path, &rest));
    let served = Logged::start(&configure(home.path(), &config));
    wait_until("the first is deployed", || host.read("a") == "0\n");
    let mut earlier = Vec::new();
    for round in ["1", "2", "3"] {
        // One that reads may be alone for a moment: a change can be looked at twice.
        let waits = |worker: &i32| {
            !earlier.contains(worker)
                && (is_spare(&served, *worker) || !steward::sandbox::support().seccomp)
        };
        let mut spare = None;
        wait_until("a worker waits", || {
            let all = all_git_workers(&served);
            spare = all.first().copied().filter(waits);
            all.len() == 1 && spare.is_some()
        });
        let spare = spare.unwrap();
        if round == "2" {
            let process = u32::try_from(spare).unwrap();
            signal(process, rustix::process::Signal::KILL);
        }
        earlier.push(spare);
        repo.write("main.cf", &files(&[("a", round)]));
        repo.commit(round);
        wait_until("it is deployed", || host.read("a") == format!("{round}\n"));
        assert!(!all_git_workers(&served).contains(&spare), "it stayed");
    }
}
