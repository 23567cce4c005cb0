//! Which names a tree may hold, and where its symlinks lead. Pure: decides on text, touches no disk.

use std::collections::BTreeMap;

use crate::domain::is_unprintable;

/// The longest name Linux takes.
const MAX_NAME_BYTES: usize = 255;
/// The longest path Linux takes, and here also the most steps that may lie ahead.
const MAX_PATH_BYTES: usize = 4096;
/// The largest number of links in one path, which is that of Linux.
const MAX_LINKS: usize = 40;

/// Checks one name of a tree entry. The error says what is wrong with it, to follow the path.
pub(super) fn check_name(name: &[u8]) -> Result<&str, &'static str> {
    let name = std::str::from_utf8(name).map_err(|_| "has a name that is not UTF-8: rename it")?;
    if name.is_empty() {
        return Err("has an empty name");
    }
    if name == "." || name == ".." {
        return Err("would lead out of its folder");
    }
    if name.contains(['/', '\\']) {
        return Err("has a slash or backslash in one name");
    }
    if name.chars().any(is_unprintable_in_name) {
        return Err("has a control character in its name");
    }
    if is_dot_git(name) {
        return Err("would be a git folder");
    }
    if name.len() > MAX_NAME_BYTES {
        return Err("has a name that is too long");
    }
    Ok(name)
}

/// Joiners are part of honest names (emoji, Persian), so only those that are never are refused here.
fn is_unprintable_in_name(c: char) -> bool {
    is_unprintable(c) && !matches!(c, '\u{200c}' | '\u{200d}')
}

/// Whether some file system or program takes `name` for `.git`: whatever the case, with characters that HFS+
/// ignores, with the trailing dots, spaces and streams that NTFS ignores, or by its short name.
fn is_dot_git(name: &str) -> bool {
    let visible: String = name.chars().filter(|c| !is_unprintable(*c)).collect();
    let visible = visible.to_lowercase();
    let base = visible
        .split(':')
        .next()
        .unwrap_or_default()
        .trim_end_matches(['.', ' ']);
    base == ".git" || base == "git~1"
}

/// One entry of a whole tree, as far as symlinks care.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node<'a> {
    Folder,
    File,
    Link(&'a str),
}

/// Follows the symlink at `path` through `nodes`, by the rules of the kernel. The error says what its
/// target does that is not allowed. A target that is missing but would be inside is allowed. Each
/// step is taken from `n_steps`, which is for all links of one tree.
pub(super) fn check_link(
    path: &str,
    nodes: &BTreeMap<&str, Node<'_>>,
    n_steps: &mut usize,
) -> Result<(), &'static str> {
    let Some(Node::Link(target)) = nodes.get(path) else {
        return Ok(());
    };
    let mut folder = match path.rsplit_once('/') {
        Some((folder, _)) => folder.to_owned(),
        None => String::new(),
    };
    let mut n_links = 0;
    let mut ahead = steps(target)?;
    while let Some(step) = ahead.pop() {
        *n_steps = n_steps
            .checked_sub(1)
            .ok_or("is one link too many for this repository")?;
        if step == ".." {
            if folder.is_empty() {
                return Err(
                    "leads out of the repository: take it out of git (`git rm --cached`), or have it lead to something in it",
                );
            }
            folder.truncate(folder.rfind('/').unwrap_or(0));
            continue;
        }
        let parent_length = folder.len();
        if !folder.is_empty() {
            folder.push('/');
        }
        folder.push_str(step);
        match nodes.get(folder.as_str()) {
            Some(Node::Link(target)) => {
                n_links += 1;
                if n_links > MAX_LINKS {
                    return Err("leads in a circle");
                }
                folder.truncate(parent_length);
                ahead.extend(steps(target)?);
            }
            Some(Node::File) if !ahead.is_empty() => return Err("goes through a file"),
            Some(Node::Folder | Node::File) | None => (),
        }
        if ahead.len() + folder.len() > MAX_PATH_BYTES {
            return Err("is too long");
        }
    }
    Ok(())
}

/// The steps of a link's target, last first.
fn steps(target: &str) -> Result<Vec<&str>, &'static str> {
    if target.is_empty() {
        return Err("is empty");
    }
    if target.starts_with('/') {
        return Err(
            "leads out of the repository: take it out of git (`git rm --cached`), or have it lead to something in it",
        );
    }
    if target
        .chars()
        .any(|c| is_unprintable_in_name(c) || c == '\\')
    {
        return Err("has a control character or backslash in it");
    }
    let steps = target
        .split('/')
        .filter(|step| !step.is_empty() && *step != ".");
    Ok(steps.rev().collect())
}
