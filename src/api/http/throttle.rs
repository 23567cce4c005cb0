//! How often an address may try tokens: after wrong ones it waits.
//!
//! An address that shows a wrong token gets an entry: the moment until which its tries are paid for. Each try while it has
//! one costs `INTERVAL`, and again if its token is wrong; a right one gets its cost back. Some tries may be made in advance (`BURST`), more
//! have to wait, and those that would wait longer than `PATIENCE` are refused without a look at their token, so that trying
//! on many connections at once is no faster. Other addresses notice nothing. There are at most `MAX_ADDRESSES` entries; the
//! one that is soonest over goes when there are more: who has thousands of addresses is slowed down less, and still keeps
//! nobody out.
//!
//! Behind a proxy or NAT many clients have one address, and a program there that goes on showing a token that is good no longer
//! must not keep the others out. So of this machine, and of an address that has shown a right token within a day, a token is
//! looked at first, and only a wrong one waits or is refused.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two tries of an address: 2 a second.
const INTERVAL: Duration = Duration::from_millis(500);
/// Tries that need not wait, for whoever mistypes.
const BURST: u32 = 5;
/// Longer than this nobody waits; it is refused.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest time after which an address that showed wrong tokens is free again.
const MAX_DEBT: Duration = Duration::from_secs(15);
const MAX_ADDRESSES: usize = 4096;
/// How long it counts that an address has shown a right token.
const KNOWN: Duration = Duration::from_secs(24 * 60 * 60);

/// The addresses that have shown wrong tokens.
#[derive(Debug, Default)]
pub(in crate::api) struct Throttle {
    /// So that nothing is locked while all is well.
    is_used: AtomicBool,
    paid_until: Mutex<HashMap<IpAddr, Instant>>,
    /// When addresses have last shown a right token.
    right: Mutex<HashMap<IpAddr, Instant>>,
}

/// What a try has to do.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::api) enum Turn {
    Go,
    Wait(Duration),
    Refuse,
}

impl Throttle {
    /// To be called before a token is looked at, or before a wrong one is answered.
    pub(in crate::api) fn turn(&self, address: IpAddr, now: Instant) -> Turn {
        if !self.is_used.load(Relaxed) {
            return Turn::Go;
        }
        let mut entries = locked(&self.paid_until);
        let Some(paid_until) = entries.get_mut(&address) else {
            return Turn::Go;
        };
        let debt = paid_until.saturating_duration_since(now);
        if debt.is_zero() {
            entries.remove(&address);
            self.is_used.store(!entries.is_empty(), Relaxed);
            return Turn::Go;
        }
        let wait = debt.saturating_sub(INTERVAL * BURST);
        if wait > PATIENCE {
            return Turn::Refuse;
        }
        *paid_until += INTERVAL;
        if wait.is_zero() {
            Turn::Go
        } else {
            Turn::Wait(wait)
        }
    }

    /// Whether a token of this address is looked at before its turn: only a wrong one has to wait.
    pub(in crate::api) fn is_judged_first(&self, address: IpAddr, now: Instant) -> bool {
        address.to_canonical().is_loopback()
            || locked(&self.right)
                .get(&address)
                .is_some_and(|last| now.saturating_duration_since(*last) < KNOWN)
    }

    /// The token was right; `has_paid`: after its turn.
    pub(in crate::api) fn right(&self, address: IpAddr, now: Instant, has_paid: bool) {
        *entry(&mut locked(&self.right), address, now) = now;
        if has_paid
            && self.is_used.load(Relaxed)
            && let Some(paid_until) = locked(&self.paid_until).get_mut(&address)
        {
            *paid_until = paid_until.checked_sub(INTERVAL).unwrap_or(*paid_until);
        }
    }

    /// The token was wrong.
    pub(in crate::api) fn wrong(&self, address: IpAddr, now: Instant) {
        let mut entries = locked(&self.paid_until);
        let paid_until = entry(&mut entries, address, now);
        *paid_until = (*paid_until).max(now) + INTERVAL;
        *paid_until = (*paid_until).min(now + MAX_DEBT);
        self.is_used.store(true, Relaxed);
    }
}

/// The entry of an address, `now` if it is new. There are so many at most: then the one of the earliest time goes.
fn entry(entries: &mut HashMap<IpAddr, Instant>, address: IpAddr, now: Instant) -> &mut Instant {
    if !entries.contains_key(&address) && entries.len() >= MAX_ADDRESSES {
        let earliest = entries.iter().min_by_key(|(_, time)| **time);
        if let Some((&earliest, _)) = earliest {
            entries.remove(&earliest);
        }
    }
    entries.entry(address).or_insert(now)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use crate::api::http::throttle::*;

    fn ip(n: u32) -> IpAddr {
        IpAddr::V4(n.into())
    }

    /// Input: wrong tokens from one address, or from 100 000 (docs/reference/security.md § 3.36). Answer: each such address waits or is refused for some seconds; others, and it afterwards, are heard at once.
    #[test]
    fn only_addresses_with_wrong_tokens_wait_and_not_for_ever() {
        let throttle = Throttle::default();
        let now = Instant::now();
        let mut n_tried = 0;
        for _ in 0..1000 {
            match throttle.turn(ip(1), now) {
                Turn::Refuse => {}
                Turn::Go | Turn::Wait(_) => {
                    n_tried += 1;
                    throttle.wrong(ip(1), now);
                }
            }
        }
        assert!((5..15).contains(&n_tried), "{n_tried}");
        assert_eq!(throttle.turn(ip(1), now), Turn::Refuse);
        assert_eq!(throttle.turn(ip(2), now), Turn::Go);
        for n in 10..100_000 {
            throttle.wrong(ip(n), now);
        }
        assert!(locked(&throttle.paid_until).len() <= MAX_ADDRESSES);
        assert_eq!(throttle.turn(ip(3), now), Turn::Go);
        let later = now + MAX_DEBT + INTERVAL * 40;
        assert_eq!(throttle.turn(ip(1), later), Turn::Go);
    }

    #[test]
    fn right_tokens_cost_nothing() {
        let throttle = Throttle::default();
        let now = Instant::now();
        throttle.wrong(ip(1), now);
        for _ in 0..100 {
            assert_eq!(throttle.turn(ip(1), now), Turn::Go);
            throttle.right(ip(1), now, true);
        }
    }

    #[test]
    fn an_address_that_has_shown_a_right_token_is_judged_first_for_a_day() {
        let throttle = Throttle::default();
        let now = Instant::now();
        assert!(throttle.is_judged_first("127.0.0.2".parse().unwrap(), now));
        assert!(!throttle.is_judged_first(ip(1), now));
        throttle.right(ip(1), now, false);
        assert!(throttle.is_judged_first(ip(1), now + KNOWN / 2));
        assert!(!throttle.is_judged_first(ip(1), now + KNOWN));
        // It goes when there are too many, the one of longest ago first.
        for n in 2..10_000 {
            throttle.right(ip(n), now + INTERVAL, false);
        }
        assert!(locked(&throttle.right).len() <= MAX_ADDRESSES);
        assert!(!throttle.is_judged_first(ip(1), now));
        assert!(throttle.is_judged_first(ip(9_999), now));
    }
}
