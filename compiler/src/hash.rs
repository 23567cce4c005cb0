//! A fast hasher for keys of our own making (ids, symbols, short texts), and how parts go into a digest.
//!
//! Tables that use it never decide an order of output. Keys can be chosen by a model's author, who can only slow down
//! his own compile.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

pub type BuildHasher = BuildHasherDefault<FastHasher>;
pub type Map<K, V> = HashMap<K, V, BuildHasher>;
pub type Set<K> = HashSet<K, BuildHasher>;

/// Adds one of several parts to a cryptographic digest, its length first: `ab`, `c` and `a`, `bc` make two digests.
pub fn add_part(hasher: &mut impl md5::Digest, part: impl AsRef<[u8]>) {
    let part = part.as_ref();
    hasher.update((part.len() as u64).to_be_bytes());
    hasher.update(part);
}

/// Spreads 32 bits of a hash over 64, for tables that keep 32 bits of each: they take their groups
/// from the low bits, and what tells the entries of a group apart from the high ones.
pub fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[derive(Default, Clone, Copy)]
pub struct FastHasher(u64);

const MULTIPLIER: u64 = 0xf135_7aea_2e62_a9c5;

impl FastHasher {
    #[inline]
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(MULTIPLIER);
    }
}

impl Hasher for FastHasher {
    #[inline]
    fn finish(&self) -> u64 {
        let mixed = self.0 ^ (self.0 >> 32);
        mixed.wrapping_mul(MULTIPLIER) ^ (mixed >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.add(u64::from_le_bytes(chunk.try_into().unwrap_or_default()));
        }
        let rest = chunks.remainder();
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.add(u64::from_le_bytes(word));
        }
        self.add(bytes.len() as u64);
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.add(u64::from(value));
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.add(u64::from(value));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.add(value);
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.add(value as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_split_otherwise_make_another_digest() {
        use md5::Digest;
        let digest = |parts: &[&str]| {
            let mut hasher = md5::Md5::new();
            parts.iter().for_each(|part| add_part(&mut hasher, part));
            hasher.finalize()
        };
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
        assert_eq!(digest(&["ab", "c"]), digest(&["ab", "c"]));
    }
}
