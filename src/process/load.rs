//! How busy the processors of this machine are at the moment.

use std::fs;

/// How many threads run or could run, on the whole machine and but for the one that asks; `None`: the kernel does not say.
pub fn n_runnable() -> Option<usize> {
    of_loadavg(&fs::read_to_string("/proc/loadavg").ok()?)
}

/// A kernel that counts none at all, though somebody reads this, does not count.
fn of_loadavg(text: &str) -> Option<usize> {
    let (n_running, _) = text.split_whitespace().nth(3)?.split_once('/')?;
    n_running.parse::<usize>().ok()?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::of_loadavg;

    #[test]
    fn who_asks_is_not_counted_and_a_kernel_that_does_not_count_is_seen() {
        assert_eq!(of_loadavg("0.09 5.67 13.04 3/812 12345\n"), Some(2));
        assert_eq!(of_loadavg("0.00 0.00 0.00 1/80 12\n"), Some(0));
        assert_eq!(of_loadavg("0.00 0.00 0.00 0/0 0\n"), None);
        assert_eq!(of_loadavg(""), None);
    }
}
