//! Repositories that packages come from and that need credentials.
//!
//! What pip builds does not see the credentials of the server's user, and nor does the git that pip runs. A repository that
//! this git cannot have is copied by a git of ours, which runs nothing of it; then pip runs again, and finds the copy in the
//! repository's place. What pip's git is asked for is read in its trace. A build may write what looks like one, so only what
//! the project names is copied.

use std::cell::RefCell;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::Command;

use tempfile::NamedTempFile;

use super::credentials::{self, OF_GIT};
use super::{Error, InstallSandbox};
use crate::files::ScratchFolder;
use crate::process::{self, Launcher};
use crate::sandbox::Network;

/// More are not copied for one installation.
const MOST: usize = 64;
/// Bytes that are read of a trace at most.
const TRACE_BYTES: u64 = 4 << 20;
/// A build may write what looks like a trace: files of this machine are not copied for it.
const PROTOCOLS: &str = "https:http:ssh:git";

pub(super) struct Repositories {
    /// Runs git with the credentials.
    launcher: Launcher,
    memory_bytes: u64,
    /// The home directory of git, with nothing of ours in it.
    _home: ScratchFolder,
    /// A folder for each, and git's configuration that puts them in their places. Builds read it.
    pub(super) copies: ScratchFolder,
    trace: RefCell<NamedTempFile>,
    known: RefCell<Vec<String>>,
    /// What the project names.
    named: Vec<String>,
}

impl Repositories {
    /// `builds` is where their folders are made, `scratch` where builds write. All exist, and are without links.
    pub(super) fn new(
        sandbox: &InstallSandbox,
        builds: &Path,
        scratch: &Path,
        named: Vec<String>,
    ) -> Result<Self, Error> {
        let failed = || Error::io("cannot make a scratch folder");
        let folder = |prefix: &str| ScratchFolder::new(prefix, builds);
        let (home, copies) = (
            folder("git-").map_err(failed())?,
            folder("copies-").map_err(failed())?,
        );
        let readable = credentials::link(OF_GIT, home.path(), &sandbox.hidden).map_err(failed())?;
        let writable = vec![copies.path().to_owned()];
        // It runs nothing of the repository, and ssh goes through no proxy of HTTP.
        let network = Network::Open;
        let hidden = sandbox.hidden.clone();
        let launcher = sandbox.launcher(network, hidden, readable, home.path(), writable)?;
        std::fs::write(
            copies.path().join("config"),
            "[safe]\n\tdirectory = *\n[protocol \"file\"]\n\tallow = always\n",
        )
        .map_err(failed())?;
        let trace = tempfile::Builder::new()
            .prefix("trace-")
            .tempfile_in(scratch);
        Ok(Self {
            launcher,
            memory_bytes: sandbox.memory_bytes,
            _home: home,
            copies,
            trace: RefCell::new(trace.map_err(failed())?),
            known: RefCell::default(),
            named,
        })
    }

    /// What pip's git needs.
    pub(super) fn prepare(&self, command: &mut Command) {
        command
            .env("GIT_CONFIG_GLOBAL", self.copies.path().join("config"))
            .env("GIT_TRACE", self.trace.borrow().path());
    }

    /// The repository that git was asked for last, if the project names it and there is no copy of it.
    pub(super) fn wanted(&self) -> Option<String> {
        let mut text = Vec::new();
        // Through the file that we have open: its name may be another's by now.
        let mut trace = self.trace.borrow_mut();
        let file = trace.as_file_mut();
        file.rewind().ok()?;
        file.take(TRACE_BYTES).read_to_end(&mut text).ok()?;
        let known = self.known.borrow();
        let wanted = last_cloned(&String::from_utf8_lossy(&text))?;
        let place = without_user(&wanted);
        let is_named = self.named.iter().any(|named| without_user(named) == place);
        (is_named && known.len() < MOST && !known.contains(&wanted)).then_some(wanted)
    }

    /// The command that copies a repository.
    pub(super) fn copying(&self, url: &str) -> Result<Command, Error> {
        let mut command = process::supervised_command(&self.launcher, self.memory_bytes)
            .map_err(Error::io("cannot run this program again"))?;
        command
            .arg("git")
            .args(["clone", "--quiet", "--mirror", "--", url])
            .arg(
                self.copies
                    .path()
                    .join(self.known.borrow().len().to_string()),
            )
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ALLOW_PROTOCOL", PROTOCOLS);
        Ok(command)
    }

    /// Lets the copy stand for the repository from now on.
    pub(super) fn copied(&self, url: String) -> Result<(), Error> {
        use std::io::Write;
        let mut known = self.known.borrow_mut();
        let place = self.copies.path().join(known.len().to_string());
        let entry = format!(
            "[url \"file://{}\"]\n\tinsteadOf = \"{url}\"\n",
            place.display()
        );
        known.push(url);
        let config = std::fs::OpenOptions::new()
            .append(true)
            .open(self.copies.path().join("config"));
        config
            .and_then(|mut file| file.write_all(entry.as_bytes()))
            .map_err(Error::io("cannot write git's configuration"))
    }
}

/// pip takes the user out of some URLs: a repository is the same for all of them.
fn without_user(url: &str) -> (&str, &str) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find('/').unwrap_or(rest.len());
    let host = rest[..end].rfind('@').map_or(0, |at| at + 1);
    (scheme, &rest[host..])
}

/// The URL of the last `git clone` in a trace.
fn last_cloned(trace: &str) -> Option<String> {
    let mut clones = trace.lines().filter(|line| line.contains(" git clone "));
    let last = clones.next_back()?;
    let mut words = last.split_whitespace().map(|word| word.trim_matches('\''));
    let is_url = |word: &&str| {
        let (before, behind) = word.split_once("://").unwrap_or_default();
        let is_plain = |c: char| c.is_ascii_graphic() && !['"', '\\', '\''].contains(&c);
        PROTOCOLS.split(':').any(|known| known == before) && behind.chars().all(is_plain)
    };
    words.find(is_url).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{last_cloned, without_user};

    #[test]
    fn a_repository_is_the_same_for_all_users() {
        let place = ("ssh", "host:22/a@b");
        for url in [
            "ssh://host:22/a@b",
            "ssh://git@host:22/a@b",
            "ssh://a:b@host:22/a@b",
        ] {
            assert_eq!(without_user(url), place);
        }
        assert_ne!(without_user("https://host:22/a@b"), place);
        assert_ne!(without_user("ssh://other:22/a@b"), place);
    }

    #[test]
    fn the_last_repository_of_a_trace_is_wanted() {
        let trace = "12:00:00.1 git.c:460 trace: built-in: git version\n\
            12:00:00.2 git.c:460 trace: built-in: git clone --filter=blob:none --quiet https://host/a.git /tmp/x\n\
            12:00:00.3 git.c:460 trace: built-in: git clone --quiet 'ssh://git@host:22/b' /tmp/y\n\
            12:00:00.4 run-command.c:655 trace: run_command: ssh -p 22 git@host\n";
        assert_eq!(last_cloned(trace).unwrap(), "ssh://git@host:22/b");
        for other in [
            "",
            " git clone /root/.ssh /tmp/x",
            " git clone file:///root /tmp/x",
            " git clone ext::sh /tmp/x",
            " git clone 'https://host/\"x' /tmp/x",
        ] {
            assert_eq!(last_cloned(other), None, "{other}");
        }
    }
}
