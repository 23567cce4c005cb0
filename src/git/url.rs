//! The address of a repository, checked once at the edge.
//!
//! A [`RepositoryUrl`] is one of the few kinds of address Steward fetches from, and holds no secret: one with
//! a password or a query is refused, and no error of this module repeats the text it refuses. What it holds
//! is safe as an argument of `ssh` (host and user cannot look like options) and in a log.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::local::data_folders;

const MAX_LENGTH: usize = 2048;

/// What addresses an installation allows. The default is for a server: no local paths, http only to loopback.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    /// Plain http to hosts other than loopback: whoever is on the way can change what is deployed.
    pub http: bool,
    pub local: LocalPolicy,
}

/// Which repositories on this machine may be used, as `/path` or `file:///path`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LocalPolicy {
    #[default]
    Denied,
    /// Only those below one of these folders, symlinks resolved.
    Beneath(Vec<PathBuf>),
    /// Any that the process can read: for the one who started it, at his own command line.
    Anywhere,
}

/// Why an address is refused. Texts do not repeat the address, which may hold a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UrlError {
    #[error("the repository URL is empty")]
    Empty,
    #[error("the repository URL is longer than {MAX_LENGTH} bytes")]
    TooLong,
    #[error("the repository URL has a control character or a backslash in it")]
    ControlCharacter,
    #[error("the repository URL starts with `-`, like an option")]
    OptionLike,
    #[error("repository URLs of the form `helper::address` would run a program, and are refused")]
    RemoteHelper,
    #[error("the scheme of the repository URL is not supported; use https, ssh or http")]
    Scheme,
    #[error(
        "the repository URL has a user or password in it; put these in the credentials of the repository instead"
    )]
    Credentials,
    #[error(
        "the repository URL has a `?` or `#` part; leave it out, and put secrets in the credentials of the repository"
    )]
    Query,
    #[error("the host in the repository URL is not a host name or an address")]
    Host,
    #[error(
        "the user in the repository URL has characters other than letters, digits, `.`, `_` and `-`"
    )]
    User,
    #[error("the port in the repository URL is not a number from 1 to 65535")]
    Port,
    #[error(
        "the repository URL has no path, or one with `..` or characters that a shell would interpret"
    )]
    Path,
    #[error(
        "plain http is only allowed to this machine; use https, or allow http in the configuration"
    )]
    HttpNotAllowed,
    #[error("link-local addresses are not allowed as repository hosts")]
    LinkLocal,
    #[error(
        "the repository's host is of a private network or this machine; `repositories: {{allow_private: true}}` in the \
         configuration allows such hosts"
    )]
    PrivateHost,
    #[error(
        "repositories on this machine's disk are not allowed here; those below the folders of \
         `repositories: {{allow_local: […]}}` in the configuration are"
    )]
    LocalNotAllowed,
    #[error("a repository on this machine's disk needs an absolute path")]
    Relative,
}

/// The address of a repository. Its text is normalised: two that are equal name one mirror.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RepositoryUrl {
    text: String,
    pub(super) address: Address,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Address {
    /// `origin` is `scheme://host[:port]`; `path` starts with `/`.
    Http {
        origin: String,
        host: String,
        path: String,
    },
    Ssh {
        user: Option<String>,
        host: String,
        port: Option<u16>,
        path: String,
    },
    Local(PathBuf),
}

