use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use super::super::{RepositoryKind, is_repository, local_watch_paths, snapshot};
use super::*;

struct Folder {
    dir: TempDir,
}

impl Folder {
    fn new() -> Folder {
        let folder = Folder {
            dir: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(folder.path()).unwrap();
        folder
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("folder")
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("snapshots/folder.git")
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn snapshot(&self) -> Result<Option<CommitId>, Error> {
        snapshot(&self.path(), &self.store(), "snapshot")
    }

    fn files(&self) -> String {
        git_in(
            &self.store(),
            &["ls-tree", "-r", "--format=%(objectmode) %(path)", "main"],
        )
    }
}

#[test]
fn a_snapshot_records_the_folder_and_only_changes_make_a_commit() {
    let folder = Folder::new();
    folder.write("main.cf", "a");
    folder.write("libs/m/model/_init.cf", "b");
    let first = folder.snapshot().unwrap().unwrap();
    assert_eq!(folder.snapshot().unwrap(), Some(first));
    folder.write("main.cf", "c");
    let second = folder.snapshot().unwrap().unwrap();
    assert_ne!(first, second);
    let repository = Repository::at(folder.store());
    assert!(is_ancestor(&repository, first, second).unwrap());
    assert_eq!(
        commit_info(&repository, second).unwrap().author,
        "steward <steward@localhost>"
    );
    let path = super::super::checkout(&repository, second, &folder.dir.path().join("out")).unwrap();
    assert_eq!(fs::read_to_string(path.join("main.cf")).unwrap(), "c");
    assert_eq!(
        fs::read_to_string(path.join("libs/m/model/_init.cf")).unwrap(),
        "b"
    );
}

#[test]
fn nothing_is_written_into_the_folder() {
    let folder = Folder::new();
    folder.write("main.cf", "a");
    folder.snapshot().unwrap();
    let names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["main.cf"]);
}

#[test]
fn ignored_files_and_git_folders_are_left_out() {
    let folder = Folder::new();
    for name in [
        "main.cf",
        "out/x",
        "keep.log",
        "drop.log",
        "sub/secret",
        "sub/kept",
        ".git/HEAD",
        "lib/.git/x",
        "lib/y",
    ] {
        folder.write(name, "x");
    }
    folder.write(".gitignore", "/out/\n*.log\n!keep.log\n");
    folder.write("sub/.gitignore", "secret\n");
    folder.snapshot().unwrap();
    let expected = [
        ".gitignore",
        "keep.log",
        "lib/y",
        "main.cf",
        "sub/.gitignore",
        "sub/kept",
    ];
    assert_eq!(
        folder.files(),
        expected.map(|name| format!("100644 {name}")).join("\n")
    );
}

#[test]
fn files_are_recorded_byte_for_byte_with_links_and_modes() {
    let folder = Folder::new();
    folder.write(".gitattributes", "* text=auto eol=lf ident\n");
    folder.write("main.cf", "a\r\n$Id$\r\n");
    folder.write("run", "x");
    fs::set_permissions(
        folder.path().join("run"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    symlink("main.cf", folder.path().join("link")).unwrap();
    fs::create_dir(folder.path().join("empty")).unwrap();
    folder.snapshot().unwrap();
    assert_eq!(
        folder.files(),
        "100644 .gitattributes\n120000 link\n100644 main.cf\n100755 run"
    );
    assert_eq!(
        git_in(&folder.store(), &["cat-file", "-s", "main:main.cf"]),
        "9"
    );
}

#[test]
fn a_fifo_does_not_block_and_odd_names_are_named() {
    let folder = Folder::new();
    folder.write("main.cf", "a");
    let fifo = folder.path().join("fifo");
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
    )
    .unwrap();
    folder.snapshot().unwrap();
    assert_eq!(folder.files(), "100644 main.cf");
    fs::write(
        folder.path().join(std::ffi::OsStr::from_bytes(b"a\xff")),
        "",
    )
    .unwrap();
    let error = folder.snapshot().unwrap_err();
    assert!(matches!(error, Error::UnsafePath { .. }), "{error}");
}

#[test]
fn a_fifo_in_place_of_gitignore_or_head_does_not_block() {
    let folder = Folder::new();
    folder.write("sub/main.cf", "a");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let fifo =
        |name: &str| rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join(name), mode).unwrap();
    fifo("sub/.gitignore");
    assert!(matches!(folder.snapshot(), Err(Error::UnsafePath { .. })));
    for name in ["repo/objects", "repo/refs"] {
        fs::create_dir_all(folder.path().join(name)).unwrap();
    }
    fifo("repo/HEAD");
    fifo("repo/commondir");
    assert_eq!(is_repository(&folder.path().join("repo")), None);
}

#[test]
fn a_folder_that_holds_its_own_record_is_refused_unless_that_is_ignored() {
    let folder = Folder::new();
    folder.write("main.cf", "a");
    let store = folder.path().join(".steward/folders/x");
    let error = snapshot(&folder.path(), &store, "x").unwrap_err();
    assert!(
        error.to_string().contains("keep its data elsewhere"),
        "{error}"
    );
    folder.write(".gitignore", "/.steward/\n");
    let first = snapshot(&folder.path(), &store, "x").unwrap();
    assert_eq!(snapshot(&folder.path(), &store, "x").unwrap(), first);
}

#[test]
fn an_empty_folder_has_no_commit_until_it_had_files() {
    let folder = Folder::new();
    assert_eq!(folder.snapshot().unwrap(), None);
    folder.write("main.cf", "a");
    let first = folder.snapshot().unwrap();
    fs::remove_file(folder.path().join("main.cf")).unwrap();
    let emptied = folder.snapshot().unwrap();
    assert!(emptied.is_some() && emptied != first);
    assert_eq!(folder.snapshot().unwrap(), emptied);
}

#[test]
fn a_folder_that_is_gone_or_too_large_is_an_error() {
    let folder = Folder::new();
    folder.write("a/b", "xxxx");
    let check = |limits: SnapshotLimits| {
        let error = snapshot_with(&folder.path(), &folder.store(), "x", &limits).unwrap_err();
        assert!(matches!(error, Error::TreeTooLarge { .. }), "{error}");
    };
    let none = SnapshotLimits::default();
    check(SnapshotLimits {
        entries: 1,
        ..none.clone()
    });
    check(SnapshotLimits {
        total_bytes: 3,
        ..none.clone()
    });
    check(SnapshotLimits {
        file_bytes: 3,
        ..none.clone()
    });
    check(SnapshotLimits { depth: 0, ..none });
    fs::remove_dir_all(folder.path()).unwrap();
    assert!(folder.snapshot().is_err());
}

#[test]
fn snapshots_of_one_folder_at_once_agree() {
    let folder = Folder::new();
    folder.write("main.cf", "a");
    let commits: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| folder.snapshot().unwrap()))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(commits.iter().all(|commit| *commit == commits[0]));
}

