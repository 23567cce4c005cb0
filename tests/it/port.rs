//! What strangers at the port can do: hold connections, be slow, send too much, guess.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{request, send, wait_until, wrapper};
use crate::serve::Served;
use crate::unpacked;

/// A server whose log is kept, and that may have few file handles.
struct Door {
    served: Served,
    address: SocketAddr,
    said: Arc<Mutex<Vec<String>>>,
}

/// With so many file handles, if that is given.
#[track_caller]
fn start(dir: &Path, config: &str, n_handles: Option<u32>) -> Door {
    let limit = n_handles.map_or(String::new(), |n| format!("ulimit -n {n}; "));
    start_limited(dir, config, &limit)
}

/// With limits that a shell sets first.
#[track_caller]
fn start_limited(dir: &Path, config: &str, limit: &str) -> Door {
    let file = dir.join("steward.yaml");
    let data = dir.join("data");
    let config = format!("listen: 127.0.0.1:0\ndata: {}\n{config}", data.display());
    std::fs::write(&file, config).unwrap();
    unpacked::lay_out(&data);
    let mut child = Command::new("sh")
        .args(["-c", &format!("{limit}exec \"$@\""), "sh"])
        .args(wrapper())
        .arg(env!("CARGO_BIN_EXE_steward"))
        .args(["serve", "--config"])
        .arg(&file)
        .env("STEWARD_LOG", "info")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = Arc::new(Mutex::new(Vec::new()));
    let (stderr, lines) = (
        BufReader::new(child.stderr.take().unwrap()),
        Arc::clone(&said),
    );
    std::thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            lines.lock().unwrap().push(line);
        }
    });
    let mut api = String::new();
    wait_until("the server listens", || {
        let said = said.lock().unwrap();
        let found = said
            .iter()
            .find_map(|line| line.split_once("listening on "));
        api = found.map_or(String::new(), |(_, url)| url.trim().to_owned());
        !api.is_empty()
    });
    let address = api.trim_start_matches("http://").parse().unwrap();
    Door {
        served: Served {
            child,
            api,
            log: std::sync::Arc::default(),
        },
        address,
        said,
    }
}

impl Door {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream
    }

    /// Sends bytes on a connection of their own; the answer to its end, or empty.
    fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn n_lines(&self, with: &str) -> usize {
        let said = self.said.lock().unwrap();
        said.iter().filter(|line| line.contains(with)).count()
    }

    /// What the server holds in memory, in MiB: now, or at most so far (`VmHWM`).
    fn memory(&self, field: &str) -> u64 {
        let path = format!("/proc/{}/status", self.served.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib / 1024
    }

    fn n_handles(&self) -> usize {
        let path = format!("/proc/{}/fd", self.served.child.id());
        std::fs::read_dir(path).unwrap().count()
    }

    #[track_caller]
    fn is_well(&self) {
        let started = Instant::now();
        let url = format!("{}/api/v2/health", self.served.api);
        assert_eq!(request("GET", &url, None, None).0, 200);
        let took = started.elapsed();
        assert!(took < Duration::from_secs(3), "health took {took:?}");
    }
}

fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// Input: 500 connections at 400 file handles, nothing or half a request sent (docs/reference/security.md § 4.3). Answer: the one that waits longest gives way to a new one, and each is closed after 10 s.
#[test]
fn idle_connections_are_closed_and_do_not_keep_others_out() {
    let dir = tempfile::tempdir().unwrap();
    let door = start(dir.path(), "", Some(400));
    let mut streams: Vec<TcpStream> = (0..500)
        .map(|n| {
            let mut stream = door.connect();
            if n % 2 == 0 {
                let _ = write!(stream, "GET /api/v2/health HTTP/1.1\r\nHost: loc");
            }
            stream
        })
        .collect();
    door.is_well();
    assert!(door.n_handles() < 320, "{} handles", door.n_handles());
    wait_until("all are closed", || streams.iter_mut().all(is_closed));
    assert!(door.n_lines("cannot take a connection") < 5);
    assert!(door.n_lines("connections") < 5);
    door.is_well();
}

/// A read with a time limit, which the kernel does not take up again after a signal.
fn read(stream: &mut TcpStream, bytes: &mut [u8]) -> usize {
    loop {
        match stream.read(bytes) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            read => return read.unwrap(),
        }
    }
}

