//! Where the resources of an agent are deployed. Source: docs/reference/deployment.md § 8.1.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde_json::Value;

use super::AgentName;

/// Agents that one environment may place. Each entry is read whenever the settings are.
const MAX_PLACED: usize = 100_000;

/// Where the executor of an agent runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AgentPlace {
    /// On the machine of the server.
    #[default]
    Local,
    /// Where somebody runs `steward agent` with its name.
    External,
    /// On another machine, which the server reaches by OpenSSH's client.
    Ssh(SshTarget),
}

/// A machine that is reached by ssh.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SshTarget {
    pub user: Option<String>,
    /// A name or an address; of IPv6 without brackets.
    pub host: String,
    pub port: Option<u16>,
    /// The Python there, as a path or the name of a program; `None`: `python3`.
    pub python: Option<String>,
}

impl FromStr for AgentPlace {
    type Err = String;

    fn from_str(uri: &str) -> Result<Self, String> {
        match uri {
            "local:" => Ok(Self::Local),
            "external:" => Ok(Self::External),
            _ => match uri.strip_prefix("ssh://") {
                Some(target) => SshTarget::parse(target).map(Self::Ssh),
                None => Err(format!(
                    "`{uri}` is not `local:`, `external:` or `ssh://[user@]host[:port][?python=…]`"
                )),
            },
        }
    }
}

impl SshTarget {
    /// What follows `ssh://`. Every part is checked by the characters it may have, so that none can become an option or a
    /// command of `ssh`.
    fn parse(text: &str) -> Result<Self, String> {
        let (place, query) = text.split_once('?').unwrap_or((text, ""));
        let (user, place) = match place.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, place),
        };
        let (host, port) = match place.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest
                    .split_once(']')
                    .ok_or("the address has `[` without `]`")?;
                let port = rest.strip_prefix(':');
                if port.is_none() && !rest.is_empty() {
                    return Err("only a port may follow the address".to_owned());
                }
                (host, port)
            }
            None => match place.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (place, None),
            },
        };
        let port = match port {
            None => None,
            Some(port) => Some(
                port.parse::<u16>()
                    .ok()
                    .filter(|port| *port > 0)
                    .ok_or_else(|| format!("`{port}` is no port"))?,
            ),
        };
        let mut python = None;
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            // `retries` and `retry_wait` of older models mean nothing here: the server tries again on its own.
            if name == "python" && !value.is_empty() {
                python = Some(checked("python", value, "/._-+")?);
            }
        }
        Ok(Self {
            user: user.map(|user| checked("user", user, "._-")).transpose()?,
            host: checked("host", host, "._-:")?,
            port,
            python,
        })
    }
}

/// A part of an ssh address: letters, digits and `others`, and no hyphen first.
fn checked(what: &str, text: &str, others: &str) -> Result<String, String> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || others.contains(c);
    let is_named = !text.is_empty() && text.len() <= 255 && !text.starts_with('-');
    match is_named && text.chars().all(is_good) {
        true => Ok(text.to_owned()),
        false => Err(format!("`{text}` is no {what} for ssh")),
    }
}

/// Checks a map from agents to places, as the setting `agent_map` has it.
///
/// # Errors
/// Which entry is wrong, and why.
pub fn check_agent_map(value: &Value) -> Result<(), String> {
    let Value::Object(map) = value else {
        return Err("an object from names of agents to places is needed".to_owned());
    };
    if map.len() > MAX_PLACED {
        return Err(format!("{} agents, the limit is {MAX_PLACED}", map.len()));
    }
    for (name, uri) in map {
        let Some(uri) = uri.as_str() else {
            return Err(format!("the place of agent `{name}` is no text"));
        };
        uri.parse::<AgentPlace>()
            .map_err(|why| format!("agent `{name}`: {why}"))?;
    }
    Ok(())
}

/// What is wrong with the places that a model gives to its agents: a sentence for each that nobody can go to.
pub fn unusable_places(places: &BTreeMap<String, String>) -> Vec<String> {
    let wrong = |(name, uri): (&String, &String)| {
        let why = uri.parse::<AgentPlace>().err()?;
        Some(format!(
            "std::AgentConfig of agent `{name}`: {why}; correct its `uri`, or what it is made from: address, remote_user, \
             remote_port and os.python_cmd of the host"
        ))
    };
    places.iter().filter_map(wrong).collect()
}

/// Reads a map that was checked; entries that are wrong are left out.
pub fn read_agent_map(value: &Value) -> BTreeMap<AgentName, AgentPlace> {
    let entries = value.as_object().into_iter().flatten();
    let entries = entries.filter_map(|(name, uri)| {
        let place = uri.as_str()?.parse().ok()?;
        Some((AgentName::new(name), place))
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn ssh(uri: &str) -> SshTarget {
        match uri.parse() {
            Ok(AgentPlace::Ssh(target)) => target,
            other => panic!("{uri}: {other:?}"),
        }
    }

    #[test]
    fn the_uris_of_agents_are_read() {
        assert_eq!("local:".parse(), Ok(AgentPlace::Local));
        assert_eq!("external:".parse(), Ok(AgentPlace::External));
        let target = ssh("ssh://root@1.2.3.4:2222?python=/usr/bin/python3.13&retries=10");
        let expected = SshTarget {
            user: Some("root".to_owned()),
            host: "1.2.3.4".to_owned(),
            port: Some(2222),
            python: Some("/usr/bin/python3.13".to_owned()),
        };
        assert_eq!(target, expected);
        assert_eq!(ssh("ssh://web1").host, "web1");
        assert_eq!(ssh("ssh://[fe80::1]:22").host, "fe80::1");
    }

    /// Input: a machine whose name, user, port or Python is an option or a command of ssh (docs/reference/security.md § 3.44). Answer: the setting is refused and says which.
    #[test]
    fn no_part_of_an_ssh_uri_can_become_an_option_or_a_command() {
        for uri in [
            "ssh://-oProxyCommand=id",
            "ssh://root@-oProxyCommand=id",
            "ssh://-l@host",
            "ssh://host;id",
            "ssh://host name",
            "ssh://$(id)",
            "ssh://host:22x",
            "ssh://host:0",
            "ssh://host?python=python3;id",
            "ssh://host?python=-c",
            "ssh://",
            "http://host",
            "",
        ] {
            assert!(uri.parse::<AgentPlace>().is_err(), "{uri}");
        }
    }
}
