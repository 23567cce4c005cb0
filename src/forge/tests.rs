//! Deliveries as forges send them, from `fixtures/webhooks`, and as nobody should.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

const SECRET: &[u8] = b"fixture-webhook-secret";

/// A delivery to change before it is checked.
#[derive(Clone)]
struct Delivery {
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Delivery {
    fn of(name: &str) -> Delivery {
        let path = fixtures().join(name);
        let headers = fs::read_to_string(path.with_extension("headers")).unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_owned(), value.as_bytes().to_owned())
        };
        Delivery {
            headers: headers.lines().map(header).collect(),
            body: fs::read(path.with_extension("json")).unwrap(),
        }
    }

    fn push(body: &str) -> Delivery {
        Delivery {
            body: body.as_bytes().to_owned(),
            ..Delivery::of("github/push_branch")
        }
    }

    fn without(mut self, name: &str) -> Delivery {
        self.headers
            .retain(|(found, _)| !found.eq_ignore_ascii_case(name));
        self
    }

    fn with(mut self, name: &str, value: &[u8]) -> Delivery {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn set(self, name: &str, value: &[u8]) -> Delivery {
        self.without(name).with(name, value)
    }

    fn headers<'a>(&'a self) -> impl Fn(&str) -> Vec<&'a [u8]> {
        move |name| {
            let matching = self
                .headers
                .iter()
                .filter(|(found, _)| found.eq_ignore_ascii_case(name));
            matching.map(|(_, value)| value.as_slice()).collect()
        }
    }

    fn verify(&self, forge: Forge) -> Result<(), SignatureError> {
        verify(forge, SECRET, &self.headers(), &self.body)
    }

    fn parse(&self, forge: Forge) -> Result<Hook, Error> {
        parse(forge, &self.headers(), &self.body)
    }

    fn header<'a>(&'a self, name: &str) -> &'a str {
        std::str::from_utf8(self.headers()(name)[0]).unwrap()
    }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/webhooks")
}

fn forge_of(name: &str) -> Forge {
    name.split('/').next().unwrap().parse().unwrap()
}

fn all_fixtures() -> Vec<String> {
    let mut names = Vec::new();
    for forge in ["github", "gitea"] {
        for entry in fs::read_dir(fixtures().join(forge)).unwrap() {
            let path = entry.unwrap().path();
            if path
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                names.push(format!(
                    "{forge}/{}",
                    path.file_stem().unwrap().to_str().unwrap()
                ));
            }
        }
    }
    names.sort();
    names
}

#[track_caller]
fn check_push(name: &str, reference: &str, [before, after]: [bool; 2], full_name: &str) {
    let hook = Delivery::of(name).parse(forge_of(name)).unwrap();
    let Event::Push(push) = hook.event else {
        panic!("{:?}", hook.event);
    };
    assert_eq!(push.reference, reference);
    assert_eq!(
        [push.before.is_some(), push.after.is_some()],
        [before, after]
    );
    assert_eq!(push.deleted, !after);
    assert_eq!(push.repository.full_name, full_name);
    assert_eq!(push.repository.addresses.iter().count(), 3);
    assert!(hook.delivery.is_some());
}

#[test]
fn deliveries_of_github_are_read() {
    let name = "northwind-net/infra-model";
    check_push("github/push_branch", "refs/heads/main", [true, true], name);
    check_push(
        "github/push_forced",
        "refs/heads/feature/hall-b",
        [true, true],
        name,
    );
    check_push(
        "github/push_new_branch",
        "refs/heads/feature/hall-b",
        [false, true],
        name,
    );
    check_push(
        "github/push_branch_deleted",
        "refs/heads/feature/hall-b",
        [true, false],
        name,
    );
    check_push("github/push_tag", "refs/tags/v2026.11", [false, true], name);
    let event = |name: &str| Delivery::of(name).parse(Forge::GitHub).unwrap().event;
    assert_eq!(event("github/ping"), Event::Ping);
    assert_eq!(
        event("github/delete_branch"),
        Event::Other("delete".to_owned())
    );
}

#[test]
fn deliveries_of_gitea_are_read() {
    let name = "infra/site-model";
    check_push("gitea/push_branch", "refs/heads/main", [true, true], name);
    check_push(
        "gitea/push_forced",
        "refs/heads/site-12",
        [true, true],
        name,
    );
    check_push(
        "gitea/push_new_branch",
        "refs/heads/site-12",
        [false, true],
        name,
    );
    check_push("gitea/push_tag", "refs/tags/v3", [false, true], name);
    check_push(
        "gitea/push_test_delivery",
        "refs/heads/main",
        [true, true],
        name,
    );
    check_push(
        "gitea/delete_branch",
        "refs/heads/site-12",
        [false, false],
        name,
    );
}

