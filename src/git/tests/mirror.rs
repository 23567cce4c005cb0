use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::*;

#[test]
fn a_fetch_brings_the_newest_commit_of_a_branch() {
    let world = World::new();
    assert_eq!(world.fetch(Some("main")).unwrap(), world.head());
    world.write("main.cf", "entity B: end\n");
    let second = world.commit("second");
    assert_eq!(world.fetch(Some("main")).unwrap(), second);
    assert_eq!(world.fetch(Some("main")).unwrap(), second);
}

#[test]
fn without_a_branch_the_head_of_the_remote_decides() {
    let world = World::new();
    world.git(&["checkout", "--quiet", "-b", "team/next"]);
    let next = world.commit("next");
    assert_eq!(world.fetch(None).unwrap(), next);
    assert_ne!(world.fetch(Some("main")).unwrap(), next);
    world.git(&["checkout", "--quiet", "--detach"]);
    world.commit("loose");
    assert!(matches!(
        world.fetch(None),
        Err(Error::NoDefaultBranch { .. })
    ));
}

#[test]
fn only_the_asked_branch_comes_no_tags_and_no_foreign_refs() {
    let world = World::new();
    world.git(&["branch", "other"]);
    world.git(&["tag", "v1"]);
    world.git(&[
        "update-ref",
        "refs/replace/0000000000000000000000000000000000000001",
        "HEAD",
    ]);
    world.fetch(Some("main")).unwrap();
    let refs = git_in(
        world.mirror().path(),
        &["for-each-ref", "--format=%(refname)"],
    );
    assert_eq!(refs, "refs/steward/heads/main");
}

#[test]
fn a_forced_push_is_followed_and_is_no_descendant() {
    let world = World::new();
    let base = world.head();
    world.write("main.cf", "entity B: end\n");
    let old = world.commit("second");
    world.fetch(Some("main")).unwrap();
    world.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    world.write("main.cf", "entity C: end\n");
    let new = world.commit("another second");
    assert_eq!(world.fetch(Some("main")).unwrap(), new);
    let mirror = world.mirror();
    assert!(!is_ancestor(&mirror, old, new).unwrap());
    assert!(is_ancestor(&mirror, base, new).unwrap());
    assert!(is_ancestor(&mirror, new, new).unwrap());
    let unknown = "1234567890123456789012345678901234567890".parse().unwrap();
    assert!(!is_ancestor(&mirror, unknown, new).unwrap());
    assert!(matches!(
        is_ancestor(&mirror, new, unknown),
        Err(Error::CommitMissing { .. })
    ));
}

#[test]
fn what_a_commit_is_can_be_read() {
    let world = World::empty();
    world.write("main.cf", "");
    let commit = world.commit("a\x1b[31m red\u{202e} message\n\nbody");
    let mirror = world.mirror();
    fetch(&mirror, None).unwrap();
    let info = commit_info(&mirror, commit).unwrap();
    assert_eq!(info.author, "Ada <ada@example.com>");
    assert_eq!(info.summary, "a?[31m red? message");
    assert_eq!(info.tree, tree_id(&mirror, commit).unwrap());
    assert_eq!(
        info.tree.to_string(),
        world.git(&["rev-parse", "HEAD^{tree}"])
    );
    assert!(info.time > 1_600_000_000);
}

/// Input: a branch that is not there, or no longer (docs/reference/security.md § 3.29). Answer: an error that names it.
#[test]
fn a_missing_branch_is_named_and_forgotten() {
    let world = World::new();
    world.git(&["branch", "gone"]);
    world.fetch(Some("gone")).unwrap();
    world.git(&["branch", "-D", "gone"]);
    let error = world.fetch(Some("gone")).unwrap_err();
    assert!(
        matches!(&error, Error::BranchMissing { branch, .. } if branch == "gone"),
        "{error}"
    );
    assert_eq!(git_in(world.mirror().path(), &["for-each-ref"]), "");
}

