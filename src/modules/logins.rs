//! Users and passwords of indexes, which are no arguments of pip's.
//!
//! Every process of a machine reads the arguments of all others, and so does Python code of another environment: the sandbox
//! hides files, not processes. So pip gets the URL of an index without them and finds them in `.netrc` of its home, the scratch
//! folder of the installation, which is hidden from other environments. The pip that makes places for builds is started
//! by that one with the same URL, and has the same home.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use tempfile::NamedTempFile;

/// Those of one installation.
pub(super) struct Logins {
    home: PathBuf,
    /// User and password by host: `.netrc` knows no more than one login of a host.
    known: RefCell<BTreeMap<String, (String, String)>>,
}

impl Logins {
    pub(super) fn new(home: &Path) -> Self {
        Self {
            home: home.to_owned(),
            known: RefCell::default(),
        }
    }

    /// The URL without its user and password, which are in the file when this returns. A second login of a host, and one of a
    /// host that is an IPv6 address, which pip does not look for in that file, stay in their URL.
    pub(super) fn take_from(&self, url: &str) -> io::Result<String> {
        let Some(parts) = parts(url) else {
            return Ok(url.to_owned());
        };
        let (host, login) = (parts.host.to_ascii_lowercase(), parts.login());
        let mut known = self.known.borrow_mut();
        match known.get(&host) {
            Some(other) if *other != login => return Ok(url.to_owned()),
            Some(_) => {}
            None => {
                known.insert(host.clone(), login);
                self.write(&known)?;
            }
        }
        Ok(format!("{}://{host}{}", parts.scheme, parts.rest))
    }

    /// A build may have put anything in the place of the file, a link among it: what is there is replaced, never opened.
    fn write(&self, known: &BTreeMap<String, (String, String)>) -> io::Result<()> {
        let mut file = NamedTempFile::new_in(&self.home)?;
        for (host, (user, password)) in known {
            let [user, password] = [user, password].map(|text| quoted(text));
            writeln!(file, "machine {host} login {user} password {password}")?;
        }
        file.persist(self.home.join(".netrc"))?;
        Ok(())
    }
}

/// `https://user:password@host:8443/simple`.
struct Parts<'u> {
    scheme: &'u str,
    user: &'u str,
    password: &'u str,
    host: &'u str,
    /// `:8443/simple`
    rest: &'u str,
}

impl Parts<'_> {
    fn login(&self) -> (String, String) {
        let decoded = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
        (decoded(self.user), decoded(self.password))
    }
}

/// `None`: it has no user, or no name of a host.
fn parts(url: &str) -> Option<Parts<'_>> {
    let (scheme, behind) = url.split_once("://")?;
    let end = behind.find(['/', '?', '#']).unwrap_or(behind.len());
    let at = behind[..end].rfind('@')?;
    let (user, password) = behind[..at].split_once(':').unwrap_or((&behind[..at], ""));
    let place = &behind[at + 1..];
    let length = place.find([':', '/', '?', '#']).unwrap_or(place.len());
    let (host, rest) = place.split_at(length);
    let is_name = |c: char| c.is_ascii_alphanumeric() || ['-', '.', '_'].contains(&c);
    (!host.is_empty() && host.chars().all(is_name)).then_some(Parts {
        scheme,
        user,
        password,
        host,
        rest,
    })
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_has_no_login_and_python_finds_it_in_the_file() {
        let home = tempfile::tempdir().unwrap();
        let elsewhere = home.path().join("elsewhere");
        std::fs::write(&elsewhere, "as it was").unwrap();
        // A build has put a link there.
        std::os::unix::fs::symlink(&elsewhere, home.path().join(".netrc")).unwrap();
        let logins = Logins::new(home.path());
        for (url, argument) in [
            (
                "https://u:p%20%22w%5C@Index.example:8443/simple?x@y",
                "https://index.example:8443/simple?x@y",
            ),
            ("https://token@other.example/", "https://other.example/"),
            (
                "https://u:p%20%22w%5C@index.example",
                "https://index.example",
            ),
            // These stay as they are.
            ("https://v:q@index.example/b", "https://v:q@index.example/b"),
            ("https://plain.example/a@b", "https://plain.example/a@b"),
            ("https://u:p@[::1]:80/", "https://u:p@[::1]:80/"),
        ] {
            assert_eq!(logins.take_from(url).unwrap(), argument);
        }
        let read = "import netrc, sys; n = netrc.netrc(sys.argv[1]); \
                    print([n.authenticators(h)[::2] for h in ('index.example', 'other.example')])";
        let printed = std::process::Command::new("python3")
            .args(["-c", read])
            .arg(home.path().join(".netrc"))
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
        assert_eq!(printed.trim(), r#"[('u', 'p "w\\'), ('token', '')]"#);
        assert_eq!(std::fs::read_to_string(elsewhere).unwrap(), "as it was");
    }
}
