//! The Python packages that the handlers of an exported version need, as its exporter asks for them.
//!
//! They come from whoever may export to this server, and go into a file that pip reads, in which a line may be more than a
//! requirement: an option, another file, a variable of the server's environment. So only what is a requirement and no more is
//! taken. Source: docs/reference/deployment.md § 5.4, docs/reference/security.md § 3.41.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::printable;

/// A requirement with its markers is never this long.
const MAX_REQUIREMENT_BYTES: usize = 2 << 10;
/// A URL of an index.
const MAX_URL_BYTES: usize = 2 << 10;
/// Module names of the language, as packages.
const MODULE_PACKAGE: &str = "inmanta-module-";
/// What may stand before `://` in a requirement: pip reads nothing of this machine by these.
const SCHEMES: [&str; 5] = ["https", "http", "git+https", "git+http", "git+ssh"];

/// Where packages come from: `pip:` of `project.yml`. Source: docs/reference/language.md § 11.2.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PipOptions {
    #[serde(alias = "index-url")]
    pub index_url: Option<String>,
    #[serde(alias = "extra-index-url")]
    pub extra_index_url: Vec<String>,
    pub pre: Option<bool>,
    #[serde(alias = "use-system-config")]
    pub use_system_config: bool,
}

impl PipOptions {
    /// Checks what a stranger sends.
    ///
    /// # Errors
    /// Which URL is none of an index, and why.
    pub fn check(&self) -> Result<(), String> {
        let mut urls = self.index_url.iter().chain(&self.extra_index_url);
        urls.try_for_each(|url| {
            let shown = shown(url);
            let rest = ["https://", "http://"]
                .iter()
                .find_map(|scheme| url.strip_prefix(scheme));
            match rest {
                _ if url.len() > MAX_URL_BYTES => Err(format!(
                    "the URL of an index {shown} is longer than {MAX_URL_BYTES} bytes"
                )),
                Some(rest) if !rest.is_empty() && rest.chars().all(is_of_url) => Ok(()),
                _ => Err(format!(
                    "{shown} is no URL of an index: it has to begin with https:// or http://"
                )),
            }
        })
    }
}

/// What a virtual environment for handlers is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HandlerPackages {
    pub requirements: BTreeSet<String>,
    pub constraints: BTreeSet<String>,
    pub pip: PipOptions,
}

impl HandlerPackages {
    /// The same for the same packages, wherever they are asked for.
    pub fn digest(&self) -> String {
        let text = serde_json::to_vec(&(&self.requirements, &self.constraints, &self.pip));
        hex::encode(&Sha256::digest(text.unwrap_or_default())[..12])
    }
}

/// The name of the package that a requirement begins with, as it stands there.
pub fn name_of_requirement(requirement: &str) -> &str {
    &requirement[..end_of_name(requirement)]
}

/// Whether a requirement names the package of a module of the language, by the module's name.
pub fn module_of_requirement(requirement: &str) -> Option<String> {
    let name = name_of_requirement(requirement).to_ascii_lowercase();
    let name = name.replace(['_', '.'], "-");
    Some(name.strip_prefix(MODULE_PACKAGE)?.replace('-', "_"))
}

/// Checks that a text is a requirement, such as `requests[socks] >= 2, < 3 ; python_version > "3.11"`, or
/// `name @ https://host/file.whl`, and nothing else that pip would read in its place.
///
/// # Errors
/// What is wrong with it.
pub fn check_requirement(text: &str) -> Result<(), String> {
    let shown = shown(text);
    let wrong = |why: &str| Err(format!("{shown} is no requirement: {why}"));
    if text.len() > MAX_REQUIREMENT_BYTES {
        return wrong(&format!("it is longer than {MAX_REQUIREMENT_BYTES} bytes"));
    }
    if let Some(character) = text.chars().find(|c| !matches!(c, ' '..='~')) {
        return wrong(&format!("it has the character {character:?}"));
    }
    // pip fills in variables of its environment, and goes on with the next line.
    if let Some(character) = text.chars().find(|c| matches!(c, '$' | '\\' | '`')) {
        return wrong(&format!("it has the character `{character}`"));
    }
    if text.starts_with('-') || text.contains(" -") {
        return wrong(
            "options of pip are not taken; where packages come from is said by `pip:` of project.yml",
        );
    }
    let end = end_of_name(text);
    let name = &text[..end];
    let is_edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if !is_edge(name.chars().next()) || !is_edge(name.chars().next_back()) {
        return wrong("it has to begin with the name of a package");
    }
    let rest = text[end..].trim_start();
    let rest = match rest.strip_prefix('[') {
        None => rest,
        Some(extras) => match extras.split_once(']') {
            Some((names, rest)) if names.chars().all(is_of_extras) => rest.trim_start(),
            _ => return wrong("its extras are no list of names in brackets"),
        },
    };
    if let Some(url) = rest.strip_prefix('@') {
        let url = url.split(" ;").next().unwrap_or_default().trim();
        return match url.split_once("://") {
            Some((scheme, rest)) if SCHEMES.contains(&scheme) && rest.chars().all(is_of_url) => {
                Ok(())
            }
            _ => wrong("packages come from an index, or from a URL of https, http or git"),
        };
    }
    let versions = rest.split(';').next().unwrap_or_default();
    let begins = versions.trim_start_matches('(').chars().next();
    let is_begin = begins.is_none_or(|c| matches!(c, '=' | '!' | '<' | '>' | '~'));
    match is_begin && versions.chars().all(is_of_versions) {
        true => Ok(()),
        false => wrong("behind the name it has neither versions nor a marker"),
    }
}

