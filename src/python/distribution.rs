//! Our Python package as a distribution that stands in for `inmanta-core`.
//!
//! Modules of the language, and the tools that they are tested with, require the reference by its name, with its server
//! and sixty packages that only the server needs. An environment of ours gets this instead: the same import names, the
//! version of the reference whose surface it has, and of the requirements those packages that modules import without
//! requiring them themselves. So whatever requires the reference is met, and what was installed with it is still there.
//!
//! The wheel is written by this program, from what it carries: no network, no build.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{sources, wheel};

/// The reference's name on an index.
pub const NAME: &str = "inmanta-core";
/// What comes with it as distributions of their own, since modules with services, and the tools that they are tested with,
/// require them by these names. They have metadata alone: what they stand for is in the first one.
const COMPANIONS: [&str; 2] = ["inmanta-lsm", "inmanta-module-lsm"];
/// The release of the reference whose surface ours is. Requirements of modules are compared with it.
pub const REFERENCE_VERSION: &str = "20.1.0";
/// What makes a version ours: a local version, which no index has.
const MARK: &str = "+steward.";

/// What modules, and the tools that they are tested with, import without requiring it, because the reference requires it:
/// the name that it is imported by, and the requirement.
/// The ranges are not narrower than the reference's: whatever was collected for it, as in a folder of wheels, fits.
const REQUIRES: [(&str, &str); 10] = [
    // pydantic, PyYAML and Jinja2: the modules config, files, fs, netbird, podman, sops, factory.
    ("pydantic", "pydantic>=2.5,<3"),
    ("yaml", "PyYAML>=6,<7"),
    ("jinja2", "Jinja2>=3,<4"),
    // What pydantic needs for the type of an address; std has it.
    ("email_validator", "email-validator>=1,<3"),
    // git-ops.
    ("click", "click>=8,<8.6"),
    ("texttable", "texttable>=1,<2"),
    ("typing_inspect", "typing-inspect>=0.9,<1"),
    // netbird, sops.
    ("requests", "requests"),
    // pytest-inmanta.
    ("packaging", "packaging>=21.3"),
    ("tornado", "tornado>6.5"),
];

/// What kind of wheel it is.
const WHEEL: &str =
    "Wheel-Version: 1.0\nGenerator: steward\nRoot-Is-Purelib: true\nTag: py3-none-any\n";

/// The commands that come with it, under the names of the reference's.
const ENTRY_POINTS: &str = "[console_scripts]\ninmanta = inmanta.app:app\n";

/// The distribution as a wheel in some folder.
#[derive(Debug, Clone)]
pub struct Distribution {
    /// `20.1.0+steward.` and a digest of our sources: another program that carries other sources makes another version.
    pub version: String,
    /// The folder with the wheel.
    pub folder: PathBuf,
    /// The wheel.
    pub path: PathBuf,
    /// The SHA-256 of the wheel, in hexadecimal.
    pub sha256: String,
    /// The wheels of its companions in the same folder, with the SHA-256 of each.
    pub companions: Vec<(PathBuf, String)>,
}

impl Distribution {
    /// Writes the wheel into `folder`, which is made if it is not there.
    ///
    /// `program`: what compiles for a process that imports the package, when no other `steward` is on its path.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(folder: &Path, program: Option<&Path>) -> io::Result<Self> {
        let version = version();
        let info = format!("inmanta_core-{version}.dist-info");
        let program = program.map_or(String::new(), |path| path.to_string_lossy().into_owned());
        let added = [
            (format!("{info}/METADATA"), metadata(&version)),
            (format!("{info}/WHEEL"), WHEEL.to_owned()),
            (format!("{info}/entry_points.txt"), ENTRY_POINTS.to_owned()),
            // The file that `inmanta/_program.py` reads.
            ("inmanta/_program.txt".to_owned(), program),
        ];
        let mut contents: Vec<(&str, &[u8])> = Vec::new();
        for source in sources::files() {
            contents.push(source);
        }
        for (path, text) in &added {
            contents.push((path, text.as_bytes()));
        }
        fs::create_dir_all(folder)?;
        let (path, sha256) = store(folder, NAME, &version, &wheel::wheel(&contents, &info))?;
        let companions = COMPANIONS
            .iter()
            .map(|name| companion(folder, name, &version));
        Ok(Self {
            companions: companions.collect::<io::Result<_>>()?,
            version,
            folder: folder.to_owned(),
            path,
            sha256,
        })
    }

    /// The SHA-256 of the wheel of this name.
    pub fn sha256_of(&self, name: &str) -> &str {
        let at = COMPANIONS.iter().position(|companion| *companion == name);
        let companion = at.and_then(|at| self.companions.get(at));
        companion.map_or(&self.sha256, |(_, sha256)| sha256)
    }

    /// That only versions of this program will do, one line for each name.
    pub fn constraints(&self) -> String {
        let names = std::iter::once(NAME).chain(COMPANIONS);
        names
            .map(|name| format!("{name}=={}\n", self.version))
            .collect()
    }
}

