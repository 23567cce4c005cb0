use std::path::Path;

use super::super::{AddressPolicy, LocalPolicy, RepositoryUrl, UrlError};

fn open() -> AddressPolicy {
    AddressPolicy {
        http: true,
        local: LocalPolicy::Anywhere,
    }
}

#[track_caller]
fn check(text: &str, normalised: &str) {
    assert_eq!(
        RepositoryUrl::parse(text, &open()).unwrap().as_str(),
        normalised
    );
}

#[track_caller]
fn check_refused(text: &str, error: UrlError) {
    assert_eq!(RepositoryUrl::parse(text, &open()), Err(error), "{text:?}");
}

#[test]
fn addresses_are_normalised() {
    check(
        "https://Git.Example.COM:443/Team/infra.git/",
        "https://git.example.com/Team/infra.git",
    );
    check("HTTPS://git.example.com./x", "https://git.example.com/x");
    check("http://10.0.0.1:3000/x", "http://10.0.0.1:3000/x");
    check(
        "https://[2001:DB8::1]:8443/x",
        "https://[2001:db8::1]:8443/x",
    );
    check(
        "https://git.example.com/a%20b",
        "https://git.example.com/a%20b",
    );
    check(
        "ssh://git@example.com:22/srv/x.git",
        "ssh://git@example.com/srv/x.git",
    );
    check(
        "ssh://git@example.com:2222/srv/x.git",
        "ssh://git@example.com:2222/srv/x.git",
    );
    check("git@example.com:team/x.git", "git@example.com:team/x.git");
    check("git@[::1]:team/x.git", "git@[::1]:team/x.git");
    check("ssh://example.com/~ada/x", "ssh://example.com/~ada/x");
    check("example.com:~ada/x", "ssh://example.com/~ada/x");
    check("/srv//git/x.git/", "/srv/git/x.git");
    check("file:///srv/a%20b", "/srv/a b");
    check("file://localhost/srv/x", "/srv/x");
    check("  https://example.com/x ", "https://example.com/x");
}

#[test]
fn a_normalised_address_parses_to_itself() {
    for text in [
        "https://[::2]:1/x",
        "ssh://h/~a/b",
        "a@h:b/c",
        "ssh://a@h:3/b",
        "h:/abs",
        "/srv/x:y",
    ] {
        let once = RepositoryUrl::parse(text, &open()).unwrap();
        assert_eq!(RepositoryUrl::parse(once.as_str(), &open()).unwrap(), once);
    }
}

/// Input: `ext::sh -c …`, `fd::3`, `-oProxyCommand=…`, `ssh://-oProxyCommand=x/y`, `--upload-pack=…`, `git@-x:y` as a repository (docs/reference/security.md § 3.14). Answer: refused; nothing runs.
#[test]
fn helpers_and_options_are_refused() {
    check_refused("ext::sh -c id", UrlError::RemoteHelper);
    check_refused("fd::3", UrlError::RemoteHelper);
    check_refused("EXT::sh", UrlError::RemoteHelper);
    check_refused("::x", UrlError::RemoteHelper);
    check_refused("-oProxyCommand=id", UrlError::OptionLike);
    check_refused("--upload-pack=id", UrlError::OptionLike);
    check_refused("ssh://-oProxyCommand=x/y", UrlError::Host);
    check_refused("ssh://-x@host/y", UrlError::User);
    check_refused("git@-x:y", UrlError::Host);
    check_refused("-x@host:y", UrlError::OptionLike);
    check_refused("git@host:-y", UrlError::Path);
    check_refused("ssh://host:-1/x", UrlError::Port);
    check_refused("ssh://host:0/x", UrlError::Port);
    check_refused("ssh://host:65536/x", UrlError::Port);
    check_refused("ssh://h/'; id #", UrlError::Path);
    check_refused("ssh://h/$(id)", UrlError::Path);
    check_refused("https://h:+80/x", UrlError::Port);
    check_refused("steward-git://remote/", UrlError::Scheme);
    check_refused("git://example.com/x", UrlError::Scheme);
    check_refused("ftp://example.com/x", UrlError::Scheme);
}

/// Input: `https://u:p@host/` as a repository (docs/reference/security.md § 3.18). Answer: refused, and not repeated in the error.
#[test]
fn secrets_in_the_address_are_refused_and_not_repeated() {
    for text in [
        "https://user:canary@example.com/x",
        "https://canary@example.com/x",
        "ssh://git:canary@example.com/x",
        "git:canary@example.com:x",
        "https://https://user:canary@example.com/x",
        "user:canary@example.com/x",
        "https://example.com/x?token=canary",
        "https://example.com/x#canary",
    ] {
        let error = RepositoryUrl::parse(text, &open()).unwrap_err();
        assert!(
            matches!(
                error,
                UrlError::Credentials | UrlError::Query | UrlError::Path
            ),
            "{text}: {error}"
        );
        assert!(!error.to_string().contains("canary"));
    }
}