#[test]
fn only_branches_have_a_branch_name() {
    let branch = |name: &str| match Delivery::of(name).parse(forge_of(name)).unwrap().event {
        Event::Push(push) => push.branch().map(str::to_owned),
        Event::Ping | Event::Other(_) => None,
    };
    assert_eq!(
        branch("github/push_forced").as_deref(),
        Some("feature/hall-b")
    );
    assert_eq!(branch("github/push_tag"), None);
}

#[test]
fn all_fixtures_are_signed_and_full_size() {
    for name in all_fixtures() {
        let delivery = Delivery::of(&name);
        assert_eq!(delivery.verify(forge_of(&name)), Ok(()), "{name}");
        assert!(delivery.body.len() > 3000, "{name}");
        if forge_of(&name) == Forge::Gitea {
            // Forgejo sends what Gitea does, and its own.
            let signature = delivery.header("X-Gitea-Signature").as_bytes().to_owned();
            let forgejo = delivery.with("X-Forgejo-Signature", &signature);
            assert_eq!(forgejo.verify(Forge::Forgejo), Ok(()));
            assert!(forgejo.parse(Forge::Forgejo).is_ok());
        }
    }
}

#[test]
fn the_published_vector_of_github_verifies() {
    let delivery = Delivery {
        headers: vec![(
            "X-Hub-Signature-256".to_owned(),
            b"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17".to_vec(),
        )],
        body: b"Hello, World!".to_vec(),
    };
    let secret = b"It's a Secret to Everybody";
    assert_eq!(
        verify(Forge::GitHub, secret, &delivery.headers(), &delivery.body),
        Ok(())
    );
}

#[test]
fn what_is_not_signed_rightly_is_refused() {
    use SignatureError::{BadSignature, Malformed, Unsigned};
    const NAME: &str = "X-Hub-Signature-256";
    let good = Delivery::of("github/push_branch");
    let value = good.header(NAME).to_owned();
    let digits = value.strip_prefix("sha256=").unwrap();
    let check =
        |delivery: Delivery, expected| assert_eq!(delivery.verify(Forge::GitHub), Err(expected));
    check(good.clone().without(NAME), Unsigned); // There is still the one with SHA-1.
    check(good.clone().set(NAME, b""), Unsigned);
    check(good.clone().set(NAME, b"sha256="), Unsigned);
    check(good.clone().set(NAME, digits.as_bytes()), Malformed);
    check(
        good.clone().set(NAME, format!("sha1={digits}").as_bytes()),
        Malformed,
    );
    check(
        good.clone()
            .set(NAME, format!("SHA256={digits}").as_bytes()),
        Malformed,
    );
    check(
        good.clone().set(NAME, &value.as_bytes()[..value.len() - 2]),
        Malformed,
    );
    check(
        good.clone().set(NAME, &value.as_bytes()[..value.len() - 1]),
        Malformed,
    );
    check(
        good.clone().set(NAME, format!("{value}00").as_bytes()),
        Malformed,
    );
    check(
        good.clone()
            .set(NAME, format!("{value},{value}").as_bytes()),
        Malformed,
    );
    check(good.clone().set(NAME, b"sha256=\xff\xfe"), Malformed);
    check(good.clone().with(NAME, value.as_bytes()), Malformed);
    check(good.clone().with(NAME, b"sha256=00"), Malformed);
    check(
        good.clone()
            .set(NAME, format!("sha256={}", "0".repeat(64)).as_bytes()),
        BadSignature,
    );
    check(
        Delivery {
            body: b"{}".to_vec(),
            ..good.clone()
        },
        BadSignature,
    );
    check(
        Delivery {
            body: [&good.body[..], b"\n"].concat(),
            ..good.clone()
        },
        BadSignature,
    );
    let other = verify(
        Forge::GitHub,
        b"secret of another hook",
        &good.headers(),
        &good.body,
    );
    assert_eq!(other, Err(BadSignature));
}

#[test]
fn the_case_of_the_digits_does_not_matter() {
    let good = Delivery::of("github/push_branch");
    let value = good.header("X-Hub-Signature-256").to_owned();
    let upper = value.replace("sha256=", "").to_uppercase();
    assert_eq!(
        good.set("X-Hub-Signature-256", format!("sha256={upper}").as_bytes())
            .verify(Forge::GitHub),
        Ok(())
    );
}

