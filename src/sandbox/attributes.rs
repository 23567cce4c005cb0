//! Changes of modes, owners, times and extended attributes, which Landlock does not know, and of a file's size by its name,
//! which it knows since its version 3 (Linux 6.2).
//!
//! Without this, code in the sandbox could not read a hidden file but could make it readable for everybody. To refuse these
//! calls is no answer either: copying a file, unpacking an archive and pip all make them, on files of their own. So the
//! kernel stops a process that makes such a call and tells the supervisor (`seccomp_unotify(2)`), which is outside of the
//! sandbox. The supervisor
//!
//! 1. reads the arguments out of the memory of the process,
//! 2. opens the file that they name, without any right to its content (`O_PATH`): from here on it deals with this very file,
//!    whatever the process puts in its place meanwhile,
//! 3. looks whether that file lies below a folder that the sandbox may write to,
//! 4. and makes the change itself, so the process never makes the call. (To let the call go on would be a race: the
//!    process could change the arguments between check and use.)
//!
//! Signals are handed over in the same way where Landlock lets them out (`signals`), and so are every start of a process or
//! thread (`starts`) and every lock of a part of a file (`locks`), to be counted.
//!
//! Set-user-id bits are taken off. What the supervisor cannot read or open it refuses.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, XattrFlags,
    chmodat, chownat, fstat, ftruncate, openat, openat2, removexattr, setxattr, utimensat,
};
use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use super::locks;
use super::signals::{self, Kin, Sender};
use super::starts::{self, Count};
use super::supervisor_link::{Roots, SupervisorLink};
use super::syscalls::architecture;

/// `fchmodat2`, which is too new for libc's tables.
const FCHMODAT2: i64 = 452;
/// Marks the instructions that notify, until they are given their real action.
const MARK: u16 = 0x5357;
const SECCOMP_SET_MODE_FILTER: libc::c_uint = 1;
/// `SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV`: only a deadly signal ends the wait for an answer.
const WAIT_KILLABLE_RECV: libc::c_ulong = 1 << 5;
/// `BPF_RET | BPF_K`.
const RETURN: u16 = 0x06;
const MAX_PATH_BYTES: usize = 4096;
const MAX_NAME_BYTES: usize = 256;
/// What the kernel takes of an extended attribute.
const MAX_VALUE_BYTES: usize = 64 << 10;
/// The bits of a mode that can be set: not those that give a program the rights of its owner.
const MODE_BITS: u32 = 0o1777;

/// The calls that the supervisor makes on behalf of the sandbox.
pub(super) const BROKERED: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_truncate,
];

/// Whether this kernel notifies (Linux 5.0; the file that lists the actions has it).
pub(super) fn is_supported() -> bool {
    let actions = std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail");
    actions.is_ok_and(|actions| actions.contains("user_notif")) && program(true, true).is_ok()
}

/// The filter that hands the calls over, with `signals` those that send signals, with `counted` those that start or lock
/// something, too. seccompiler has no such action, so the filter is built with another one, whose marked instructions are
/// changed.
fn program(signals: bool, counted: bool) -> Result<BpfProgram, String> {
    let target = architecture()?;
    let signals = if signals { signals::BROKERED } else { &[] };
    let starts = if counted { starts::BROKERED } else { &[] };
    let numbers = BROKERED.iter().chain(signals).chain(starts);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        numbers.map(|number| (*number, Vec::new())).collect();
    if counted {
        let locks = locks::REQUESTS.map(|request| {
            let (is, request) = (SeccompCmpOp::Eq, u64::from(request.cast_unsigned()));
            SeccompRule::new(vec![SeccompCondition::new(
                1,
                SeccompCmpArgLen::Dword,
                is,
                request,
            )?])
        });
        let locks = locks.into_iter().collect::<Result<_, _>>();
        rules.insert(libc::SYS_fcntl, locks.map_err(|error| error.to_string())?);
    }
    let notify = SeccompAction::Trace(u32::from(MARK));
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, notify, target)
        .map_err(|error| error.to_string())?;
    let mut program: BpfProgram = filter.try_into().map_err(|error| format!("{error}"))?;
    let marked = libc::SECCOMP_RET_TRACE | u32::from(MARK);
    for instruction in &mut program {
        if instruction.code == RETURN && instruction.k == marked {
            instruction.k = libc::SECCOMP_RET_USER_NOTIF;
        }
    }
    Ok(program)
}

