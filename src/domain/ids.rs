//! A newtype for every id, so that two swapped arguments do not compile.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// A new id; later ones sort after earlier ones.
            pub fn generate() -> Self {
                Self(Uuid::now_v7())
            }

            /// The id as others have it, who know no environments or compiles.
            pub fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }
    )*};
}

ids! {
    ProjectId;
    EnvironmentId;
    CompileId;
    /// One thing done to one resource: a row of its history.
    ActionId;
    DryRunId;
    /// A fact or a parameter.
    ParameterId;
    /// A resource set, which is known by its name everywhere else.
    ResourceSetId;
}

impl EnvironmentId {
    /// The environment that a project and name always get on this machine, so that a lost database is rebuilt with
    /// the same ids (links, agents and tokens of clients keep working).
    pub fn named(project: &str, environment: &str) -> Self {
        Self(named(&format!("environment:{project}/{environment}")))
    }
}

impl ParameterId {
    /// Of the fact of a resource, or of a parameter for an empty resource id: the same whenever it is asked for.
    pub fn named(environment: EnvironmentId, resource_id: &str, name: &str) -> Self {
        Self(named(&format!(
            "parameter:{environment}/{resource_id}/{name}"
        )))
    }
}

impl ResourceSetId {
    /// Of the set of that name: the same whenever it is asked for.
    pub fn named(environment: EnvironmentId, name: &str) -> Self {
        Self(named(&format!("resource set:{environment}/{name}")))
    }
}

impl ProjectId {
    /// As [`EnvironmentId::named`], for a project.
    pub fn named(project: &str) -> Self {
        Self(named(&format!("project:{project}")))
    }
}

fn named(text: &str) -> Uuid {
    use sha2::{Digest, Sha256};
    let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}
