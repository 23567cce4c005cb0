//! Our Python package as a distribution that stands in for `inmanta-core`.
//!
//! Modules of the language, and the tools that they are tested with, require the reference by its name, with its server
//! and sixty packages that only the server needs. An environment of ours gets this instead: the same import names, the
//! version of the reference whose surface it has, and of the requirements those packages that modules import without
//! requiring them themselves. So whatever requires the reference is met, and what was installed with it is still there.
//!
//! The wheel is written by this program, from what it carries: no network, no build.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{sources, wheel};

/// The reference's name on an index.
pub const NAME: &str = "inmanta-core";
/// The release of the reference whose surface ours is. Requirements of modules are compared with it.
pub const REFERENCE_VERSION: &str = "20.1.0";
/// What makes a version ours: a local version, which no index has.
const MARK: &str = "+steward.";

/// What modules, and the tools that they are tested with, import without requiring it, because the reference requires it.
/// The ranges are not narrower than the reference's: whatever was collected for it, as in a folder of wheels, fits.
const REQUIRES: [&str; 10] = [
    // pydantic, PyYAML and Jinja2: the modules config, files, fs, netbird, podman, sops, factory.
    "pydantic>=2.5,<3",
    "PyYAML>=6,<7",
    "Jinja2>=3,<4",
    // What pydantic needs for the type of an address; std has it.
    "email-validator>=1,<3",
    // git-ops.
    "click>=8,<8.6",
    "texttable>=1,<2",
    "typing-inspect>=0.9,<1",
    // netbird, sops.
    "requests",
    // pytest-inmanta.
    "packaging>=21.3",
    "tornado>6.5",
];

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
            (
                format!("{info}/WHEEL"),
                "Wheel-Version: 1.0\nGenerator: steward\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
                    .to_owned(),
            ),
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
        let bytes = wheel::wheel(&contents, &info);
        fs::create_dir_all(folder)?;
        let path = folder.join(format!("inmanta_core-{version}-py3-none-any.whl"));
        // Whoever reads the folder at this moment finds a whole wheel.
        let file = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .tempfile_in(folder)?;
        fs::write(file.path(), &bytes)?;
        file.persist(&path).map_err(|error| error.error)?;
        Ok(Self {
            version,
            folder: folder.to_owned(),
            path,
            sha256: hex::encode(Sha256::digest(&bytes)),
        })
    }
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
    for requirement in REQUIRES {
        text.push_str(&format!("Requires-Dist: {requirement}\n"));
    }
    text
}