/// Puts the filter that notifies in force for this thread and its descendants; where the notifications come.
#[expect(
    unsafe_code,
    reason = "there is no safe form of seccomp(2) with a listener"
)]
pub(super) fn listen(signals: bool) -> io::Result<OwnedFd> {
    rustix::thread::set_no_new_privs(true)?;
    let install = |flags: libc::c_ulong, counted: bool| {
        let program = program(signals, counted).map_err(io::Error::other)?;
        let filter = libc::sock_fprog {
            len: libc::c_ushort::try_from(program.len()).map_err(io::Error::other)?,
            filter: program.as_ptr().cast::<libc::sock_filter>().cast_mut(),
        };
        // SAFETY: `filter` describes `program`, whose instructions have the layout of the kernel's, and both live until the call
        // returns. The number that it returns is a new file of ours.
        unsafe {
            let listener = libc::syscall(
                libc::SYS_seccomp,
                SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const filter,
            );
            match i32::try_from(listener) {
                Ok(listener @ 0..) => Ok(OwnedFd::from_raw_fd(listener)),
                _ => Err(io::Error::last_os_error()),
            }
        }
    };
    // Whoever sends a signal to itself gets it before its call is answered, and must not be woken by it: the call would end
    // as interrupted, or be made once more. Kernels before Linux 5.19 cannot promise that.
    let whole = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | WAIT_KILLABLE_RECV;
    match install(whole, true) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            install(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER, false)
        }
        listener => listener,
    }
}

/// The supervisor's side.
#[derive(Debug)]
pub struct Broker {
    listener: OwnedFd,
    roots: Roots,
    /// The process that entered the sandbox.
    program: u32,
    kin: Kin,
}

impl Broker {
    /// Waits for the program at the other end of a link to enter its sandbox; `None`: it never will.
    ///
    /// # Errors
    /// What came is no listener.
    pub fn accept(link: &SupervisorLink, program: u32, kin: Kin) -> io::Result<Option<Self>> {
        let received = link.receive()?;
        Ok(received.map(|(listener, roots)| Self {
            listener,
            roots,
            program,
            kin,
        }))
    }