/// Input: a connection that was answered and then says nothing (docs/reference/security.md § 4.3). Answer: it is closed after 60 s at the latest.
#[test]
fn a_connection_that_was_answered_is_kept_for_a_while_only() {
    let dir = tempfile::tempdir().unwrap();
    let door = start(dir.path(), "", None);
    let mut stream = door.connect();
    stream
        .set_read_timeout(Some(Duration::from_secs(90)))
        .unwrap();
    let ask = "GET /api/v2/health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut answer = [0; 4096];
    for _ in 0..3 {
        stream.write_all(ask.as_bytes()).unwrap();
        let length = read(&mut stream, &mut answer);
        assert!(answer[..length].starts_with(b"HTTP/1.1 200"));
    }
    let started = Instant::now();
    assert_eq!(read(&mut stream, &mut answer), 0);
    let waited = started.elapsed().as_secs();
    assert!((20..80).contains(&waited), "{waited} s");
}

/// Input: at 400 file handles, 500 requests with the right token, or without one where none is needed, whose bodies do not arrive (docs/reference/security.md § 4.3). Answer: after two seconds the oldest of them give way to others.
#[test]
fn requests_whose_bodies_do_not_arrive_give_way() {
    let dir = tempfile::tempdir().unwrap();
    let door = start(dir.path(), "", Some(400));
    let held: Vec<TcpStream> = (0..500)
        .map(|n| {
            let mut stream = door.connect();
            let ends = if n % 2 == 0 {
                "Content-Length: 100000\r\n\r\n[".to_owned()
            } else {
                "Transfer-Encoding: chunked\r\n\r\n1\r\n[\r\n".to_owned()
            };
            let _ = write!(
                stream,
                "POST /api/v1/file HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{ends}"
            );
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_secs(3));
    for _ in 0..20 {
        let request =
            b"GET /api/v2/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let answer = door.exchange(request);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
    }
    drop(held);
    door.is_well();
}

/// Input: at 400 file handles, 500 agents with the right token that say no hello (docs/reference/security.md § 4.3). Answer: those whose turn it is not yet give way to others.
#[test]
fn agents_that_say_no_hello_keep_nobody_out() {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "a-token-of-agents").unwrap();
    let repo = crate::harness::Repo::new("x = 1\n");
    let config = format!(
        "environments:\n- project: p\n  name: e\n  repository: {}\n  agents: {{ token: {{ file: {} }} }}\n",
        repo.path().display(),
        token.display()
    );
    let door = start(dir.path(), &config, Some(400));
    let held: Vec<TcpStream> = (0..500)
        .map(|_| {
            let mut stream = door.connect();
            let _ = write!(
                stream,
                "GET /api/v1/agent_connection?environment=e HTTP/1.1\r\nHost: localhost\r\n\
                 Authorization: Bearer a-token-of-agents\r\nConnection: upgrade\r\n\
                 Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                 Sec-WebSocket-Version: 13\r\n\r\n"
            );
            stream
        })
        .collect();
    for _ in 0..20 {
        let request =
            b"GET /api/v2/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let answer = door.exchange(request);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
    }
    drop(held);
    door.is_well();
}

/// Input: a client that asks for a large answer and does not read it (docs/reference/security.md § 4.3). Answer: the connection is closed when too little moves.
#[test]
fn a_client_that_does_not_read_its_answer_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let door = start(dir.path(), "", None);
    let name = upload(&door, &vec![7; 24 << 20]);
    let mut stream = door.connect();
    write!(
        stream,
        "GET /api/v1/file/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    .unwrap();
    // What the kernel keeps for the two ends is a few MB; the rest waits for the client.
    std::thread::sleep(Duration::from_secs(30));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.len() < 16 << 20, "{} bytes came", answer.len());
    door.is_well();
    // Who reads gets all of it.
    let ask =
        format!("GET /api/v1/file/{name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let answer = door.exchange(ask.as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["content"].as_str().map(str::len), Some(32 << 20));
}

/// Puts a content into the file store; gives its name.
#[track_caller]
fn upload(door: &Door, content: &[u8]) -> String {
    use base64::Engine;
    use sha1::Digest;
    let name = hex::encode(sha1::Sha1::digest(content));
    let content = base64::engine::general_purpose::STANDARD.encode(content);
    let url = format!("{}/api/v1/file/{name}", door.served.api);
    let body = json!({"content": content}).to_string();
    let (status, answer) = send("PUT", &url, &[], body.as_bytes());
    assert_eq!(status, 200, "{answer}");
    name
}

