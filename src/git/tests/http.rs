use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::server::{Reply, Request, Server, root_of};
use super::*;

pub(super) const PATH: &str = "/source/.git";
const LOGIN: [&str; 2] = ["bot", "canary-s3cret"];
/// `bot:canary-s3cret`
const AUTHORIZATION: &str = "Basic Ym90OmNhbmFyeS1zM2NyZXQ=";

pub(super) fn serve(
    world: &World,
    behaviour: impl Fn(&Request) -> Reply + Send + Sync + 'static,
) -> Server {
    Server::start(&root_of(&world.source()), behaviour)
}

pub(super) fn mirror_of(world: &World, url: &str) -> Mirror {
    let url = RepositoryUrl::parse(url, &AddressPolicy::default()).unwrap();
    Mirror::open_or_create(&world.path("mirrors"), &url).unwrap()
}

fn login() -> Credentials {
    let [user, token] = LOGIN.map(str::to_owned);
    Credentials {
        login: Some(Login { user, token }),
        ..Credentials::default()
    }
}

/// Fetches from `url` with the login; nothing that comes out may show it.
pub(super) fn fetch_with(
    world: &World,
    url: &str,
    options: &FetchOptions,
) -> Result<CommitId, Error> {
    let result = mirror_of(world, url).fetch(None, &login(), options);
    assert!(!format!("{result:?} {options:?} {:?}", login()).contains("canary"));
    if let Err(error) = &result {
        assert!(!error.to_string().contains("canary"), "{error}");
    }
    result
}

pub(super) fn hasty() -> FetchOptions {
    let time = Duration::from_secs(20);
    FetchOptions {
        silence: Duration::from_secs(10),
        time,
        ..FetchOptions::default()
    }
}

#[test]
fn a_branch_comes_over_http_and_again_only_what_is_new() {
    let world = World::new();
    let server = serve(&world, |_| Reply::Git);
    let mirror = mirror_of(&world, &server.url(PATH));
    assert_eq!(fetch(&mirror, None).unwrap(), world.head());
    for i in 0..20 {
        world.write(&format!("f{i}"), &"x".repeat(10_000));
        world.commit("more");
    }
    assert_eq!(fetch(&mirror, Some("main")).unwrap(), world.head());
    assert_eq!(
        tree_id(&mirror, world.head()).unwrap().to_string(),
        world.git(&["rev-parse", "HEAD^{tree}"])
    );
    let posts = |server: &Server| {
        server
            .requests()
            .iter()
            .filter(|request| request.method == "POST")
            .count()
    };
    let before = posts(&server);
    assert_eq!(fetch(&mirror, Some("main")).unwrap(), world.head());
    assert_eq!(posts(&server), before);
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.header("User-Agent") == Some("git/steward"))
    );
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.header("Authorization").is_none())
    );
}

#[test]
fn long_histories_are_negotiated() {
    let world = World::new();
    let server = serve(&world, |_| Reply::Git);
    let mirror = mirror_of(&world, &server.url(PATH));
    fetch(&mirror, None).unwrap();
    // Each side has commits the other lacks, so that several rounds are needed.
    for i in 0..60 {
        world.git(&["commit", "--quiet", "--allow-empty", "-m", &format!("{i}")]);
    }
    fetch(&mirror, None).unwrap();
    world.git(&["reset", "--quiet", "--hard", "HEAD~55"]);
    for i in 0..60 {
        world.git(&[
            "commit",
            "--quiet",
            "--allow-empty",
            "-m",
            &format!("other {i}"),
        ]);
    }
    assert_eq!(fetch(&mirror, None).unwrap(), world.head());
    git_in(mirror.path(), &["fsck", "--full", "--strict"]);
}

#[test]
fn a_missing_branch_and_an_empty_repository_are_told_apart() {
    let world = World::new();
    let server = serve(&world, |_| Reply::Git);
    let mirror = mirror_of(&world, &server.url(PATH));
    assert!(matches!(
        fetch(&mirror, Some("nope")),
        Err(Error::BranchMissing { .. })
    ));
    let empty = World::empty();
    let server = serve(&empty, |_| Reply::Git);
    let error = fetch(&mirror_of(&empty, &server.url(PATH)), None).unwrap_err();
    assert!(matches!(error, Error::EmptyRepository { .. }), "{error}");
}

