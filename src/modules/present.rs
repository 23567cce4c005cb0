//! What is installed in an environment, as its packages' own metadata say. Source: the packaging specification "Recording
//! installed projects".

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

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

/// What is installed in an environment.
///
/// # Errors
/// There is no environment.
pub(super) fn installed(environment: &Path) -> Result<Vec<Present>, Error> {
    if !environment.join("bin/python").is_file() {
        return Err(Error::Project(format!(
            "there is no environment {}: run `steward project install`",
            environment.display()
        )));
    }
    let packages = folders(environment);
    Ok(packages.iter().filter_map(|info| present(info)).collect())
}

/// The folders with the metadata of installed packages.
fn folders(environment: &Path) -> Vec<PathBuf> {
    let pythons = entries(&environment.join("lib")).into_iter();
    let packages = pythons.flat_map(|python| entries(&python.join("site-packages")));
    let is_info = |path: &PathBuf| path.extension().is_some_and(|end| end == "dist-info");
    let mut found: Vec<PathBuf> = packages.filter(is_info).collect();
    found.sort();
    found
}

fn present(info: &Path) -> Option<Present> {
    let metadata = fs::read_to_string(info.join("METADATA")).ok()?;
    let direct = fs::read_to_string(info.join("direct_url.json"));
    let direct: Option<DirectUrl> = direct
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok());
    Some(Present {
        name: normalized(field(&metadata, "Name")?),
        version: field(&metadata, "Version")?.to_owned(),
        python: field(&metadata, "Requires-Python").map(str::to_owned),
        commit: direct.and_then(|origin| Some(origin.vcs_info?.commit_id)),
        changed: record::changed(info),
    })
}

/// A field of the head of `METADATA`, which ends with an empty line.
fn field<'a>(metadata: &'a str, name: &str) -> Option<&'a str> {
    let head = metadata.lines().take_while(|line| !line.is_empty());
    let mut fields = head.filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(field, _)| field.eq_ignore_ascii_case(name))?;
    Some(value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

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
