//! Servers that are slow, endless or no repository at all.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use super::http::{PATH, fetch_with, hasty, mirror_of, serve};
use super::server::{Reply, Server, root_of};
use super::*;

fn impatient() -> FetchOptions {
    FetchOptions {
        silence: Duration::from_secs(1),
        ..hasty()
    }
}

/// Input: a git server that says nothing (docs/reference/security.md § 3.31). Answer: it is given up after the limit of silence.
#[test]
fn a_silent_server_is_given_up() {
    let world = World::new();
    for at in ["GET", "POST"] {
        let server = serve(&world, move |request| match request.method == at {
            true => Reply::Stream(Box::new(|stream| {
                thread::sleep(Duration::from_secs(30));
                drop(stream);
            })),
            false => Reply::Git,
        });
        let start = Instant::now();
        let error = fetch_with(&world, &server.url(PATH), &impatient()).unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{at}: {error}");
        assert!(
            start.elapsed() < Duration::from_secs(9),
            "{at}: {:?}",
            start.elapsed()
        );
    }
}

/// Input: a git server that sends a byte now and then (docs/reference/security.md § 3.31). Answer: it is given up at the deadline of the fetch.
#[test]
fn a_server_that_sends_drop_by_drop_is_given_up_at_the_deadline() {
    let world = World::new();
    let server = serve(&world, |_| {
        Reply::Stream(Box::new(|mut stream| {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n\r\n";
            let mut alive = stream.write_all(head.as_bytes()).is_ok();
            while alive {
                thread::sleep(Duration::from_millis(50));
                alive = stream.write_all(b"0").is_ok();
            }
        }))
    });
    let options = FetchOptions {
        time: Duration::from_secs(1),
        ..hasty()
    };
    let start = Instant::now();
    let error = fetch_with(&world, &server.url(PATH), &options).unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(8));
}

/// Input: a list of refs without end (docs/reference/security.md § 3.31). Answer: it is stopped at the size limit, which is named.
#[test]
fn a_server_that_sends_for_ever_is_stopped_at_the_size_limit() {
    let world = World::new();
    let server = serve(&world, |_| {
        Reply::Stream(Box::new(|mut stream| {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n\r\n\
                001e# service=git-upload-pack\n0000";
            let mut alive = stream.write_all(head.as_bytes()).is_ok();
            let mut n = 0_u64;
            while alive {
                let line = format!("{} refs/heads/b{n:020}\n", "1".repeat(40));
                alive = stream
                    .write_all(format!("{:04x}{line}", line.len() + 4).as_bytes())
                    .is_ok();
                n += 1;
            }
        }))
    });
    let options = FetchOptions {
        bytes: 1 << 20,
        ..hasty()
    };
    let error = fetch_with(&world, &server.url(PATH), &options).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
}

/// Input: answers that are no git repository (docs/reference/security.md § 3.31). Answer: an error that says what it is, without escapes.
#[test]
fn answers_that_are_no_repository_are_explained() {
    let world = World::new();
    let check = |reply: fn() -> Reply, expected: fn(&Error) -> bool| {
        let server = serve(&world, move |_| reply());
        let error = fetch_with(&world, &server.url(PATH), &hasty()).unwrap_err();
        assert!(expected(&error), "{error:?}");
    };
    let no_repository = |error: &Error| matches!(error, Error::NotARepository { .. });
    let unreachable = |error: &Error| matches!(error, Error::Unreachable { .. });
    check(|| Reply::status("404 Not Found", ""), no_repository);
    check(
        || Reply::status("200 OK", "Content-Type: text/html\r\n"),
        no_repository,
    );
    check(
        || Reply::status("403 Forbidden", ""),
        |error| matches!(error, Error::Authentication { .. }),
    );
    check(
        || Reply::status("500 Internal Server Error", ""),
        unreachable,
    );
    check(|| Reply::status("503 Service Unavailable", ""), unreachable);
    check(
        || Reply::Raw(b"\x00\xff nonsense\r\n\r\n".to_vec()),
        unreachable,
    );
    check(|| Reply::Raw(Vec::new()), unreachable);
    check(|| Reply::refs(b""), |_| true);
    check(|| Reply::refs(b"zzzz"), unreachable);
    check(
        || Reply::refs(b"001e# service=git-upload-pack\n0000"),
        |_| true,
    );
    check(
        || Reply::refs(b"001e# service=git-upload-pack\n0000fff0short"),
        unreachable,
    );
    check(
        || Reply::refs(b"001e# service=git-upload-pack\n00000020ERR \x1b[31mno such thing here\n"),
        |error| !error.to_string().contains('\x1b') && error.to_string().contains("no such thing"),
    );
}

