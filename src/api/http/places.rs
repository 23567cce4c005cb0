//! Places that clients take: for connections, and for bodies that are on their way.
//!
//! There are so many in total and so many for one address. When they are all taken, a new client gets the place of one
//! that keeps its place without using it, from the address that has most; so a flood of idle clients displaces itself, and
//! who sends a request gets in. If nobody can be displaced, the new one is refused.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many places there are.
#[derive(Debug, Clone, Copy)]
pub(in crate::api) struct Limits {
    pub(in crate::api) total: usize,
    /// Places for one address. It does not count for clients on this machine: a reverse proxy is
    /// one, for all of its clients.
    pub(in crate::api) by_address: usize,
    /// Those of the total that only clients on this machine may take: health checks, and the
    /// operator.
    pub(in crate::api) for_loopback: usize,
}

/// Who holds a place.
pub(in crate::api) trait Holder {
    /// Whether it may lose its place to a new client, and how soon: lower goes first. `None`: it does work.
    fn rank(&self) -> Option<u8>;
    /// Its place is gone; it ends.
    fn end(&self);
}

#[derive(Debug)]
pub(in crate::api) struct Places<H> {
    limits: Limits,
    held: Mutex<Held<H>>,
}

#[derive(Debug)]
struct Held<H> {
    next: u64,
    n_held: usize,
    n_displaced: u64,
    /// The holders of each address by age: the oldest has the smallest number.
    by_address: HashMap<IpAddr, BTreeMap<u64, Arc<H>>>,
}

/// A place, given back when dropped.
#[derive(Debug)]
pub(in crate::api) struct Place<H> {
    places: Arc<Places<H>>,
    address: IpAddr,
    id: u64,
}

impl<H> Drop for Place<H> {
    fn drop(&mut self) {
        self.places.locked().remove(self.address, self.id);
    }
}

/// One client as far as limits go: whoever has an IPv6 network has all 2^64 addresses of it.
pub(in crate::api) fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}

impl<H: Holder> Places<H> {
    pub(in crate::api) fn new(limits: Limits) -> Arc<Self> {
        let held = Held {
            next: 0,
            n_held: 0,
            n_displaced: 0,
            by_address: HashMap::new(),
        };
        Arc::new(Self {
            limits,
            held: Mutex::new(held),
        })
    }

    /// A place for a client (see [`client_of`]); `None`: there is none, and nobody to be displaced.
    pub(in crate::api) fn admit(
        self: &Arc<Self>,
        address: IpAddr,
        holder: Arc<H>,
    ) -> Option<Place<H>> {
        let is_local = address.is_loopback();
        let mut held = self.locked();
        let n_own = held.by_address.get(&address).map_or(0, BTreeMap::len);
        if !is_local && n_own >= self.limits.by_address && !held.displace_one_of(address) {
            return None;
        }
        let reserved = if is_local {
            0
        } else {
            self.limits.for_loopback
        };
        let limit = self.limits.total.saturating_sub(reserved);
        if held.n_held >= limit && !held.displace(n_own) {
            return None;
        }
        let id = held.next;
        held.next += 1;
        held.n_held += 1;
        let own = held.by_address.entry(address).or_default();
        own.insert(id, holder);
        drop(held);
        Some(Place {
            places: Arc::clone(self),
            address,
            id,
        })
    }

    /// Ends somebody who does not use the place, if there is one. For when something else ran out, such as file handles.
    pub(in crate::api) fn displace_any(&self) -> bool {
        self.locked().displace(0)
    }

    /// Looks at all holders.
    pub(in crate::api) fn each(&self, mut look: impl FnMut(&H)) {
        let held = self.locked();
        for holder in held.by_address.values().flat_map(BTreeMap::values) {
            look(holder);
        }
    }
}

impl<H> Places<H> {
    fn locked(&self) -> MutexGuard<'_, Held<H>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many have lost their place to others so far.
    pub(in crate::api) fn n_displaced(&self) -> u64 {
        self.locked().n_displaced
    }
}

impl<H> Held<H> {
    /// Nothing when it was displaced before.
    fn remove(&mut self, address: IpAddr, id: u64) {
        let Some(own) = self.by_address.get_mut(&address) else {
            return;
        };
        if own.remove(&id).is_some() {
            self.n_held -= 1;
        }
        if own.is_empty() {
            self.by_address.remove(&address);
        }
    }
}

impl<H: Holder> Held<H> {
    /// Displaces somebody of the address that has most, or of the next one, but of none that has less than the new client,
    /// which has `n_own`: it would take from who is more modest.
    fn displace(&mut self, n_own: usize) -> bool {
        let most = self.by_address.iter().max_by_key(|(_, held)| held.len());
        let Some((&most, _)) = most else {
            return false;
        };
        if self.displace_one_of(most) {
            return true;
        }
        let mut others: Vec<(usize, IpAddr)> = self
            .by_address
            .iter()
            .map(|(address, held)| (held.len(), *address))
            .filter(|(n_held, _)| *n_held >= n_own)
            .collect();
        others.sort_unstable_by(|a, b| b.cmp(a));
        others
            .into_iter()
            .any(|(_, address)| self.displace_one_of(address))
    }

