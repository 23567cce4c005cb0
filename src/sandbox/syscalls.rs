//! seccomp: system calls that no code of a repository needs, and that reach other processes, the kernel or the network.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::Network;

/// What a type of socket is, beside its flags.
const SOCKET_TYPE_MASK: u64 = 0xf;
/// `setxattrat`, `removexattrat` and `file_setattr`, which are too new for libc's tables: their elders are the
/// supervisor's to do.
const NEWER_ATTRIBUTE_CALLS: [i64; 3] = [463, 466, 469];
/// Requests that reach what only looks as if it were the caller's own.
const REFUSED_IOCTLS: &[u64] = &[
    // `FS_IOC_SETFLAGS` and `FS_IOC_FSSETXATTR`: attributes of files, by way of a file that is only open for reading.
    0x4008_6602,
    0x401c_5820,
    // Typing into a terminal, whose shell is the user's (`TIOCSTI`, `TIOCLINUX`).
    0x5412,
    0x541c,
    // Whom signals are sent to that come with input (`FIOSETOWN`, `SIOCSPGRP`).
    0x8901,
    0x8902,
];
/// Requests of `fcntl` for signals that come with input: which signal, and to whom, which may be any process of the user
/// (`F_SETOWN`, `F_SETSIG`, `F_SETOWN_EX`); for a lease, which keeps others waiting that open the file (`F_SETLEASE`); for news
/// of a folder (`F_NOTIFY`); and for locks of parts of a file that belong to the open file, and are not seen while that is on
/// its way in a socket (`F_OFD_SETLK`, `F_OFD_SETLKW`; see `locks`).
const REFUSED_REQUESTS: [u64; 7] = [8, 10, 15, 37, 38, 1024, 1026];

/// Calls that are refused in every sandbox: they reach other processes, the kernel's own
/// interfaces, or memory that no limit counts.
const ALWAYS_REFUSED: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    // Signals with a value: others can be sent, within the sandbox.
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
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
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // Memory that belongs to no process, so that no limit counts it, and that may outlive all of them.
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semctl,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // Keeps pages in a pipe that were taken out of a process, whole large ones for a small part of each.
    libc::SYS_vmsplice,
    // The names of what others make and open in folders that cannot be listed.
    libc::SYS_inotify_add_watch,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
];
/// Bits of `clone` that make namespaces: in one of its own, a process has all of root's powers over the kernel's interfaces.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];
/// Memory that is shared and of no file: it stays when nothing but a small part is mapped any more, or none of it counts as
/// in use by a process, so that no limit holds it.
const SHARED_WITHOUT_FILE: u64 = (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u64;
/// Threads with open files of their own, which the kernel does not list with those of their process.
const THREAD_FILES: u64 = (libc::CLONE_THREAD | libc::CLONE_FILES) as u64;
/// Options of sockets that let the kernel keep more for each than the supervisor counts
/// (`process::descendants::buffer_bytes`).
const BUFFER_OPTIONS: [libc::c_int; 2] = [libc::SO_SNDBUF, libc::SO_SNDBUFFORCE];
/// Calls with a process as their first argument, 0 for the caller: Landlock lets them reach any process of the user.
const OF_PROCESSES: &[i64] = &[
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
];
/// `IOPRIO_WHO_PROCESS`.
const IOPRIO_PROCESS: u64 = 1;
/// Without a network, what is left of sockets is pairs of them.
const OF_SERVERS: &[i64] = &[
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
];

/// Whether this kernel has seccomp, and our filters can be built for this processor.
pub(super) fn is_supported() -> bool {
    Path::new("/proc/sys/kernel/seccomp/actions_avail").exists()
        && filter(Network::None, true).is_ok()
        && filter(Network::Open, false).is_ok()
}

/// Puts the filters in force for this thread and its descendants. `is_ours`: it may choose processors for what it starts.
pub(super) fn restrict(network: Network, is_ours: bool) -> io::Result<()> {
    for program in [filter(network, is_ours), without_clone3(), without_x32()] {
        let program = program.map_err(io::Error::other)?;
        seccompiler::apply_filter(&program).map_err(io::Error::other)?;
    }
    Ok(())
}

/// The arguments of `clone3` lie in memory, where a filter cannot look. It answers as on a kernel that has none, and the C
/// library falls back to `clone`.
fn without_clone3() -> Result<BpfProgram, String> {
    let target = architecture()?;
    let rules = [(libc::SYS_clone3, Vec::new())].into_iter().collect();
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, missing, target)
        .map_err(|error| error.to_string())?;
    filter.try_into().map_err(|error| format!("{error}"))
}

