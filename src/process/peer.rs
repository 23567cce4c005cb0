//! Who is at the other end of a connection on this machine: whether it is a process that we sandboxed.
//!
//! Such a process may speak to the network, but not to a server that trusts every process of its machine. The kernel can
//! forbid it other ports, not one port; so the server looks who it is. What is sandboxed carries more seccomp filters than we
//! do, as does all that it starts, and nothing takes them away.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// No process that is sandboxed.
    Free,
    /// A sandboxed process holds the connection.
    Sandboxed,
    /// Nobody holds it any more, so it may have been a sandboxed process.
    Gone,
}

/// Who holds the connection from `client` to our address `server`. Blocks for some milliseconds; meant for loopback. Always
/// `Free` on systems that do not sandbox, and where nothing is sandboxed at the moment.
pub fn peer_of(client: SocketAddr, server: SocketAddr) -> Peer {
    let Some(ours) = n_filters(Path::new("/proc/self/status")) else {
        return Peer::Free;
    };
    let Ok(processes) = fs::read_dir("/proc") else {
        return Peer::Free;
    };
    let is_sandboxed =
        |process: &PathBuf| n_filters(&process.join("status")).is_some_and(|theirs| theirs > ours);
    let processes = processes.flatten().map(|entry| entry.path());
    let sandboxed: Vec<PathBuf> = processes.filter(is_sandboxed).collect();
    if sandboxed.is_empty() {
        return Peer::Free;
    }
    held_by(&sandboxed, client, server)
}

/// Whether this process itself listens on a port of this machine, at whatever address. Blocks for a moment.
pub fn listens(port: u16) -> bool {
    const LISTEN: &str = "0A";
    let suffix = format!(":{port:04X}");
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"]
        .map(|path| fs::read_to_string(path).unwrap_or_default());
    let mut lines = tables.iter().flat_map(|table| table.lines());
    lines.any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_listener = fields.get(1).is_some_and(|local| local.ends_with(&suffix))
            && fields.get(3) == Some(&LISTEN);
        let socket = || fields.get(9).map(|inode| format!("socket:[{inode}]"));
        is_listener
            && socket()
                .is_some_and(|socket| holds(Path::new("/proc/self"), &socket).unwrap_or_default())
    })
}

/// The same as [`peer_of`], when these processes are the sandboxed ones.
fn held_by(sandboxed: &[PathBuf], client: SocketAddr, server: SocketAddr) -> Peer {
    let Some(inode) = inode_of(client, server) else {
        return Peer::Gone;
    };
    let socket = format!("socket:[{inode}]");
    let is_held = sandboxed
        .iter()
        .any(|process| holds(process, &socket).unwrap_or_else(|| hides(process, &socket)));
    if is_held { Peer::Sandboxed } else { Peer::Free }
}

/// Whether a process has this open; `None`: its open files cannot be read.
fn holds(process: &Path, socket: &str) -> Option<bool> {
    let mut descriptors = fs::read_dir(process.join("fd")).ok()?.flatten();
    Some(
        descriptors
            .any(|entry| fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == socket)),
    )
}

/// How long a process may take to end, from giving its memory back to closing its files.
const ENDING: Duration = Duration::from_secs(1);