#[test]
fn a_hook_without_a_secret_is_refused() {
    let good = Delivery::of("github/push_branch");
    let result = verify(Forge::GitHub, b"", &good.headers(), &good.body);
    assert_eq!(result, Err(SignatureError::NoSecret));
}

#[test]
fn signatures_of_gitea_must_all_agree() {
    use SignatureError::{BadSignature, Malformed, Unsigned};
    let good = Delivery::of("gitea/push_branch");
    let wrong = "0".repeat(64);
    let (gitea, hub) = ("X-Gitea-Signature", "X-Hub-Signature-256");
    let check = |delivery: Delivery, expected| assert_eq!(delivery.verify(Forge::Gitea), expected);
    check(good.clone().without(gitea), Ok(()));
    check(good.clone().without(hub), Ok(()));
    check(good.clone().without(hub).without(gitea), Err(Unsigned));
    check(good.clone().set(gitea, wrong.as_bytes()), Err(BadSignature));
    check(
        good.clone().set(hub, format!("sha256={wrong}").as_bytes()),
        Err(BadSignature),
    );
    check(
        good.clone().set(gitea, b"").set(hub, b"sha256="),
        Err(Unsigned),
    );
    check(good.clone().set(gitea, b""), Err(Unsigned));
    let prefixed = format!("sha256={}", good.header(gitea));
    check(good.clone().set(gitea, prefixed.as_bytes()), Err(Malformed));
    // GitHub does not look at Gitea's header.
    assert_eq!(good.without(hub).verify(Forge::GitHub), Err(Unsigned));
}

#[test]
fn the_headers_of_another_forge_are_not_read() {
    let github = Delivery::of("github/push_branch");
    assert!(matches!(
        github.parse(Forge::Gitea),
        Err(Error::Header { .. })
    ));
    let disagreeing = Delivery::of("gitea/push_branch").set("X-GitHub-Event", b"ping");
    assert!(matches!(
        disagreeing.parse(Forge::Gitea).unwrap().event,
        Event::Push(_)
    ));
}

#[test]
fn odd_headers_are_errors() {
    let good = Delivery::of("github/push_branch");
    for value in [&b""[..], b"a b", b"push\n", b"\xff", &[b'a'; 200]] {
        for name in ["X-GitHub-Event", "X-GitHub-Delivery"] {
            let error = good
                .clone()
                .set(name, value)
                .parse(Forge::GitHub)
                .unwrap_err();
            assert_eq!(
                error,
                Error::Header {
                    header: name.to_owned()
                }
            );
        }
    }
    assert!(
        good.clone()
            .with("X-GitHub-Event", b"push")
            .parse(Forge::GitHub)
            .is_err()
    );
    assert_eq!(
        good.without("X-GitHub-Delivery")
            .parse(Forge::GitHub)
            .unwrap()
            .delivery,
        None
    );
}

#[test]
fn unknown_events_are_named_and_their_payload_left_alone() {
    let hook = Delivery::push("null")
        .set("X-GitHub-Event", b"workflow_run")
        .parse(Forge::GitHub)
        .unwrap();
    assert_eq!(hook.event, Event::Other("workflow_run".to_owned()));
}

#[test]
fn a_form_holds_the_payload_in_a_field() {
    const FORM: &[u8] = b"application/x-www-form-urlencoded";
    let json = Delivery::of("github/push_branch");
    let encoded = percent_encoding::percent_encode(&json.body, percent_encoding::NON_ALPHANUMERIC)
        .to_string();
    let form = |body: String| {
        Delivery {
            body: body.into_bytes(),
            ..json.clone()
        }
        .set("Content-Type", FORM)
    };
    let encoded = encoded.replace("%20", "+");
    assert_eq!(
        form(format!("a=b&payload={encoded}")).parse(Forge::GitHub),
        json.parse(Forge::GitHub)
    );
    for body in [
        "",
        "payload",
        "payload=",
        "payload=%7b",
        "payload=%zz",
        "payload={}&payload={}",
        "a=b",
    ] {
        assert!(
            form(body.to_owned()).parse(Forge::GitHub).is_err(),
            "{body}"
        );
    }
}