/// x86-64 has a second numbering of its calls, x32, which few kernels have. Some of its numbers are those of the first with a
/// bit more, others are its own, and no rule here is written for them: so all of it is answered as on a kernel that has none.
/// The program is written out, as seccompiler compares numbers for equality only. Source: seccomp(2), `asm/unistd_x32.h`.
fn without_x32() -> Result<BpfProgram, String> {
    const LOAD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const NUMBER_AT: u32 = 0;
    const ARCHITECTURE_AT: u32 = 4;
    const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
    const X32: u32 = 0x4000_0000;
    let of = |code, yes, no, k| sock_filter {
        code,
        jt: yes,
        jf: no,
        k,
    };
    if architecture()? != TargetArch::x86_64 {
        return Ok(vec![of(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW)]);
    }
    let missing = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    Ok(vec![
        of(LOAD, 0, 0, ARCHITECTURE_AT),
        // Of another architecture everything is refused by the other filters.
        of(JUMP_IF_EQUAL, 0, 3, AUDIT_ARCH_X86_64),
        of(LOAD, 0, 0, NUMBER_AT),
        of(JUMP_IF_AT_LEAST, 0, 1, X32),
        of(RETURN, 0, 0, missing),
        of(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ])
}

/// The architecture that we were built for.
pub(super) fn architecture() -> Result<TargetArch, String> {
    let name = std::env::consts::ARCH;
    name.try_into()
        .map_err(|_| format!("seccomp is not known for {name}"))
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Of several conditions on one call, each refuses by itself. With a proxy, a connection that is made by sending (TCP Fast
/// Open) is refused: Landlock looks at `connect` only.
fn filter(network: Network, is_ours: bool) -> Result<BpfProgram, String> {
    let target = architecture()?;
    let mut rules = Rules::new();
    let mut refuse = |number: i64| {
        rules.insert(number, Vec::new());
    };
    ALWAYS_REFUSED.iter().copied().for_each(&mut refuse);
    NEWER_ATTRIBUTE_CALLS.into_iter().for_each(&mut refuse);
    if network != Network::Open {
        OF_SERVERS.iter().copied().for_each(&mut refuse);
    }
    if network == Network::None {
        refuse(libc::SYS_socket);
        refuse(libc::SYS_connect);
    }
    rules.extend(sockets(network)?);
    rules.extend(others(is_ours)?);
    if let Network::Proxy(_) = network {
        for (number, flags) in [
            (libc::SYS_sendto, 3),
            (libc::SYS_sendmsg, 2),
            (libc::SYS_sendmmsg, 3),
        ] {
            let fast_open = libc::MSG_FASTOPEN as u64;
            let connects = condition(flags, SeccompCmpOp::MaskedEq(fast_open), fast_open)?;
            rules.insert(number, vec![rule(vec![connects])?]);
        }
    }
    let ioctls = REFUSED_IOCTLS.iter();
    let ioctls = ioctls.map(|request| rule(vec![condition(1, SeccompCmpOp::Eq, *request)?]));
    let ioctls = ioctls.collect::<Result<Vec<_>, _>>()?;
    rules.insert(libc::SYS_ioctl, ioctls);
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, target)
        .map_err(|error| error.to_string())?;
    filter.try_into().map_err(|error| format!("{error}"))
}

/// What reaches other processes or makes namespaces, by the arguments.
fn others(is_ours: bool) -> Result<Rules, String> {
    let mut rules = Rules::new();
    let another = |argument| condition(argument, SeccompCmpOp::Ne, 0);
    for number in OF_PROCESSES {
        rules.insert(*number, vec![rule(vec![another(0)?])?]);
    }
    if !is_ours {
        rules.insert(libc::SYS_sched_setaffinity, vec![rule(vec![another(0)?])?]);
    }
    // A pointer to new limits, of another process. The upper half of a pointer may be all that is not zero.
    let limits = |half| {
        let pointer = SeccompCondition::new(2, half, SeccompCmpOp::Ne, 0);
        let pointer = pointer.map_err(|error| error.to_string())?;
        rule(vec![another(0)?, pointer])
    };
    rules.insert(libc::SYS_prlimit64, vec![limits(SeccompCmpArgLen::Qword)?]);
    rules.insert(
        libc::SYS_setpriority,
        vec![rule(vec![another(0)?])?, rule(vec![another(1)?])?],
    );
    let not_a_process = condition(0, SeccompCmpOp::Ne, IOPRIO_PROCESS)?;
    rules.insert(
        libc::SYS_ioprio_set,
        vec![rule(vec![not_a_process])?, rule(vec![another(1)?])?],
    );
    let requests =
        REFUSED_REQUESTS.map(|request| rule(vec![condition(1, SeccompCmpOp::Eq, request)?]));
    let requests = requests.into_iter().collect::<Result<Vec<_>, _>>()?;
    rules.insert(libc::SYS_fcntl, requests);
    let namespaces = NAMESPACES.map(|bit| {
        let bit = u64::from(bit.cast_unsigned());
        rule(vec![condition(0, SeccompCmpOp::MaskedEq(bit), bit)?])
    });
    let mut clones = namespaces.into_iter().collect::<Result<Vec<_>, _>>()?;
    let own_files = SeccompCmpOp::MaskedEq(THREAD_FILES);
    clones.push(rule(vec![condition(
        0,
        own_files,
        libc::CLONE_THREAD as u64,
    )?])?);
    rules.insert(libc::SYS_clone, clones);
    let shared = SeccompCmpOp::MaskedEq(SHARED_WITHOUT_FILE);
    let shared = condition(3, shared, SHARED_WITHOUT_FILE)?;
    rules.insert(libc::SYS_mmap, vec![rule(vec![shared])?]);
    let buffers = BUFFER_OPTIONS.map(|option| {
        rule(vec![
            condition(1, SeccompCmpOp::Eq, libc::SOL_SOCKET as u64)?,
            condition(2, SeccompCmpOp::Eq, option as u64)?,
        ])
    });
    let buffers = buffers.into_iter().collect::<Result<Vec<_>, _>>()?;
    rules.insert(libc::SYS_setsockopt, buffers);
    Ok(rules)
}

/// Which sockets are refused, by their arguments: family, type.
///
/// Sockets by path (`AF_UNIX`) lead to daemons that trust their caller, so they cannot be made at all. Pairs of connected
/// ones can, but for datagrams, which can still be sent to any path, and for families of which the kernel would load a
/// module.
fn sockets(network: Network) -> Result<Rules, String> {
    let datagrams = SeccompCmpOp::MaskedEq(SOCKET_TYPE_MASK);
    let of_type = |kind: libc::c_int| condition(1, datagrams.clone(), kind as u64);
    let family = |operator, family: libc::c_int| condition(0, operator, family as u64);
    let mut rules = Rules::new();
    rules.insert(
        libc::SYS_socketpair,
        vec![
            rule(vec![of_type(libc::SOCK_DGRAM)?])?,
            rule(vec![of_type(libc::SOCK_RAW)?])?,
            rule(vec![family(SeccompCmpOp::Ne, libc::AF_UNIX)?])?,
        ],
    );
    let by_path = rule(vec![family(SeccompCmpOp::Eq, libc::AF_UNIX)?])?;
    match network {
        Network::None => {}
        Network::Open => {
            rules.insert(libc::SYS_socket, vec![by_path]);
        }
        Network::Proxy(_) => {
            let other_family = rule(vec![
                family(SeccompCmpOp::Ne, libc::AF_INET)?,
                family(SeccompCmpOp::Ne, libc::AF_INET6)?,
            ])?;
            let others = [
                libc::SOCK_DGRAM,
                libc::SOCK_RAW,
                libc::SOCK_SEQPACKET,
                libc::SOCK_RDM,
            ];
            let others = others.map(|kind| rule(vec![of_type(kind)?]));
            let mut all = vec![other_family];
            all.extend(others.into_iter().collect::<Result<Vec<_>, _>>()?);
            // TCP of another name (multipath TCP) is none that Landlock knows.
            let protocol = condition(2, SeccompCmpOp::Gt, libc::IPPROTO_TCP as u64)?;
            all.push(rule(vec![protocol])?);
            rules.insert(libc::SYS_socket, all);
        }
    }
    Ok(rules)
}

fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, String> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
        .map_err(|error| error.to_string())
}

fn rule(conditions: Vec<SeccompCondition>) -> Result<SeccompRule, String> {
    SeccompRule::new(conditions).map_err(|error| error.to_string())
}
