//! Which repositories may be set by who does not run the server: over the API, with its token.
//!
//! Whoever has the token decides what is deployed, but not which services of the server's own network are asked. Addresses
//! that are written in a URL are judged here; those that a host name has are judged when it is connected to, and the
//! address that was judged is the one that is connected to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::url::{AddressPolicy, LocalPolicy, RepositoryUrl, UrlError};

/// Which hosts and folders are allowed. The default: hosts of the internet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepositoryRules {
    /// Hosts of private networks and this machine itself, too.
    pub allow_private: bool,
    /// Repositories of this machine below these folders.
    pub allow_local: Vec<PathBuf>,
}

/// What hosts a fetch may connect to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// All but link-local ones: for who runs the server.
    #[default]
    Any,
    /// Those of the internet only.
    Public,
}

impl RepositoryRules {
    /// Checks an address that somebody set. Reads the disk only for a local path.
    pub fn parse(&self, text: &str) -> Result<RepositoryUrl, UrlError> {
        let local = match self.allow_local.as_slice() {
            [] => LocalPolicy::Denied,
            folders => LocalPolicy::Beneath(folders.to_vec()),
        };
        let url = RepositoryUrl::parse(text, &AddressPolicy { http: false, local })?;
        match url.host() {
            Some(host) if !self.allow_private && is_named_private(host) => {
                Err(UrlError::PrivateHost)
            }
            _ => Ok(url),
        }
    }

    /// What the fetches of a repository that somebody set may reach.
    pub fn reach(&self) -> Reach {
        if self.allow_private {
            Reach::Any
        } else {
            Reach::Public
        }
    }
}

/// Whether a host is private by what it is called.
fn is_named_private(host: &str) -> bool {
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    let is_local_name = host == "localhost" || host.ends_with(".localhost");
    is_local_name || literal.parse().is_ok_and(is_private)
}

/// Whether an address is not one of the public internet: loopback, private and shared networks, link-local, multicast,
/// reserved, and whatever holds such an address of version 4 in one of version 6.
pub(super) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_private_v4(v4),
        IpAddr::V6(v6) => is_private_v6(v6),
    }
}

/// Source: the IANA registry of special-purpose addresses (RFC 6890).
fn is_private_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    v4.is_loopback()
        || v4.is_private()
        || v4.is_link_local()
        || v4.is_multicast()
        || v4.is_broadcast()
        || v4.is_documentation()
        || a == 0
        // Shared by the customers of a provider, and used within clouds.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (b == 18 || b == 19))
        || a >= 240
}

fn is_private_v6(v6: Ipv6Addr) -> bool {
    let segments = v6.segments();
    let v4_of = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        // Mapped; compatible (with `::` and `::1` among them); translated.
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low] => is_private_v4(v4_of(high, low)),
        [0, 0, 0, 0, 0, 0, ..] => true,
        // 6to4.
        [0x2002, high, low, ..] => is_private_v4(v4_of(high, low)),
        // Teredo and others of 2001::/23; documentation; discarded; translated at home.
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => true,
        [0x3fff, second, ..] if second < 0x1000 => true,
        [0x100, 0, 0, 0, ..] | [0x64, 0xff9b, 1, ..] => true,
        // Unique local, link-local, site-local, multicast; and what is not given out: all but 2000::/3.
        [first, ..] => first & 0xe000 != 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Input: loopback, private, shared, link-local, reserved addresses, also inside of IPv6 (docs/reference/security.md § 3.16). Answer: told apart from public ones.
    #[test]
    fn addresses_that_are_not_of_the_internet_are_known_in_every_disguise() {
        for private in [
            "127.0.0.1",
            "127.255.0.9",
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.100.100.200",
            "192.0.0.192",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.1.2.3",
            "::ffff:0:10.1.2.3",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001:0:1::",
            "2001:db8::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "100::1",
        ] {
            assert!(is_private(private.parse().unwrap()), "{private}");
        }
        for public in [
            "1.1.1.1",
            "100.63.0.1",
            "100.128.0.1",
            "172.32.0.1",
            "140.82.121.4",
            "198.20.0.1",
            "::ffff:140.82.121.4",
            "64:ff9b::8c52:7904",
            "2606:50c0:8000::153",
            "2a00:1450:4001:80b::200e",
            "2002:8c52:7904::1",
        ] {
            assert!(!is_private(public.parse().unwrap()), "{public}");
        }
    }

    /// Input: `http://127.0.0.1`, `[::1]`, `[::ffff:127.0.0.1]`, `169.254.169.254`, `0x7f000001`, `2130706433`, `localhost.` as a repository's host (docs/reference/security.md § 3.16). Answer: refused; with `allow_private` those that are well written and not link-local are taken.
    #[test]
    fn private_hosts_are_refused_unless_they_are_allowed() {
        let (strict, lax) = (
            RepositoryRules::default(),
            RepositoryRules {
                allow_private: true,
                ..RepositoryRules::default()
            },
        );
        for (url, is_allowed) in [
            ("http://127.0.0.1/x", true),
            ("https://127.0.0.1/x", true),
            ("https://[::1]/x", true),
            ("https://[::ffff:127.0.0.1]/x", true),
            ("https://[::ffff:a9fe:a9fe]/x", false),
            ("https://169.254.169.254/x", false),
            ("https://0x7f000001/x", false),
            ("https://0x7f.1/x", false),
            ("https://2130706433/x", false),
            ("https://127.1/x", false),
            ("https://0177.0.0.1/x", false),
            ("https://localhost./x", true),
            ("https://LOCALHOST/x", true),
            ("https://git.localhost/x", true),
            ("https://0.0.0.0/x", false),
            ("https://10.1.2.3:8443/x", true),
            ("ssh://git@192.168.1.1/x", true),
            ("git@100.64.0.1:x", true),
            ("git@[fd00::1]:x", true),
            ("/srv/git/x", false),
            ("file:///etc", false),
        ] {
            assert!(strict.parse(url).is_err(), "{url}");
            assert_eq!(lax.parse(url).is_ok(), is_allowed, "{url}");
        }
        for url in ["https://git.example.org/x", "git@git.example.org:x"] {
            assert!(strict.parse(url).is_ok(), "{url}");
        }
    }

    /// Input: `file:///etc`, `/var/lib/steward`, a relative path, a symlink out (docs/reference/security.md § 3.15). Answer: refused; with `allow_local` only what is below one of its folders.
    #[test]
    fn local_repositories_are_taken_from_the_named_folders_only() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in ["git/a", "other"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("other"), root.join("git/link")).unwrap();
        let rules = RepositoryRules {
            allow_local: vec![root.join("git")],
            ..RepositoryRules::default()
        };
        let parse = |path: &str| rules.parse(&format!("{}/{path}", root.display()));
        assert!(parse("git/a").is_ok());
        for path in ["other", "git/link", "git/../other", "git/missing", ""] {
            assert!(parse(path).is_err(), "{path}");
        }
        assert!(rules.parse("git/a").is_err());
        let strict = RepositoryRules::default();
        assert!(strict.parse(&root.join("git/a").to_string_lossy()).is_err());
    }
}
