use std::os::unix::fs::{MetadataExt, symlink};

use git2::ObjectType;

use super::super::names::check_name;
use super::*;

/// A bare repository of our own, for trees that the `git` command would not make.
pub(super) struct Crafted {
    dir: TempDir,
    repository: Repository,
}

impl Crafted {
    pub(super) fn new() -> Crafted {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bare");
        super::super::mirror::create_bare(&path).unwrap();
        Crafted {
            dir,
            repository: Repository::at(path),
        }
    }

    pub(super) fn blob(&self, content: &[u8]) -> git2::Oid {
        self.repository.open().unwrap().blob(content).unwrap()
    }

    /// A tree of exactly these entries, unchecked.
    pub(super) fn tree(&self, entries: &[(&str, &[u8], git2::Oid)]) -> git2::Oid {
        let mut raw = Vec::new();
        for (mode, name, id) in entries {
            raw.extend_from_slice(mode.as_bytes());
            raw.push(b' ');
            raw.extend_from_slice(name);
            raw.push(0);
            raw.extend_from_slice(id.as_bytes());
        }
        let store = self.repository.open().unwrap();
        store.odb().unwrap().write(ObjectType::Tree, &raw).unwrap()
    }

    pub(super) fn check_out(&self, tree: git2::Oid) -> Result<PathBuf, Error> {
        self.check_out_with(tree, &CheckoutLimits::default())
    }

    pub(super) fn check_out_with(
        &self,
        tree: git2::Oid,
        limits: &CheckoutLimits,
    ) -> Result<PathBuf, Error> {
        let raw = format!("tree {tree}\nauthor a <a> 0 +0000\ncommitter a <a> 0 +0000\n\nx\n");
        let store = self.repository.open().unwrap();
        let commit = store
            .odb()
            .unwrap()
            .write(ObjectType::Commit, raw.as_bytes())
            .unwrap();
        let commit: CommitId = commit.to_string().parse().unwrap();
        checkout_with(
            &self.repository,
            commit,
            &self.dir.path().join("checkouts"),
            limits,
        )
    }

    /// Nothing of a refused tree may be left.
    pub(super) fn assert_nothing_left(&self) {
        let left = fs::read_dir(self.dir.path().join("checkouts"))
            .unwrap()
            .filter(|entry| {
                !entry
                    .as_ref()
                    .unwrap()
                    .file_name()
                    .to_string_lossy()
                    .starts_with(".boot")
            });
        assert_eq!(left.count(), 0);
    }
}

#[test]
fn a_checkout_holds_what_the_commit_holds() {
    let world = World::new();
    world.write("a/b/c.txt", "deep");
    world.write("run.sh", "#!/bin/sh\n");
    fs::set_permissions(
        world.source().join("run.sh"),
        std::os::unix::fs::PermissionsExt::from_mode(0o700),
    )
    .unwrap();
    symlink("a/b", world.source().join("link")).unwrap();
    world.commit("files");
    let path = world.check_out().unwrap();
    assert_eq!(
        path.file_name().unwrap().to_str().unwrap(),
        world.git(&["rev-parse", "HEAD^{tree}"])
    );
    assert_eq!(fs::read_to_string(path.join("link/c.txt")).unwrap(), "deep");
    let mode = |name: &str| path.join(name).symlink_metadata().unwrap().mode() & 0o7777;
    assert_eq!(
        (mode("main.cf"), mode("run.sh"), mode("a/b"), mode(".")),
        (0o600, 0o700, 0o700, 0o700)
    );
    assert!(!path.join(".git").exists());
}

#[test]
fn a_checkout_is_reused_by_content() {
    let world = World::new();
    let first = world.check_out().unwrap();
    fs::write(first.join("witness"), "").unwrap();
    world.commit("an empty commit has the same tree");
    assert_eq!(world.check_out().unwrap(), first);
    assert!(first.join("witness").exists());
}