/// Input: `%0a`, `%0d`, ESC in a repository's URL (docs/reference/security.md § 3.18). Answer: refused.
#[test]
fn control_characters_are_refused_also_escaped() {
    for text in [
        "https://example.com/a\nb",
        "https://example.com/a%0ab",
        "https://example.com/a%0D",
        "https://example.com/%00",
        "https://example.com/a\u{1b}[2J",
        "https://example.com/a\u{202e}b",
        "https://example.com\\@evil.example/x",
        "\\\\host\\share",
        "file:///a%5cb",
        "/srv/a\tb",
    ] {
        check_refused(text, UrlError::ControlCharacter);
    }
}

/// Input: hosts in decimal and hexadecimal, wrong ports, wrong brackets (docs/reference/security.md § 3.14, § 3.16). Answer: refused.
#[test]
fn hosts_are_names_or_plain_addresses() {
    for host in [
        "",
        "a b",
        "a..b",
        "2130706433",
        "0x7f000001",
        "127.1",
        "1.2.3.4.5",
        "[::1",
        "[zz]",
        "a%2fb",
    ] {
        check_refused(&format!("https://{host}/x"), UrlError::Host);
    }
    for host in [
        "169.254.169.254",
        "[fe80::1]",
        "[::ffff:169.254.169.254]",
        "0.0.0.0",
        "[::]",
    ] {
        check_refused(&format!("https://{host}/x"), UrlError::LinkLocal);
    }
}

#[test]
fn a_path_is_needed_and_does_not_go_up() {
    check_refused("https://example.com", UrlError::Path);
    check_refused("https://example.com/", UrlError::Path);
    check_refused("https://example.com/a/../b", UrlError::Path);
    check_refused("https://example.com/%2e%2e/b", UrlError::Path);
    check_refused("ssh://example.com", UrlError::Path);
    check_refused("git@example.com:", UrlError::Path);
    check_refused("/srv/../etc", UrlError::Path);
    check_refused("relative/path", UrlError::Relative);
    check_refused("./a:b", UrlError::Relative);
    check_refused("file://host/share", UrlError::Relative);
    check_refused("", UrlError::Empty);
    check_refused(
        &format!("https://example.com/{}", "a".repeat(3000)),
        UrlError::TooLong,
    );
}

#[test]
fn plain_http_is_only_for_this_machine_by_default() {
    let policy = AddressPolicy::default();
    for text in [
        "http://127.0.0.1:3000/x",
        "http://localhost/x",
        "http://[::1]/x",
        "http://localhost./x",
    ] {
        assert!(RepositoryUrl::parse(text, &policy).is_ok(), "{text}");
    }
    for text in [
        "http://example.com/x",
        "http://localhost.example.com/x",
        "http://10.0.0.1/x",
    ] {
        assert_eq!(
            RepositoryUrl::parse(text, &policy),
            Err(UrlError::HttpNotAllowed),
            "{text}"
        );
    }
}