impl RepositoryUrl {
    /// Checks the address `text` of a repository. Reads no network, and the disk only to resolve the symlinks
    /// of a local path when the policy names folders.
    pub fn parse(text: &str, policy: &AddressPolicy) -> Result<RepositoryUrl, UrlError> {
        let text = text.trim_matches([' ', '\t']);
        check_characters(text)?;
        let address = match text.split_once("://") {
            Some((scheme, rest)) if is_scheme(scheme) => match scheme.to_ascii_lowercase().as_str()
            {
                scheme @ ("https" | "http") => parse_http(scheme, rest, policy)?,
                "ssh" => parse_ssh(rest)?,
                "file" => parse_file(rest, policy)?,
                _ => return Err(UrlError::Scheme),
            },
            Some(_) | None if text.starts_with('/') => parse_local(Path::new(text), policy)?,
            Some(_) => return Err(UrlError::Scheme),
            None => parse_scp_like(text)?,
        };
        let text = display(&address);
        // `host:path` gets a scheme in front, and is to be read again from where it is kept.
        if text.len() > MAX_LENGTH {
            return Err(UrlError::TooLong);
        }
        // Spaces around an address are not part of it, so such a path would not come back.
        if text.ends_with(' ') {
            return Err(UrlError::Path);
        }
        Ok(RepositoryUrl { text, address })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The folder of a repository on this machine, or `None` for one elsewhere.
    pub fn local_path(&self) -> Option<&Path> {
        match &self.address {
            Address::Local(path) => Some(path),
            Address::Http { .. } | Address::Ssh { .. } => None,
        }
    }

    /// Whether it is asked through `ssh`.
    pub fn is_ssh(&self) -> bool {
        matches!(self.address, Address::Ssh { .. })
    }

    /// The host name or address, or `None` for a repository on this machine's disk.
    pub fn host(&self) -> Option<&str> {
        match &self.address {
            Address::Http { host, .. } | Address::Ssh { host, .. } => Some(host),
            Address::Local(_) => None,
        }
    }

    /// What is common to all addresses of one repository: host and path, without scheme, user, port and
    /// `.git`. Serves to match the payload of a webhook; it is not an address.
    pub fn identity(&self) -> String {
        let (host, path) = match &self.address {
            Address::Http { host, path, .. } => (host.as_str(), path.as_str()),
            Address::Ssh { host, path, .. } => (host.as_str(), path.as_str()),
            Address::Local(path) => ("", path.to_str().unwrap_or_default()),
        };
        let path = path.trim_matches('/');
        format!("{host}/{}", path.strip_suffix(".git").unwrap_or(path))
    }
}

impl fmt::Display for RepositoryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn check_characters(text: &str) -> Result<(), UrlError> {
    if text.is_empty() {
        return Err(UrlError::Empty);
    }
    if text.len() > MAX_LENGTH {
        return Err(UrlError::TooLong);
    }
    if text.starts_with('-') {
        return Err(UrlError::OptionLike);
    }
    if text
        .chars()
        .any(|c| crate::domain::is_unprintable(c) || c == '\\')
    {
        return Err(UrlError::ControlCharacter);
    }
    let helper = text.split_once("::").map(|(helper, _)| helper);
    if helper.is_some_and(|helper| helper.is_empty() || is_scheme(helper)) {
        return Err(UrlError::RemoteHelper);
    }
    Ok(())
}

fn is_scheme(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn parse_http(scheme: &str, rest: &str, policy: &AddressPolicy) -> Result<Address, UrlError> {
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if authority.contains('@') {
        return Err(UrlError::Credentials);
    }
    if path.contains(['?', '#']) {
        return Err(UrlError::Query);
    }
    let (host, port) = parse_host_port(authority)?;
    if scheme == "http" && !policy.http && !is_loopback(&host) {
        return Err(UrlError::HttpNotAllowed);
    }
    let path = path.trim_end_matches('/');
    let decoded = percent_decode(path)?;
    if path.is_empty()
        || path.starts_with("//")
        || has_parent(&decoded)
        || path.contains([' ', '"', '<', '>', '^', '`', '{', '|', '}'])
    {
        return Err(UrlError::Path);
    }
    let port = port.filter(|port| *port != if scheme == "https" { 443 } else { 80 });
    let origin = match port {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    };
    Ok(Address::Http {
        origin,
        host,
        path: path.to_owned(),
    })
}

fn parse_ssh(rest: &str) -> Result<Address, UrlError> {
    let (authority, path) = rest.split_at(rest.find('/').ok_or(UrlError::Path)?);
    let (user, authority) = split_user(authority)?;
    let (host, port) = parse_host_port(authority)?;
    Ok(Address::Ssh {
        user,
        host,
        port: port.filter(|port| *port != 22),
        path: check_ssh_path(path)?,
    })
}

/// `[user@]host:path`, where the path is relative to the user's home unless it starts with `/`.
fn parse_scp_like(text: &str) -> Result<Address, UrlError> {
    let colon = match text.find(']') {
        Some(bracket) => bracket + text[bracket..].find(':').ok_or(UrlError::Relative)?,
        None => text.find(':').ok_or(UrlError::Relative)?,
    };
    let (authority, path) = (&text[..colon], &text[colon + 1..]);
    if authority.contains('/') {
        return Err(UrlError::Relative);
    }
    if path
        .split('/')
        .next()
        .is_some_and(|first| first.contains('@'))
    {
        // `user:password@host:path`, or so it may be meant.
        return Err(UrlError::Credentials);
    }
    let (user, host) = split_user(authority)?;
    let (host, port) = parse_host_port(host)?;
    Ok(Address::Ssh {
        user,
        host,
        port,
        path: check_ssh_path(path)?,
    })
}

fn split_user(authority: &str) -> Result<(Option<String>, &str), UrlError> {
    let Some((user, host)) = authority.rsplit_once('@') else {
        return Ok((None, authority));
    };
    if user.contains(':') {
        return Err(UrlError::Credentials);
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if user.is_empty() || user.starts_with('-') || !user.chars().all(allowed) {
        return Err(UrlError::User);
    }
    Ok((Some(user.to_owned()), host))
}

/// The path goes through the shell of the other side, quoted; these would matter to one that quotes badly.
fn check_ssh_path(path: &str) -> Result<String, UrlError> {
    // As git has it: `/~user/x` is below that user's home.
    let path = if path.starts_with("/~") {
        &path[1..]
    } else {
        path
    };
    let path = if path.len() > 1 {
        path.trim_end_matches('/')
    } else {
        path
    };
    let shell = [
        '\'', '"', '`', '$', ';', '&', '|', '<', '>', '(', ')', '{', '}', '*', '?', '!', '#', '%',
        '\n',
    ];
    if path.is_empty() || path.starts_with('-') || path.contains(shell) || has_parent(path) {
        return Err(UrlError::Path);
    }
    Ok(path.to_owned())
}

fn parse_file(rest: &str, policy: &AddressPolicy) -> Result<Address, UrlError> {
    let path = match rest.split_once('/') {
        Some(("" | "localhost", _)) => &rest[rest.find('/').unwrap_or_default()..],
        Some(_) | None => return Err(UrlError::Relative),
    };
    if path.contains(['?', '#']) {
        return Err(UrlError::Query);
    }
    parse_local(Path::new(&percent_decode(path)?), policy)
}

fn parse_local(path: &Path, policy: &AddressPolicy) -> Result<Address, UrlError> {
    if matches!(policy.local, LocalPolicy::Denied) {
        return Err(UrlError::LocalNotAllowed);
    }
    if path
        .components()
        .any(|component| matches!(component, Component::ParentDir))
    {
        return Err(UrlError::Path);
    }
    let path: PathBuf = path.components().collect();
    if let LocalPolicy::Beneath(folders) = &policy.local {
        let real = path.canonicalize().map_err(|_| UrlError::LocalNotAllowed)?;
        let folders: Vec<PathBuf> = folders
            .iter()
            .filter_map(|folder| folder.canonicalize().ok())
            .collect();
        let inside = |path: &PathBuf| folders.iter().any(|folder| path.starts_with(folder));
        // A `.git` file may name a git folder that is elsewhere, and a list whose objects it borrows.
        if !inside(&real) || !data_folders(&real).iter().all(inside) {
            return Err(UrlError::LocalNotAllowed);
        }
        // The resolved path is kept, so that a symlink changed later does not lead elsewhere.
        return Ok(Address::Local(real));
    }
    Ok(Address::Local(path))
}

fn parse_host_port(authority: &str) -> Result<(String, Option<u16>), UrlError> {
    let (host, port) = match authority.find(']') {
        Some(bracket) => {
            let (host, rest) = authority.split_at(bracket + 1);
            (
                host,
                rest.strip_prefix(':')
                    .or(rest.is_empty().then_some(""))
                    .ok_or(UrlError::Host)?,
            )
        }
        None if authority.starts_with('[') => return Err(UrlError::Host),
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    let port = match port {
        "" => None,
        digits if digits.chars().all(|c| c.is_ascii_digit()) => Some(
            digits
                .parse()
                .ok()
                .filter(|port| *port != 0)
                .ok_or(UrlError::Port)?,
        ),
        _ => return Err(UrlError::Port),
    };
    Ok((check_host(host)?, port))
}

fn check_host(host: &str) -> Result<String, UrlError> {
    let host = host.to_ascii_lowercase();
    if let Some(address) = host.strip_prefix('[') {
        let address = address.strip_suffix(']').ok_or(UrlError::Host)?;
        let address: Ipv6Addr = address.parse().map_err(|_| UrlError::Host)?;
        return if is_link_local(address.into()) {
            Err(UrlError::LinkLocal)
        } else {
            Ok(format!("[{address}]"))
        };
    }
    let host = host.strip_suffix('.').unwrap_or(&host);
    let label_ok = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    if host.len() > 253 || !host.split('.').all(label_ok) {
        return Err(UrlError::Host);
    }
    // A last label that is a number makes it an address; resolvers also read `2130706433` and `0x7f.1` so.
    let last = host.rsplit('.').next().unwrap_or_default();
    if last.starts_with("0x") || last.chars().all(|c| c.is_ascii_digit()) {
        let address: Ipv4Addr = host.parse().map_err(|_| UrlError::Host)?;
        if is_link_local(address.into()) {
            return Err(UrlError::LinkLocal);
        }
    }
    Ok(host.to_owned())
}

/// Addresses that belong to the link, among them the metadata services of clouds; no repository lives there.
pub(super) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            v4.is_link_local() || v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast()
        }
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_link_local(v4.into()),
            None => {
                v6.is_unicast_link_local()
                    || v6.is_unspecified()
                    || v6.is_multicast()
                    || v6 == Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)
            }
        },
    }
}

