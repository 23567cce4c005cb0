//! Users and passwords of indexes and repositories, which are no arguments of processes.
//!
//! Every process of a machine reads the arguments of all others, and so does Python code of another environment: the sandbox
//! hides files, not processes. So pip, which passes such URLs on to the pip that makes places for builds and to git, gets them
//! without their passwords. All of them look into `.netrc` of their home, which is the scratch folder of the installation,
//! hidden from other environments.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;
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

    /// The text, a URL or lines that name some, without users and passwords, which are in the file when this returns. A second
    /// login of a host, and one of a host that is an IPv6 address, which pip does not look for in that file, stay where they
    /// are.
    pub(super) fn take_from(&self, text: &str) -> io::Result<String> {
        let mut known = self.known.borrow_mut();
        let n_known = known.len();
        let (mut taken, mut done) = (String::new(), 0);
        for url in urls(text) {
            let Some(parts) = parts(&text[url.clone()]) else {
                continue;
            };
            let (host, login) = (parts.host.to_ascii_lowercase(), parts.login());
            if *known.entry(host.clone()).or_insert_with(|| login.clone()) == login {
                taken.push_str(&text[done..url.start]);
                taken.push_str(&format!("{}://{host}{}", parts.scheme, parts.rest));
                done = url.end;
            }
        }
        taken.push_str(&text[done..]);
        if known.len() > n_known {
            self.write(&known)?;
        }
        Ok(taken)
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

/// Whether a line has a URL with a user or password that can be taken out of it.
pub(super) fn are_in(line: &str) -> bool {
    urls(line).any(|url| parts(&line[url]).is_some())
}

/// Where the URLs of a text are. One ends before a blank or a quote.
fn urls(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices("://").map(|(at, _)| {
        let is_scheme = |c: char| c.is_ascii_alphanumeric() || ['+', '-', '.'].contains(&c);
        let start = text[..at].rfind(|c| !is_scheme(c));
        let start = start.map_or(0, |before| {
            before + text[before..].chars().next().map_or(1, char::len_utf8)
        });
        let is_end = |c: char| c.is_whitespace() || c == '"' || c == '\'';
        let end = text[at..]
            .find(is_end)
            .map_or(text.len(), |length| at + length);
        start..end
    })
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

/// `None`: it has no user, or no name of a host, or is not of HTTP: a user of ssh says which account, not who asks.
fn parts(url: &str) -> Option<Parts<'_>> {
    let (scheme, behind) = url.split_once("://")?;
    let protocol = scheme.rsplit('+').next().unwrap_or(scheme);
    if !protocol.eq_ignore_ascii_case("https") && !protocol.eq_ignore_ascii_case("http") {
        return None;
    }
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

/// Quotes are written where they are needed only: curl, and so git, knows them since 7.84.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-._~+/=@:%$,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
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
            ("git+ssh://git@host/a.git", "git+ssh://git@host/a.git"),
            // Lines of requirement files.
            (
                "a @ git+https://bot:s3cret@git.example/a.git@main#egg=a ; python_version > \"3\"\n-i 'https://token@other.example/x'",
                "a @ git+https://git.example/a.git@main#egg=a ; python_version > \"3\"\n-i 'https://other.example/x'",
            ),
            ("ü://x é", "ü://x é"),
        ] {
            assert_eq!(logins.take_from(url).unwrap(), argument);
        }
        let read = "import netrc, sys; n = netrc.netrc(sys.argv[1]); \
                    print([n.authenticators(h)[::2] for h in ('index.example', 'other.example', 'git.example')])";
        let printed = std::process::Command::new("python3")
            .args(["-c", read])
            .arg(home.path().join(".netrc"))
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
        assert_eq!(
            printed.trim(),
            r#"[('u', 'p "w\\'), ('token', ''), ('bot', 's3cret')]"#
        );
        assert_eq!(std::fs::read_to_string(elsewhere).unwrap(), "as it was");
    }
}
