//! Whether a delivery was signed with the hook's secret.

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::{Forge, Headers};

const DIGEST_BYTES: usize = 32;

/// Why a delivery is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The hook must have a secret here; deliveries are never accepted unsigned.
    #[error("the hook has no secret configured, so its deliveries are refused")]
    NoSecret,
    /// No signature, an empty one, or only one with SHA-1.
    #[error(
        "the delivery is not signed with SHA-256; set the secret in the forge's settings of the hook"
    )]
    Unsigned,
    /// A signature that is none: wrong prefix, length or digits, or several in one header.
    #[error("the signature of the delivery has the wrong form")]
    Malformed,
    #[error(
        "the signature of the delivery does not match; the secrets here and in the forge differ"
    )]
    BadSignature,
}

/// Checks that `body`, byte for byte as received, was signed with `secret`.
///
/// Gitea and Forgejo sign in several headers. One at least must be there, and all that are must be right, so that
/// no two readers of one delivery can disagree on it.
pub fn verify(
    forge: Forge,
    secret: &[u8],
    headers: &Headers<'_>,
    body: &[u8],
) -> Result<(), SignatureError> {
    if secret.is_empty() {
        return Err(SignatureError::NoSecret);
    }
    let mut signatures = Vec::new();
    if let Some(value) = single(headers, "X-Hub-Signature-256")? {
        let digits = value.strip_prefix(b"sha256=").ok_or(match value {
            b"" => SignatureError::Unsigned,
            _ => SignatureError::Malformed,
        })?;
        signatures.push(digest(digits)?);
    }
    // GitHub knows only the header above.
    for prefix in forge
        .prefixes()
        .iter()
        .filter(|prefix| **prefix != "GitHub")
    {
        if let Some(digits) = single(headers, &format!("X-{prefix}-Signature"))? {
            signatures.push(digest(digits)?);
        }
    }
    if signatures.is_empty() {
        return Err(SignatureError::Unsigned);
    }
    for signature in signatures {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
        mac.update(body);
        // Compares in constant time.
        mac.verify_slice(&signature)
            .map_err(|_| SignatureError::BadSignature)?;
    }
    Ok(())
}

fn single<'a>(headers: &Headers<'a>, name: &str) -> Result<Option<&'a [u8]>, SignatureError> {
    match headers(name).as_slice() {
        [] => Ok(None),
        [value] => Ok(Some(value.trim_ascii())),
        _ => Err(SignatureError::Malformed),
    }
}

fn digest(digits: &[u8]) -> Result<[u8; DIGEST_BYTES], SignatureError> {
    if digits.is_empty() {
        // What Gitea sends for a hook that has no secret.
        return Err(SignatureError::Unsigned);
    }
    let mut digest = [0; DIGEST_BYTES];
    hex::decode_to_slice(digits, &mut digest).map_err(|_| SignatureError::Malformed)?;
    Ok(digest)
}