    /// Answers until there is no process left in the sandbox.
    pub fn serve(&self) {
        let own = std::process::id().cast_signed();
        let mut tasks = Count::of(starts::MAX_TASKS);
        let mut locks = Count::of(locks::MAX_LOCKS);
        let counted = |may, error| match may {
            true => Answer::GoOn,
            false => Answer::Made(Err(error)),
        };
        loop {
            match receive(&self.listener) {
                Ok(call) => {
                    let answer = match i64::from(call.data.nr) {
                        number if starts::BROKERED.contains(&number) => {
                            let may = tasks.may_add(|| (self.kin.n_tasks)(own));
                            counted(may, Errno::AGAIN)
                        }
                        libc::SYS_fcntl => {
                            let may = locks.may_add(|| (self.kin.n_locks)(own));
                            counted(may, Errno::NOLCK)
                        }
                        _ => Answer::Made(self.answer(&call)),
                    };
                    // Whoever asked may have been killed meanwhile.
                    let _ = send(&self.listener, call.id, answer);
                }
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                // Who asked was killed before it was heard.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                    if is_hung_up(&self.listener) {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }

    /// Decides about one call and makes the change; the result is what the call returns in the
    /// process. After the arguments were read, it asks once more whether the process still waits:
    /// if not, its id may be that of another one by now.
    fn answer(&self, call: &libc::seccomp_notif) -> Result<(), Errno> {
        let process = Process(call.pid);
        if let Some(sent) = signals::decode(&process, &call.data)? {
            // As below.
            if !is_waiting(&self.listener, call.id) {
                return Err(Errno::PERM);
            }
            let is_program = process.group() == Some(self.program);
            let has_layers = self.roots.scratch.is_some() && !is_program;
            return sent.deliver(Sender {
                kin: self.kin,
                hidden: has_layers.then(|| self.program.cast_signed()),
            });
        }
        let (file, change) = decode(&process, &call.data)?;
        let target = file.open(&process)?;
        // What was read belongs to who asked only if it is still there to be answered.
        if !is_waiting(&self.listener, call.id) {
            return Err(Errno::PERM);
        }
        let place = place_of(&target)?;
        if !self.roots.has_landlock && has_other_names(&target)? {
            return Err(Errno::PERM);
        }
        let is_program = process.group() == Some(self.program);
        self.roots.check(&place, &change, is_program)?;
        change.make(&target)
    }
}

impl Roots {
    /// The folders themselves stay as they are: who empties and counts them must be able to read them.
    pub(super) fn check(
        &self,
        place: &Path,
        change: &Change,
        is_program: bool,
    ) -> Result<(), Errno> {
        let is_below = |folder: &PathBuf| place.starts_with(folder) && place != folder;
        let is_of_times = matches!(change, Change::Times(_));
        let is_allowed = match &self.scratch {
            Some(scratch) if !is_program => is_below(scratch),
            _ => {
                self.writable.iter().any(is_below)
                    || (is_of_times && self.deposit.iter().any(is_below))
                    || (is_program && self.scratch.as_deref() == Some(place))
            }
        };
        match change {
            _ if !is_allowed => Err(Errno::PERM),
            // What writing is held to by the kernel.
            Change::Size(size) if *size > self.file_bytes => Err(Errno::FBIG),
            _ => Ok(()),
        }
    }
}

/// Where a file is.
pub(super) fn place_of(file: &OwnedFd) -> Result<PathBuf, Errno> {
    let place = rustix::fs::readlinkat(CWD, own(file), Vec::new())?;
    Ok(PathBuf::from(OsString::from_vec(place.into_bytes())))
}

/// Whether a file can be found under another name, maybe elsewhere.
fn has_other_names(file: &OwnedFd) -> Result<bool, Errno> {
    let found = fstat(file)?;
    let is_folder = FileType::from_raw_mode(found.st_mode).is_dir();
    Ok(!is_folder && found.st_nlink > 1)
}

/// A name of one of our own files that can be used where a path is asked for.
fn own(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// The thread that made a call, and waits.
pub(super) struct Process(pub(super) u32);

impl Process {
    /// The process that the thread belongs to.
    pub(super) fn group(&self) -> Option<u32> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
        line.trim().parse().ok()
    }

    /// The process that a number of an open file stands for.
    pub(super) fn opened(&self, number: i32) -> Result<i32, Errno> {
        let about = std::fs::read_to_string(format!("/proc/{}/fdinfo/{number}", self.0));
        let about = about.map_err(|_| Errno::BADF)?;
        let pid = about.lines().find_map(|line| line.strip_prefix("Pid:"));
        let pid: i32 = pid
            .and_then(|pid| pid.trim().parse().ok())
            .ok_or(Errno::BADF)?;
        // It has ended.
        if pid > 0 { Ok(pid) } else { Err(Errno::SRCH) }
    }

    /// Up to `most` bytes of the memory of the process.
    fn bytes(&self, at: u64, most: usize) -> Result<Vec<u8>, Errno> {
        let failed = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::PERM);
        let memory = File::open(format!("/proc/{}/mem", self.0)).map_err(|_| Errno::PERM)?;
        let mut bytes = vec![0; most];
        let n_read = memory.read_at(&mut bytes, at).map_err(failed)?;
        bytes.truncate(n_read);
        Ok(bytes)
    }

    /// So many bytes of the memory of the process.
    fn exactly(&self, at: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let bytes = self.bytes(at, length)?;
        (bytes.len() == length).then_some(bytes).ok_or(Errno::FAULT)
    }

    /// A text that ends in a zero byte, in the memory of the process.
    fn text(&self, at: u64, most: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = self.bytes(at, most)?;
        let end = bytes.iter().position(|byte| *byte == 0);
        bytes.truncate(end.ok_or(Errno::NAMETOOLONG)?);
        Ok(bytes)
    }

    /// A number of 64 bits in the memory of the process.
    fn word(&self, at: u64) -> Result<i64, Errno> {
        let bytes = self.exactly(at, 8)?;
        bytes
            .try_into()
            .map(i64::from_ne_bytes)
            .map_err(|_| Errno::FAULT)
    }

    /// Two times that lie one behind the other in the memory of the process, each as seconds and a
    /// fraction in units of so many nanoseconds. No address means: now, for both.
    fn times(&self, at: u64, nanoseconds: i64) -> Result<Timestamps, Errno> {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_NOW,
        };
        if at == 0 {
            return Ok(Timestamps {
                last_access: now,
                last_modification: now,
            });
        }
        let time = |at: u64| -> Result<Timespec, Errno> {
            let fraction = self.word(behind(at, 8)?)?;
            Ok(Timespec {
                tv_sec: self.word(at)?,
                tv_nsec: fraction.checked_mul(nanoseconds).ok_or(Errno::INVAL)?,
            })
        };
        Ok(Timestamps {
            last_access: time(at)?,
            last_modification: time(behind(at, 16)?)?,
        })
    }
}

/// An address some bytes behind another.
fn behind(at: u64, n_bytes: u64) -> Result<u64, Errno> {
    at.checked_add(n_bytes).ok_or(Errno::FAULT)
}

/// The file that a call names.
pub(super) enum Named {
    /// Open in the process.
    Open(i32),
    Path {
        folder: i32,
        path: Vec<u8>,
        follows_links: bool,
    },
}

impl Named {
    fn at(process: &Process, folder: i32, path: u64, flags: u64) -> Result<Self, Errno> {
        let path = process.text(path, MAX_PATH_BYTES)?;
        let empty = flags & libc::AT_EMPTY_PATH as u64 != 0;
        if path.is_empty() && empty && folder != libc::AT_FDCWD {
            return Ok(Self::Open(folder));
        }
        Ok(Self::Path {
            folder,
            path,
            follows_links: flags & libc::AT_SYMLINK_NOFOLLOW as u64 == 0,
        })
    }