#[test]
fn a_folder_is_told_from_a_repository() {
    let world = World::new();
    world.write("sub/x", "");
    world.git(&["clone", "--quiet", "--bare", ".", "../bare.git"]);
    world.git(&["worktree", "add", "--quiet", "../linked"]);
    assert_eq!(
        is_repository(&world.source()),
        Some(RepositoryKind::WorkTree)
    );
    assert_eq!(
        is_repository(&world.path("linked")),
        Some(RepositoryKind::WorkTree)
    );
    assert_eq!(
        is_repository(&world.path("bare.git")),
        Some(RepositoryKind::Bare)
    );
    assert_eq!(is_repository(&world.source().join("sub")), None);
    assert_eq!(is_repository(&world.path("nowhere")), None);
    fs::create_dir_all(world.path("fake/.git")).unwrap();
    assert_eq!(is_repository(&world.path("fake")), None);
}

#[test]
fn a_watcher_is_told_where_commits_show() {
    let world = World::new();
    world.git(&["worktree", "add", "--quiet", "../linked"]);
    let git = world.source().join(".git").canonicalize().unwrap();
    let names = |paths: Vec<PathBuf>| -> Vec<PathBuf> {
        paths
            .iter()
            .map(|path| path.canonicalize().unwrap_or(path.clone()))
            .collect()
    };
    let paths = names(local_watch_paths(&world.source()));
    assert_eq!(
        paths,
        [
            git.join("HEAD"),
            world.source().join(".git/packed-refs"),
            git.join("refs/heads")
        ]
    );
    let linked = names(local_watch_paths(&world.path("linked")));
    assert!(
        linked.contains(&git.join("worktrees/linked/HEAD"))
            && linked.contains(&git.join("refs/heads"))
    );
    assert!(local_watch_paths(&world.path("nowhere")).is_empty());
}
