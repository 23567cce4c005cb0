//! Contents from elsewhere, an address or a path, checked by their digest; and the client for HTTP.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};
use steward_compiler::without_credentials;
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

use super::replacement::NO_SURPRISE;
use super::{Context, Error};

/// A client that takes its certificates from the host, and a proxy from the variables of the server.
pub(super) fn client(context: &Context, limit: Duration, max_redirects: u32) -> Agent {
    let left = context.left().map_or(limit, |left| left.min(limit));
    let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier);
    Agent::config_builder()
        .timeout_global(Some(left))
        .http_status_as_error(false)
        .max_redirects(max_redirects)
        .max_redirects_will_error(false)
        .tls_config(tls.build())
        .user_agent("steward")
        .build()
        .into()
}

/// Whether a source is an address and no path.
pub(super) fn is_address(source: &str) -> bool {
    source.starts_with("https://") || source.starts_with("http://")
}

/// An address without the user and password that may be in it, and the header that says these. They are written as addresses have
/// them: `%40` stands for `@`.
pub(super) fn with_login(address: &str) -> (String, Option<String>) {
    let parts = address.split_once("://").and_then(|(scheme, rest)| {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (login, host) = rest[..end].rsplit_once('@')?;
        Some((login, format!("{scheme}://{host}{}", &rest[end..])))
    });
    let Some((login, plain)) = parts else {
        return (address.to_owned(), None);
    };
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let decoded = |text| percent_encoding::percent_decode_str(text).collect::<Vec<u8>>();
    let pair = [decoded(user), decoded(password)].join(&b':');
    let header = format!("Basic {}", BASE64_STANDARD.encode(pair));
    (plain, Some(header))
}

/// Writes what is at `source` into a file, and gives its SHA-256 digest in hexadecimal digits; another one than `expected`
/// is an error.
pub(super) fn fetch(
    context: &Context,
    source: &str,
    expected: Option<&str>,
    limit: Duration,
    into: &mut File,
) -> Result<String, Error> {
    let shown = without_credentials(source);
    let fail = |error: io::Error| Error::Failed(format!("cannot fetch {shown}: {error}"));
    let digest = if is_address(source) {
        let (address, login) = with_login(source);
        let mut request = client(context, limit, REDIRECTS).get(address);
        if let Some(login) = login {
            request = request.header("Authorization", login);
        }
        let answer = request.call();
        let fail_http =
            |error: ureq::Error| Error::Failed(format!("cannot fetch {shown}: {error}"));
        let answer = answer.map_err(fail_http)?;
        let status = answer.status();
        if !status.is_success() {
            return Err(Error::Failed(format!(
                "cannot fetch {shown}: it answers {status}"
            )));
        }
        let body = answer.into_body().into_with_config().limit(u64::MAX);
        copy(body.reader(), into).map_err(fail)?
    } else {
        copy(open(source)?, into).map_err(fail)?
    };
    check(&shown, expected, &digest)?;
    Ok(digest)
}

/// Addresses of downloads move.
const REDIRECTS: u32 = 10;

/// Fails unless the digest is the expected one.
pub(super) fn check(source: &str, expected: Option<&str>, digest: &str) -> Result<(), Error> {
    match expected {
        Some(expected) if !expected.eq_ignore_ascii_case(digest) => Err(Error::Failed(format!(
            "the content of {source} has the SHA-256 digest {digest}, not {expected}"
        ))),
        _ => Ok(()),
    }
}

/// A regular file of this host, for reading.
pub(super) fn open(source: &str) -> Result<File, Error> {
    let path = Path::new(source);
    if !path.is_absolute() {
        return Err(Error::Failed(format!(
            "the source `{source}` is neither an address (https://…) nor an absolute path"
        )));
    }
    let mut options = std::fs::OpenOptions::new();
    // It may well be a symlink; but nothing that we would wait for.
    options
        .read(true)
        .custom_flags(NO_SURPRISE & !(rustix::fs::OFlags::NOFOLLOW.bits() as i32));
    let file = options.open(path).map_err(Error::io("open", path))?;
    let is_file = file.metadata().is_ok_and(|found| found.is_file());
    if is_file {
        return Ok(file);
    }
    Err(Error::Failed(format!("the source {source} is not a file")))
}

/// The SHA-256 digest of a file, in hexadecimal digits.
pub(super) fn digest(file: File) -> io::Result<String> {
    copy(file, &mut io::sink())
}

fn copy(mut from: impl Read, into: &mut impl Write) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(hex::encode(hash.finalize())),
            n_bytes => {
                hash.update(&buffer[..n_bytes]);
                // Not the source is full, but the disk here.
                let fail = |error: io::Error| {
                    let message = format!("what came cannot be written here: {error}");
                    io::Error::new(error.kind(), message)
                };
                into.write_all(&buffer[..n_bytes]).map_err(fail)?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Given: a disk that is full. Expected: the error says that it is the one here, and not that of the source.
    #[test]
    fn a_full_disk_is_no_fault_of_the_source() {
        let mut full = File::options().write(true).open("/dev/full").unwrap();
        let error = copy(&b"content"[..], &mut full).unwrap_err().to_string();
        assert!(error.contains("written here: No space left"), "{error}");
    }

    /// Given: addresses with and without a login. Expected: the address without it, and user and password with the characters that
    /// stand for others in an address.
    #[test]
    fn a_login_of_an_address_is_taken_out_and_decoded() {
        for (address, plain, login) in [
            ("https://a.example/x@y", "https://a.example/x@y", None),
            (
                "https://u:p%40s%2Fs@a.example:8/x",
                "https://a.example:8/x",
                Some("u:p@s/s"),
            ),
            (
                "http://token@a.example?q",
                "http://a.example?q",
                Some("token:"),
            ),
        ] {
            let expected = login.map(|login| format!("Basic {}", BASE64_STANDARD.encode(login)));
            assert_eq!(
                with_login(address),
                (plain.to_owned(), expected),
                "{address}"
            );
        }
    }
}
