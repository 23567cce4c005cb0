//! Tokens of environments: JSON web tokens that this server signs and nobody else. Source: docs/reference/rest.md § 0.9.
//!
//! Whoever holds one may do in its environment what its client types allow. The key is made from the token of the API: where
//! there is none, there are no others, and with a new one all that were made before are void.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::api::http::error::ApiError;
use crate::domain::{EnvironmentId, Timestamp};

/// What issues them, and whom they are for: this server.
const NAME: &str = "steward";
/// Keeps the key apart from others that are made from the same secret.
const PURPOSE: &[u8] = b"steward: tokens of environments, 1";
const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

/// For whom a token is. Source: docs/reference/rest.md § 0.9.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::api) struct ClientTypes {
    pub(in crate::api) api: bool,
    pub(in crate::api) agent: bool,
    pub(in crate::api) compiler: bool,
}

impl ClientTypes {
    /// From a list of names.
    ///
    /// # Errors
    /// The name that is none.
    pub(in crate::api) fn parse<'a>(names: impl Iterator<Item = &'a str>) -> Result<Self, &'a str> {
        let mut types = Self::default();
        for name in names.filter(|name| !name.is_empty()) {
            match name {
                "api" => types.api = true,
                "agent" => types.agent = true,
                "compiler" => types.compiler = true,
                _ => return Err(name),
            }
        }
        Ok(types)
    }

    /// Whether one of them is among the others.
    pub(in crate::api) fn meets(self, others: Self) -> bool {
        (self.api && others.api)
            || (self.agent && others.agent)
            || (self.compiler && others.compiler)
    }
}

/// What a token says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::api) struct Claims {
    iss: String,
    aud: Vec<String>,
    #[serde(rename = "urn:inmanta:ct")]
    pub(in crate::api) client_types: String,
    #[serde(rename = "urn:inmanta:env")]
    pub(in crate::api) environment: EnvironmentId,
    /// By which it is revoked. One without times, whose text is always the same, has none, or that of the token it was made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::api) jti: Option<uuid::Uuid>,
    /// Seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::api) iat: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::api) exp: Option<i64>,
}

impl Claims {
    /// Of a token that has the same text whenever it is made.
    pub(in crate::api) fn lasting(environment: EnvironmentId, client_types: String) -> Self {
        Self {
            iss: NAME.to_owned(),
            aud: vec![NAME.to_owned()],
            client_types,
            environment,
            jti: None,
            iat: None,
            exp: None,
        }
    }

    /// The token, for whoever it was asked for.
    pub(in crate::api) fn sign(&self, secret: &str) -> Option<String> {
        let claims = serde_json::to_vec(self).ok()?;
        let text = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(HEADER),
            URL_SAFE_NO_PAD.encode(claims)
        );
        let mac = code(secret, text.as_bytes())?;
        let mac = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
        Some(format!("{text}.{mac}"))
    }

    /// What a token of ours says, if it is one and has not expired. Only the signature is looked at before it is known to be
    /// right, so the header of another algorithm means nothing.
    ///
    /// # Errors
    /// 403, as the reference has it.
    pub(in crate::api) fn read(
        token: &[u8],
        secret: &str,
        now: Timestamp,
    ) -> Result<Self, ApiError> {
        let claims =
            signed(token, secret).ok_or_else(|| ApiError::forbidden("the token is not valid"))?;
        let seconds = now.0 / 1_000_000;
        match claims.exp {
            Some(end) if end <= seconds => Err(ApiError::forbidden("the token has expired")),
            _ => Ok(claims),
        }
    }
}

fn signed(token: &[u8], secret: &str) -> Option<Claims> {
    let at = token.iter().rposition(|byte| *byte == b'.')?;
    let (text, mac) = (token.get(..at)?, token.get(at + 1..)?);
    let mac = URL_SAFE_NO_PAD.decode(mac).ok()?;
    // Compared in a time that does not depend on where they differ.
    code(secret, text)?.verify_slice(&mac).ok()?;
    let claims = text.iter().position(|byte| *byte == b'.')?;
    let claims = URL_SAFE_NO_PAD.decode(text.get(claims + 1..)?).ok()?;
    let claims: Claims = serde_json::from_slice(&claims).ok()?;
    let is_ours = claims.iss == NAME && claims.aud.iter().any(|name| name == NAME);
    is_ours.then_some(claims)
}

/// The code that authenticates a text, with the key that follows from the secret.
fn code(secret: &str, text: &[u8]) -> Option<Hmac<Sha256>> {
    let mut key = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).ok()?;
    key.update(PURPOSE);
    let mut code = Hmac::new_from_slice(&key.finalize().into_bytes()).ok()?;
    code.update(text);
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";
    const NOW: Timestamp = Timestamp(1_000_000_000_000);

    fn claims() -> Claims {
        let id = EnvironmentId::from(uuid::Uuid::from_u128(7));
        Claims {
            jti: Some(uuid::Uuid::from_u128(8)),
            iat: Some(999_999),
            exp: Some(1_000_001),
            ..Claims::lasting(id, "api,compiler".to_owned())
        }
    }

    #[test]
    fn a_token_says_what_was_signed_until_it_expires() {
        let token = claims().sign(SECRET).unwrap();
        let read = Claims::read(token.as_bytes(), SECRET, NOW);
        assert_eq!(read.ok(), Some(claims()));
        let later = Timestamp(NOW.0 + 1_000_000);
        let error = Claims::read(token.as_bytes(), SECRET, later).unwrap_err();
        assert!(format!("{error:?}").contains("expired"), "{error:?}");
    }

    /// Input: tokens with another key, another algorithm, changed claims, and none at all (docs/reference/security.md § 4.10). Answer: 403, and nothing of them is read before the signature is right.
    #[test]
    fn no_token_but_ours_is_read() {
        let token = claims().sign(SECRET).unwrap();
        let parts: Vec<&str> = token.split('.').collect();
        let (header, body, mac) = (parts[0], parts[1], parts[2]);
        let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"JWT"}"#);
        let mut other = claims();
        other.environment = EnvironmentId::from(uuid::Uuid::from_u128(9));
        let other = other.sign("another secret, as long as it").unwrap();
        let swapped = other.split('.').nth(1).unwrap();
        for bad in [
            other.clone(),
            format!("{header}.{swapped}.{mac}"),
            format!("{none}.{body}."),
            format!("{none}.{body}.{mac}"),
            format!("{header}.{body}"),
            format!("{header}.{body}.{mac}="),
            format!("{header}.{body}.{}", &mac[..10]),
            "..".to_owned(),
            String::new(),
            "a.b.c".to_owned(),
            SECRET.to_owned(),
        ] {
            assert!(Claims::read(bad.as_bytes(), SECRET, NOW).is_err(), "{bad}");
        }
    }
}
