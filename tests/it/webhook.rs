//! Webhooks with the real shapes of GitHub and Gitea.

use std::io::{Read, Write};
use std::path::Path;

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::harness::{Host, Repo, files, send, wait_until};
use crate::serve::{Served, serve};

const SECRET: &str = "correct-horse-battery";

fn payload(name: &str) -> (Vec<(String, String)>, Vec<u8>) {
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/webhooks");
    let headers = std::fs::read_to_string(base.join(format!("{name}.headers"))).unwrap();
    let headers = headers.lines().filter_map(|line| line.split_once(':'));
    let headers = headers
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .filter(|(name, _)| {
            !name.to_lowercase().contains("signature")
                && !name.eq_ignore_ascii_case("content-length")
        })
        .filter(|(name, _)| !name.eq_ignore_ascii_case("host"))
        .collect();
    (
        headers,
        std::fs::read(base.join(format!("{name}.json"))).unwrap(),
    )
}

fn sign(secret: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(body);
    hex::encode(mac.finalize().into_bytes())
}

/// With the signature headers that the forge sends.
fn signed(forge: &str, name: &str, delivery: &str) -> (Vec<(String, String)>, Vec<u8>) {
    let (mut headers, body) = payload(name);
    let digits = sign(SECRET, &body);
    headers.push(("X-Hub-Signature-256".into(), format!("sha256={digits}")));
    if forge == "gitea" {
        headers.push(("X-Gitea-Signature".into(), digits));
    }
    for (name, value) in &mut headers {
        if name.to_lowercase().ends_with("-delivery") {
            *value = delivery.to_owned();
        }
    }
    (headers, body)
}

