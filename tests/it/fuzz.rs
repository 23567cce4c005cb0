//! Each target of the fuzzers, over its seeds and some thousand changed ones: the same in every run, without a fuzzer.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use steward::fuzzing as server;
use steward_compiler::fuzzing::{self as compiler, Numbers, mutated};

/// A reader, the folder of its seeds, and what its format is made of.
struct Target {
    read: fn(&[u8]),
    seeds: &'static str,
    words: &'static [&'static [u8]],
    n_mutations: u64,
}

const YAML: &[&[u8]] = &[
    b"[",
    b"]",
    b"{",
    b"}",
    b", ",
    b": ",
    b"- ",
    b"? ",
    b"\n",
    b"\n  ",
    b"\n    ",
    b"#",
    b" # ",
    b"'",
    b"\"",
    b"|\n",
    b">-\n",
    b"&a ",
    b"*a",
    b"!t ",
    b"<<: ",
    b"---\n",
    b"...\n",
    b"%TAG ! x\n",
    b"\t",
    b"\r",
    b"\\",
    b"null",
    b"1e3",
    b"~",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"\xc2\x85",
    b"a",
    b"b",
    b"key: ",
    b"true",
];

const FRAMES: &[&[u8]] = &[
    b"\x80",
    b"\x81",
    b"\x82",
    b"\x90",
    b"\x91",
    b"\x92",
    b"\xc0",
    b"\xc3",
    b"\xc4\x01",
    b"\xc7\x04\x05",
    b"\xcb",
    b"\xcf",
    b"\xd4\x01",
    b"\xd9\x05",
    b"\xdb\x00\x00\x00\x01",
    b"\xdc\x00\x02",
    b"\xdd\x00\x00\x00\x02",
    b"\xde\x00\x01",
    b"\xdf\x00\x00\x00\x01",
    b"\xa2id",
    b"\xa5value",
    b"\xa6result",
    b"\xa4call",
    b"\xa4list",
    b"\xa4done",
    b"\xa3ask",
    b"\xff\xff\xff\xff",
];

const HTTP: &[&[u8]] = &[
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b"GET ",
    b"POST ",
    b" HTTP/1.1",
    b" HTTP/1.0",
    b"/a",
    b"?",
    b"&",
    b"=",
    b"%2f",
    b"%00",
    b"%",
    b"+",
    b"Host: a\r\n",
    b"Content-Length: 2\r\n",
    b"Content-Length: -1\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Encoding: gzip\r\n",
    b"X-Inmanta-tid: ",
    b"Expect: 100-continue\r\n",
    b"Connection: close\r\n",
    b"{\"a\": 1}",
    b"[",
    b"0\r\n\r\n",
    b"\x00",
    b"\xff",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"Upgrade: h2c\r\n",
];

const HANDLER_REQUESTS: &[&[u8]] = &[
    b"here\n",
    b"elsewhere\n",
    b"GET ",
    b"HEAD ",
    b"PUT ",
    b"POST ",
    b"PATCH ",
    b"DELETE ",
    b"/",
    b"//",
    b"/../",
    b"?",
    b"&",
    b"=",
    b"tid=7131f06c-44b8-8d1b-9909-d01c5c65f405",
    b"environment=",
    b"%2f",
    b"%00",
    b"%5B",
    b"/api/v1/",
    b"/api/v2/",
    b"/lsm/v1/",
    b"\n",
    b"{\"value\": ",
    b"\"tid\": ",
    b"}",
    b"[",
    b"]",
    b"null",
    b"1e400",
    b"-1",
    b"\"\\ud800\"",
    b"\xff",
];

const PROXY: &[&[u8]] = &[
    b"CONNECT ",
    b"GET ",
    b"http://",
    b"api.example.org",
    b"db:5432",
    b"[::1]",
    b"127.0.0.1",
    b":443",
    b":0",
    b":99999",
    b"@",
    b"/",
    b" ",
    b" HTTP/1.1",
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"Proxy-Authorization: Basic c3Rld2FyZDp3b3Jk\r\n",
    b"Proxy-Connection: x\r\n",
    b"Connection: x\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b":",
    b"\x00",
    b"\xff",
];

