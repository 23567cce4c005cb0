//! Landlock: which files can be read and written, and which ports can be reached.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

use super::{Network, SandboxPolicy};

/// The newest version of Landlock that we know. Older kernels have less, and are asked for what
/// they have.
const NEWEST: ABI = ABI::V6;
const ABIS: [(u8, ABI); 6] = [
    (6, ABI::V6),
    (5, ABI::V5),
    (4, ABI::V4),
    (3, ABI::V3),
    (2, ABI::V2),
    (1, ABI::V1),
];

/// The newest version that the kernel has, and we know; 0: none.
pub(super) fn supported_version() -> u8 {
    let supports = |abi: ABI| {
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(abi));
        let ruleset = match abi {
            ABI::V6 => ruleset.and_then(|ruleset| ruleset.scope(Scope::from_all(abi))),
            _ => ruleset,
        };
        ruleset.and_then(Ruleset::create).is_ok()
    };
    ABIS.into_iter()
        .find(|(_, abi)| supports(*abi))
        .map_or(0, |(version, _)| version)
}

/// What makes and fills a file without a look at any: for the file store, where contents of all environments lie.
fn deposit() -> BitFlags<AccessFs> {
    AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::RemoveFile
}

/// Puts the policy in force for this thread and its descendants; the version of Landlock that does it, or 0.
pub(super) fn restrict(policy: &SandboxPolicy) -> Result<u8, RulesetError> {
    let mut hidden = policy.hidden.clone();
    // A second layer hides nothing by itself: from inside of the first one it could not list what remains.
    if !hidden.is_empty() {
        // The disks of the machine are there, for root.
        hidden.push(PathBuf::from("/dev"));
    }
    let readable = all_but(Path::new("/"), &hidden)
        .into_iter()
        .chain(policy.readable.iter().cloned());
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate;
    let devices = ["/dev/null", "/dev/full"];
    // Of `/dev/zero`, who may write it makes shared memory that no limit holds (`syscalls`).
    let read_devices = ["/dev/zero", "/dev/random", "/dev/urandom"];
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?;
    if policy.network != Network::Open {
        ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST))?;
    }
    let writable = std::iter::once(&policy.scratch).chain(&policy.writable);
    let mut created = ruleset
        .create()?
        .add_rules(path_beneath_rules(readable, AccessFs::from_read(NEWEST)))?
        .add_rules(path_beneath_rules(devices, device))?
        .add_rules(path_beneath_rules(read_devices, AccessFs::ReadFile))?
        .add_rules(path_beneath_rules(&policy.deposit, deposit()))?
        .add_rules(path_beneath_rules(writable, AccessFs::from_all(NEWEST)))?;
    if let Network::Proxy(port) = policy.network {
        created = created.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
    }
    let status = created.restrict_self()?;
    Ok(match status.ruleset {
        RulesetStatus::NotEnforced => 0,
        _ => supported_version().max(1),
    })
}

/// The fewest directories and files that hold everything below `directory` but what is hidden. What is there later, beside
/// something hidden, is hidden too; links are not followed, what they lead to counts by itself.
///
/// There may be thousands of hidden paths and as many files beside them, so a directory is given only those paths that are in
/// it, by the name of its entry that they are below: the work is that of reading the directories on the way to a hidden path.
fn all_but(directory: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    let below = hidden
        .iter()
        .filter_map(|path| path.strip_prefix(directory).ok());
    let mut found = Vec::new();
    cover(directory, below.collect(), &mut found);
    found
}

/// `hidden`: relative to `directory`; the empty path is the directory itself.
fn cover(directory: &Path, hidden: Vec<&Path>, found: &mut Vec<PathBuf>) {
    if hidden.is_empty() {
        return found.push(directory.to_owned());
    }
    let mut by_entry: HashMap<&OsStr, Vec<&Path>> = HashMap::new();
    for path in hidden {
        let mut rest = path.components();
        let Some(first) = rest.next() else {
            return;
        };
        let in_entry = by_entry.entry(first.as_os_str()).or_default();
        in_entry.push(rest.as_path());
    }
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            let in_entry = by_entry.remove(entry.file_name().as_os_str());
            cover(&entry.path(), in_entry.unwrap_or_default(), found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_what_is_hidden_is_covered() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for path in ["a/b/secret", "a/b/open", "a/c", "d"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        std::fs::write(root.join("a/token"), "x").unwrap();
        std::os::unix::fs::symlink(root.join("a/b/secret"), root.join("a/way")).unwrap();
        let hidden = [root.join("a/b/secret"), root.join("a/token")];
        let mut found = all_but(root, &hidden);
        found.sort();
        let expected = ["a/b/open", "a/c", "d"].map(|path| root.join(path));
        assert_eq!(found, expected);
        // A path below another hidden one adds nothing.
        let nested = ["a/b/secret", "a", "a/b"].map(|path| root.join(path));
        assert_eq!(all_but(root, &nested), [root.join("d")]);
        let elsewhere = [root.join("not/there"), PathBuf::from("/elsewhere")];
        assert_eq!(all_but(root, &elsewhere).len(), 2);
        assert_eq!(all_but(root, &[]), [root]);
        assert!(all_but(root, &[root.to_owned()]).is_empty());
    }
}