/// Input: a truncated and a damaged pack (docs/reference/security.md § 3.31). Answer: refused; nothing of it stays.
#[test]
fn a_pack_that_is_cut_or_damaged_is_refused_and_leaves_nothing() {
    let world = World::new();
    world.write(
        "big",
        &"some text that does not compress to nothing\n".repeat(50),
    );
    world.commit("big");
    for damage in [0, 1] {
        let root = root_of(&world.source());
        let proxy = Server::start(&root, |_| Reply::Git);
        let port = proxy.port();
        let server = serve(&world, move |request| match request.method.as_str() {
            "POST" => {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\nConnection: close\r\n\r\n";
                let mut pack = b"0008NAK\n".to_vec();
                let mut content = b"PACK\0\0\0\x02\0\0\0\x05".to_vec();
                content.extend(std::iter::repeat_n(port as u8, 200 * damage));
                pack.extend(format!("{:04x}\x01", content.len() + 5).bytes());
                pack.extend(content);
                Reply::Raw([head.as_bytes(), &pack].concat())
            }
            _ => Reply::Git,
        });
        assert!(fetch_with(&world, &server.url(PATH), &hasty()).is_err());
        let mirror = mirror_of(&world, &server.url(PATH));
        assert_eq!(
            git_in(mirror.path(), &["count-objects"]),
            "0 objects, 0 kilobytes"
        );
        assert_eq!(git_in(mirror.path(), &["for-each-ref"]), "");
    }
}

#[test]
fn who_is_not_there_or_speaks_no_tls_is_unreachable() {
    let world = World::new();
    let server = serve(&world, |_| Reply::Git);
    let tls = server.url(PATH).replace("http:", "https:");
    for url in [
        "http://127.0.0.1:1/x",
        &tls,
        "https://does-not-exist.invalid/x",
    ] {
        let error = fetch_with(&world, url, &impatient()).unwrap_err();
        assert!(
            matches!(error, Error::Unreachable { .. } | Error::TimedOut { .. }),
            "{error}"
        );
        assert!(error.is_transient());
    }
}

/// A server whose pack is one object that never ends: zlib blocks without compression, one after the other.
fn endless_object(world: &World) -> Server {
    let root = root_of(&world.source());
    Server::start(&root, |request| match request.method.as_str() {
        "POST" => Reply::Stream(Box::new(|mut stream| {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\n\r\n0008NAK\n";
            let mut pack = b"PACK\0\0\0\x02\0\0\0\x01".to_vec();
            // A blob of so many bytes that it never ends.
            pack.extend([0xbf, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f]);
            pack.extend([0x78, 0x01]);
            let block = [&[0, 0xff, 0x7f, 0, 0x80][..], &[b'x'; 0x7fff]].concat();
            let mut alive = stream.write_all(head.as_bytes()).is_ok();
            let mut next = pack;
            while alive {
                let line = format!("{:04x}\x01", next.len() + 5);
                alive =
                    stream.write_all(line.as_bytes()).is_ok() && stream.write_all(&next).is_ok();
                next.clone_from(&block);
            }
        })),
        _ => Reply::Git,
    })
}

/// Input: a pack of one endless object (docs/reference/security.md § 3.31, § 4.16). Answer: it is stopped at the limit of an object, of a fetch, or of time, which is named; nothing of it stays on the disk.
#[test]
fn a_pack_of_one_endless_object_is_stopped_at_each_limit_and_leaves_nothing() {
    let world = World::new();
    world.write("file", "content");
    world.commit("first");
    let server = endless_object(&world);
    let url = server.url("/source/.git");
    let check = |options: FetchOptions, expected: &str| {
        let start = Instant::now();
        let error = fetch_with(&world, &url, &options).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(
            start.elapsed() < Duration::from_secs(15),
            "{:?}",
            start.elapsed()
        );
        let pack = mirror_of(&world, &url).path().join("objects/pack");
        let left: Vec<_> = std::fs::read_dir(pack).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    };
    let object_bytes = 8 << 20;
    check(
        FetchOptions {
            object_bytes,
            ..hasty()
        },
        "passed its limit of 8 MiB for one object",
    );
    let bytes = 8 << 20;
    check(
        FetchOptions { bytes, ..hasty() },
        "passed its limit of 8 MiB",
    );
    let (time, bytes) = (Duration::from_secs(1), u64::MAX);
    let object_bytes = u64::MAX;
    check(
        FetchOptions {
            time,
            bytes,
            object_bytes,
            ..hasty()
        },
        "took longer than 1 s",
    );
}

/// Input: a git server that repeats the token it was shown, in a message, as a redirect's host, as the name of its default branch (docs/reference/security.md § 3.31). Answer: the error has a mark in the token's place.
#[test]
fn a_server_that_repeats_the_token_is_not_quoted() {
    let world = World::new();
    let refs = |text: &str| {
        let line = format!("{:04x}{text}", text.len() + 4);
        Reply::refs(format!("001e# service=git-upload-pack\n0000{line}0000").as_bytes())
    };
    let id = "1".repeat(40);
    let head = move |name: &str| {
        refs(&format!(
            "{id} HEAD\0symref=HEAD:refs/heads/{name} agent=x\n"
        ))
    };
    let check = |reply: Box<dyn Fn() -> Reply + Send + Sync>, expected: &str| {
        let server = serve(&world, move |_| reply());
        // It fails by itself where the answer shows the token.
        let error = fetch_with(&world, &server.url(PATH), &hasty()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    check(
        Box::new(move || refs("ERR you sent canary-s3cret")),
        "you sent <redacted: token>",
    );
    check(
        Box::new(move || refs("ERR Basic Ym90OmNhbmFyeS1zM2NyZXQ=")),
        "Basic <redacted: token>",
    );
    check(
        Box::new(|| Reply::redirect("http://canary-s3cret.example/x")),
        "redirects to http://<redacted: token>.example",
    );
    check(
        Box::new(move || head("-canary-s3cret")),
        "<redacted: token>",
    );
}