#[test]
fn a_checkout_of_another_boot_is_not_trusted() {
    let world = World::new();
    let path = world.check_out().unwrap();
    fs::write(path.join("main.cf"), "").unwrap();
    fs::write(world.path("checkouts/.boot"), "another").unwrap();
    fs::write(world.path("checkouts/keep"), "not ours").unwrap();
    assert_eq!(world.check_out().unwrap(), path);
    assert_eq!(
        fs::read_to_string(path.join("main.cf")).unwrap(),
        "entity A: end\n"
    );
    assert!(world.path("checkouts/keep").exists());
}

/// Input: filters, `ident` and encodings in `.gitattributes`, hooks (docs/reference/security.md § 3.27). Answer: they do nothing.
#[test]
fn attributes_and_hooks_of_the_repository_do_nothing() {
    let world = World::empty();
    world.write(
        ".gitattributes",
        "* text eol=crlf ident filter=evil working-tree-encoding=UTF-16\n",
    );
    world.write("main.cf", "# $Id$\n");
    world.git(&["config", "filter.evil.smudge", "touch /tmp/never"]);
    for name in [".gitattributes", "main.cf"] {
        let blob = world.git(&["hash-object", "-w", "--no-filters", name]);
        world.git(&[
            "update-index",
            "--add",
            "--cacheinfo",
            &format!("100644,{blob},{name}"),
        ]);
    }
    world.git(&["commit", "--quiet", "-m", "x"]);
    let path = world.check_out().unwrap();
    assert_eq!(
        fs::read_to_string(path.join("main.cf")).unwrap(),
        "# $Id$\n"
    );
}

/// Input: entries `..`, `.git` in all spellings, absolute, with zero-width characters (docs/reference/security.md § 3.21). Answer: the checkout is refused, the entry is named.
#[test]
fn unsafe_names_are_refused_and_named() {
    for name in [
        &b".."[..],
        b".",
        b"",
        b".git",
        b".GIT",
        b".Git ",
        b".git.",
        b"git~1",
        b"GIT~1",
        b".g\xe2\x80\x8cit",
        b".git::$INDEX_ALLOCATION",
        b".git:x",
        b"..\\x",
        b"a/b",
        b"/etc",
        b"a\nb",
        b"a\x1bb",
        b"\xff\xfe",
        "a\u{202e}b".as_bytes(),
        "\u{85}".as_bytes(),
    ] {
        let crafted = Crafted::new();
        let blob = crafted.blob(b"x");
        let inner = crafted.tree(&[("100644", name, blob)]);
        for tree in [
            inner,
            crafted.tree(&[("40000", b"dir", inner)]),
            crafted.tree(&[("40000", name, inner)]),
        ] {
            let error = crafted.check_out(tree);
            // libgit2 refuses some of these trees before we see them.
            let refused = matches!(&error, Err(Error::UnsafePath { .. } | Error::Git { .. }));
            assert!(refused, "{name:?}: {error:?}");
            assert!(!error.unwrap_err().to_string().contains(['\n', '\x1b']));
            crafted.assert_nothing_left();
        }
    }
}

#[test]
fn a_name_that_is_not_utf_8_is_shown_byte_by_byte() {
    let crafted = Crafted::new();
    let blob = crafted.blob(b"x");
    let inner = crafted.tree(&[("100644", b"caf\xe9.txt", blob)]);
    let error = crafted.check_out(crafted.tree(&[("40000", b"dir", inner)]));
    assert_eq!(
        error.unwrap_err().to_string(),
        r"`dir/caf\xe9.txt` in the repository has a name that is not UTF-8: rename it"
    );
}