#[test]
fn what_there_is_instead_of_a_missing_branch_is_named() {
    let world = World::new();
    world.git(&["tag", "v1"]);
    let error = || world.fetch(Some("v1")).unwrap_err().to_string();
    let hint = " has no branch `v1`; tags are not followed, and its default branch is `main`";
    assert!(error().ends_with(hint), "{}", error());
    world.git(&["checkout", "--quiet", "--detach"]);
    world.git(&["branch", "-m", "main", "trunk"]);
    assert!(error().contains(" has no branch `v1`"), "{}", error());
}

#[test]
fn a_branch_may_become_a_folder_of_branches() {
    let world = World::new();
    world.git(&["branch", "a"]);
    world.fetch(Some("a")).unwrap();
    world.git(&["branch", "-D", "a"]);
    world.git(&["branch", "a/b"]);
    world.fetch(Some("a/b")).unwrap();
    world.git(&["branch", "-D", "a/b"]);
    world.git(&["branch", "a"]);
    world.fetch(Some("a")).unwrap();
}

#[test]
fn what_is_no_branch_name_is_refused_before_any_connection() {
    let world = World::new();
    for name in [
        "",
        "-x",
        "../../etc",
        "a b",
        "a:b",
        "*",
        "a\nb",
        "@{",
        "x.lock",
        "+x",
        "a..b",
        "/a",
    ] {
        let error = world.fetch(Some(name));
        let missing = matches!(error, Err(Error::BranchMissing { .. })) && name == "+x";
        assert!(
            missing || matches!(error, Err(Error::InvalidBranch { .. })),
            "{name:?}: {error:?}"
        );
    }
}

#[test]
fn a_tag_of_the_same_name_is_not_taken_for_the_branch() {
    let world = World::new();
    let branch = world.head();
    world.git(&["checkout", "--quiet", "--detach"]);
    world.commit("tagged");
    world.git(&["tag", "main"]);
    assert_eq!(world.fetch(Some("main")).unwrap(), branch);
}

/// Input: an empty repository (docs/reference/security.md § 3.29). Answer: an error that says so.
#[test]
fn an_empty_repository_is_told_apart() {
    let world = World::empty();
    assert!(matches!(
        world.fetch(None),
        Err(Error::EmptyRepository { .. })
    ));
    assert!(matches!(
        world.fetch(Some("main")),
        Err(Error::EmptyRepository { .. })
    ));
}

#[test]
fn a_folder_that_is_missing_or_no_repository_is_told_apart() {
    let world = World::new();
    let check = |name: &str| {
        let mirror =
            Mirror::open_or_create(&world.path("mirrors"), &local_url(&world.path(name))).unwrap();
        fetch(&mirror, None).unwrap_err()
    };
    let missing = check("nowhere");
    assert!(matches!(missing, Error::Unreachable { .. }), "{missing}");
    fs::create_dir(world.path("plain")).unwrap();
    let plain = check("plain");
    assert!(matches!(plain, Error::NotARepository { .. }), "{plain}");
    fs::write(world.path("file"), "").unwrap();
    let file = check("file");
    assert!(
        matches!(
            file,
            Error::NotARepository { .. } | Error::Unreachable { .. }
        ),
        "{file}"
    );
}

/// Given: a repository on this machine with a damaged object. Expected: the error says that it is there, and how to see what is wrong.
#[test]
fn a_damaged_repository_on_this_machine_names_git_fsck() {
    let world = World::new();
    let commit = world.commit("to be damaged").to_string();
    let object = world
        .source()
        .join(".git/objects")
        .join(&commit[..2])
        .join(&commit[2..]);
    fs::remove_file(&object).unwrap();
    fs::write(&object, "no object").unwrap();
    let error = world.fetch(None).unwrap_err().to_string();
    assert!(error.contains("`git fsck` in it"), "{error}");
}

#[test]
fn a_repository_inside_of_another_is_not_found_by_its_subfolder() {
    let world = World::new();
    world.write("sub/x", "");
    let url = local_url(&world.source().join("sub"));
    let mirror = Mirror::open_or_create(&world.path("mirrors"), &url).unwrap();
    assert!(fetch(&mirror, None).is_err());
}

