//! Which hosts an installation names: what `project.yml`, its requirements and, where it asks for that, this machine say of
//! indexes and repositories. What is built may reach these even where they are on this machine.

use std::path::PathBuf;

use super::Inspection;
use super::lock::Source;

/// Ports where a URL has none.
const USUAL_PORTS: [(&str, u16); 4] = [("http", 80), ("https", 443), ("git", 9418), ("ssh", 22)];
/// How this machine reaches the network, if not directly.
const PROXIES: [&str; 7] = [
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "PIP_PROXY",
];
/// What pip's environment says of places of packages.
const PLACES: [&str; 3] = ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"];
/// Bytes that are read of a configuration of pip at most.
const MAX_CONFIGURATION_BYTES: u64 = 1 << 20;

impl Inspection {
    /// The hosts that the project names, each as `host:port`.
    pub fn hosts(&self) -> Vec<String> {
        let asked = &self.requirements;
        let indexes = asked.pip.index_url.iter().chain(&asked.pip.extra_index_url);
        let texts = indexes.chain(&asked.sources).chain(&asked.repositories);
        let locked = self.lock.iter().flat_map(|lock| &lock.packages);
        let locked = locked.filter_map(|package| match &package.source {
            Source::Repository { git, .. } => Some(git),
            Source::Archive { url, .. } => url.as_ref(),
            Source::Folder { .. } | Source::Own { .. } => None,
        });
        texts.chain(locked).flat_map(|text| hosts(text)).collect()
    }
}

/// What this machine says of the network and of places of packages.
#[derive(Debug, Default)]
pub struct MachineNetwork {
    /// The hosts, each as `host:port`.
    pub hosts: Vec<String>,
    /// It goes through a proxy.
    pub has_proxy: bool,
}

impl MachineNetwork {
    /// `of_pip`: what pip is told of this machine counts, too.
    pub fn read(of_pip: bool) -> Self {
        let mut found = Self {
            hosts: Vec::new(),
            has_proxy: PROXIES.iter().any(|name| variable(name).is_some()),
        };
        if of_pip {
            let places = PLACES.iter().filter_map(|name| variable(name));
            let texts = configurations().into_iter().chain(places);
            for text in texts {
                found.has_proxy |= text.lines().any(is_proxy);
                found.hosts.extend(hosts(&text));
            }
        }
        found
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Whether a line of pip's configuration names a proxy.
fn is_proxy(line: &str) -> bool {
    let name = line.split(['=', ':']).next().unwrap_or_default();
    name.trim().eq_ignore_ascii_case("proxy")
}

/// The texts of pip's configuration files.
fn configurations() -> Vec<String> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let of_home = home
        .into_iter()
        .flat_map(|home| [".config/pip/pip.conf", ".pip/pip.conf"].map(|name| home.join(name)));
    let folders = std::env::var("XDG_CONFIG_DIRS").unwrap_or_default();
    let of_folders = folders
        .split(':')
        .filter(|folder| !folder.is_empty())
        .map(|folder| PathBuf::from(folder).join("pip/pip.conf"));
    let named = std::env::var_os("PIP_CONFIG_FILE").map(PathBuf::from);
    let of_all = ["/etc/pip.conf", "/etc/xdg/pip/pip.conf"].map(PathBuf::from);
    let files = of_home.chain(of_folders).chain(named).chain(of_all);
    let is_small = |file: &PathBuf| {
        std::fs::metadata(file)
            .is_ok_and(|found| found.is_file() && found.len() <= MAX_CONFIGURATION_BYTES)
    };
    let files = files.filter(is_small);
    files
        .filter_map(|file| std::fs::read_to_string(file).ok())
        .collect()
}

/// The hosts of all URLs in a text.
fn hosts(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("://") {
        let is_scheme = |c: char| c.is_ascii_alphanumeric();
        let scheme = before.rsplit(|c| !is_scheme(c)).next().unwrap_or_default();
        let ends = |c: char| matches!(c, '/' | '?' | '#' | '"' | '\'' | ',') || c.is_whitespace();
        let authority = behind.split(ends).next().unwrap_or_default();
        found.extend(host(scheme, authority));
        rest = behind;
    }
    found
}

fn host(scheme: &str, authority: &str) -> Option<String> {
    let (_, usual) = USUAL_PORTS.iter().find(|(known, _)| *known == scheme)?;
    let place = authority.rsplit('@').next().unwrap_or_default();
    let has_port = match place.rsplit_once(':') {
        Some((_, port)) => !port.is_empty() && port.chars().all(|c| c.is_ascii_digit()),
        None => false,
    };
    match place {
        "" => None,
        _ if has_port => Some(place.to_owned()),
        _ => Some(format!("{}:{usual}", place.trim_end_matches(':'))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_of_urls_are_found_with_their_ports() {
        let text = "--index-url https://user:a@b@index.example.org/simple --find-links 'http://[::1]:8080/x'\n\
                    extra-index-url = http://127.0.0.1:3141/root,https://other:\n\
                    a @ git+ssh://git@host/a.git\nfile:///a ://b x://c";
        let expected = [
            "index.example.org:443",
            "[::1]:8080",
            "127.0.0.1:3141",
            "other:443",
            "host:22",
        ];
        assert_eq!(hosts(text), expected);
    }

    #[test]
    fn a_proxy_of_pip_is_seen() {
        assert!(is_proxy("proxy = http://p:3128") && is_proxy(" Proxy: x"));
        assert!(!is_proxy("index-url = http://proxy/") && !is_proxy(""));
    }
}
