//! Branches that are no commits, or commits that cannot be read: everything came, and it is how the remote has it.

use std::io::Write;
use std::process::Stdio;

use super::*;

/// Writes an object as it is, whatever it says.
fn object(world: &World, kind: &str, content: &[u8]) -> String {
    let mut child = Command::new("git")
        .args(["hash-object", "-w", "--literally", "--stdin", "-t", kind])
        .current_dir(world.source())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(content).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn commit_of(tree: &str, author: &str) -> Vec<u8> {
    format!("tree {tree}\nauthor {author}\ncommitter {author}\n\nx\n").into_bytes()
}

/// Input: branches that lead to no commit, or to one that is malformed (docs/reference/security.md § 3.31). Answer: the fetch names the branch and what is wrong with it; the mirror, which other branches are in, stays as it is.
#[test]
fn a_branch_that_cannot_be_read_leaves_the_mirror_alone() {
    let world = World::new();
    let good = world.fetch(Some("main")).unwrap();
    let made = fs::metadata(world.mirror().path())
        .unwrap()
        .created()
        .unwrap();
    let ada = "Ada <ada@example.com> 1700000000 +0000";
    let tree = world.git(&["rev-parse", "HEAD^{tree}"]);
    let blob = object(&world, "blob", b"x");
    let no_tree = object(&world, "tree", b"100644 a\0short");
    let folder = [b"40000 a\0".as_slice(), &hex::decode(&blob).unwrap()].concat();
    let below = object(&world, "tree", &folder);
    for (name, id, cause) in [
        (
            "to-tree",
            tree.clone(),
            "is a tree, where a commit should be",
        ),
        (
            "to-blob",
            blob.clone(),
            "is a blob, where a commit should be",
        ),
        (
            "author",
            object(&world, "commit", &commit_of(&tree, "Ada")),
            "",
        ),
        (
            "date",
            object(
                &world,
                "commit",
                &commit_of(&tree, "Ada <a@b> 99999999999999999999999 +0000"),
            ),
            "",
        ),
        ("nothing", object(&world, "commit", b""), ""),
        (
            "tree",
            object(&world, "commit", &commit_of(&no_tree, ada)),
            "",
        ),
        (
            "of-blob",
            object(&world, "commit", &commit_of(&blob, ada)),
            "",
        ),
        (
            "below",
            object(&world, "commit", &commit_of(&below, ada)),
            "",
        ),
    ] {
        fs::write(
            world.source().join(".git/refs/heads").join(name),
            format!("{id}\n"),
        )
        .unwrap();
        let result = world.fetch(Some(name));
        let Err(error) = result else {
            // It can be read, so it is good.
            assert!(["date"].contains(&name), "{name}");
            continue;
        };
        assert!(
            matches!(error, Error::Malformed { .. }),
            "{name}: {error:?}"
        );
        let text = error.to_string();
        assert!(
            text.contains(&format!("`{name}`")) && text.contains(cause),
            "{text}"
        );
        assert!(!error.is_transient());
        let mirror = world.mirror();
        assert!(super::super::commit_info(&mirror, good).is_ok(), "{name}");
        assert_eq!(
            fs::metadata(mirror.path()).unwrap().created().unwrap(),
            made,
            "{name}"
        );
    }
    assert_eq!(world.fetch(Some("main")).unwrap(), good);
}
