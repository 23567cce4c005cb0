//! For fuzzing: what code in a sandbox can say to its supervisor.

use std::path::PathBuf;

use super::attributes::{BROKERED, Process, decode, place_of};
use super::supervisor_link::{Roots, SupervisorLink};

/// Behind the bytes of the fuzzer, so that what is read there without end finds one.
const PADDING_BYTES: usize = 8 << 10;
const N_ARGUMENTS: usize = 6;

/// Any bytes as a call that the kernel hands to the supervisor, and as a message on the link: nothing may be changed outside
/// of the folders of the sandbox, of which there are none.
pub fn links(bytes: &[u8]) {
    message(bytes);
    call(bytes);
}

fn message(bytes: &[u8]) {
    if let Ok(roots) = serde_json::from_slice::<Roots>(bytes) {
        assert!(serde_json::to_vec(&roots).is_ok());
    }
    let Ok((ours, theirs)) = SupervisorLink::pair() else {
        return;
    };
    let text = String::from_utf8_lossy(bytes);
    // Empty messages look like the end.
    if !text.is_empty() && text.len() <= 1024 {
        ours.notify(&text);
        let heard = SupervisorLink::of(theirs).notices();
        assert_eq!(heard, [text]);
    }
}

/// The first byte chooses a call. Each of the six arguments has two: what it is, and a number. The rest is memory that
/// arguments can point to.
fn call(bytes: &[u8]) {
    let Some((number, rest)) = bytes.split_first() else {
        return;
    };
    let n_bytes = rest.len().min(2 * N_ARGUMENTS);
    let (described, memory) = rest.split_at(n_bytes);
    let mut memory = memory.to_vec();
    memory.resize(memory.len() + PADDING_BYTES, 0);
    let mut args = [0; N_ARGUMENTS];
    for (arg, pair) in args.iter_mut().zip(described.chunks_exact(2)) {
        let value = u64::from(pair[1]);
        *arg = match pair[0] % 5 {
            0 => value,
            1 => memory.as_ptr() as u64 + value,
            2 => libc::AT_FDCWD as u64,
            3 => u64::MAX - value,
            _ => value << 56 | value,
        };
    }
    let number = BROKERED[usize::from(*number) % BROKERED.len()];
    let Ok(number) = i32::try_from(number) else {
        return;
    };
    let data = libc::seccomp_data {
        nr: number,
        arch: 0,
        instruction_pointer: 0,
        args,
    };
    let process = Process(std::process::id());
    let Ok((file, change)) = decode(&process, &data) else {
        return;
    };
    if let Ok(target) = file.open(&process) {
        let roots = Roots {
            writable: vec![PathBuf::from("/nonexistent/of/the/fuzzer")],
            ..Roots::default()
        };
        let allowed = place_of(&target).map(|place| roots.check(&place, &change, false));
        assert!(!matches!(allowed, Ok(Ok(()))), "{args:?}");
    }
}