#[test]
fn other_content_types_are_refused() {
    let good = Delivery::of("github/push_branch");
    for kind in [&b"text/plain"[..], b"", b"application/jsonp", b"\xff"] {
        let result = good.clone().set("Content-Type", kind).parse(Forge::GitHub);
        assert_eq!(result, Err(Error::ContentType));
    }
    assert_eq!(
        good.clone().without("Content-Type").parse(Forge::GitHub),
        Err(Error::ContentType)
    );
    assert!(
        good.set("Content-Type", b"Application/JSON; charset=utf-8")
            .parse(Forge::GitHub)
            .is_ok()
    );
}

/// A push payload with these values, written as JSON.
fn payload(reference: &str, before: &str, after: &str) -> Delivery {
    Delivery::push(&format!(
        r#"{{"ref":{reference},"before":{before},"after":{after},"repository":{{"full_name":"a/b"}}}}"#
    ))
}

#[test]
fn commit_ids_have_forty_or_sixty_four_digits() {
    let id = |n: usize, digit: &str| format!("\"{}\"", digit.repeat(n));
    let check = |after: &str| payload("\"refs/heads/x\"", &id(40, "1"), after).parse(Forge::GitHub);
    let deleted = |hook: Hook| {
        matches!(
            hook.event,
            Event::Push(Push {
                deleted: true,
                after: None,
                ..
            })
        )
    };
    for n in [40, 64] {
        assert!(!deleted(check(&id(n, "a")).unwrap()));
        assert!(deleted(check(&id(n, "0")).unwrap()));
    }
    for after in [
        &id(39, "a"),
        &id(41, "0"),
        &id(0, ""),
        &id(40, "A"),
        &id(40, "g"),
        &id(20, "ä"),
        "\"HEAD\"",
        "\"--upload-pack=x\"",
        "null",
        "0",
        "1e400",
        "[]",
        "{}",
        "true",
    ] {
        assert!(check(after).is_err(), "{after}");
    }
}

#[test]
fn refs_are_full_and_harmless() {
    let zero = format!("\"{}\"", "0".repeat(40));
    let check = |reference: &str| payload(reference, &zero, &zero).parse(Forge::GitHub);
    for good in [
        "refs/heads/-x",
        "refs/heads/a/b",
        "refs/tags/main",
        "refs/pull/1/merge",
        "refs/heads/ü@x",
    ] {
        assert!(check(&format!("\"{good}\"")).is_ok(), "{good}");
    }
    for bad in [
        "main",
        "",
        "refs/",
        "refs/heads",
        "refs/heads/",
        "refs/heads/../../etc",
        "refs/heads/a b",
        "/refs/heads/a",
        "refs/heads//a",
        "refs/heads/.a",
        "refs/heads/a.lock",
        "refs/heads/a.",
        "refs/heads/@{1}",
        "refs/heads/a\\nb",
        "refs/heads/\\u001b[31m",
        "refs/heads/\\u202ea",
        "refs/heads/a\\u0000",
        "refs/heads/*",
        "refs/heads/a\\\\b",
    ] {
        let error = check(&format!("\"{bad}\"")).unwrap_err();
        assert!(
            matches!(error, Error::Field { field: "ref", .. }),
            "{bad}: {error}"
        );
    }
    assert!(check(&format!("\"refs/heads/{}\"", "a".repeat(65536))).is_err());
    assert!(check("null").is_err());
}

#[test]
fn payloads_that_are_none_are_errors() {
    let deep = "[".repeat(100_000);
    let deep_object = format!("{}1", "{\"repository\":".repeat(100_000));
    let deep_ignored = format!("{{\"x\":{deep}");
    for body in [
        "",
        "null",
        "[]",
        "{}",
        "1",
        "\"x\"",
        "{\"ref\":",
        "\u{0}",
        &deep,
        &deep_object,
        &deep_ignored,
        "{} {}",
    ] {
        for event in ["push", "ping"] {
            let result = Delivery::push(body)
                .set("X-GitHub-Event", event.as_bytes())
                .parse(Forge::GitHub);
            assert!(
                matches!(result, Err(Error::Payload { .. }))
                    || (event == "ping" && matches!(body, "{}" | "[]"))
            );
        }
    }
    let twice =
        Delivery::push(r#"{"ref":"refs/heads/a","ref":"refs/heads/b"}"#).parse(Forge::GitHub);
    assert!(matches!(twice, Err(Error::Payload { .. })));
    let mut bytes = Delivery::of("github/push_branch");
    let at = bytes
        .body
        .windows(4)
        .position(|window| window == b"main")
        .unwrap();
    bytes.body[at] = 0xff;
    assert!(bytes.parse(Forge::GitHub).is_err());
}

#[test]
fn what_is_null_in_honest_payloads_is_not_missed() {
    let body = r#"{"ref":"refs/heads/a","before":"0000000000000000000000000000000000000000",
        "after":"1111111111111111111111111111111111111111","commits":null,"head_commit":null,"pusher":null,
        "repository":{"full_name":"a/b","clone_url":null,"size":123456789012345678901234567890,"x":1e400}}"#;
    assert!(Delivery::push(body).parse(Forge::GitHub).is_ok());
}

