//! Connections to PostgreSQL whose other end is gone without a word, as when a cable or a firewall is cut: the kernel would
//! wait a quarter of an hour for an answer before it says so. Here it asks after a few seconds of silence, and gives up after
//! a few more; then the pool makes other connections, and whoever was waiting tries again.
//!
//! The driver does not let one set this on its sockets. So the sockets of this process are looked through for those that lead
//! to the port of the database. Only sockets are touched: closing a second handle of a file would end its locks.

use std::net::SocketAddr;
use std::time::Duration;

use rustix::net::{getpeername, sockopt};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// The first question after so much silence, and the time from one to the next.
const ASK_AFTER: Duration = Duration::from_secs(5);
/// Questions without an answer.
const N_QUESTIONS: u32 = 2;
/// What was sent is to be acknowledged within this time, in milliseconds.
const SENT_MS: u32 = 15_000;

/// Bounds the silence of all TCP connections of this process to that port. Where the system does not allow it, it is as before.
pub(super) fn bound_silence(port: u16) {
    let Ok(ourselves) = pidfd_open(getpid(), PidfdFlags::empty()) else {
        return;
    };
    let handles = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    for handle in handles.flatten() {
        let number = handle
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let is_socket = std::fs::read_link(handle.path())
            .is_ok_and(|target| target.to_string_lossy().starts_with("socket:"));
        let Some(number) = number.filter(|_| is_socket) else {
            continue;
        };
        let Ok(socket) = pidfd_getfd(&ourselves, number, PidfdGetfdFlags::empty()) else {
            continue;
        };
        let peer = getpeername(&socket).ok().flatten();
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
        if peer.is_some_and(|peer| peer.port() == port) {
            let _ = sockopt::set_socket_keepalive(&socket, true);
            let _ = sockopt::set_tcp_keepidle(&socket, ASK_AFTER);
            let _ = sockopt::set_tcp_keepintvl(&socket, ASK_AFTER);
            let _ = sockopt::set_tcp_keepcnt(&socket, N_QUESTIONS);
            let _ = sockopt::set_tcp_user_timeout(&socket, SENT_MS);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn connections_to_the_port_are_asked_after_and_others_are_left() {
        let to_ours = TcpListener::bind("127.0.0.1:0").unwrap();
        let to_other = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = to_ours.local_addr().unwrap().port();
        // The listeners stay, or the connections would be reset.
        let [ours, other] =
            [&to_ours, &to_other].map(|to| TcpStream::connect(to.local_addr().unwrap()).unwrap());
        bound_silence(port);
        assert_eq!(sockopt::tcp_keepidle(&ours).unwrap(), ASK_AFTER);
        assert_eq!(sockopt::tcp_user_timeout(&ours).unwrap(), SENT_MS);
        assert!(sockopt::socket_keepalive(&ours).unwrap());
        assert!(!sockopt::socket_keepalive(&other).unwrap());
    }
}
