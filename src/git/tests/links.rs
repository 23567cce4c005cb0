//! Symlinks of a tree, which may lead anywhere in it and nowhere else.

use std::collections::BTreeMap;

use super::super::names::{Node, check_link};
use super::checkout::Crafted;
use super::*;

/// Input: links to `/etc/passwd`, to other repositories, over other links (docs/reference/security.md § 3.20). Answer: the checkout is refused, the link is named.
#[test]
fn symlinks_that_leave_the_tree_are_refused() {
    for target in [
        "/etc/passwd",
        "..",
        "../../other",
        "a/../../x",
        "d/../../x",
        "./..",
        "missing/../../x",
        "",
    ] {
        let crafted = Crafted::new();
        let file = crafted.blob(b"x");
        let folder = crafted.tree(&[("100644", b"file", file)]);
        let link = crafted.blob(target.as_bytes());
        let tree = crafted.tree(&[("40000", b"d", folder), ("120000", b"l", link)]);
        let error = crafted.check_out(tree);
        let named = matches!(&error, Err(Error::UnsafeSymlink { path, .. }) if path == "l");
        assert!(named, "{target:?}: {error:?}");
        crafted.assert_nothing_left();
    }
}

#[test]
fn symlinks_are_followed_as_the_kernel_does() {
    let check = |links: &[(&str, &str)]| {
        let mut nodes = BTreeMap::from([
            ("d", Node::Folder),
            ("d/e", Node::Folder),
            ("f", Node::File),
        ]);
        nodes.extend(
            links
                .iter()
                .map(|(path, target)| (*path, Node::Link(target))),
        );
        check_link(links[0].0, &nodes, &mut 1000)
    };
    assert!(check(&[("l", "f")]).is_ok());
    assert!(check(&[("l", "dangling")]).is_ok());
    assert!(check(&[("d/l", "../f")]).is_ok());
    assert!(check(&[("d/l", ".//../d/./e")]).is_ok());
    assert!(check(&[("l", "d/e/../../f")]).is_ok());
    assert!(check(&[("l", "f/x")]).is_err());
    // Through another link, `..` goes up from where that link leads.
    assert!(check(&[("l", "d/up/../x"), ("d/up", "..")]).is_err());
    assert!(check(&[("d/e/l", "../up/x"), ("d/up", "../d")]).is_ok());
    assert!(check(&[("l", "m"), ("m", "l")]).is_err());
    assert!(check(&[("l", "l")]).is_err());
    assert!(check(&[("l", "m"), ("m", "/etc")]).is_err());
    assert!(check(&[("l", "a\nb")]).is_err());
}

/// Input: links to themselves and links that grow (docs/reference/security.md § 3.20). Answer: they are followed to a limit, then refused.
#[test]
fn an_endless_or_growing_link_ends() {
    let links: Vec<(String, String)> = (0..60)
        .map(|i| (format!("l{i}"), format!("l{0}/l{0}", i + 1)))
        .collect();
    let nodes = links
        .iter()
        .map(|(path, target)| (path.as_str(), Node::Link(target)))
        .collect();
    assert!(check_link("l0", &nodes, &mut 100_000).is_err());
}

#[test]
fn many_long_links_are_refused_quickly() {
    let crafted = Crafted::new();
    let link = crafted.blob("d/../".repeat(800).as_bytes());
    let names: Vec<String> = (0..5000).map(|i| format!("l{i:05}")).collect();
    let mut entries = vec![("40000", &b"d"[..], crafted.tree(&[]))];
    entries.extend(names.iter().map(|name| ("120000", name.as_bytes(), link)));
    let start = std::time::Instant::now();
    let error = crafted.check_out(crafted.tree(&entries)).unwrap_err();
    assert!(matches!(error, Error::UnsafeSymlink { .. }), "{error}");
    assert!(start.elapsed() < std::time::Duration::from_secs(20));
}