const PACKAGES: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b"[[packages]]\n",
    b"\"",
    b"''",
    b"=",
    b".",
    b":",
    b",",
    b"\n",
    b"\n\n",
    b"Name: ",
    b"Version: ",
    b"null",
    b"1e400",
    b"1979-05-27T07:32:00Z",
    b"\"install\": ",
    b"\"metadata\": ",
    b"sha256",
    b"\\u0000",
    b"\\ud800",
    b"\xff",
];

const WEBHOOK: &[&[u8]] = &[
    b"X-GitHub-Event: push\n",
    b"X-Gitea-Event: push\n",
    b"X-Hub-Signature-256: sha256=",
    b"X-Gitea-Signature: ",
    b"\n\n",
    b"Content-Type: application/json\n",
    b"Content-Type: application/x-www-form-urlencoded\n",
    b"payload=",
    b"%7b",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b":",
    b",",
    b"null",
    b"true",
    b"1e400",
    b"-0",
    b"\\u0000",
    b"\\u001b",
    b"\\ud800",
    b"\"ref\":",
    b"\"after\":",
    b"\"repository\":",
    b"\"refs/heads/-x\"",
    b"0000000000000000000000000000000000000000",
    b"\x1b[31m",
    b"\xff",
];

const GIT: &[&[u8]] = &[
    b"https://",
    b"http://",
    b"ssh://",
    b"git@",
    b"file://",
    b"ext::",
    b"-",
    b"/",
    b"..",
    b"../",
    b".git",
    b".",
    b":",
    b"@",
    b"%2e",
    b"%0a",
    b"[::1]",
    b"127.0.0.1",
    b"0x7f000001",
    b":22",
    b":0",
    b" -> ",
    b"\n",
    b"\\",
    b"\xe2\x80\x8d",
    b"git~1",
    b"a",
    b"~",
    b"?",
    b"#",
];

const FETCH: &[&[u8]] = &[
    b"\n%%\n",
    b"\n&&\n",
    b"#0",
    b"@0",
    b"#1",
    b"@1",
    b"#2",
    b"@2",
    b"c",
    b"t40000 ",
    b"t100644 ",
    b"d0",
    b"x",
    b"\0",
    b"../",
    b".git",
    b"0000",
    b"0004",
    b"ffff",
    b"0008NAK\n",
    b"ERR ",
    b"shallow ",
    b"symref=HEAD:refs/heads/main",
    b"object-format=sha256",
    b"Location: /",
    b"Content-Length: 99\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"PACK\0\0\0\x02\xff\xff\xff\xff",
    b"\xff",
];

