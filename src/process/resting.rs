//! What a server that rests gives back to the kernel.
//!
//! An idle server is mostly program text: what its start needed (migrations, the command line, TLS certificates), what the last
//! compile needed, and what the kernel maps around each of those pages. It is also free pieces of the heap, from which the
//! allocator returns only what lies at the end. Neither is needed while nothing happens. So whenever a server has been at rest
//! for a few seconds, it gives both back, once. The text stays in the kernel's cache of files: a page that is needed again costs
//! a microsecond, not a read.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// How often a server looks whether it rests.
const PERIOD: Duration = Duration::from_secs(3);
/// Who uses less than this much processor time in a period, a hundredth of a processor, rests.
const AT_REST: Duration = Duration::from_millis(30);

/// Gives back what is not needed each time that the process comes to rest.
pub async fn run(shutdown: CancellationToken) {
    let (mut before, mut has_given) = (processor_time(), false);
    while shutdown
        .run_until_cancelled(tokio::time::sleep(PERIOD))
        .await
        .is_some()
    {
        let now = processor_time();
        let is_at_rest = now.saturating_sub(before) < AT_REST;
        if is_at_rest && !has_given {
            // A large heap takes milliseconds.
            let _ = tokio::task::spawn_blocking(give_back).await;
        }
        has_given = is_at_rest;
        before = now;
    }
}

/// Processor time of this process so far, without its children.
fn processor_time() -> Duration {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike;

    let usage = getrusage(UsageWho::RUSAGE_SELF);
    usage.map_or(Duration::ZERO, |usage| {
        let time = usage.user_time() + usage.system_time();
        Duration::from_micros(u64::try_from(time.num_microseconds()).unwrap_or(0))
    })
}

/// Gives back free pieces of the heap, and the pages of program text.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        #[expect(unsafe_code, reason = "there is no safe form of malloc_trim(3)")]
        // SAFETY: it may be called at any time, by any thread.
        unsafe {
            libc::malloc_trim(0);
        }
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    if let Some((start, end)) = text_at(&maps, give_back as *const () as usize) {
        #[expect(unsafe_code, reason = "there is no safe form of madvise(2)")]
        // SAFETY: the range is a private, unchanged mapping of a file, which reads the same when it is mapped again.
        let _ = unsafe {
            let start = std::ptr::with_exposed_provenance_mut(start);
            rustix::mm::madvise(start, end - start.addr(), rustix::mm::Advice::LinuxDontNeed)
        };
    }
}

/// Start and end of the mapping with the function at this address, if it is program text that nobody can have changed: mapped
/// from a file, privately, and not writable.
fn text_at(maps: &str, function: usize) -> Option<(usize, usize)> {
    maps.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let start = usize::from_str_radix(start, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        let is_text = fields.next() == Some("r-xp") && fields.nth(3).is_some();
        (is_text && (start..end).contains(&function)).then_some((start, end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kilobytes of the text of this program that are in memory for it.
    fn resident_text() -> usize {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let (start, end) = text_at(&maps, give_back as *const () as usize).unwrap();
        let lines = maps.lines();
        let mut own = lines.skip_while(|line| !line.starts_with(&format!("{start:x}-{end:x} ")));
        let resident = own.find_map(|line| line.strip_prefix("Rss:")).unwrap();
        resident.trim_end_matches("kB").trim().parse().unwrap()
    }

    /// Given: a program whose text was read from end to end. Expected: most of it is given back, and it runs on as before.
    #[test]
    fn program_text_is_given_back_and_there_again_when_it_is_needed() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let (start, end) = text_at(&maps, give_back as *const () as usize).unwrap();
        let n_zeros = || {
            let addresses = (start..end).step_by(512);
            // SAFETY: each byte lies in a readable mapping.
            #[expect(unsafe_code, reason = "it is the program itself that is read")]
            let bytes = addresses.map(|address| unsafe {
                std::ptr::with_exposed_provenance::<u8>(address).read_volatile()
            });
            bytes.filter(|byte| *byte == 0).count()
        };
        let before = n_zeros();
        let resident = resident_text();
        // Other tests run at the same time, and need some of it.
        assert!((0..20).any(|_| {
            give_back();
            resident_text() < resident / 2
        }));
        assert_eq!(n_zeros(), before);
    }

    /// Given: mappings as the kernel lists them. Expected: only text that is from a file, and cannot be written, is found.
    #[test]
    fn only_text_that_nobody_can_have_changed_is_found() {
        let file = "55d0a000-55d0c000 r-xp 0000 fe:01 42   /usr/bin/steward\n";
        assert_eq!(text_at(file, 0x55d0_b000), Some((0x55d0_a000, 0x55d0_c000)));
        assert_eq!(text_at(file, 0x55d0_c000), None);
        for other in [
            "55d0a000-55d0c000 rwxp 0000 fe:01 42 /usr/bin/steward",
            "55d0a000-55d0c000 r--p 0000 fe:01 42 /usr/bin/steward",
            "55d0a000-55d0c000 r-xs 0000 fe:01 42 /usr/bin/steward",
            "55d0a000-55d0c000 r-xp 0000 00:00 0",
            "",
        ] {
            assert_eq!(text_at(other, 0x55d0_b000), None, "{other}");
        }
    }
}
