//! The socket between a sandboxed process and its supervisor.
//!
//! `steward supervise` starts a program with one end of a pair of sockets, whose number is in the variable
//! [`SUPERVISOR`]. Over it the program hands the listener of its seccomp filter to the supervisor, once, while it runs our
//! own code only; and it can read there what the supervisor had to do ("the processes together took more memory than they
//! may"). The end is closed in every program that is started from there.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg,
    socketpair,
};
use serde::{Deserialize, Serialize};

use super::SandboxPolicy;

/// The variable with the number of the program's end of the link.
pub const SUPERVISOR: &str = "STEWARD_SUPERVISOR";
/// A policy names a handful of folders.
const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// One end of the link.
#[derive(Debug)]
pub struct SupervisorLink(OwnedFd);

/// Where attributes of files may be changed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Roots {
    /// Everything may be changed below these.
    pub(super) writable: Vec<std::path::PathBuf>,
    /// Here only times may be.
    pub(super) deposit: Vec<std::path::PathBuf>,
    /// Where everybody may; only the program itself may elsewhere. Empty: there is no difference.
    pub(super) scratch: Option<std::path::PathBuf>,
    /// Files have no second name that leads out of the folders: Landlock keeps links from being made.
    pub(super) has_landlock: bool,
    /// Bytes of the largest file that can be made.
    pub(super) file_bytes: u64,
}

impl SupervisorLink {
    /// Both ends: the supervisor's, closed in what it starts, and the program's, which is not.
    ///
    /// # Errors
    /// Sockets have run out.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::empty(),
            None,
        )?;
        fcntl_setfd(&ours, FdFlags::CLOEXEC)?;
        Ok((Self(ours), theirs))
    }

    /// For fuzzing: the program's end of a pair, in this process.
    pub(super) fn of(end: OwnedFd) -> Self {
        Self(end)
    }

    /// The end that the supervisor of this process left to it; `None`: it has none, or has taken it already.
    #[expect(
        unsafe_code,
        reason = "a file that is inherited is known by its number only"
    )]
    pub fn inherited() -> Option<Self> {
        let number: i32 = std::env::var(SUPERVISOR).ok()?.parse().ok()?;
        // A number that is no open file of ours would make every use of it fail, or close another's.
        let flags = rustix::fs::readlinkat(
            rustix::fs::CWD,
            format!("/proc/self/fd/{number}"),
            Vec::new(),
        );
        let is_socket = flags.is_ok_and(|to| to.as_bytes().starts_with(b"socket:"));
        if number < 3 || !is_socket {
            return None;
        }
        // SAFETY: the number is that of an open socket, which the supervisor left to this process for this purpose; it is
        // taken once, by the main function of a subcommand.
        let end = unsafe { OwnedFd::from_raw_fd(number) };
        fcntl_setfd(&end, FdFlags::CLOEXEC).ok()?;
        Some(Self(end))
    }

    /// Gives the listener of a filter to the supervisor.
    pub(super) fn hand_over(
        &self,
        listener: &OwnedFd,
        policy: &SandboxPolicy,
        has_landlock: bool,
    ) -> io::Result<()> {
        let writable = std::iter::once(&policy.scratch).chain(&policy.writable);
        let roots = Roots {
            writable: writable.cloned().collect(),
            deposit: policy.deposit.clone(),
            scratch: policy.is_ours.then(|| policy.scratch.clone()),
            has_landlock,
            file_bytes: policy.file_bytes,
        };
        let text = serde_json::to_vec(&roots).map_err(io::Error::other)?;
        if text.len() > MAX_MESSAGE_BYTES {
            return Err(io::Error::other("the sandbox names too many folders"));
        }
        let files = [listener.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&files)) {
            return Err(io::Error::other("there is no room for a file"));
        }
        let parts = [IoSlice::new(&text)];
        sendmsg(&self.0, &parts, &mut control, SendFlags::empty())?;
        Ok(())
    }

    /// Waits for a listener; `None`: the other end is closed, and none will come.
    pub(super) fn receive(&self) -> io::Result<Option<(OwnedFd, Roots)>> {
        let mut text = vec![0; MAX_MESSAGE_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(
            &self.0,
            &mut [IoSliceMut::new(&mut text)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        let listener = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        let Some(listener) = listener else {
            return Ok(None);
        };
        let roots = serde_json::from_slice(&text[..received.bytes]).map_err(io::Error::other)?;
        Ok(Some((listener, roots)))
    }

    /// Tells the program something that it can read when it likes. What it does not read in time is lost.
    pub fn notify(&self, text: &str) {
        // A program that has ended reads nothing.
        let _ = send(
            &self.0,
            text.as_bytes(),
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        );
    }

    /// The supervisor's reports since the last call, a line each.
    pub fn notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        let mut text = [0; 1024];
        while let Ok((n_bytes @ 1.., _)) = recv(&self.0, &mut text, RecvFlags::DONTWAIT) {
            notices.push(String::from_utf8_lossy(&text[..n_bytes]).into_owned());
        }
        notices
    }
}