//: deploy 124
#[test]
fn credentials_are_sent_and_needed() {
    let world = World::new();
    let server = serve(&world, |request| match request.header("Authorization") {
        Some(AUTHORIZATION) => Reply::Git,
        _ => Reply::status(
            "401 Unauthorized",
            "WWW-Authenticate: Basic realm=\"x\"\r\n",
        ),
    });
    let url = server.url(PATH);
    let start = Instant::now();
    let error = fetch(&mirror_of(&world, &url), None).unwrap_err();
    assert!(
        matches!(&error, Error::Authentication { cause, .. } if cause.contains("no credentials")),
        "{error}"
    );
    let wrong = Login {
        user: "bot".to_owned(),
        token: "wrong".to_owned(),
    };
    let wrong = Credentials {
        login: Some(wrong),
        ..Credentials::default()
    };
    let error = mirror_of(&world, &url)
        .fetch(None, &wrong, &hasty())
        .unwrap_err();
    assert!(
        matches!(&error, Error::Authentication { cause, .. } if cause.contains("did not accept")),
        "{error}"
    );
    assert_eq!(server.requests().len(), 2); // Each asked once, and not again and again.
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(fetch_with(&world, &url, &hasty()).unwrap(), world.head());
    assert!(
        !fs::read_to_string(mirror_of(&world, &url).path().join("config"))
            .unwrap()
            .contains("canary")
    );
}

/// Input: a git token with line breaks in it (docs/reference/security.md § 3.18). Answer: it is encoded; no header is added.
#[test]
fn a_token_cannot_add_headers() {
    let world = World::new();
    let server = serve(&world, |_| Reply::Git);
    for token in [
        "canary\n",
        "canary\r\nHost: evil.example",
        "canary\0",
        "canary ü",
    ] {
        let login = Login {
            user: "bot".to_owned(),
            token: token.to_owned(),
        };
        let credentials = Credentials {
            login: Some(login),
            ..Credentials::default()
        };
        let result = mirror_of(&world, &server.url(PATH)).fetch(None, &credentials, &hasty());
        assert_eq!(result.unwrap(), world.head(), "{token:?}");
    }
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.header("Host") != Some("evil.example"))
    );
}

/// Input: a repository that redirects to another host, port or scheme, with credentials set (docs/reference/security.md § 3.17). Answer: not followed; nothing is sent there.
#[test]
fn a_redirect_to_another_host_is_refused_and_gets_nothing() {
    let world = World::new();
    let other = serve(&world, |_| Reply::Git);
    let targets = [
        format!(
            "http://localhost:{}{PATH}/info/refs?service=git-upload-pack",
            other.port()
        ),
        format!(
            "http://127.0.0.1:{}{PATH}/info/refs?service=git-upload-pack",
            other.port()
        ),
        format!("http://bot:x@127.0.0.1:{}/", other.port()),
        format!(
            "//127.0.0.1:{}{PATH}/info/refs?service=git-upload-pack",
            other.port()
        ),
        format!(
            "https://127.0.0.1:{}{PATH}/info/refs?service=git-upload-pack",
            other.port()
        ),
        "file:///etc/passwd".to_owned(),
        "ext::sh -c id".to_owned(),
        "ssh://127.0.0.1/x".to_owned(),
    ];
    for target in targets {
        let location = target.clone();
        let server = serve(&world, move |_| Reply::redirect(&location));
        let error = fetch_with(&world, &server.url(PATH), &hasty()).unwrap_err();
        assert!(
            matches!(error, Error::Redirected { .. }),
            "{target}: {error}"
        );
        assert!(!error.to_string().contains("bot:x"));
    }
    assert_eq!(other.requests().len(), 0);
}

#[test]
fn a_redirect_of_the_pack_is_not_followed() {
    let world = World::new();
    let other = serve(&world, |_| Reply::Git);
    let location = other.url("/source/.git/git-upload-pack");
    let server = serve(&world, move |request| match request.method.as_str() {
        "POST" => Reply::redirect(&location),
        _ => Reply::Git,
    });
    assert!(fetch_with(&world, &server.url(PATH), &hasty()).is_err());
    assert_eq!(other.requests().len(), 0);
}