/// A server that hears of commits by webhook only.
fn start(dir: &Path, repo: &Repo, host: &Host) -> Served {
    // A clone that nobody watches: file events would do the work of the webhook.
    let bare = dir.join("remote.git");
    repo.git(&["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    repo.git(&["remote", "add", "origin", bare.to_str().unwrap()]);
    let config = format!(
        "environments:\n  - project: p\n    name: e\n    repository: {}\n    branch: main\n    poll: 30d\n    watch: false\n    env: {{ROOT: {}}}\n    \
         webhooks:\n      - {{id: gh, forge: github, secret: {SECRET}}}\n      - {{id: gt, forge: gitea, secret: {SECRET}}}\n",
        bare.display(),
        host.root().display()
    );
    let served = serve(dir, &config);
    wait_until("the first version is deployed", || host.read("a") == "0\n");
    served
}

fn n_compiles(served: &Served) -> i64 {
    let environment = served.environment("e");
    served.get(&environment, "/api/v2/compilereport")["metadata"]["total"]
        .as_i64()
        .unwrap()
}

fn push(repo: &Repo, content: &str) -> String {
    repo.write("main.cf", &files(&[("a", content)]));
    let commit = repo.commit("next");
    repo.git(&["push", "-q", "origin", "main"]);
    commit
}

/// Pushes, delivers the news of it, and waits until it is deployed and reported. Gives the delivery.
fn push_and_deliver(
    served: &Served,
    (repo, host): (&Repo, &Host),
    (forge, id): (&str, &str),
    content: &str,
) -> (String, Vec<(String, String)>, Vec<u8>) {
    let commit = push(repo, content);
    let delivery = format!("delivery-{content}");
    let (headers, body) = signed(forge, &format!("{forge}/push_branch"), &delivery);
    let url = format!("{}/webhook/{forge}/{id}", served.api);
    let (status, answer) = send("POST", &url, &headers, &body);
    assert_eq!(status, 202, "{answer}");
    wait_until("the push is deployed", || {
        host.read("a") == format!("{content}\n")
    });
    let environment = served.environment("e");
    wait_until("it is reported", || {
        served.get(&environment, "/api/v2/desiredstate?limit=1")["data"][0]["commit"] == commit
    });
    (url, headers, body)
}

/// Input: the same signed delivery ten times more (docs/reference/security.md § 3.9). Answer: 200 as a duplicate, and no compile.
#[test]
fn signed_deliveries_of_github_and_gitea_trigger_one_compile_each_and_a_replay_does_not() {
    let (dir, repo, host) = (
        tempfile::tempdir().unwrap(),
        Repo::new(&files(&[("a", "0")])),
        Host::new(),
    );
    let served = start(dir.path(), &repo, &host);
    // What a round should not have compiled would show in the count of the next.
    let hooks = [("github", "gh"), ("gitea", "gt"), ("github", "gh")];
    for (n, hook) in hooks.into_iter().enumerate() {
        let content = (n + 1).to_string();
        let (url, headers, body) = push_and_deliver(&served, (&repo, &host), hook, &content);
        assert_eq!(n_compiles(&served), n as i64 + 2);
        // The same delivery again, as often as it likes.
        for _ in 0..10 {
            let (status, answer) = send("POST", &url, &headers, &body);
            assert_eq!((status, &answer["duplicate"]), (200, &true.into()));
        }
        // And one that is new but tells nothing new: it looks, and compiles nothing.
        let forge = hook.0;
        let (headers, body) = signed(
            forge,
            &format!("{forge}/push_branch"),
            &format!("delivery-{n}-other"),
        );
        assert_eq!(send("POST", &url, &headers, &body).0, 202);
    }
}

/// Input: no, an empty, a cut or a wrong signature, that of another body, of another secret, sha1 only, an unknown webhook (docs/reference/security.md § 3.1, § 3.2). Answer: 401, the same for all, and nothing is compiled.
#[test]
fn what_is_not_signed_right_changes_nothing() {
    let (dir, repo, host) = (
        tempfile::tempdir().unwrap(),
        Repo::new(&files(&[("a", "0")])),
        Host::new(),
    );
    let served = start(dir.path(), &repo, &host);
    push(&repo, "unseen");
    for (forge, id) in [("github", "gh"), ("gitea", "gt")] {
        let (plain, body) = payload(&format!("{forge}/push_branch"));
        let url = format!("{}/webhook/{forge}/{id}", served.api);
        let good = sign(SECRET, &body);
        let with = |pairs: &[(&str, String)]| {
            let mut headers = plain.clone();
            headers.extend(
                pairs
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), value.clone())),
            );
            send("POST", &url, &headers, &body).0
        };
        let name = "X-Hub-Signature-256";
        assert_eq!(with(&[]), 401, "missing");
        assert_eq!(with(&[(name, String::new())]), 401, "empty");
        assert_eq!(with(&[(name, "sha256=".into())]), 401, "no digits");
        assert_eq!(
            with(&[(name, format!("sha256={}", sign("another secret", &body)))]),
            401,
            "wrong secret"
        );
        assert_eq!(
            with(&[(name, format!("sha256={}", sign(SECRET, b"another body")))]),
            401,
            "wrong body"
        );
        assert_eq!(
            with(&[(name, format!("sha256={}", &good[..62]))]),
            401,
            "cut"
        );
        assert_eq!(with(&[(name, format!("md5={good}"))]), 401, "wrong prefix");
        assert_eq!(
            with(&[("X-Hub-Signature", format!("sha1={}", &good[..40]))]),
            401,
            "sha1 only"
        );
        // A hook that does not exist is answered in the same way.
        let (headers, body) = signed(forge, &format!("{forge}/push_branch"), "x");
        assert_eq!(
            send(
                "POST",
                &format!("{}/webhook/{forge}/other", served.api),
                &headers,
                &body
            )
            .0,
            401
        );
        let other = if forge == "github" { "gitea" } else { "github" };
        assert_eq!(
            send(
                "POST",
                &format!("{}/webhook/{other}/{id}", served.api),
                &headers,
                &body
            )
            .0,
            401
        );
    }
    assert_eq!(host.read("a"), "0\n");
    // Had one of these been heeded, the commit before would have been compiled too.
    push_and_deliver(&served, (&repo, &host), ("github", "gh"), "seen");
    assert_eq!(n_compiles(&served), 2);
}

#[test]
fn pings_tags_deletions_and_other_branches_are_answered_with_success_and_left_alone() {
    let (dir, repo, host) = (
        tempfile::tempdir().unwrap(),
        Repo::new(&files(&[("a", "0")])),
        Host::new(),
    );
    let served = start(dir.path(), &repo, &host);
    push(&repo, "unseen");
    for name in [
        "github/ping",
        "github/push_tag",
        "github/delete_branch",
        "gitea/delete_branch",
        "gitea/push_tag",
    ] {
        let (forge, _) = name.split_once('/').unwrap();
        let id = if forge == "github" { "gh" } else { "gt" };
        let (headers, body) = signed(forge, name, &name.replace('/', "-"));
        let (status, answer) = send(
            "POST",
            &format!("{}/webhook/{forge}/{id}", served.api),
            &headers,
            &body,
        );
        assert!(status == 200 || status == 204, "{name}: {status} {answer}");
    }
    push_and_deliver(&served, (&repo, &host), ("gitea", "gt"), "seen");
    assert_eq!(n_compiles(&served), 2);
}