fn is_loopback(host: &str) -> bool {
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || literal
            .parse::<IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_loopback())
}

fn has_parent(path: &str) -> bool {
    path.split('/').any(|segment| segment == "..")
}

fn percent_decode(path: &str) -> Result<String, UrlError> {
    let decoded = percent_encoding::percent_decode_str(path)
        .decode_utf8()
        .map_err(|_| UrlError::Path)?;
    if decoded
        .chars()
        .any(|c| crate::domain::is_unprintable(c) || c == '\\')
    {
        return Err(UrlError::ControlCharacter);
    }
    Ok(decoded.into_owned())
}

fn display(address: &Address) -> String {
    match address {
        Address::Http { origin, path, .. } => format!("{origin}{path}"),
        Address::Ssh {
            user,
            host,
            port,
            path,
        } => {
            let user = user
                .as_deref()
                .map(|user| format!("{user}@"))
                .unwrap_or_default();
            match (port, path.starts_with('/')) {
                (None, false) if !path.starts_with('~') => format!("{user}{host}:{path}"),
                _ => {
                    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
                    let slash = if path.starts_with('/') { "" } else { "/" };
                    format!("ssh://{user}{host}{port}{slash}{path}")
                }
            }
        }
        Address::Local(path) => path.display().to_string(),
    }
}
