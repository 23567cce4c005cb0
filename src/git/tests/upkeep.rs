use std::collections::HashSet;

use super::super::upkeep::{Tolerance, Unreadable, compact, objects_are_sound, unreadable_below};
use super::*;

const AT_ONCE: Tolerance = Tolerance {
    n_packs: 1,
    n_loose: 1,
};

fn counts(repository: &Path) -> (usize, usize) {
    let text = git_in(repository, &["count-objects", "-v"]);
    let value = |name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name}: ")))
            .unwrap();
        line.parse().unwrap()
    };
    (value("packs"), value("count"))
}

/// A mirror of ten fetches.
fn used_mirror(world: &World) -> Mirror {
    for i in 0..10 {
        world.write("main.cf", &format!("# {i}\n"));
        world.commit("more");
        world.fetch(None).unwrap();
    }
    world.mirror()
}

#[test]
fn packs_and_loose_files_are_put_together_and_nothing_is_lost() {
    let world = World::new();
    let mirror = used_mirror(&world);
    let loose = mirror.open().unwrap().blob(b"loose").unwrap();
    assert_eq!(counts(mirror.path()), (10, 1));
    compact(mirror.path(), Tolerance::default()).unwrap();
    assert_eq!(counts(mirror.path()), (10, 1));
    compact(mirror.path(), AT_ONCE).unwrap();
    assert_eq!(counts(mirror.path()), (1, 0));
    compact(mirror.path(), AT_ONCE).unwrap();
    assert_eq!(counts(mirror.path()), (1, 0));
    git_in(mirror.path(), &["fsck", "--full", "--strict"]);
    assert!(mirror.open().unwrap().find_blob(loose).is_ok());
    assert!(objects_are_sound(&mirror.open().unwrap()));
    world.write("main.cf", "last");
    let last = world.commit("last");
    assert_eq!(world.fetch(None).unwrap(), last);
}

#[test]
fn a_mirror_does_not_gather_packs_for_ever() {
    let world = World::new();
    let mirror = world.mirror();
    for i in 0..60 {
        world.git(&["commit", "--quiet", "--allow-empty", "-m", &i.to_string()]);
        fetch(&mirror, None).unwrap();
    }
    assert!(counts(mirror.path()).0 < 51);
    git_in(mirror.path(), &["fsck", "--full"]);
}

#[test]
fn a_checkout_goes_on_while_the_mirror_is_compacted() {
    let world = World::new();
    let mirror = used_mirror(&world);
    let commits: Vec<CommitId> = world
        .git(&["rev-list", "HEAD"])
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    std::thread::scope(|scope| {
        for n in 0..4 {
            let (mirror, commits, world) = (&mirror, &commits, &world);
            scope.spawn(move || {
                for commit in commits {
                    super::super::checkout(mirror, *commit, &world.path(&format!("out{n}")))
                        .unwrap();
                }
            });
        }
        compact(mirror.path(), AT_ONCE).unwrap();
    });
}

#[test]
fn a_mirror_whose_refs_are_damaged_heals_with_the_next_fetch() {
    let damages: [fn(&Path); 3] = [
        |mirror| fs::write(mirror.join("refs/steward/heads/main"), "").unwrap(),
        |mirror| {
            fs::write(
                mirror.join("refs/steward/heads/main"),
                format!("{}\n", "1".repeat(40)),
            )
            .unwrap()
        },
        |mirror| {
            for entry in fs::read_dir(mirror.join("objects/pack")).unwrap() {
                let path = entry.unwrap().path();
                fs::remove_file(&path).unwrap();
                fs::write(&path, "").unwrap();
            }
        },
    ];
    for (number, damage) in damages.iter().enumerate() {
        for is_changed in [false, true] {
            let world = World::new();
            world.fetch(None).unwrap();
            damage(world.mirror().path());
            if is_changed {
                world.write("main.cf", "changed");
                world.commit("changed");
            }
            assert_eq!(world.fetch(None).unwrap(), world.head(), "damage {number}");
            world.check_out().unwrap();
        }
    }
}