/// Input: two `Host` headers, or none (docs/reference/security.md § 4.14). Answer: 400.
#[test]
fn a_request_with_two_hosts_or_none_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let door = start(dir.path(), "", None);
    let ask = |headers: &str| {
        let answer = door.exchange(
            format!("GET /api/v2/health HTTP/1.1\r\nConnection: close\r\n{headers}\r\n").as_bytes(),
        );
        answer.get(..12).unwrap_or_default().to_owned()
    };
    assert_eq!(ask("Host: localhost\r\n"), "HTTP/1.1 200");
    assert_eq!(
        ask("Host: localhost\r\nHost: evil.example\r\n"),
        "HTTP/1.1 400"
    );
    assert_eq!(
        ask("Host: localhost\r\nHost: localhost\r\n"),
        "HTTP/1.1 400"
    );
    assert_eq!(ask(""), "HTTP/1.1 400");
}

/// Input: two `Authorization`, `Content-Type` or `X-Inmanta-Tid` headers, of which a proxy may have read the other one (docs/reference/security.md § 4.14). Answer: 400.
#[test]
fn a_request_with_two_headers_where_one_is_expected_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let door = start(dir.path(), "", None);
    for header in [
        "Authorization: Bearer a",
        "Content-Type: application/json",
        "X-Inmanta-Tid: 1",
    ] {
        let request = format!(
            "GET /api/v2/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}\r\n"
        );
        let one = door.exchange(format!("{request}\r\n").as_bytes());
        assert!(one.starts_with("HTTP/1.1 200"), "{one}");
        let two = door.exchange(format!("{request}{header}b\r\n\r\n").as_bytes());
        assert!(two.starts_with("HTTP/1.1 400"), "{two}");
    }
}

/// Input: a request for what is no path: `GET 0`, a host, a host with a port, an asterisk (docs/reference/security.md § 4.14). Answer: 400.
#[test]
fn a_request_for_what_is_no_path_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let door = start(dir.path(), "", None);
    for target in ["0", "localhost", "localhost:80", "*", "?a=b"] {
        for version in ["1.0", "1.1"] {
            let ask = format!(
                "GET {target} HTTP/{version}\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            );
            let answer = door.exchange(ask.as_bytes());
            let status = answer.split(' ').nth(1);
            assert_eq!(status, Some("400"), "{target}: {answer}");
        }
    }
    door.is_well();
}

/// Input: a request for `http://evil.example/…` with a `Host` header of this machine (docs/reference/security.md § 4.14). Answer: 400; a target with the host of the header is answered.
#[test]
fn a_target_with_another_host_than_the_header_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let door = start(dir.path(), "", None);
    let ask = |target: &str, version: &str| {
        let ask = format!(
            "GET {target}/api/v2/health HTTP/{version}\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        );
        let answer = door.exchange(ask.as_bytes());
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    for version in ["1.0", "1.1"] {
        assert_eq!(ask("http://evil.example", version), "400");
        assert_eq!(ask("http://localhost:1", version), "400");
        assert_eq!(ask("http://user@localhost", version), "400");
        assert_eq!(ask("http://LOCALHOST", version), "200");
        assert_eq!(ask("", version), "200");
    }
}

/// Input: header lines that end in LF without CR, at the start or after another request in one packet (docs/reference/security.md § 4.14). Answer: 400, or the connection is closed.
#[test]
fn lines_of_a_head_that_end_in_a_bare_lf_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let door = start(dir.path(), "", None);
    let good = "GET /api/v2/health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for bad in [
        "GET /api/v2/health HTTP/1.1\nHost: localhost\n\n",
        "GET /api/v2/health HTTP/1.1\r\nHost: localhost\r\nX: y\n\r\n",
        "GET /api/v2/health HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n",
    ] {
        let answer = door.exchange(bad.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 400"), "{bad:?}: {answer}");
        let answer = door.exchange(format!("{good}{bad}").as_bytes());
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert_eq!(answer.matches("HTTP/1.1 200").count(), 1, "{answer}");
    }
}

/// Input: HTTP/2 without an upgrade, whose streams, resets and header tables are a world of their own (docs/reference/security.md § 4.3). Answer: 400 of HTTP/1.1, or the connection is closed; nothing is kept.
#[test]
fn http_2_is_not_spoken() {
    let dir = tempfile::tempdir().unwrap();
    let door = start(dir.path(), "", None);
    let answer = door.exchange(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
        "{answer:?}"
    );
}

/// Input: a head of 1 MB, or of 5 000 lines (docs/reference/security.md § 4.3). Answer: 431, and the connection is closed.
#[test]
fn huge_heads_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let door = start(dir.path(), "", None);
    let head = |more: &str| format!("GET /x HTTP/1.1\r\nHost: localhost\r\n{more}\r\n");
    for bad in [
        head(&format!("X: {}\r\n", "y".repeat(1 << 20))),
        head(&"X: y\r\n".repeat(5000)),
        format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(1 << 20)),
    ] {
        let answer = door.exchange(bad.as_bytes());
        // What was not read when it was closed may take the answer with it.
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{answer}"
        );
    }
    door.is_well();
}