/// Input: names with spaces, line feeds, leading hyphens (docs/reference/security.md § 3.21). Answer: they are files like others.
#[test]
fn odd_but_safe_names_are_kept() {
    let crafted = Crafted::new();
    let blob = crafted.blob(b"x");
    for name in [
        "-rf",
        "con",
        "Ünïcode",
        ".gitignore",
        ".github",
        "a b",
        "git~2",
        "👩\u{200d}🚀",
        "x:y",
        "..a",
    ] {
        let path = crafted
            .check_out(crafted.tree(&[("100644", name.as_bytes(), blob)]))
            .unwrap();
        assert!(path.join(name).is_file(), "{name}");
    }
    let cases = crafted.tree(&[("100644", b"A", blob), ("100644", b"a", blob)]);
    assert_eq!(
        fs::read_dir(crafted.check_out(cases).unwrap())
            .unwrap()
            .count(),
        2
    );
}

/// Input: one name twice in a tree (docs/reference/security.md § 3.21). Answer: the checkout is refused.
#[test]
fn one_name_twice_is_refused() {
    let crafted = Crafted::new();
    let (blob, target) = (crafted.blob(b"x"), crafted.blob(b"../../../escape"));
    let twice = crafted.tree(&[("100644", b"a", blob), ("100644", b"a", blob)]);
    let is_named = |tree| match crafted.check_out(tree) {
        Err(Error::UnsafePath { path, reason }) => {
            (path, reason) == ("a".into(), "is there twice".into())
        }
        _ => false,
    };
    assert!(is_named(twice));
    let sub = crafted.tree(&[("100644", b"file", blob)]);
    let link_and_folder = crafted.tree(&[("120000", b"a", target), ("40000", b"a", sub)]);
    assert!(is_named(link_and_folder));
    crafted.assert_nothing_left();
}

#[test]
fn modes_that_git_does_not_have_are_refused() {
    let crafted = Crafted::new();
    let blob = crafted.blob(b"x");
    for mode in ["10644", "20644", "60644", "140644", "100000"] {
        let error = crafted.check_out(crafted.tree(&[(mode, b"a", blob)]));
        assert!(error.is_err(), "{mode}: {error:?}");
    }
}

#[test]
fn a_file_that_is_a_tree_inside_and_the_reverse_are_refused() {
    let crafted = Crafted::new();
    let blob = crafted.blob(b"x");
    let tree = crafted.tree(&[("100644", b"a", blob)]);
    assert!(
        crafted
            .check_out(crafted.tree(&[("100644", b"f", tree)]))
            .is_err()
    );
    assert!(
        crafted
            .check_out(crafted.tree(&[("40000", b"d", blob)]))
            .is_err()
    );
}

#[test]
fn paths_that_take_too_much_memory_are_refused() {
    let crafted = Crafted::new();
    let (blob, long) = (crafted.blob(b"x"), "n".repeat(200));
    let names: Vec<String> = (0..1000).map(|i| format!("{i:04}")).collect();
    let files: Vec<_> = names
        .iter()
        .map(|name| ("100644", name.as_bytes(), blob))
        .collect();
    let deep = (0..9).fold(crafted.tree(&files), |tree, _| {
        crafted.tree(&[("40000", long.as_bytes(), tree)])
    });
    let wide: Vec<_> = names[..100]
        .iter()
        .map(|name| ("40000", name.as_bytes(), deep))
        .collect();
    let error = crafted.check_out(crafted.tree(&wide)).unwrap_err();
    assert!(error.to_string().contains("for all paths"), "{error}");
}

/// Input: submodules, whatever `.gitmodules` says (docs/reference/security.md § 3.22, § 3.26). Answer: they are empty folders; nothing is fetched.
#[test]
fn submodules_are_empty_folders_and_named() {
    let world = World::new();
    world.write(
        ".gitmodules",
        "[submodule \"x\"]\n\tpath = ../x\n\turl = -u./evil\n",
    );
    let head = world.head().to_string();
    world.git(&[
        "update-index",
        "--add",
        "--cacheinfo",
        &format!("160000,{head},libs/sub"),
    ]);
    world.git(&["add", ".gitmodules"]);
    world.git(&["commit", "--quiet", "-m", "submodule"]);
    let path = world.check_out().unwrap();
    assert_eq!(fs::read_dir(path.join("libs/sub")).unwrap().count(), 0);
    assert_eq!(
        submodules(&world.mirror(), world.head()).unwrap(),
        ["libs/sub"]
    );
}

