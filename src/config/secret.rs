//! Values that are secret: written in place, or read from elsewhere.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::plain;

/// The longest key or token, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// A value that is secret: written in place, or read from elsewhere.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a text, or one of `file:`, `credential:` and `env:`"
)]
pub(super) enum Secret {
    Text(String),
    From(SecretFrom),
}

/// Where a secret is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SecretFrom {
    file: Option<PathBuf>,
    /// Name of a systemd credential.
    credential: Option<String>,
    /// Name of an environment variable of the server.
    env: Option<String>,
}

impl Secret {
    /// The value. The error says what is wrong and never what the value is.
    pub(super) fn value(&self) -> Result<String, String> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::From(from) => from.value(),
        }
    }
}

impl SecretFrom {
    /// The value, without the line breaks that end a file.
    pub(super) fn value(&self) -> Result<String, String> {
        let text = match (&self.file, &self.credential, &self.env) {
            (Some(file), None, None) => read(file)?,
            (None, Some(name), None) => credential(name)?,
            (None, None, Some(name)) => std::env::var(name)
                .map_err(|_| format!("the variable {name} is not set, or is no text"))?,
            _ => return Err("exactly one of `file`, `credential` and `env` is needed".to_owned()),
        };
        if text.is_empty() {
            return Err("what it names is empty".to_owned());
        }
        if text.contains('\0') {
            return Err("what it names has a zero byte in it, and is no text".to_owned());
        }
        Ok(text)
    }
}

fn read(path: &Path) -> Result<String, String> {
    plain::read(path, MAX_BYTES)
        .map(|text| text.trim_end_matches(['\r', '\n']).to_owned())
        .map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn credential(name: &str) -> Result<String, String> {
    let directory = std::env::var_os("CREDENTIALS_DIRECTORY")
        .ok_or("credentials are passed by systemd (LoadCredential=), and there are none")?;
    if name.contains('/') {
        return Err("a credential's name has no `/`".to_owned());
    }
    read(&Path::new(&directory).join(name))
}