/// Whether a process whose open files cannot be read has to count as one that has the connection.
///
/// Unless we are root, the kernel does not show us the open files of three kinds of processes: those of other users, those
/// that made themselves invisible (as parts of browsers do), and those that are about to end. Only what is below us was
/// sandboxed by us, so the first two are none of ours, whatever filters they have. One of ours that ends is waited for; who
/// has ended holds nothing, and whether the connection was closed by that is looked at afterwards. One of ours that goes on
/// and hides has no good reason to.
fn hides(process: &Path, socket: &str) -> bool {
    if !is_below(process, std::process::id()) {
        return false;
    }
    let until = Instant::now() + ENDING;
    while Instant::now() < until {
        if n_filters(&process.join("status")).is_none() {
            return false;
        }
        if let Some(holds) = holds(process, socket) {
            return holds;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// Whether a process was started by the process `ancestor`, or by one that was.
fn is_below(process: &Path, ancestor: u32) -> bool {
    /// Deeper than anything is nested; the way up ends at the first process anyway.
    const MAX_DEPTH: usize = 1_000;
    let mut status = process.join("status");
    for _ in 0..MAX_DEPTH {
        let Some(parent) = parent_of(&status).filter(|parent| *parent > 0) else {
            return false;
        };
        if parent == ancestor {
            return true;
        }
        status = Path::new("/proc").join(parent.to_string()).join("status");
    }
    false
}

fn parent_of(status: &Path) -> Option<u32> {
    let status = fs::read_to_string(status).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    line?.trim().parse().ok()
}

/// The number of seccomp filters of a process that still runs.
fn n_filters(status: &Path) -> Option<u64> {
    let status = fs::read_to_string(status).ok()?;
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    if line("State:").is_some_and(|state| state.trim_start().starts_with('Z')) {
        return None;
    }
    line("Seccomp_filters:")?.trim().parse().ok()
}

/// The client's end of the connection; `None`: no process has it.
fn inode_of(client: SocketAddr, server: SocketAddr) -> Option<u64> {
    let table = match client {
        SocketAddr::V4(_) => "/proc/net/tcp",
        SocketAddr::V6(_) => "/proc/net/tcp6",
    };
    let (client, server) = (in_table(client), in_table(server));
    let table = fs::read_to_string(table).ok()?;
    table.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let is_ours = fields.next()? == client && fields.next()? == server;
        // State, queues, timer, retransmissions, user, timeout, inode.
        let inode = fields.nth(6)?.parse().ok()?;
        (is_ours && inode != 0).then_some(inode)
    })
}

/// An address as the kernel's tables have it: words of 32 bits in the machine's order.
fn in_table(address: SocketAddr) -> String {
    let word = |bytes: &[u8]| {
        let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
        format!("{:08X}", u32::from_ne_bytes(bytes))
    };
    let ip: String = match address {
        SocketAddr::V4(address) => word(&address.ip().octets()),
        SocketAddr::V6(address) => address.ip().octets().chunks(4).map(word).collect(),
    };
    format!("{ip}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    /// Input: a client that connects and closes at once (docs/reference/security.md § 4.18). Answer: it counts as gone, and nobody is told of a sandboxed process.
    #[test]
    fn the_socket_of_a_client_is_found_while_it_has_it() {
        for local in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(local) else {
                continue;
            };
            let server = listener.local_addr().unwrap();
            let stream = TcpStream::connect(server).unwrap();
            let client = stream.local_addr().unwrap();
            let inode = inode_of(client, server).unwrap();
            assert!(listens(server.port()) && !listens(client.port()));
            let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&stream));
            let held = fs::read_link(link).unwrap();
            assert_eq!(held.to_str().unwrap(), format!("socket:[{inode}]"));
            assert_eq!(peer_of(client, server), Peer::Free);
            let us = [PathBuf::from("/proc/self")];
            assert_eq!(held_by(&us, client, server), Peer::Sandboxed);
            assert_eq!(held_by(&[], client, server), Peer::Free);
            drop(stream);
            assert_eq!(inode_of(client, server), None);
            assert_eq!(held_by(&us, client, server), Peer::Gone);
        }
    }

    /// Processes of other users, and parts of browsers, carry filters and do not show their files, and one of ours that has
    /// just ended does not, either.
    #[test]
    fn a_process_that_does_not_show_its_files_hides_only_if_it_is_ours_and_goes_on() {
        let place = |process: u32| Path::new("/proc").join(process.to_string());
        let us = std::process::id();
        assert!(!is_below(&place(1), us));
        assert!(!hides(&place(1), "socket:[0]"));
        assert!(!hides(
            &place(std::os::unix::process::parent_id()),
            "socket:[0]"
        ));
        let mut below = std::process::Command::new("sh")
            .args(["-c", "sleep 60 & echo $!; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = below.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        let grandchild: u32 = line.trim().parse().unwrap();
        assert!(is_below(&place(below.id()), us) && is_below(&place(grandchild), us));
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(grandchild.cast_signed()).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        below.kill().unwrap();
        // Nobody has waited for it yet: it is there, holds nothing, and does not show that to other users.
        while n_filters(&place(below.id()).join("status")).is_some() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(is_below(&place(below.id()), us));
        assert!(!hides(&place(below.id()), "socket:[0]"));
        below.wait().unwrap();
    }
}