#[test]
fn a_redirect_within_the_host_is_followed() {
    let world = World::new();
    let server = serve(&world, |request| {
        match request.target.strip_prefix("/old/name") {
            Some(rest) => Reply::redirect(&format!("{PATH}{rest}")),
            None => Reply::Git,
        }
    });
    assert_eq!(
        fetch_with(&world, &server.url("/old/name"), &hasty()).unwrap(),
        world.head()
    );
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.header("Authorization") == Some(AUTHORIZATION))
    );
    let posts: Vec<_> = server
        .requests()
        .into_iter()
        .filter(|request| request.method == "POST")
        .collect();
    assert!(
        posts
            .iter()
            .all(|request| request.target == format!("{PATH}/git-upload-pack"))
            && !posts.is_empty()
    );
}

#[test]
fn a_redirect_to_a_login_page_or_in_circles_ends() {
    let world = World::new();
    let login = serve(&world, |_| Reply::redirect("/login?next=x"));
    let error = fetch_with(&world, &login.url(PATH), &hasty()).unwrap_err();
    assert!(
        matches!(&error, Error::NotARepository { cause, .. } if cause.contains("login")),
        "{error}"
    );
    let n = AtomicUsize::new(0);
    let circle = serve(&world, move |_| {
        let n = n.fetch_add(1, Ordering::Relaxed);
        Reply::redirect(&format!("/{n}/info/refs?service=git-upload-pack"))
    });
    let error = fetch_with(&world, &circle.url(PATH), &hasty()).unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(circle.requests().len() < 10);
}

#[test]
fn a_ref_name_that_is_not_utf8_does_no_harm_over_http() {
    let world = World::new();
    let packed = [
        format!("{} refs/heads/a", world.head()).as_bytes(),
        b"\xff\n",
    ]
    .concat();
    fs::write(world.source().join(".git/packed-refs"), packed).unwrap();
    let server = serve(&world, |_| Reply::Git);
    assert_eq!(
        fetch_with(&world, &server.url(PATH), &hasty()).unwrap(),
        world.head()
    );
}

#[test]
fn formats_that_are_not_supported_are_named_over_http() {
    let world = World::empty();
    fs::remove_dir_all(world.source().join(".git")).unwrap();
    world.git(&["init", "--quiet", "--object-format=sha256"]);
    world.git(&["commit", "--quiet", "--allow-empty", "-m", "x"]);
    let server = serve(&world, |_| Reply::Git);
    let error = fetch_with(&world, &server.url(PATH), &hasty()).unwrap_err();
    assert!(
        matches!(&error, Error::UnsupportedFormat { feature, .. } if feature.contains("SHA-256")),
        "{error}"
    );
}

#[test]
fn a_proxy_is_used_only_when_it_is_configured() {
    let world = World::new();
    let server = serve(&world, |_| Reply::Git);
    let proxy = serve(&world, |_| Reply::status("502 Bad Gateway", ""));
    let options = FetchOptions {
        proxy: Some(proxy.url("")),
        ..hasty()
    };
    assert!(fetch_with(&world, &server.url(PATH), &options).is_err());
    assert_eq!((proxy.requests().len(), server.requests().len()), (1, 0));
}

/// Input: a repository at a loopback address, or at a name that resolves to one when it is connected to (docs/reference/security.md § 3.16). Answer: refused without a connection, when only public hosts may be reached.
#[test]
fn private_hosts_are_not_connected_to_when_only_public_ones_may_be() {
    let world = World::new();
    let server = serve(&world, |_| Reply::Git);
    let options = FetchOptions {
        reach: Reach::Public,
        ..hasty()
    };
    let url = server.url(PATH);
    for url in [url.clone(), url.replace("127.0.0.1", "localhost")] {
        let error = fetch_with(&world, &url, &options).unwrap_err();
        assert!(matches!(error, Error::PrivateHost { .. }), "{error}");
    }
    assert!(server.requests().is_empty());
    assert!(fetch_with(&world, &url, &hasty()).is_ok());
}