const LINKS: &[&[u8]] = &[
    b"\x01\0",
    b"\x02\0",
    b"\0\0",
    b"\x03\0",
    b"/proc/self/fd/1\0",
    b"/dev/fd/0\0",
    b"/proc/self/mem\0",
    b"/etc/passwd\0",
    b"../\0",
    b"user.a\0",
    b"security.x\0",
    b"\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"{\"writable\": [\"/\"], ",
    b"\"deposit\": [], \"scratch\": null, \"has_landlock\": true}",
];

const TEXT: &[&[u8]] = &[
    b"\n",
    b"[metadata]\n",
    b"[options]\n",
    b"name = ",
    b"version = ",
    b"install_requires =\n  ",
    b"inmanta-module-x",
    b"~=1.0",
    b"==",
    b"<",
    b"!=",
    b";",
    b"#",
    b"@ git+https://h/a.git@",
    b"-r ",
    b"-e ",
    b"--find-links ",
    b"1!2.3.dev4+x",
    b".*",
    b"(",
    b")",
    b"[x]",
    b",",
    b"*",
    b"name: x\n",
    b"requires: [",
    b"]",
    b"modulepath: ",
    b"pip:\n  index-url: ",
    b"\t",
    b"=",
    b":",
    b"\xc3\xa9",
    b"99999999999999999999",
];

const TARGETS: &[Target] = &[
    Target {
        read: compiler::yaml,
        seeds: "compiler/fuzz/seeds/yaml",
        words: YAML,
        n_mutations: 40_000,
    },
    Target {
        read: compiler::metadata,
        seeds: "compiler/fuzz/seeds/metadata",
        words: TEXT,
        n_mutations: 12_000,
    },
    Target {
        read: compiler::metadata,
        seeds: "compiler/fuzz/seeds/metadata",
        words: YAML,
        n_mutations: 8_000,
    },
    Target {
        read: compiler::frames,
        seeds: "compiler/fuzz/seeds/frames",
        words: FRAMES,
        n_mutations: 20_000,
    },
    Target {
        read: server::frames,
        seeds: "tests/fuzz/seeds/frames",
        words: FRAMES,
        n_mutations: 20_000,
    },
    Target {
        read: server::lock,
        seeds: "tests/fuzz/seeds/lock",
        words: YAML,
        n_mutations: 10_000,
    },
    Target {
        read: server::proxy,
        seeds: "tests/fuzz/seeds/proxy",
        words: PROXY,
        n_mutations: 20_000,
    },
    Target {
        read: server::packages,
        seeds: "tests/fuzz/seeds/packages",
        words: PACKAGES,
        n_mutations: 10_000,
    },
    Target {
        read: server::requirements,
        seeds: "tests/fuzz/seeds/requirements",
        words: TEXT,
        n_mutations: 10_000,
    },
    Target {
        read: server::config,
        seeds: "tests/fuzz/seeds/config",
        words: YAML,
        n_mutations: 10_000,
    },
    Target {
        read: server::webhook,
        seeds: "tests/fuzz/seeds/webhook",
        words: WEBHOOK,
        n_mutations: 20_000,
    },
    Target {
        read: server::http,
        seeds: "tests/fuzz/seeds/http",
        words: HTTP,
        n_mutations: 6_000,
    },
    Target {
        read: server::handler_requests,
        seeds: "tests/fuzz/seeds/handler_requests",
        words: HANDLER_REQUESTS,
        n_mutations: 6_000,
    },
    Target {
        read: server::fetch,
        seeds: "tests/fuzz/seeds/fetch",
        words: FETCH,
        n_mutations: 600,
    },
    Target {
        read: server::links,
        seeds: "tests/fuzz/seeds/links",
        words: LINKS,
        n_mutations: 10_000,
    },
    Target {
        read: server::git,
        seeds: "tests/fuzz/seeds/git",
        words: GIT,
        n_mutations: 20_000,
    },
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn seeds(folder: &str) -> Vec<Vec<u8>> {
    let folder = root().join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{}", folder.display());
    files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect()
}

/// How often as much as usual: `STEWARD_FUZZ_ROUNDS`, for a long run without a fuzzer.
fn rounds() -> u64 {
    let rounds = std::env::var("STEWARD_FUZZ_ROUNDS").ok();
    rounds.and_then(|n| n.parse().ok()).unwrap_or(1)
}

/// Input: changed webhook payloads, HTTP connections, requests of handlers, YAML, lock files, requirements, URLs, names, answers of git servers, frames and calls of sandboxed code, each reader for
/// itself (docs/reference/security.md § 3.1, § 3.4, § 3.13, § 3.14, § 3.21, § 3.23). Answer: a value or an error that can be logged; no panic, no 500.
#[test]
fn readers_survive_mutations_of_their_seeds() {
    for target in TARGETS {
        let seeds = seeds(target.seeds);
        let start = Instant::now();
        seeds.iter().for_each(|seed| (target.read)(seed));
        let mut numbers = Numbers(0x5eed_1234_5678_9abc);
        let mut slowest = Duration::ZERO;
        for _ in 0..target.n_mutations * rounds() {
            let bytes = mutated(&seeds, target.words, &mut numbers);
            let before = Instant::now();
            // What made a reader panic is above the panic's message in the output.
            let read = std::panic::catch_unwind(|| (target.read)(&bytes));
            assert!(
                read.is_ok(),
                "{}: {:?}",
                target.seeds,
                String::from_utf8_lossy(&bytes)
            );
            slowest = slowest.max(before.elapsed());
        }
        println!(
            "{}: {:?}, at most {slowest:?}",
            target.seeds,
            start.elapsed()
        );
    }
}

#[test]
fn every_fuzz_target_has_seeds_and_runs_here() {
    for folder in ["compiler/fuzz", "tests/fuzz"] {
        for entry in std::fs::read_dir(root().join(folder).join("fuzz_targets")).unwrap() {
            let name = entry.unwrap().path().file_stem().unwrap().to_owned();
            let name = name.to_str().unwrap();
            // The language has tests of its own: `mangled` and `robust`.
            if folder == "compiler/fuzz" && ["lexer", "parser", "compile"].contains(&name) {
                continue;
            }
            let seeds = format!("{folder}/seeds/{name}");
            assert!(
                TARGETS.iter().any(|target| target.seeds == seeds),
                "{seeds}"
            );
        }
    }
}
