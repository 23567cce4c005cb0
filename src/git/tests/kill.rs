use std::process::{Command, Stdio};
use std::time::Duration;

use super::*;

/// Set for the child: the folder of its world.
const WORLD: &str = "STEWARD_TEST_KILL_WORLD";

fn work_in(dir: &Path) -> Result<(), Error> {
    let mirror = Mirror::open_or_create(&dir.join("mirrors"), &local_url(&dir.join("source")))?;
    let commit = fetch(&mirror, None)?;
    let path = super::super::checkout(&mirror, commit, &dir.join("checkouts"))?;
    let repository = dir.join("snapshots");
    snapshot(&path, &repository, "snapshot")?;
    super::super::upkeep::compact(
        mirror.path(),
        super::super::upkeep::Tolerance {
            n_packs: 3,
            n_loose: 3,
        },
    )
}

/// Not a test of its own: what the next one starts and kills.
#[test]
fn killed_child() {
    let Some(dir) = std::env::var_os(WORLD) else {
        return;
    };
    loop {
        work_in(Path::new(&dir)).unwrap();
    }
}

#[test]
fn a_kill_at_any_moment_harms_nothing() {
    let world = World::new();
    for i in 0..30 {
        world.write(&format!("f{i}"), &format!("{i}\n").repeat(2000));
    }
    world.commit("files");
    let mut numbers: u64 = 0x1234_5678_9abc_def1;
    for round in 0..12 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "git::tests::kill::killed_child", "--nocapture"])
            .env(WORLD, world.dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        for step in 0..3 {
            numbers = numbers
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            std::thread::sleep(Duration::from_millis(10 + (numbers >> 33) % 60));
            world.write("main.cf", &format!("# {round} {step}\n"));
            world.commit("change");
        }
        assert!(
            child.try_wait().unwrap().is_none(),
            "the child ended by itself"
        );
        child.kill().unwrap();
        child.wait().unwrap();
        work_in(world.dir.path()).unwrap();
        assert_eq!(world.fetch(None).unwrap(), world.head());
        let path = world.check_out().unwrap();
        assert_eq!(
            fs::read_to_string(path.join("main.cf")).unwrap(),
            format!("# {round} 2\n")
        );
        git_in(world.mirror().path(), &["fsck", "--full", "--no-dangling"]);
        git_in(
            &world.path("snapshots"),
            &["fsck", "--full", "--no-dangling"],
        );
    }
}