/// The requirements of what Python code imports of the packages that come with the distribution. One that is only named costs
/// an installation that was not needed; nothing else.
pub fn imported_light(text: &str) -> impl Iterator<Item = &'static str> {
    let lines = text.lines().map(str::trim_start);
    let imports = lines.filter_map(|line| {
        let modules = line.strip_prefix("import ");
        modules.or_else(|| line.strip_prefix("from ")?.split(" import").next())
    });
    let named = imports.flat_map(|modules| modules.split(','));
    let names: BTreeSet<&str> = named
        .filter_map(|module| module.split_whitespace().next()?.split('.').next())
        .collect();
    REQUIRES
        .iter()
        .filter(move |(name, _)| names.contains(name))
        .map(|(_, requirement)| *requirement)
}

/// Whether a package of this name is always ours.
pub fn is_own(name: &str) -> bool {
    name == NAME || COMPANIONS.contains(&name)
}

/// A wheel without contents that brings the distribution along.
fn companion(folder: &Path, name: &str, version: &str) -> io::Result<(PathBuf, String)> {
    let info = format!("{}-{version}.dist-info", name.replace('-', "_"));
    let metadata = format!(
        "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: part of Steward in the place of {NAME}\n\
         License: Apache-2.0\nRequires-Python: >=3.11\nRequires-Dist: {NAME}=={version}\n"
    );
    let contents = [
        (format!("{info}/METADATA"), metadata),
        (format!("{info}/WHEEL"), WHEEL.to_owned()),
    ];
    let contents: Vec<(&str, &[u8])> = contents
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_bytes()))
        .collect();
    store(folder, name, version, &wheel::wheel(&contents, &info))
}

/// Writes a wheel, and gives its path and its SHA-256.
fn store(folder: &Path, name: &str, version: &str, bytes: &[u8]) -> io::Result<(PathBuf, String)> {
    let name = name.replace('-', "_");
    let path = folder.join(format!("{name}-{version}-py3-none-any.whl"));
    // Whoever reads the folder at this moment finds a whole wheel.
    let file = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder)?;
    fs::write(file.path(), bytes)?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok((path, hex::encode(Sha256::digest(bytes))))
}

/// Whether a version of `inmanta-core` is one of ours, of this or of another program.
pub fn is_distribution(version: &str) -> bool {
    version.contains(MARK)
}

fn version() -> String {
    // Enough that two programs do not meet by chance.
    const DIGITS: usize = 12;
    // With a letter first: a part of digits alone would be a number, and lose its leading zeros.
    format!("{REFERENCE_VERSION}{MARK}s{}", &sources::digest()[..DIGITS])
}

fn metadata(version: &str) -> String {
    let mut text = format!(
        "Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\nSummary: Steward in the place of inmanta-core\n\
         License: Apache-2.0\nRequires-Python: >=3.11\n"
    );
    for (_, requirement) in REQUIRES {
        text.push_str(&format!("Requires-Dist: {requirement}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_code_imports_of_the_light_packages_is_read_off_its_text() {
        let imported = |text: &str| Vec::from_iter(imported_light(text));
        let text = "import os, yaml as y\nfrom pydantic.types import A\nif x:\n    import requests.adapters\n";
        assert_eq!(
            imported(text),
            ["pydantic>=2.5,<3", "PyYAML>=6,<7", "requests"]
        );
        let none = "import mine.yaml\nfrom . import jinja2\n# import click\nx = 'import tornado'\nfrom yaml_x import y\n";
        assert_eq!(imported(none), Vec::<&str>::new());
    }
}