/// Input: repositories of sha256 and reftable (docs/reference/security.md § 3.29). Answer: an error that names the format.
#[test]
fn formats_that_are_not_supported_are_named() {
    for (option, feature) in [
        ("--object-format=sha256", "SHA-256"),
        ("--ref-format=reftable", "reftable"),
    ] {
        let world = World::empty();
        fs::remove_dir_all(world.source().join(".git")).unwrap();
        world.git(&["init", "--quiet", option]);
        world.git(&["commit", "--quiet", "--allow-empty", "-m", "x"]);
        let error = world.fetch(None).unwrap_err();
        let named = matches!(&error, Error::UnsupportedFormat { feature: found, .. } if found.contains(feature));
        assert!(named, "{option}: {error:?}");
    }
}

#[test]
fn a_path_with_odd_characters_works() {
    let world = World::new();
    let odd = world.path("a b%41:ü#?");
    fs::rename(world.source(), &odd).unwrap();
    let mirror = Mirror::open_or_create(&world.path("mirrors"), &local_url(&odd)).unwrap();
    fetch(&mirror, None).unwrap();
}

#[test]
fn bare_repositories_and_linked_work_trees_can_be_fetched() {
    let world = World::new();
    world.git(&["clone", "--quiet", "--bare", ".", "../bare.git"]);
    world.git(&["worktree", "add", "--quiet", "../linked", "-b", "linked"]);
    for name in ["bare.git", "linked"] {
        let mirror =
            Mirror::open_or_create(&world.path("mirrors"), &local_url(&world.path(name))).unwrap();
        assert_eq!(fetch(&mirror, None).unwrap(), world.head(), "{name}");
    }
}

#[test]
fn a_repository_of_another_user_can_be_fetched() {
    let world = World::new();
    let owner = Some(rustix::process::Uid::from_raw(12345));
    for path in [world.source(), world.source().join(".git")] {
        if rustix::fs::chown(&path, owner, None).is_err() {
            return; // Only root can give files away.
        }
    }
    world.fetch(None).unwrap();
}

#[test]
fn too_many_objects_stop_the_fetch() {
    let world = World::new();
    let options = FetchOptions {
        objects: 2,
        ..FetchOptions::default()
    };
    let error = world
        .mirror()
        .fetch(None, &Credentials::default(), &options)
        .unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    world.fetch(None).unwrap();
}

#[test]
fn a_damaged_mirror_is_made_anew() {
    let world = World::new();
    world.fetch(None).unwrap();
    fs::remove_file(world.mirror().path().join("HEAD")).unwrap();
    world.fetch(None).unwrap();
}

#[test]
fn a_second_fetch_waits_for_the_first_but_not_for_ever() {
    let world = World::new();
    let mirror = world.mirror();
    let held = super::super::mirror::lock(mirror.path(), "", Duration::from_secs(5)).unwrap();
    let options = FetchOptions {
        time: Duration::from_millis(100),
        ..FetchOptions::default()
    };
    let start = Instant::now();
    let error = mirror
        .fetch(None, &Credentials::default(), &options)
        .unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5));
    drop(held);
    fetch(&mirror, None).unwrap();
}

