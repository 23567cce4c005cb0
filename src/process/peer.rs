//! Who is at the other end of a connection on this machine: whether it is a process that we sandboxed.
//!
//! Such a process may speak to the network, but not to a server that trusts every process of its machine. The kernel can
//! forbid it other ports, not one port; so the server looks who it is. What is sandboxed carries more seccomp filters than we
//! do, as does all that it starts, and nothing takes them away.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

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

/// The same as [`peer_of`], when these processes are the sandboxed ones.
fn held_by(sandboxed: &[PathBuf], client: SocketAddr, server: SocketAddr) -> Peer {
    let Some(inode) = inode_of(client, server) else {
        return Peer::Gone;
    };
    let socket = format!("socket:[{inode}]");
    let is_held = sandboxed.iter().any(|process| {
        let Ok(descriptors) = fs::read_dir(process.join("fd")) else {
            // It has ended; or it hides, which none has a reason to.
            return process.join("fd").exists();
        };
        descriptors
            .flatten()
            .any(|entry| fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == &*socket))
    });
    if is_held { Peer::Sandboxed } else { Peer::Free }
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
}