const TOKEN: &str = "0123456789abcdef";

fn with_token(door: &Door, token: &str) -> u16 {
    let headers = [("Authorization".to_owned(), format!("Bearer {token}"))];
    let url = format!("{}/api/v2/environment", door.served.api);
    send("GET", &url, &headers, b"").0
}

/// Input: 200 wrong tokens, one after the other (docs/reference/security.md § 4.10). Answer: 403 for the first, then 429; a few lines in the log.
#[test]
fn wrong_tokens_get_slower_and_fill_no_log() {
    let dir = tempfile::tempdir().unwrap();
    let door = start(dir.path(), &format!("api_token: {TOKEN}\n"), None);
    assert_eq!(with_token(&door, TOKEN), 200);
    assert_eq!(with_token(&door, "wrong"), 403);
    assert_eq!(with_token(&door, TOKEN), 200);
    let guesses: Vec<_> = (0..8)
        .map(|_| {
            let (url, token) = (
                format!("{}/api/v2/environment", door.served.api),
                "Bearer guess",
            );
            std::thread::spawn(move || {
                let headers = [("Authorization".to_owned(), token.to_owned())];
                let ask = |_| send("GET", &url, &headers, b"").0;
                (0..25).map(ask).collect::<Vec<u16>>()
            })
        })
        .collect();
    // Through a reverse proxy these clients and that one have the same address, and each call its own connection.
    let is_guessed = || guesses.iter().any(|guess| !guess.is_finished());
    let mut n_right = 0;
    while is_guessed() || n_right < 20 {
        assert_eq!(with_token(&door, TOKEN), 200);
        n_right += 1;
    }
    let answers: Vec<u16> = guesses
        .into_iter()
        .flat_map(|guess| guess.join().unwrap())
        .collect();
    let n_looked_at = answers.iter().filter(|status| **status == 403).count();
    assert!((1..60).contains(&n_looked_at), "{n_looked_at}");
    assert!(answers.iter().all(|status| [403, 429].contains(status)));
    assert!(door.n_lines("token") <= 12, "{}", door.n_lines("token"));
    assert!(door.n_lines("token") >= 1);
    door.is_well();
}

/// Input: a body of 200 KB that unpacks to 200 MB (docs/reference/security.md § 3.3). Answer: 413; memory stays as it was.
#[test]
fn a_body_that_grows_when_it_is_unpacked_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let door = start(dir.path(), "", None);
    door.is_well();
    let before = door.memory("VmHWM");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![b' '; 1 << 20];
    for _ in 0..200 {
        packed.write_all(&zeros).unwrap();
    }
    let body = packed.finish().unwrap();
    let mut stream = door.connect();
    let head = format!(
        "PUT /api/v2/project HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Encoding: gzip\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let grown = door.memory("VmHWM").saturating_sub(before);
    assert!(grown < 100, "{grown} MB more");
    door.is_well();
}

/// Input: 24 uploads of 95 MB that stop before their end (docs/reference/security.md § 4.3). Answer: they wait on disk under one quota, 503 beyond it; memory stays as it was.
#[test]
fn unfinished_uploads_take_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let door = start(dir.path(), "", None);
    door.is_well();
    let before = door.memory("VmRSS");
    let threads: Vec<_> = (0..24)
        .map(|_| {
            let mut stream = door.connect();
            std::thread::spawn(move || {
                let name = "0".repeat(40);
                write!(
                    stream,
                    "PUT /api/v1/file/{name} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99614720\r\n\r\n{{\"content\": \""
                )
                .unwrap();
                let chunk = vec![b'A'; 1 << 20];
                for _ in 0..94 {
                    if stream.write_all(&chunk).is_err() {
                        break;
                    }
                }
                stream
            })
        })
        .collect();
    let streams: Vec<TcpStream> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    let peak = door.memory("VmHWM");
    assert!(peak - before < 100, "grew by {} MiB", peak - before);
    let data = dir.path().join("data");
    assert!(
        !data.join("files").exists()
            || std::fs::read_dir(data.join("files"))
                .unwrap()
                .all(|e| e.unwrap().path().is_dir())
    );
    door.is_well();
    drop(streams);
    upload(&door, &vec![1; 20 << 20]);
}