#[test]
fn many_threads_fetch_and_check_out_at_once() {
    let world = World::new();
    let head = world.head();
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mirror = world.mirror();
                assert_eq!(fetch(&mirror, Some("main")).unwrap(), head);
                let path = super::super::checkout(&mirror, head, &world.path("checkouts")).unwrap();
                assert_eq!(
                    fs::read_to_string(path.join("main.cf")).unwrap(),
                    "entity A: end\n"
                );
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(done.into_inner(), 8);
    let mut names: Vec<_> = fs::read_dir(world.path("checkouts"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names.len(), 3, "{names:?}"); // `.boot`, `.boot.lock` and the one checkout.
}

#[test]
fn a_ref_name_that_is_not_utf8_harms_nothing() {
    let world = World::new();
    let raw = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(
        b"source/.git/refs/heads/a\xff",
    );
    fs::write(world.dir.path().join(raw), format!("{}\n", world.head())).unwrap();
    assert_eq!(world.fetch(None).unwrap(), world.head());
    assert_eq!(world.fetch(Some("main")).unwrap(), world.head());
}

#[test]
fn ids_are_forty_hexadecimal_digits() {
    for text in [
        "",
        "HEAD",
        "abc",
        "--upload-pack=x",
        "g234567890123456789012345678901234567890",
    ] {
        assert!(text.parse::<CommitId>().is_err(), "{text}");
    }
    assert!("0".repeat(64).parse::<CommitId>().is_err());
    let id = "ABCDEF7890123456789012345678901234567890";
    assert_eq!(
        id.parse::<CommitId>().unwrap().to_string(),
        id.to_lowercase()
    );
}

/// Input: a shallow repository (docs/reference/security.md § 3.29). Answer: it is fetched.
#[test]
fn a_shallow_source_can_be_fetched_again_and_again() {
    let world = World::new();
    for i in 0..5 {
        world.write("main.cf", &i.to_string());
        world.commit("more");
    }
    let source = format!("file://{}", world.source().display());
    world.git(&["clone", "--quiet", "--depth=2", &source, "../shallow"]);
    let shallow = world.path("shallow");
    let mirror = Mirror::open_or_create(&world.path("mirrors"), &local_url(&shallow)).unwrap();
    let mut old = fetch(&mirror, None).unwrap();
    for i in 0..3 {
        fs::write(shallow.join("main.cf"), format!("on top {i}")).unwrap();
        git_in(&shallow, &["commit", "--quiet", "--all", "-m", "on top"]);
        let new = fetch(&mirror, None).unwrap();
        assert_eq!(new.to_string(), git_in(&shallow, &["rev-parse", "HEAD"]));
        assert!(is_ancestor(&mirror, old, new).unwrap());
        assert!(!is_ancestor(&mirror, new, old).unwrap());
        let path = super::super::checkout(&mirror, new, &world.path("out")).unwrap();
        let content = fs::read_to_string(path.join("main.cf")).unwrap();
        assert_eq!(content, format!("on top {i}"));
        old = new;
    }
    // libgit2 does not understand a server that says it is shallow; forges never are.
    let root = super::server::root_of(&world.source());
    let server = super::server::Server::start(&root, |_| super::server::Reply::Git);
    let url =
        RepositoryUrl::parse(&server.url("/shallow/.git"), &AddressPolicy::default()).unwrap();
    let mirror = Mirror::open_or_create(&world.path("mirrors"), &url).unwrap();
    assert!(matches!(
        fetch(&mirror, None),
        Err(Error::Unreachable { .. })
    ));
}

/// Input: `refs/replace`, grafts (docs/reference/security.md § 3.28). Answer: they are not fetched.
#[test]
fn replaced_and_grafted_commits_of_the_source_do_not_come() {
    let world = World::new();
    let first = world.head();
    world.write("main.cf", "second");
    let second = world.commit("second");
    world.write("main.cf", "evil");
    let evil = world.commit("evil");
    world.git(&["reset", "--quiet", "--hard", &second.to_string()]);
    world.git(&["replace", &second.to_string(), &evil.to_string()]);
    fs::create_dir_all(world.source().join(".git/info")).unwrap();
    fs::write(
        world.source().join(".git/info/grafts"),
        format!("{second}\n"),
    )
    .unwrap();
    let commit = world.fetch(Some("main")).unwrap();
    assert_eq!(commit, second);
    let path = world.check_out().unwrap();
    assert_eq!(fs::read_to_string(path.join("main.cf")).unwrap(), "second");
    assert!(
        !world
            .mirror()
            .path()
            .join("objects/info/alternates")
            .exists()
    );
    // The graft hides the parent in the source, so it is not sent.
    assert!(!is_ancestor(&world.mirror(), first, second).unwrap());
}
