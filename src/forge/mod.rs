//! What a forge says when somebody pushes: is it really the forge, and what did it say.
//!
//! A delivery is headers and a body. [`verify`] comes first and takes the raw bytes; [`parse`] makes a [`Hook`]
//! of them. Both are pure: no I/O, no clock, no logging. They take whatever the internet sends and answer with a
//! value or an error, and every text in either is safe to log.
//!
//! A payload is only a hint to look again. Nothing here is an address to fetch from or a commit to deploy: which
//! repository a hook belongs to is fixed by the URL it was configured with, and what to deploy is asked from
//! that repository.

mod hook;
mod signature;

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

pub use hook::{Addresses, Error, Event, Hook, Push, RepositoryHint, Revision, parse};
pub use signature::{SignatureError, verify};

/// The headers of a delivery: all values of the header of that name, in any case of its letters.
pub type Headers<'a> = dyn Fn(&str) -> Vec<&'a [u8]> + 'a;

/// Which program sends the hook. Fixed when the hook is configured, never guessed from a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Forge {
    GitHub,
    Gitea,
    Forgejo,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a known forge; these are github, gitea and forgejo")]
pub struct UnknownForge;

impl FromStr for Forge {
    type Err = UnknownForge;

    fn from_str(text: &str) -> Result<Forge, UnknownForge> {
        match text.to_ascii_lowercase().as_str() {
            "github" => Ok(Forge::GitHub),
            "gitea" => Ok(Forge::Gitea),
            "forgejo" => Ok(Forge::Forgejo),
            _ => Err(UnknownForge),
        }
    }
}

impl fmt::Display for Forge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Forge::GitHub => "github",
            Forge::Gitea => "gitea",
            Forge::Forgejo => "forgejo",
        })
    }
}

impl Forge {
    /// What stands after `X-` in the headers of this forge, the best first. Forgejo sends those of Gitea too.
    fn prefixes(self) -> &'static [&'static str] {
        match self {
            Forge::GitHub => &["GitHub"],
            Forge::Gitea => &["Gitea"],
            Forge::Forgejo => &["Forgejo", "Gitea"],
        }
    }
}
