use super::*;

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

/// Input: signatures that are missing, twice, cut, of another secret or body (docs/reference/security.md § 3.1). Answer: refused.
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

/// Input: two signatures of which one is wrong (docs/reference/security.md § 3.1). Answer: refused.
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