/// Input: a body of 100 MB, announced or in chunks (docs/reference/security.md § 3.3). Answer: 413 before it is held.
#[test]
fn a_huge_body_is_refused_without_being_held() {
    let (dir, repo, host) = (
        tempfile::tempdir().unwrap(),
        Repo::new(&files(&[("a", "0")])),
        Host::new(),
    );
    let served = start(dir.path(), &repo, &host);
    let resident = || {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", served.child.id())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmHWM"))
            .unwrap()
            .to_owned();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
            / 1024
    };
    let before = resident();
    let address = served.api.trim_start_matches("http://").to_owned();
    // 100 MB announced, and 100 MB in chunks.
    for head in ["Content-Length: 100000000", "Transfer-Encoding: chunked"] {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        stream
            .set_read_timeout(Some(std::time::Duration::from_secs(30)))
            .unwrap();
        write!(stream, "POST /webhook/github/gh HTTP/1.1\r\nHost: {address}\r\nX-GitHub-Event: push\r\n{head}\r\n\r\n").unwrap();
        let chunk = vec![b'x'; 1_000_000];
        for _ in 0..100 {
            let sent = if head.contains("chunked") {
                write!(stream, "{:x}\r\n", chunk.len())
                    .and_then(|()| stream.write_all(&chunk))
                    .and_then(|()| stream.write_all(b"\r\n"))
            } else {
                stream.write_all(&chunk)
            };
            if sent.is_err() {
                break;
            }
        }
        let mut answer = [0; 12];
        // The server may have closed before we read; what it said then is lost on this side.
        if stream.read_exact(&mut answer).is_ok() {
            assert_eq!(&answer, b"HTTP/1.1 413", "{head}");
        }
    }
    let grown = resident() - before;
    assert!(grown < 80, "the server grew by {grown} MiB");
    assert_eq!(n_compiles(&served), 1);
}

/// Input: 30 MB as a body of a webhook, to a path that there is not, and where another method is meant, from a client that reads
/// the answer when it has sent all (docs/reference/security.md § 3.3). Answer: 413, 404 and 405 arrive, since the rest of a body is read for
/// a moment.
#[test]
fn a_client_that_sends_all_of_a_refused_body_gets_its_answer() {
    let (dir, repo, host) = (
        tempfile::tempdir().unwrap(),
        Repo::new(&files(&[("a", "0")])),
        Host::new(),
    );
    let served = start(dir.path(), &repo, &host);
    let address = served.api.trim_start_matches("http://").to_owned();
    let body = vec![b'x'; 30_000_000];
    for (path, status) in [
        ("/webhook/github/gh", "413"),
        ("/nothing/here", "404"),
        ("/api/v2/health", "405"),
    ] {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        write!(stream, "POST {path} HTTP/1.1\r\nHost: {address}\r\nX-GitHub-Event: push\r\nContent-Length: {}\r\n\r\n", body.len()).unwrap();
        // Slower than the answer comes.
        for part in body.chunks(1 << 20) {
            stream
                .write_all(part)
                .unwrap_or_else(|error| panic!("{path}: {error}"));
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *format!("HTTP/1.1 {status}").as_bytes(), "{path}");
    }
}

/// Input: 300 small and 20 large bodies that are announced and never sent, from one address (docs/reference/security.md § 4.3). Answer: a delivery that is sent at once is accepted; the slow ones get 503 or 408 within 10 s.
#[test]
fn bodies_that_do_not_arrive_keep_no_good_delivery_out() {
    let (dir, repo, host) = (
        tempfile::tempdir().unwrap(),
        Repo::new(&files(&[("a", "0")])),
        Host::new(),
    );
    let served = start(dir.path(), &repo, &host);
    let address = served.api.trim_start_matches("http://").to_owned();
    let slow = |length: usize| {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        stream
            .set_read_timeout(Some(std::time::Duration::from_secs(30)))
            .unwrap();
        write!(
            stream,
            "POST /webhook/github/gh HTTP/1.1\r\nHost: localhost\r\nX-GitHub-Event: push\r\nContent-Length: {length}\r\n\r\n{{"
        )
        .unwrap();
        stream
    };
    let mut streams: Vec<_> = (0..300).map(|_| slow(1000)).collect();
    streams.extend((0..20).map(|_| slow(20_000_000)));
    let begin = std::time::Instant::now();
    push_and_deliver(&served, (&repo, &host), ("github", "gh"), "good");
    for mut stream in streams {
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(
            ["HTTP/1.1 503", "HTTP/1.1 408"].contains(&answer.as_str()),
            "{answer}"
        );
    }
    assert!(begin.elapsed() < std::time::Duration::from_secs(25));
}