    /// The oldest of those who may go first.
    fn displace_one_of(&mut self, address: IpAddr) -> bool {
        let mut first: Option<(u8, u64)> = None;
        for (id, holder) in self.by_address.get(&address).into_iter().flatten() {
            match holder.rank() {
                Some(0) => {
                    first = Some((0, *id));
                    break;
                }
                Some(rank) if first.is_none_or(|(lowest, _)| rank < lowest) => {
                    first = Some((rank, *id));
                }
                _ => {}
            }
        }
        let Some((_, id)) = first else {
            return false;
        };
        if let Some(holder) = self.by_address.get(&address).and_then(|own| own.get(&id)) {
            holder.end();
        }
        self.remove(address, id);
        self.n_displaced += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::api::http::places::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    struct Client {
        rank: Option<u8>,
        is_ended: AtomicBool,
    }

    impl Holder for Client {
        fn rank(&self) -> Option<u8> {
            self.rank
        }

        fn end(&self) {
            self.is_ended.store(true, Ordering::Relaxed);
        }
    }

    fn client(rank: Option<u8>) -> Arc<Client> {
        Arc::new(Client {
            rank,
            is_ended: AtomicBool::new(false),
        })
    }

    fn is_ended(client: &Client) -> bool {
        client.is_ended.load(Ordering::Relaxed)
    }

    fn ip(text: &str) -> IpAddr {
        client_of(text.parse().unwrap())
    }

    const LIMITS: Limits = Limits {
        total: 6,
        by_address: 3,
        for_loopback: 1,
    };

    /// Input: more connections from one address than it may have (docs/reference/security.md § 4.3). Answer: its own oldest idle one goes, or the new one is refused.
    #[test]
    fn an_address_has_so_many_places_and_displaces_its_own() {
        let places = Places::new(LIMITS);
        let busy: Vec<_> = (0..3)
            .map(|_| places.admit(ip("192.0.2.1"), client(None)).unwrap())
            .collect();
        assert!(places.admit(ip("192.0.2.1"), client(Some(0))).is_none());
        assert!(places.admit(ip("192.0.2.2"), client(Some(0))).is_some());
        drop(busy);
        let (kept, fresh) = (client(Some(1)), client(Some(0)));
        let held = [&kept, &fresh, &client(Some(0))]
            .map(|client| places.admit(ip("192.0.2.1"), Arc::clone(client)).unwrap());
        let more = places.admit(ip("192.0.2.1"), client(None)).unwrap();
        assert!(is_ended(&fresh) && !is_ended(&kept));
        assert_eq!(places.locked().n_held, 3);
        drop((held, more));
        assert_eq!(places.locked().n_held, 0);
    }

    /// Input: all places taken by many idle connections, from one address or from many (docs/reference/security.md § 4.3). Answer: the address that has most loses one; who does work loses nothing.
    #[test]
    fn when_all_are_taken_the_address_with_most_gives_way() {
        let places = Places::new(LIMITS);
        let (idle, lonely) = (client(Some(0)), client(Some(0)));
        let _held = [
            places.admit(ip("192.0.2.1"), client(None)).unwrap(),
            places.admit(ip("192.0.2.1"), Arc::clone(&idle)).unwrap(),
            places.admit(ip("192.0.2.1"), client(None)).unwrap(),
            places.admit(ip("192.0.2.2"), Arc::clone(&lonely)).unwrap(),
            places.admit(ip("192.0.2.3"), client(None)).unwrap(),
        ];
        let _fourth = places.admit(ip("192.0.2.4"), client(None)).unwrap();
        assert!(is_ended(&idle) && !is_ended(&lonely));
        let _fifth = places.admit(ip("192.0.2.5"), client(None)).unwrap();
        assert!(is_ended(&lonely));
        assert!(places.admit(ip("192.0.2.6"), client(None)).is_none());
        // The last place is kept for this machine, and only that.
        let _local = places.admit(ip("127.0.0.1"), client(None)).unwrap();
        assert!(places.admit(ip("::1"), client(None)).is_none());
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_client() {
        assert_eq!(ip("2001:db8::1"), ip("2001:db8:0:0:ffff::2"));
        assert_ne!(ip("2001:db8::1"), ip("2001:db8:0:1::1"));
        assert_eq!(ip("::ffff:192.0.2.1"), ip("192.0.2.1"));
        assert!(ip("::1").is_loopback());
    }
}