/// Input: 300 deliveries with a wrong signature or for no webhook (docs/reference/security.md § 4.11). Answer: 401 each, and at most 20 lines a minute in the log.
#[test]
fn refused_deliveries_fill_no_log() {
    let dir = tempfile::tempdir().unwrap();
    let door = start(dir.path(), "", None);
    let url = format!("{}/webhook/github/none", door.served.api);
    for _ in 0..300 {
        assert_eq!(send("POST", &url, &[], b"{}").0, 401);
    }
    let n_lines = door.n_lines("delivery was refused");
    assert!((1..=40).contains(&n_lines), "{n_lines}");
}

/// Input: a query of 5 000 arguments; a body of 4 million JSON values; one nested 100 000 deep (docs/reference/security.md § 3.4). Answer: 400, 413 and 400, and no memory is kept.
#[test]
fn arguments_are_bounded_in_number_and_depth() {
    let dir = tempfile::tempdir().unwrap();
    let door = start(dir.path(), "", None);
    let url = |query: &str| format!("{}/api/v2/environment?{query}", door.served.api);
    let many = "a=b&".repeat(5000);
    assert_eq!(request("GET", &url(&many), None, None).0, 400);
    let project = format!("{}/api/v2/project", door.served.api);
    let put = |body: String| send("PUT", &project, &[], body.as_bytes()).0;
    let values = format!("{{\"name\": [{}0]}}", "0,".repeat(4_000_000));
    assert_eq!(put(values), 413);
    assert_eq!(put(format!("{{\"name\": {}", "[".repeat(100_000))), 400);
    assert!(door.memory("VmHWM") < 200, "{}", door.memory("VmHWM"));
}

/// Input: a connection at a server with 16 384 or more handles at the hard limit and 1024 at the soft one (docs/reference/security.md § 4.3). Answer: the soft limit is raised, so there are more than 512 places.
#[test]
fn file_handles_are_raised_as_far_as_they_are_of_use() {
    use rustix::process::{Resource, getrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    if maximum.is_some_and(|maximum| maximum < 16_384) {
        crate::harness::skip("a hard limit of 16384 file handles");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let door = start_limited(dir.path(), "", "ulimit -S -n 1024; ");
    let path = format!("/proc/{}/limits", door.served.child.id());
    let limits = std::fs::read_to_string(path).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap();
    assert_eq!(line.split_whitespace().nth(3), Some("16384"), "{line}");
}

/// Input: more connections than there are file handles left, whatever took the others (docs/reference/security.md § 4.3). Answer: an idle connection gives its handle to a new one, one line in the log says so, and requests are answered.
#[test]
fn without_a_file_handle_left_an_idle_connection_gives_way() {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "a-token-of-the-test").unwrap();
    let config = format!("api_token: {{file: {}}}\n", token.display());
    let door = start(dir.path(), &config, None);
    let request = b"GET /api/v2/project HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert!(door.exchange(request).starts_with("HTTP/1.1 401"));
    let process = Pid::from_raw(i32::try_from(door.served.child.id()).unwrap());
    let limited = |current: u64| {
        let maximum = getrlimit(Resource::Nofile).maximum;
        let current = Some(current);
        let limit = Rlimit { current, maximum };
        prlimit(process, Resource::Nofile, limit).unwrap()
    };
    let before = limited(door.n_handles() as u64 + 3);
    let idle: Vec<TcpStream> = (0..12).map(|_| door.connect()).collect();
    wait_until("handles run out", || {
        door.n_lines("cannot take a connection") > 0
    });
    for _ in 0..3 {
        let answer = door.exchange(request);
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer:?}");
    }
    assert!(door.n_lines("cannot take a connection") < 3);
    limited(before.current.unwrap());
    drop(idle);
    assert!(door.exchange(request).starts_with("HTTP/1.1 401"));
}

/// Input: a page, an answer of the API or a refusal in a frame of another page, or taken by a browser for something else (docs/reference/security.md § 3.12). Answer: each says that it is not to be framed, guessed at, kept, or run.
#[test]
fn browsers_are_told_what_they_may_do_with_each_answer() {
    let dir = tempfile::tempdir().unwrap();
    let door = start(dir.path(), "", None);
    for (path, kind) in [
        ("/", "text/html"),
        ("/api/v2/environment", "application/json"),
        ("/no/such/page", "application/json"),
        ("*", "application/json"),
    ] {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            door.address
        );
        let answer = door.exchange(request.as_bytes());
        let (head, _) = answer.split_once("\r\n\r\n").unwrap();
        for line in [
            &format!("content-type: {kind}"),
            "content-security-policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
            "x-frame-options: DENY",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
        ] {
            let found = head
                .split("\r\n")
                .filter(|header| header.starts_with(line))
                .count();
            assert_eq!(found, 1, "{path}: {line}\n{head}");
        }
    }
}