/// A text of a stranger for a message: without control characters, and not all of a long one.
fn shown(text: &str) -> String {
    const SHOWN_CHARS: usize = 100;
    format!("`{}`", printable(text, SHOWN_CHARS))
}

fn end_of_name(text: &str) -> usize {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    text.find(|c| !is_of_name(c)).unwrap_or(text.len())
}

fn is_of_extras(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ',' | ' ')
}

fn is_of_versions(c: char) -> bool {
    c.is_ascii_alphanumeric() || " .*+!<>=~,()_-".contains(c)
}

fn is_of_url(c: char) -> bool {
    matches!(c, '!'..='~') && !matches!(c, '"' | '\'' | '<' | '>' | '\\' | '`' | '$' | '{' | '}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_taken_and_what_pip_would_read_otherwise_is_not() {
        for good in [
            "texttable",
            "texttable>=1,<2",
            "PyYAML ~= 6.0",
            "a-b_c.d (>=1.0)",
            "requests[socks, use_chardet] >=2.0,!=2.5.*",
            "tomli>=1 ; python_version < \"3.11\" and os_name != 'nt'",
            "torch==2.0+cpu",
            "name @ https://host/name-1.0-py3-none-any.whl#sha256=00",
            "name[x] @ git+ssh://git@host/name.git@main ; python_version > '3'",
        ] {
            assert_eq!(check_requirement(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("", "begin with the name"),
            ("-r other.txt", "options of pip"),
            ("--index-url https://host", "options of pip"),
            ("a --config-settings=x=y", "options of pip"),
            ("a; python_version > '3' --hash=sha256:00", "options of pip"),
            ("./folder", "begin with the name"),
            ("folder/name", "neither versions"),
            ("name @ file:///etc/passwd", "come from an index"),
            ("name @ ./x.whl", "come from an index"),
            ("name @ hg+https://host/x", "come from an index"),
            ("name @ https://host/$HOME", "`$`"),
            ("a\nb", "the character '\\n'"),
            ("a\u{1b}[31m", "the character '\\u{1b}'"),
            ("a\\", "`\\`"),
            ("a # comment", "neither versions"),
            ("a[x", "brackets"),
            ("a b", "neither versions"),
            ("ä", "the character"),
        ] {
            let error = check_requirement(bad).expect_err(bad);
            assert!(error.contains(why), "{bad}: {error}");
            assert!(
                !error.contains('\u{1b}') && !error.contains('\n'),
                "{error}"
            );
        }
        let long = check_requirement(&"x".repeat(10 << 20)).unwrap_err();
        assert!(long.len() < 300 && long.contains("longer than"), "{long}");
    }

    #[test]
    fn an_index_has_a_url_of_http() {
        let check = |url: &str| {
            let options = PipOptions {
                index_url: Some(url.to_owned()),
                ..PipOptions::default()
            };
            options.check()
        };
        for good in ["https://user:word@host/simple/", "http://[::1]:3141/root"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "file:///x",
            "",
            "--pre",
            "https://",
            "https://a b",
            "https://a\u{1b}",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn packages_of_modules_are_known_by_their_names() {
        let module = |text: &str| module_of_requirement(text);
        assert_eq!(
            module("Inmanta_module-net.ip>=1").as_deref(),
            Some("net_ip")
        );
        assert_eq!(module("inmanta-core"), None);
    }
}
