//! Values that are secret: written in place, or read from elsewhere.

use std::path::{Path, PathBuf};

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::plain;

/// The longest key or token, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// A value that is secret: written in place, or read from elsewhere.
pub(super) enum Secret {
    Text(String),
    From(SecretFrom),
}

/// Not derived as `untagged`: that forgets the key and the line of what does not fit.
impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SecretVisitor)
    }
}

struct SecretVisitor;

impl SecretVisitor {
    /// What is no text may be the secret all the same, so it is not shown.
    fn no_text<E: Error>() -> E {
        E::custom(
            "a text is needed, in quotes if it looks like something else; or one of `file:`, `credential:` and `env:`",
        )
    }
}

impl<'de> Visitor<'de> for SecretVisitor {
    type Value = Secret;

    fn expecting(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        formatter.write_str("a text, or one of `file:`, `credential:` and `env:`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Secret, E> {
        Ok(Secret::Text(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Secret, A::Error> {
        SecretFrom::deserialize(MapAccessDeserializer::new(map)).map(Secret::From)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Secret, E> {
        Err(Self::no_text())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Secret, E> {
        Err(Self::no_text())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Secret, E> {
        Err(Self::no_text())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Secret, E> {
        Err(Self::no_text())
    }
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
