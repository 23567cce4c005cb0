//! Branches that are no commits, or commits that cannot be read: everything came, and it is how the remote has it.

use std::io::Write;
use std::process::Stdio;

use super::http::{PATH, hasty, mirror_of, serve};
use super::server::Reply;
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
    let server = serve(&world, |_| Reply::Git);
    let mirror = mirror_of(&world, &server.url(PATH));
    let fetch = |branch: &str| mirror.fetch(Some(branch), &Credentials::default(), &hasty());
    let good = fetch("main").unwrap();
    let made = || fs::metadata(mirror.path()).unwrap().created().unwrap();
    let before = made();
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
        match fetch(name) {
            Err(error @ Error::Malformed { .. }) => {
                let text = error.to_string();
                let is_named = text.contains(&format!("`{name}`"));
                assert!(is_named && text.contains(cause), "{text}");
                assert!(!error.is_transient());
            }
            // git itself does not send it.
            Err(Error::Unreachable { .. }) if cause.is_empty() => {}
            // Only its date makes no sense, and nobody reads it.
            Ok(_) if name == "date" => {}
            other => panic!("{name}: {other:?}"),
        }
        assert!(super::super::commit_info(&mirror, good).is_ok(), "{name}");
        assert_eq!(made(), before, "{name}");
    }
    assert_eq!(fetch("main").unwrap(), good);
}
