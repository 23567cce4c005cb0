//! What is installed in an environment, as its packages' own metadata say. Source: the packaging specification "Recording
//! installed projects".

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use steward_compiler::plain_file;

use super::lock::{Present, normalized};
use super::{Error, record};
use crate::files::entries;

/// `direct_url.json` of a package that came from a repository.
#[derive(Deserialize)]
struct DirectUrl {
    vcs_info: Option<Repository>,
}

#[derive(Deserialize)]
struct Repository {
    commit_id: String,
}

/// What is read of the metadata of a package, whose head is what counts, and of `direct_url.json`.
const HEAD_BYTES: u64 = 256 << 10;
/// A name, a version, a commit: what is longer is none.
const FIELD_BYTES: usize = 1 << 10;
/// Packages of an environment; a build may leave any number of folders that look like one.
const MAX_PACKAGES: usize = 10_000;

/// What is installed in an environment, and which files of it were changed since.
///
/// # Errors
/// There is no environment.
pub(super) fn compared(environment: &Path) -> Result<Vec<Present>, Error> {
    let infos = infos(environment)?;
    let compared = |info: &PathBuf| {
        Some(Present {
            changed: record::changed(info),
            ..present(info)?
        })
    };
    Ok(infos.iter().filter_map(compared).collect())
}

/// What is installed in an environment. Of what a build has left nothing is read but plain files, and of those the beginning.
///
/// # Errors
/// There is no environment.
pub(super) fn installed(environment: &Path) -> Result<Vec<Present>, Error> {
    let infos = infos(environment)?;
    Ok(infos.iter().filter_map(|info| present(info)).collect())
}

fn infos(environment: &Path) -> Result<Vec<PathBuf>, Error> {
    if !environment.join("bin/python").is_file() {
        return Err(Error::Project(format!(
            "there is no environment {}: run `steward project install`",
            environment.display()
        )));
    }
    Ok(folders(environment))
}

/// The folders with the metadata of installed packages.
fn folders(environment: &Path) -> Vec<PathBuf> {
    let is_info = |path: &PathBuf| path.extension().is_some_and(|end| end == "dist-info");
    let infos = site_packages(environment).filter(is_info);
    let mut found: Vec<PathBuf> = infos.take(MAX_PACKAGES).collect();
    found.sort();
    found
}

/// What lies where packages are installed; a build may leave any number of names there, so they are never all in memory.
pub(super) fn site_packages(environment: &Path) -> impl Iterator<Item = PathBuf> {
    let pythons = entries(&environment.join("lib")).into_iter();
    let folders = pythons.map(|python| python.join("site-packages"));
    let listed = folders.filter_map(|folder| fs::read_dir(folder).ok());
    listed.flatten().flatten().map(|entry| entry.path())
}

fn present(info: &Path) -> Option<Present> {
    let metadata = head(&info.join("METADATA"))?;
    let direct = head(&info.join("direct_url.json"));
    let direct: Option<DirectUrl> = direct.and_then(|text| serde_json::from_str(&text).ok());
    Some(Present {
        name: normalized(field(&metadata, "Name")?),
        version: field(&metadata, "Version")?.to_owned(),
        python: field(&metadata, "Requires-Python").map(str::to_owned),
        commit: direct
            .and_then(|origin| Some(origin.vcs_info?.commit_id))
            .filter(|commit| commit.len() <= FIELD_BYTES),
        changed: Vec::new(),
    })
}

/// The beginning of a plain file.
fn head(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    let file = plain_file::open(path).ok()?;
    file.take(HEAD_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A field of the head of `METADATA`, which ends with an empty line.
fn field<'a>(metadata: &'a str, name: &str) -> Option<&'a str> {
    let head = metadata.lines().take_while(|line| !line.is_empty());
    let mut fields = head.filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(field, _)| field.eq_ignore_ascii_case(name))?;
    Some(value.trim()).filter(|value| value.len() <= FIELD_BYTES)
}

/// For fuzzing: a text as what installers say that they would install, and as what a build has left of a package.
pub fn read_any_answer(text: &str) {
    super::pip::read_any(text);
    super::uv::read_any(text);
    let _ = serde_json::from_str::<DirectUrl>(text);
    for name in ["Name", "Version", "Requires-Python"] {
        if let Some(value) = field(text, name) {
            assert!(
                value.len() <= FIELD_BYTES && !value.contains('\n'),
                "{value}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Input: metadata of a package that are a device, a pipe, endless or very long, as a build may leave them
    /// (docs/reference/security.md § 4.2). Answer: it is no package; nothing waits, and no memory is taken.
    #[test]
    fn of_what_a_build_left_only_the_beginning_of_plain_files_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let lib = dir.path().join("lib/python3.13/site-packages");
        let folder = |name: &str| {
            let folder = lib.join(format!("{name}-1.dist-info"));
            fs::create_dir_all(&folder).unwrap();
            folder.join("METADATA")
        };
        fs::create_dir_all(dir.path().join("bin")).unwrap();
        fs::write(dir.path().join("bin/python"), "").unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder("endless")).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(folder("pipe"))
            .status();
        assert!(made.unwrap().success());
        let text =
            |version: &str| format!("Name: a\nVersion: {version}\n\n{}", "x".repeat(1 << 20));
        fs::write(folder("wordy"), text(&"1".repeat(1 << 12))).unwrap();
        fs::write(folder("long"), text("1")).unwrap();
        let commit = "c".repeat(FIELD_BYTES + 1);
        let direct = format!("{{\"vcs_info\": {{\"commit_id\": \"{commit}\"}}}}");
        fs::write(folder("long").with_file_name("direct_url.json"), direct).unwrap();
        let [found] = installed(dir.path()).unwrap().try_into().unwrap();
        assert_eq!((found.version.as_str(), found.commit), ("1", None));
    }

    #[test]
    fn packages_say_what_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert!(installed(dir.path()).is_err());
        write("bin/python", "");
        let lib = "lib/python3.13/site-packages";
        write(
            &format!("{lib}/My_Module-1.0.dist-info/METADATA"),
            "Metadata-Version: 2.1\nName: My_Module\nVersion: 1.0\nRequires-Python: >=3.12\n\nVersion: 2\n",
        );
        write(
            &format!("{lib}/My_Module-1.0.dist-info/direct_url.json"),
            r#"{"url": "x", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}}"#,
        );
        write(&format!("{lib}/broken-1.dist-info/METADATA"), "nothing");
        let [found] = installed(dir.path()).unwrap().try_into().unwrap();
        assert_eq!(
            (found.name.as_str(), found.version.as_str()),
            ("my-module", "1.0")
        );
        assert_eq!(found.python.as_deref(), Some(">=3.12"));
        assert_eq!(found.commit.as_deref(), Some("c0ffee"));
    }
}
