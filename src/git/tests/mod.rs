//! The features of [`super`] against real repositories, made with the `git` command in temporary folders.

mod checkout;
mod http;
mod http_limits;
mod kill;
mod links;
mod malformed;
mod mirror;
mod pack;
mod server;
mod snapshot;
mod ssh;
mod tls;
mod upkeep;
mod url;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::*;

/// A small world: a temporary folder with one work tree `source` and room for mirrors and checkouts.
struct World {
    dir: TempDir,
}

impl World {
    fn new() -> World {
        let world = World::empty();
        world.write("main.cf", "entity A: end\n");
        world.commit("first");
        world
    }

    /// With a repository that has no commits.
    fn empty() -> World {
        let world = World {
            dir: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(world.source()).unwrap();
        world.git(&["init", "--quiet", "--initial-branch=main"]);
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn source(&self) -> PathBuf {
        self.path("source")
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.source().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn commit(&self, message: &str) -> CommitId {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "-m", message]);
        self.head()
    }

    fn head(&self) -> CommitId {
        self.git(&["rev-parse", "HEAD"]).parse().unwrap()
    }

    fn git(&self, args: &[&str]) -> String {
        git_in(&self.source(), args)
    }

    fn url(&self) -> RepositoryUrl {
        local_url(&self.source())
    }

    fn mirror(&self) -> Mirror {
        Mirror::open_or_create(&self.path("mirrors"), &self.url()).unwrap()
    }

    fn fetch(&self, branch: Option<&str>) -> Result<CommitId, Error> {
        fetch(&self.mirror(), branch)
    }

    /// Fetches the default branch and checks it out.
    fn check_out(&self) -> Result<PathBuf, Error> {
        let mirror = self.mirror();
        let commit = fetch(&mirror, None)?;
        super::checkout(&mirror, commit, &self.path("checkouts"))
    }
}

fn git_in(folder: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(args)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "Ada")))
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_EMAIL"), "ada@example.com")))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn local_url(path: &Path) -> RepositoryUrl {
    let policy = AddressPolicy {
        http: true,
        local: LocalPolicy::Anywhere,
    };
    RepositoryUrl::parse(path.to_str().unwrap(), &policy).unwrap()
}

fn fetch(mirror: &Mirror, branch: Option<&str>) -> Result<CommitId, Error> {
    mirror.fetch(branch, &Credentials::default(), &FetchOptions::default())
}