/// Input: `file:///etc`, a relative path, a path outside of the allowed folders, a repository that has its data or borrows objects there (docs/reference/security.md § 3.15). Answer: refused, unless the policy names the folder.
#[test]
fn local_paths_need_the_policy() {
    let dir = tempfile::tempdir().unwrap();
    let inside = dir.path().join("allowed/repo");
    std::fs::create_dir_all(&inside).unwrap();
    std::os::unix::fs::symlink("/etc", dir.path().join("allowed/etc")).unwrap();
    let allowed = LocalPolicy::Beneath(vec![dir.path().join("allowed")]);
    let parse = |path: &str, local: &LocalPolicy| {
        RepositoryUrl::parse(
            path,
            &AddressPolicy {
                http: false,
                local: local.clone(),
            },
        )
    };
    let inside = inside.to_str().unwrap();
    assert!(parse(inside, &allowed).is_ok());
    assert_eq!(
        parse(inside, &LocalPolicy::Denied),
        Err(UrlError::LocalNotAllowed)
    );
    assert_eq!(parse("/etc", &allowed), Err(UrlError::LocalNotAllowed));
    assert_eq!(
        parse("file:///etc", &allowed),
        Err(UrlError::LocalNotAllowed)
    );
    let elsewhere = dir.path().join("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    super::git_in(&elsewhere, &["init", "--quiet"]);
    let gitdir = format!("gitdir: {}/.git\n", elsewhere.display());
    std::fs::write(dir.path().join("allowed/repo/.git"), gitdir).unwrap();
    assert_eq!(parse(inside, &allowed), Err(UrlError::LocalNotAllowed));
    // It borrows the objects of a repository that is elsewhere.
    std::fs::remove_file(dir.path().join("allowed/repo/.git")).unwrap();
    super::git_in(Path::new(inside), &["init", "--quiet"]);
    assert!(parse(inside, &allowed).is_ok());
    let borrowed = format!("{}/.git/objects\n", elsewhere.display());
    let list = dir.path().join("allowed/repo/.git/objects/info/alternates");
    std::fs::write(&list, borrowed).unwrap();
    assert_eq!(parse(inside, &allowed), Err(UrlError::LocalNotAllowed));
    std::fs::remove_file(list).unwrap();
    assert!(parse(inside, &allowed).is_ok());
    let through_link = format!("{}/allowed/etc", dir.path().display());
    assert_eq!(
        parse(&through_link, &allowed),
        Err(UrlError::LocalNotAllowed)
    );
}

#[test]
fn all_addresses_of_one_repository_have_one_identity() {
    for text in [
        "https://git.example.com/team/infra.git",
        "https://GIT.example.com:8443/team/infra",
        "git@git.example.com:team/infra.git",
        "ssh://git@git.example.com:2222/team/infra/",
    ] {
        assert_eq!(
            RepositoryUrl::parse(text, &open()).unwrap().identity(),
            "git.example.com/team/infra"
        );
    }
}

#[test]
fn whatever_is_accepted_is_safe_and_stays_what_it_is() {
    let pieces = [
        "https://",
        "http://",
        "ssh://",
        "file://",
        "HTTPS://",
        "git@",
        "user:pw@",
        "-o",
        "example.com",
        "127.0.0.1",
        "[::1]",
        "[fe80::1]",
        "[",
        "]",
        ":22",
        ":0",
        ":",
        "::",
        "/",
        "//",
        "/..",
        "..",
        "~",
        "~a",
        "x.git",
        "%2e",
        "%0a",
        "%",
        "%zz",
        "?q",
        "#f",
        "@",
        "ü",
        "\u{202e}",
        "\n",
        "\0",
        "\\",
        "'",
        " ",
        "$(id)",
        ";",
        "ext::",
        "localhost",
        ".",
        "0x7f000001",
        "2130706433",
        "a",
        "B",
    ];
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut next = |n: usize| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((state >> 33) % n as u64) as usize
    };
    let mut n_accepted = 0;
    for _ in 0..100_000 {
        let text: String = (0..1 + next(7))
            .map(|_| pieces[next(pieces.len())])
            .collect();
        let Ok(url) = RepositoryUrl::parse(&text, &open()) else {
            continue;
        };
        n_accepted += 1;
        let shown = url.as_str();
        assert_eq!(
            RepositoryUrl::parse(shown, &open()).as_ref(),
            Ok(&url),
            "{text:?} {shown:?}"
        );
        assert!(!shown.contains(crate::domain::is_unprintable), "{text:?}");
        assert!(!shown.starts_with('-'), "{text:?}");
        if let Some(host) = url.host() {
            let rest = shown.split_once("://").map_or(shown, |(_, rest)| rest);
            let authority = rest.split('/').next().unwrap_or_default();
            assert!(!authority.contains("user:pw@"), "{text:?}");
            assert!(
                !host.is_empty() && !host.starts_with('-') && !host.contains(['@', '/', ' ']),
                "{text:?}"
            );
            assert!(
                !shown.contains(['\'', '$', ';']) || shown.starts_with("http"),
                "{text:?}"
            );
        }
        url.identity();
    }
    assert!(n_accepted > 1000, "{n_accepted}");
}

#[test]
fn an_address_whose_normal_form_is_too_long_is_refused() {
    let policy = AddressPolicy::default();
    let scp = |n_letters: usize| format!("git@example.com:~{}", "a".repeat(n_letters));
    let longest = "ssh://git@example.com/~".len();
    let fits = RepositoryUrl::parse(&scp(2048 - longest), &policy).unwrap();
    assert_eq!(fits.as_str().len(), 2048);
    assert_eq!(RepositoryUrl::parse(fits.as_str(), &policy), Ok(fits));
    let grown = RepositoryUrl::parse(&scp(2049 - longest), &policy);
    assert_eq!(grown, Err(UrlError::TooLong));
}
