//! What code of a repository may do while it compiles, or while pip builds it: read what is not ours to hide, write into
//! folders of its own, and no more. By Landlock and seccomp, as far as the kernel has them, and by resource limits.
//!
//! Handlers are not confined: they are there to change the host. Sources: issue 4, 8; systemd.md (Landlock in a unit).

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
use serde::{Deserialize, Serialize};

/// What a confined process may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Cannot be read, with all below, but for what `readable` names. Without links.
    pub hidden: Vec<PathBuf>,
    /// Parts of what is hidden that can be read.
    pub readable: Vec<PathBuf>,
    /// A folder that can be written to: home, temporary files, bytecode.
    pub scratch: PathBuf,
    /// Other folders that can be written to, and nothing else.
    pub writable: Vec<PathBuf>,
    /// What each process may map; `None`: as much as we may.
    pub memory_bytes: Option<u64>,
}

/// What holds a confined process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Force {
    /// Version of Landlock's interface that is in force; 0: the kernel has none.
    pub landlock: u8,
    pub seccomp: bool,
    /// Limits of the process can be set; systemd may have forbidden it, and set its own.
    pub limits: bool,
}

impl fmt::Display for Force {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.landlock {
            0 => f.write_str("no Landlock (files are not protected)")?,
            version => write!(f, "Landlock {version}")?,
        }
        f.write_str(match self.seccomp {
            true => ", seccomp",
            false => ", no seccomp",
        })?;
        f.write_str(match self.limits {
            true => ", limits of files and processes",
            false => ", no limits of our own",
        })
    }
}

const NEWEST: ABI = ABI::V6;
const ABIS: [(u8, ABI); 6] = [
    (6, ABI::V6),
    (5, ABI::V5),
    (4, ABI::V4),
    (3, ABI::V3),
    (2, ABI::V2),
    (1, ABI::V1),
];
/// Of one file.
const MAX_FILE_BYTES: u64 = 1 << 30;
const MAX_OPEN_FILES: u64 = 1024;
/// Of the user, all together.
const MAX_PROCESSES: u64 = 4096;
/// The other numbering of the system calls of x86-64.
const X32: i64 = 0x4000_0000;

/// What this kernel would hold a process with. Asks only.
pub fn available() -> Force {
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
    Force {
        landlock: ABIS
            .into_iter()
            .find(|(_, abi)| supports(*abi))
            .map_or(0, |(version, _)| version),
        seccomp: has_seccomp() && filter().is_ok(),
        limits: setrlimit(Resource::Core, rustix::process::getrlimit(Resource::Core)).is_ok(),
    }
}

/// Confines this process and all that it starts, for good.
///
/// # Errors
/// The kernel refuses what it has.
pub fn confine(policy: &Policy) -> io::Result<Force> {
    let limits = [
        (Resource::Fsize, MAX_FILE_BYTES),
        (Resource::Nofile, MAX_OPEN_FILES),
        (Resource::Nproc, MAX_PROCESSES),
    ];
    let memory = policy.memory_bytes.map(|bytes| (Resource::As, bytes));
    let limits: Vec<io::Result<()>> = limits
        .into_iter()
        .chain(memory)
        .map(|(resource, most)| limit(resource, most))
        .collect();
    drop_capabilities()?;
    let landlock = restrict_files(policy).map_err(io::Error::other)?;
    let seccomp = has_seccomp();
    if seccomp {
        let program = filter().map_err(io::Error::other)?;
        seccompiler::apply_filter(&program).map_err(io::Error::other)?;
    }
    Ok(Force {
        landlock: if landlock {
            available().landlock.max(1)
        } else {
            0
        },
        seccomp,
        limits: limits.iter().all(Result::is_ok),
    })
}

fn limit(resource: Resource, most: u64) -> io::Result<()> {
    let known = rustix::process::getrlimit(resource);
    let least = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
    let limits = Rlimit {
        current: least(known.current),
        maximum: least(known.maximum),
    };
    Ok(setrlimit(resource, limits)?)
}

/// Of root's powers those over files stay: what is hidden is so by Landlock. The others do not come back with another
/// program, since Landlock and seccomp forbid new privileges.
fn drop_capabilities() -> io::Result<()> {
    let kept = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::DAC_READ_SEARCH
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID;
    let mut sets = capabilities(None)?;
    // Who has none to drop may not be allowed to ask.
    if (sets.effective | sets.permitted | sets.inheritable) & !kept == CapabilitySet::empty() {
        return Ok(());
    }
    sets.effective &= kept;
    sets.permitted &= kept;
    sets.inheritable &= kept;
    Ok(set_capabilities(None, sets)?)
}

/// False: the kernel has no Landlock.
fn restrict_files(policy: &Policy) -> Result<bool, landlock::RulesetError> {
    let readable = all_but(Path::new("/"), &policy.hidden)
        .into_iter()
        .chain(policy.readable.iter().cloned());
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate;
    let devices = ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"];
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(readable, AccessFs::from_read(NEWEST)))?
        .add_rules(path_beneath_rules(devices, device))?
        .add_rules(path_beneath_rules(
            std::iter::once(&policy.scratch).chain(&policy.writable),
            AccessFs::from_all(NEWEST),
        ))?
        .restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

/// The fewest directories and files that hold everything below `directory` but what is hidden. What is there later, beside
/// something hidden, is hidden too; links are not followed, what they lead to counts by itself.
fn all_but(directory: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    if hidden.iter().any(|path| directory.starts_with(path)) {
        return Vec::new();
    }
    if !hidden.iter().any(|path| path.starts_with(directory)) {
        return vec![directory.to_owned()];
    }
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()))
        .flat_map(|entry| all_but(&entry.path(), hidden))
        .collect()
}

fn has_seccomp() -> bool {
    Path::new("/proc/sys/kernel/seccomp/actions_avail").exists()
}

/// Calls that no plugin needs, and that reach other processes or the kernel.
fn filter() -> Result<BpfProgram, String> {
    const REFUSED: &[i64] = &[
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        libc::SYS_kcmp,
        libc::SYS_perf_event_open,
        libc::SYS_bpf,
        libc::SYS_userfaultfd,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_fsopen,
        libc::SYS_fsmount,
        libc::SYS_move_mount,
        libc::SYS_open_tree,
        libc::SYS_mount_setattr,
        libc::SYS_name_to_handle_at,
        libc::SYS_open_by_handle_at,
        libc::SYS_kexec_load,
        libc::SYS_kexec_file_load,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_reboot,
        libc::SYS_swapon,
        libc::SYS_swapoff,
        libc::SYS_acct,
        libc::SYS_quotactl,
        libc::SYS_syslog,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_settimeofday,
        libc::SYS_clock_settime,
        libc::SYS_clock_adjtime,
        libc::SYS_adjtimex,
        libc::SYS_sethostname,
        libc::SYS_setdomainname,
    ];
    let target: TargetArch = std::env::consts::ARCH
        .try_into()
        .map_err(|_| "seccomp is not known for this processor".to_owned())?;
    let numbers = REFUSED.iter().flat_map(|number| {
        let other = (target == TargetArch::x86_64).then_some(number | X32);
        std::iter::once(*number).chain(other)
    });
    let rules: BTreeMap<i64, Vec<seccompiler::SeccompRule>> =
        numbers.map(|number| (number, Vec::new())).collect();
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, target)
        .map_err(|error| error.to_string())?;
    filter.try_into().map_err(|error| format!("{error}"))
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
        assert_eq!(all_but(root, &[]), [root]);
        assert!(all_but(root, &[root.to_owned()]).is_empty());
    }
}