#[test]
fn addresses_in_a_payload_never_show_in_debug_text() {
    let body = r#"{"ref":"refs/heads/a","before":"0000000000000000000000000000000000000000",
        "after":"1111111111111111111111111111111111111111",
        "repository":{"full_name":"a/b","clone_url":"https://u:canary@example.com/x"}}"#;
    let hook = Delivery::push(body).parse(Forge::GitHub).unwrap();
    assert!(!format!("{hook:?}").contains("canary"));
}

/// A small generator of numbers, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

/// Whatever comes out of a delivery may be logged.
fn check_harmless(delivery: &Delivery, forge: Forge) {
    let text = match delivery.parse(forge) {
        Ok(Hook { delivery, event }) => {
            if let Event::Push(push) = &event {
                assert!(push.reference.starts_with("refs/"));
                assert_eq!(push.deleted, push.after.is_none());
                assert!(!push.repository.full_name.chars().any(char::is_control));
                assert!(!push.reference.chars().any(char::is_control));
            }
            format!("{delivery:?} {event:?}")
        }
        Err(error) => error.to_string(),
    };
    assert!(!text.chars().any(char::is_control), "{text:?}");
    assert!(text.len() < 10_000);
    let _ = delivery.verify(forge);
}

#[test]
fn bytes_changed_at_random_never_panic() {
    let mut numbers = Numbers(0x5eed_1234_5678_9abc);
    for name in all_fixtures() {
        let original = Delivery::of(&name);
        for _ in 0..150 {
            let mut delivery = original.clone();
            for _ in 0..=numbers.below(4) {
                let (at, length) = (numbers.below(delivery.body.len()), numbers.below(40));
                let end = (at + length).min(delivery.body.len());
                match numbers.below(5) {
                    0 => delivery.body[at] = numbers.below(256) as u8,
                    1 => delivery.body.truncate(at),
                    2 => drop(delivery.body.drain(at..end)),
                    3 => {
                        let copy = delivery.body[at..end].to_owned();
                        delivery.body.splice(at..at, copy);
                    }
                    _ => delivery.body[at] = b"{}[]\",:\\0-e"[numbers.below(11)],
                }
                if delivery.body.is_empty() {
                    break;
                }
            }
            check_harmless(&delivery, forge_of(&name));
            check_harmless(&delivery, Forge::Forgejo);
        }
    }
}

#[test]
fn any_value_in_place_of_any_other_never_panics() {
    let hostile = serde_json::json!([
        null, true, 0, -1, 1.5e300, 18446744073709551615u64, "", "\n\u{1b}[2J", "refs/heads/\u{202e}x",
        "0".repeat(40), "0".repeat(64), "x".repeat(100_000), [], {}, [[[]]], {"ref": "refs/heads/x"}
    ]);
    for name in [
        "github/push_branch",
        "github/ping",
        "gitea/push_branch",
        "gitea/delete_branch",
    ] {
        let original = Delivery::of(name);
        let payload: serde_json::Value = serde_json::from_slice(&original.body).unwrap();
        let mut paths = Vec::new();
        collect_paths(&payload, "", 3, &mut paths);
        for path in &paths {
            for value in hostile.as_array().unwrap() {
                let mut changed = payload.clone();
                *changed.pointer_mut(path).unwrap() = value.clone();
                let delivery = Delivery {
                    body: changed.to_string().into_bytes(),
                    ..original.clone()
                };
                check_harmless(&delivery, forge_of(name));
            }
        }
    }
}

/// The JSON pointers of all values not deeper than `depth`.
fn collect_paths(value: &serde_json::Value, path: &str, depth: usize, paths: &mut Vec<String>) {
    paths.push(path.to_owned());
    if depth == 0 {
        return;
    }
    if let Some(object) = value.as_object() {
        for (key, child) in object
            .iter()
            .filter(|(key, _)| !key.ends_with("_url") || *key == "clone_url")
        {
            collect_paths(child, &format!("{path}/{key}"), depth - 1, paths);
        }
    }
}