    /// The file itself, without a right to its content.
    pub(super) fn open(&self, process: &Process) -> Result<OwnedFd, Errno> {
        let thread = process.0;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let of_process = |number: i32| {
            let link = match number {
                libc::AT_FDCWD => format!("/proc/{thread}/cwd"),
                number => format!("/proc/{thread}/fd/{number}"),
            };
            let opened = openat(CWD, link, flags, Mode::empty());
            opened.map_err(|_| Errno::BADF)
        };
        match self {
            Self::Open(number) => of_process(*number),
            Self::Path {
                folder,
                path,
                follows_links,
            } => {
                if path.is_empty() {
                    return Err(Errno::NOENT);
                }
                if let Some(number) = open_file(path, thread) {
                    return of_process(number);
                }
                let folder = match path.first() {
                    Some(b'/') => openat(CWD, "/", flags, Mode::empty())?,
                    _ => of_process(*folder)?,
                };
                let link = match follows_links {
                    true => OFlags::empty(),
                    false => OFlags::NOFOLLOW,
                };
                // `/proc/self` would be the supervisor's own.
                let resolve = ResolveFlags::NO_MAGICLINKS;
                let opened = openat2(
                    &folder,
                    path.as_slice(),
                    flags | link,
                    Mode::empty(),
                    resolve,
                );
                match opened {
                    Err(Errno::NOSYS) => open_in_its_place(&folder, path, flags | link),
                    opened => opened,
                }
            }
        }
    }
}

/// Where there is no `openat2`: `RestrictSUIDSGID=` of systemd, which `DynamicUser=` means too, takes it away. A magic link may lead
/// to a file that has no name here, or another one's; so what was opened has to be what is in the place where it says that it is.
fn open_in_its_place(folder: &OwnedFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let opened = openat(folder, path, flags, Mode::empty())?;
    let place = place_of(&opened)?;
    let found = openat(CWD, place, flags | OFlags::NOFOLLOW, Mode::empty())?;
    let (opened_stat, found_stat) = (fstat(&opened)?, fstat(&found)?);
    let is_same =
        (opened_stat.st_dev, opened_stat.st_ino) == (found_stat.st_dev, found_stat.st_ino);
    is_same.then_some(opened).ok_or(Errno::LOOP)
}

/// The number in `/proc/self/fd/N`, as the C library writes a file that is open where a call takes a path only.
fn open_file(path: &[u8], thread: u32) -> Option<i32> {
    let path = std::str::from_utf8(path).ok()?;
    let own = format!("/proc/{thread}/fd/");
    let number = path
        .strip_prefix("/proc/self/fd/")
        .or_else(|| path.strip_prefix("/proc/thread-self/fd/"))
        .or_else(|| path.strip_prefix("/dev/fd/"))
        .or_else(|| path.strip_prefix(own.as_str()))?;
    number.parse().ok()
}

/// What is to be changed.
pub(super) enum Change {
    Mode(u32),
    Owner(Option<Uid>, Option<Gid>),
    Times(Timestamps),
    Set {
        name: Vec<u8>,
        value: Vec<u8>,
        flags: XattrFlags,
    },
    Remove(Vec<u8>),
    /// In bytes.
    Size(u64),
}

impl Change {
    fn owner(user: u64, group: u64) -> Self {
        let known = |id: u64| (id as u32 != u32::MAX).then_some(id as u32);
        Self::Owner(
            known(user).map(Uid::from_raw),
            known(group).map(Gid::from_raw),
        )
    }

