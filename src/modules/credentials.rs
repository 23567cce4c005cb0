//! What the user of this process logs in elsewhere with: files that no code of a repository may read.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// What git and ssh look for in the home directory of their user.
pub(super) const OF_GIT: &[&str] = &[
    ".netrc",
    ".gitconfig",
    ".git-credentials",
    ".config/git",
    ".ssh",
];
pub(super) const OF_PIP: &[&str] = &[".config/pip", ".pip"];
/// Of everything else that people who run infrastructure log in with, sorted. Histories of shells have what was typed at them.
const OTHERS: &[&str] = &[
    ".ansible",
    ".aws",
    ".azure",
    ".bash_history",
    ".boto",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/age",
    ".config/containers",
    ".config/doctl",
    ".config/gcloud",
    ".config/gh",
    ".config/glab-cli",
    ".config/hcloud",
    ".config/helm",
    ".config/hub",
    ".config/op",
    ".config/openstack",
    ".config/rclone",
    ".config/sops",
    ".docker",
    ".gem/credentials",
    ".gnupg",
    ".inmanta",
    ".kube",
    ".local/share/keyrings",
    ".local/share/password-store",
    ".m2/settings.xml",
    ".mc",
    ".my.cnf",
    ".mylogin.cnf",
    ".mysql_history",
    ".npmrc",
    ".oci",
    ".password-store",
    ".pgpass",
    ".psql_history",
    ".pypirc",
    ".python_history",
    ".s3cfg",
    ".terraform.d",
    ".terraformrc",
    ".vault-token",
    ".vault_pass",
    ".vault_pass.txt",
    ".yarnrc.yml",
    ".zsh_history",
];

/// The home directories: what `HOME` says, and what ssh goes by.
fn homes() -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw().to_string();
    let known = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let of_user = known.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(2) == Some(&user.as_str())).then(|| fields.get(5).map(PathBuf::from))?
    });
    let of_variable = std::env::var_os("HOME").map(PathBuf::from);
    let mut homes: Vec<PathBuf> = of_variable.into_iter().chain(of_user).collect();
    homes.dedup();
    homes
}

/// Those of `names` that are in a home directory: name, and path without links.
fn present(names: &[&'static str]) -> Vec<(&'static str, PathBuf)> {
    let homes = homes();
    let in_home = |home: &PathBuf| {
        let found = names.iter().filter_map(|name| {
            let path = std::fs::canonicalize(home.join(name)).ok()?;
            Some((*name, path))
        });
        found.collect::<Vec<_>>()
    };
    homes.iter().flat_map(in_home).collect()
}

/// Links those of `names` that there are into a new home. What of them may be read there.
pub(super) fn link(
    names: &[&'static str],
    home: &Path,
    hidden: &[PathBuf],
) -> std::io::Result<Vec<PathBuf>> {
    let mut readable = Vec::new();
    for (name, path) in present(names) {
        let link = home.join(name);
        std::fs::create_dir_all(link.parent().unwrap_or(home))?;
        if !link.exists() {
            symlink(&path, link)?;
        }
        // The home of a service may be its data directory. What the configuration names as a secret stays one.
        if !hidden.iter().any(|hidden| hidden.starts_with(&path)) {
            readable.push(path);
        }
    }
    Ok(readable)
}

/// All credentials of the user, as paths without links; `reads_pip`: but those of pip.
pub(super) fn all(reads_pip: bool) -> impl Iterator<Item = PathBuf> {
    let of_pip: &[&str] = if reads_pip { &[] } else { OF_PIP };
    let lists = [OF_GIT, OTHERS, of_pip].map(present);
    // The root of all is no credential, whatever a link says.
    let paths = lists.into_iter().flatten().map(|(_, path)| path);
    paths.filter(|path| path != Path::new("/"))
}

/// All credentials of the user, as paths without links.
pub fn credentials() -> Vec<PathBuf> {
    all(false).collect()
}
