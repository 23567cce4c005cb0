//! The end of a process with all that descends from it, whatever process group it went to.

use std::fs;
use std::os::unix::process::parent_id;

use rustix::process::{Pid, Signal, getpid, kill_process};

/// Looks that are taken for processes that were forked meanwhile.
const LOOKS: usize = 8;

/// Kills a child of ours and its descendants: first the child is stopped, so that it starts nothing more, then what is
/// below it is killed, then the child. What was given away (a daemon, whose parent has ended) is nobody's descendant and
/// stays. The child must not have been waited for yet.
pub fn kill_tree(child: u32) {
    let Some(root) = i32::try_from(child).ok().and_then(Pid::from_raw) else {
        return;
    };
    if root == getpid() || child == parent_id() {
        return;
    }
    let _ = kill_process(root, Signal::STOP);
    let mut below = descendants(root);
    for _ in 0..LOOKS {
        // All are stopped before the first is killed: an orphan of one that is killed first would be nobody's.
        for pid in &below {
            let _ = kill_process(*pid, Signal::STOP);
        }
        let now = descendants(root);
        if now == below {
            break;
        }
        below = now;
    }
    for pid in &below {
        let _ = kill_process(*pid, Signal::KILL);
    }
    let _ = kill_process(root, Signal::KILL);
}

/// All processes below one, children before their own children. Empty where there is no `/proc`.
fn descendants(root: Pid) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let all: Vec<(Pid, Pid)> = entries
        .flatten()
        .filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name of the program stands in brackets and may hold anything.
            let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
            let is_gone = fields.next()? == "Z";
            let parent: i32 = fields.next()?.parse().ok()?;
            (!is_gone).then_some((Pid::from_raw(pid)?, Pid::from_raw(parent)?))
        })
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        let children = all.iter().filter(|(_, its)| *its == parent);
        found.extend(children.map(|(pid, _)| *pid));
        next += 1;
    }
    found.remove(0);
    found
}