    fn make(&self, file: &OwnedFd) -> Result<(), Errno> {
        let path = own(file);
        match self {
            Self::Mode(mode) => {
                let mode = Mode::from_raw_mode(mode & MODE_BITS);
                chmodat(CWD, path, mode, AtFlags::empty())
            }
            Self::Owner(user, group) => {
                chownat(file.as_fd(), "", *user, *group, AtFlags::EMPTY_PATH)
            }
            Self::Times(times) => utimensat(CWD, path, times, AtFlags::empty()),
            Self::Set { name, value, flags } => setxattr(path, of_user(name)?, value, *flags),
            Self::Remove(name) => removexattr(path, of_user(name)?),
            Self::Size(size) => {
                match FileType::from_raw_mode(fstat(file)?.st_mode) {
                    FileType::RegularFile => {}
                    FileType::Directory => return Err(Errno::ISDIR),
                    _ => return Err(Errno::INVAL),
                }
                // Somebody may have a lease on it, which is not waited for.
                let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
                ftruncate(openat(CWD, path, flags, Mode::empty())?, *size)
            }
        }
    }
}

/// Extended attributes that mean nothing to the kernel.
fn of_user(name: &[u8]) -> Result<&[u8], Errno> {
    name.starts_with(b"user.")
        .then_some(name)
        .ok_or(Errno::PERM)
}

/// What a call means. Its arguments are in the order of the manual's pages.
pub(super) fn decode(
    process: &Process,
    call: &libc::seccomp_data,
) -> Result<(Named, Change), Errno> {
    const HERE: i32 = libc::AT_FDCWD;
    const NO_LINK: u64 = libc::AT_SYMLINK_NOFOLLOW as u64;
    let [a, b, c, d, e, _] = call.args;
    let folder = a as i32;
    let at = |folder, path, flags| Named::at(process, folder, path, flags);
    let mode = |mode: u64| Change::Mode(mode as u32);
    let set = |name: u64, value: u64, length: u64, flags: u64| {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > MAX_VALUE_BYTES {
            return Err(Errno::TOOBIG);
        }
        Ok(Change::Set {
            name: process.text(name, MAX_NAME_BYTES)?,
            value: process.exactly(value, length)?,
            flags: XattrFlags::from_bits(flags as u32).ok_or(Errno::INVAL)?,
        })
    };
    let remove = |name: u64| Ok::<_, Errno>(Change::Remove(process.text(name, MAX_NAME_BYTES)?));
    Ok(match i64::from(call.nr) {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod => (at(HERE, a, 0)?, mode(b)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chown => (at(HERE, a, 0)?, Change::owner(b, c)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_lchown => (at(HERE, a, NO_LINK)?, Change::owner(b, c)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_utime => (at(HERE, a, 0)?, Change::Times(whole_seconds(process, b)?)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_utimes => (at(HERE, a, 0)?, Change::Times(process.times(b, 1000)?)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_futimesat => (at(folder, b, 0)?, Change::Times(process.times(c, 1000)?)),
        libc::SYS_fchmod => (Named::Open(folder), mode(b)),
        libc::SYS_fchmodat => (at(folder, b, 0)?, mode(c)),
        FCHMODAT2 => (at(folder, b, d)?, mode(c)),
        libc::SYS_fchown => (Named::Open(folder), Change::owner(b, c)),
        libc::SYS_fchownat => (at(folder, b, e)?, Change::owner(c, d)),
        libc::SYS_utimensat => {
            let named = match b {
                0 => Named::Open(folder),
                path => at(folder, path, d)?,
            };
            (named, Change::Times(process.times(c, 1)?))
        }
        libc::SYS_setxattr => (at(HERE, a, 0)?, set(b, c, d, e)?),
        libc::SYS_lsetxattr => (at(HERE, a, NO_LINK)?, set(b, c, d, e)?),
        libc::SYS_fsetxattr => (Named::Open(folder), set(b, c, d, e)?),
        libc::SYS_removexattr => (at(HERE, a, 0)?, remove(b)?),
        libc::SYS_lremovexattr => (at(HERE, a, NO_LINK)?, remove(b)?),
        libc::SYS_fremovexattr => (Named::Open(folder), remove(b)?),
        // The kernel takes a size below zero for a mistake.
        libc::SYS_truncate if b.cast_signed() < 0 => return Err(Errno::INVAL),
        libc::SYS_truncate => (at(HERE, a, 0)?, Change::Size(b)),
        _ => return Err(Errno::PERM),
    })
}

/// The times of `utime`, which are in whole seconds.
#[cfg(target_arch = "x86_64")]
fn whole_seconds(process: &Process, at: u64) -> Result<Timestamps, Errno> {
    if at == 0 {
        return process.times(0, 1);
    }
    let time = |at| -> Result<Timespec, Errno> {
        Ok(Timespec {
            tv_sec: process.word(at)?,
            tv_nsec: 0,
        })
    };
    Ok(Timestamps {
        last_access: time(at)?,
        last_modification: time(behind(at, 8)?)?,
    })
}

#[expect(unsafe_code, reason = "there is no safe form of these requests")]
fn request<T>(listener: &OwnedFd, number: libc::Ioctl, value: &mut T) -> io::Result<()> {
    // SAFETY: each caller passes the structure that its request is defined with, which lives until the call returns.
    let done = unsafe { libc::ioctl(listener.as_raw_fd(), number, &raw mut *value) };
    match done {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits for the next call.
fn receive(listener: &OwnedFd) -> io::Result<libc::seccomp_notif> {
    let mut call = libc::seccomp_notif {
        id: 0,
        pid: 0,
        flags: 0,
        data: libc::seccomp_data {
            nr: 0,
            arch: 0,
            instruction_pointer: 0,
            args: [0; 6],
        },
    };
    request(listener, libc::SECCOMP_IOCTL_NOTIF_RECV, &mut call)?;
    Ok(call)
}

/// What becomes of a call.
enum Answer {
    /// It was made by the supervisor.
    Made(Result<(), Errno>),
    /// The kernel makes it.
    GoOn,
}

fn send(listener: &OwnedFd, id: u64, answer: Answer) -> io::Result<()> {
    let (error, flags) = match answer {
        Answer::Made(made) => (made.err().map_or(0, |error| -error.raw_os_error()), 0),
        Answer::GoOn => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
    };
    let mut response = libc::seccomp_notif_resp {
        id,
        val: 0,
        error,
        flags,
    };
    request(listener, libc::SECCOMP_IOCTL_NOTIF_SEND, &mut response)
}

/// Whether who made a call still waits for its answer, so that its number is nobody else's.
fn is_waiting(listener: &OwnedFd, mut id: u64) -> bool {
    request(listener, libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &mut id).is_ok()
}

/// Whether no process is left that the filter holds.
fn is_hung_up(listener: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut files = [PollFd::new(listener, PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let polled = poll(&mut files, Some(&at_once));
    polled.is_err() || files[0].revents().contains(PollFlags::HUP)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_KIN: Kin = Kin {
        below: |_| std::collections::BTreeSet::new(),
        parent: |_| None,
        n_tasks: |_| 0,
        n_locks: |_| 0,
    };

    #[test]
    fn files_that_are_open_are_known_by_the_names_that_the_c_library_gives_them() {
        for (path, number) in [
            ("/proc/self/fd/5", Some(5)),
            ("/dev/fd/0", Some(0)),
            ("/proc/77/fd/5", Some(5)),
            ("/proc/78/fd/5", None),
            ("/proc/self/fd/5/x", None),
            ("/tmp/x", None),
        ] {
            assert_eq!(open_file(path.as_bytes(), 77), number, "{path}");
        }
    }

    #[test]
    fn changes_are_made_below_writable_folders_and_only_times_below_deposits() {
        let dir = tempfile::tempdir().unwrap();
        let listener = File::open("/dev/null").unwrap().into();
        let broker = Broker {
            listener,
            roots: Roots {
                writable: vec![dir.path().join("scratch")],
                deposit: vec![dir.path().join("files")],
                scratch: None,
                has_landlock: true,
                file_bytes: 100,
            },
            program: 1,
            kin: NO_KIN,
        };
        let now = Process(0).times(0, 1).unwrap();
        let check = |place: &str, change: &Change| {
            broker.roots.check(&dir.path().join(place), change, false)
        };
        assert!(check("scratch/a/b", &Change::Mode(0o777)).is_ok());
        assert!(check("scratch", &Change::Mode(0o300)).is_err());
        assert!(check("scratch/a", &Change::Size(100)).is_ok());
        assert_eq!(check("scratch/a", &Change::Size(101)), Err(Errno::FBIG));
        assert_eq!(check("files/a", &Change::Size(0)), Err(Errno::PERM));
        assert!(check("files/a", &Change::Times(now)).is_ok());
        let now = Process(0).times(0, 1).unwrap();
        for place in ["files/a", "scratch-of-another/a", "data", ""] {
            assert_eq!(check(place, &Change::Mode(0)), Err(Errno::PERM), "{place}");
        }
        assert_eq!(check("data", &Change::Times(now)), Err(Errno::PERM));
    }

    #[test]
    fn only_the_program_itself_changes_what_the_second_layer_may_not_write() {
        let listener = File::open("/dev/null").unwrap().into();
        let broker = Broker {
            listener,
            roots: Roots {
                writable: vec!["/d/scratch".into(), "/d/checkouts".into()],
                deposit: vec!["/d/files".into()],
                scratch: Some("/d/scratch".into()),
                has_landlock: true,
                file_bytes: 100,
            },
            program: 1,
            kin: NO_KIN,
        };
        let check = |place: &str, is_program| {
            broker.roots.check(
                Path::new(place),
                &Change::Times(Process(0).times(0, 1).unwrap()),
                is_program,
            )
        };
        for place in ["/d/checkouts/a", "/d/files/a"] {
            assert!(
                check(place, true).is_ok() && check(place, false).is_err(),
                "{place}"
            );
        }
        assert!(check("/d/scratch/a", true).is_ok() && check("/d/scratch/a", false).is_ok());
        assert!(check("/d/scratch", true).is_ok() && check("/d/scratch", false).is_err());
    }
}
