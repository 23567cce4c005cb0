use super::*;

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

/// Input: headers of another forge (docs/reference/security.md § 3.11). Answer: they are not read.
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

/// Input: `after` that is no commit id (docs/reference/security.md § 3.6). Answer: an error.
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

/// Input: refs with `..`, spaces, escapes, without `refs/` (docs/reference/security.md § 3.7). Answer: an error.
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

/// Input: bodies `null`, `[]`, `{}`, cut off, not UTF-8 (docs/reference/security.md § 3.4). Answer: an error.
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

/// Input: a payload with the URL of another repository, with a password in it (docs/reference/security.md § 3.8). Answer: it is not used: the configuration says what is fetched, and no text shows it.
#[test]
fn addresses_in_a_payload_never_show_in_debug_text() {
    let body = r#"{"ref":"refs/heads/a","before":"0000000000000000000000000000000000000000",
        "after":"1111111111111111111111111111111111111111",
        "repository":{"full_name":"a/b","clone_url":"https://u:canary@example.com/x"}}"#;
    let hook = Delivery::push(body).parse(Forge::GitHub).unwrap();
    assert!(!format!("{hook:?}").contains("canary"));
}
