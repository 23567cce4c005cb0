//! Whether a compile ended because there was no memory left for it, and what to do then.
//!
//! The supervisor says so itself when it ends processes. The kernel ends them in silence: all that is seen is a signal, and a
//! counter for the whole machine; and Python that gets no more memory says no more than that.

use crate::process::memory::n_oom_kills;

/// How often the kernel had ended a process for memory before something began.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutOfMemory {
    before: Option<u64>,
}

impl OutOfMemory {
    pub(super) fn watch() -> Self {
        Self {
            before: n_oom_kills(),
        }
    }

    /// Why something ended, of whose end `text` is said; `None`: not because of memory, as far as can be known.
    pub(super) fn reason(self, text: &str, memory_bytes: u64) -> Option<String> {
        reason(text, memory_bytes, self.before, n_oom_kills())
    }
}

/// What to raise.
pub(super) fn advice(memory_bytes: u64) -> String {
    format!(
        "a compile may take {} MiB, which is `compile.memory_mib` of the configuration",
        memory_bytes >> 20
    )
}

fn reason(
    text: &str,
    memory_bytes: u64,
    before: Option<u64>,
    after: Option<u64>,
) -> Option<String> {
    let advice = advice(memory_bytes);
    let is_killed = text.contains("SIGKILL");
    match (before, after) {
        (Some(before), Some(after)) if is_killed && after > before => Some(format!(
            "the kernel had no memory left and ended a process of the compile: {advice}; or the machine, or the control group of \
             the server, needs more"
        )),
        // Where the kernel does not count, nothing else is known.
        (None, _) | (_, None) if is_killed => Some(format!(
            "a process of the compile was killed, which the kernel does when there is no memory left: {advice}"
        )),
        _ if text.contains("MemoryError") => Some(format!(
            "Python got no more memory: {advice}, for each of its processes and for all together"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::reason;

    /// How a Python host ended, and the kernel's counter before and after, say whether memory was the reason.
    #[test]
    fn a_signal_counts_as_a_lack_of_memory_if_the_kernel_counted_one() {
        let killed = "the Python host ended: signal: 9 (SIGKILL)";
        let why = |end, before, after| reason(end, 4 << 30, before, after);
        let text = why(killed, Some(1), Some(2)).unwrap();
        assert!(text.contains("the kernel had no memory left"), "{text}");
        assert!(text.contains("4096 MiB") && text.contains("`compile.memory_mib`"));
        assert_eq!(why(killed, Some(1), Some(1)), None);
        assert!(why(killed, None, None).unwrap().contains("was killed"));
        assert_eq!(why("the Python host ended", Some(1), Some(2)), None);
        let python = why("MemoryError: ", Some(1), Some(1)).unwrap();
        assert!(python.contains("Python got no more memory"), "{python}");
    }
}