#[test]
fn a_commit_is_only_believed_when_all_of_its_tree_is_there() {
    let world = World::new();
    world.write("a/b/c", "deep");
    let commit = world.commit("deep");
    world.fetch(None).unwrap();
    let mirror = world.mirror();
    let store = mirror.open().unwrap();
    let tree = store.find_commit(commit.0).unwrap().tree_id();
    assert_eq!(unreadable_below(&store, tree), None);
    let mut builder = store.treebuilder(None).unwrap();
    let missing = "1".repeat(40).parse::<CommitId>().unwrap().0;
    // As loose objects, where libgit2 does not look for what they lead to.
    let entry = [b"100644 gone\0", missing.as_bytes()].concat();
    let folder = store
        .odb()
        .unwrap()
        .write(git2::ObjectType::Tree, &entry)
        .unwrap();
    builder.insert("sub", folder, 0o040000).unwrap();
    let tree = builder.write().unwrap();
    assert_eq!(unreadable_below(&store, tree), Some(Unreadable::Missing));
    assert_eq!(unreadable_below(&store, missing), Some(Unreadable::Missing));
}

#[test]
fn what_a_killed_process_left_stops_nothing_and_goes() {
    let world = World::new();
    world.fetch(None).unwrap();
    let mirror = world.mirror();
    let left = [
        "refs/steward/heads/main.lock",
        "refs/steward/incoming.lock",
        "packed-refs.lock",
        "objects/pack/pack_git2_abcdef",
        "objects/ab/tmp_object_git2_abcdef",
    ];
    fs::create_dir_all(mirror.path().join("objects/ab")).unwrap();
    for name in left {
        fs::write(mirror.path().join(name), "").unwrap();
    }
    fs::write(mirror.path().join("refs/steward/incoming"), "").unwrap();
    world.write("main.cf", "changed");
    let commit = world.commit("changed");
    assert_eq!(world.fetch(None).unwrap(), commit);
    assert!(left.iter().all(|name| !mirror.path().join(name).exists()));

    let (folder, store) = (world.path("folder"), world.path("store"));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("main.cf"), "a").unwrap();
    snapshot(&folder, &store, "x").unwrap();
    fs::write(store.join("refs/heads/main.lock"), "").unwrap();
    fs::write(folder.join("main.cf"), "b").unwrap();
    snapshot(&folder, &store, "x").unwrap();
}

#[test]
fn a_mirror_can_be_reset() {
    let world = World::new();
    let commit = world.fetch(None).unwrap();
    let mirror = world.mirror();
    mirror.reset().unwrap();
    assert!(matches!(
        tree_id(&mirror, commit),
        Err(Error::CommitMissing { .. })
    ));
    assert_eq!(world.fetch(None).unwrap(), commit);
}

#[test]
fn snapshots_that_a_power_cut_damaged_are_recorded_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, store) = (dir.path().join("folder"), dir.path().join("store"));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("main.cf"), "a").unwrap();
    snapshot(&folder, &store, "first").unwrap();
    let blob = git_in(&store, &["rev-parse", "main:main.cf"]);
    let file = store.join("objects").join(&blob[..2]).join(&blob[2..]);
    fs::remove_file(&file).unwrap();
    fs::write(&file, "").unwrap();
    fs::write(store.join("steward-boot"), "the boot before").unwrap();
    let commit = snapshot(&folder, &store, "second").unwrap().unwrap();
    let path =
        super::super::checkout(&Repository::at(&store), commit, &dir.path().join("out")).unwrap();
    assert_eq!(fs::read_to_string(path.join("main.cf")).unwrap(), "a");
}

#[test]
fn old_checkouts_can_be_forgotten() {
    let world = World::new();
    let first = world.check_out().unwrap();
    let kept = tree_id(&world.mirror(), world.head()).unwrap();
    world.write("main.cf", "changed");
    world.commit("changed");
    let second = world.check_out().unwrap();
    assert_eq!(
        gc_checkouts(&world.path("checkouts"), &HashSet::from([kept])).unwrap(),
        1
    );
    assert!(first.exists() && !second.exists());
    assert_eq!(world.check_out().unwrap(), second);
}