/// Input: a pointer of LFS in place of a model (docs/reference/security.md § 3.27). Answer: an error that says so.
#[test]
fn an_lfs_pointer_in_place_of_a_model_is_an_error() {
    const POINTER: &str =
        "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n";
    let world = World::new();
    world.write("image.png", POINTER);
    world.commit("a pointer elsewhere is none of our business");
    world.check_out().unwrap();
    world.write("libs/m/model/_init.cf", POINTER);
    world.commit("pointer");
    let error = world.check_out().unwrap_err();
    assert!(
        matches!(&error, Error::LfsPointer { path } if path == "libs/m/model/_init.cf"),
        "{error}"
    );
}

/// Input: too many files, too deep folders, too large files (docs/reference/security.md § 3.22). Answer: the checkout is refused, the place and the limit are named.
#[test]
fn limits_stop_a_checkout_and_name_the_place() {
    let crafted = Crafted::new();
    let (blob, none) = (crafted.blob(&[b'x'; 3 << 20]), CheckoutLimits::default());
    let flat = crafted.tree(&[("100644", b"a", blob), ("100644", b"b", blob)]);
    let deep = (0..5).fold(flat, |tree, _| crafted.tree(&[("40000", b"d", tree)]));
    let check = |tree, limits: CheckoutLimits, text: &str| {
        let error = crafted.check_out_with(tree, &limits).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        crafted.assert_nothing_left();
    };
    check(
        flat,
        CheckoutLimits {
            entries: 1,
            ..none.clone()
        },
        "1 entries at `b`",
    );
    check(
        flat,
        CheckoutLimits {
            file_bytes: 1 << 20,
            ..none.clone()
        },
        "1 MiB for one file at `a`",
    );
    check(
        flat,
        CheckoutLimits {
            total_bytes: 4 << 20,
            ..none.clone()
        },
        "4 MiB in all at `b`",
    );
    check(
        deep,
        CheckoutLimits {
            depth: 3,
            ..none.clone()
        },
        "3 nested folders at `d/d/d/d`",
    );
    check(
        deep,
        CheckoutLimits {
            path_bytes: 5,
            ..none
        },
        "5 bytes for one path",
    );
}

#[test]
fn a_tree_of_exponential_size_is_refused_quickly() {
    let crafted = Crafted::new();
    let blob = crafted.blob(b"x");
    let leaf = crafted.tree(&[("100644", b"f", blob)]);
    let names: Vec<String> = (0..10).map(|i| format!("d{i}")).collect();
    let bomb = (0..30).fold(leaf, |tree, _| {
        crafted.tree(
            &names
                .iter()
                .map(|name| ("40000", name.as_bytes(), tree))
                .collect::<Vec<_>>(),
        )
    });
    let error = crafted.check_out(bomb).unwrap_err();
    assert!(matches!(error, Error::TreeTooLarge { .. }), "{error}");
}

#[test]
fn a_commit_that_is_not_there_or_is_no_commit_is_an_error() {
    let world = World::new();
    let mirror = world.mirror();
    fetch(&mirror, None).unwrap();
    for id in [
        "1234567890123456789012345678901234567890",
        &world.git(&["rev-parse", "HEAD^{tree}"]),
    ] {
        let error = super::super::checkout(&mirror, id.parse().unwrap(), &world.path("checkouts"));
        assert!(
            matches!(error, Err(Error::CommitMissing { .. } | Error::Git { .. })),
            "{error:?}"
        );
    }
}

#[test]
fn names_are_checked_without_a_repository() {
    assert!(check_name(b"a").is_ok());
    assert!(check_name(&[b'a'; 256]).is_err());
}
