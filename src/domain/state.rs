//! The states of compiles and resources, with the words of docs/reference/deployment.md § 3.2.

/// Enums whose variants are one word each, in the database, between our processes and in the API.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($variant),* }

        impl $name {
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }

            /// All of them, in order.
            pub fn words() -> Vec<&'static str> {
                vec![$($word),*]
            }

            /// `None` for a word that is none of these.
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                let unknown = || UnknownWord {
                    kind: stringify!($name),
                    // A word of ours is short; what is not one may be anything.
                    word: word.chars().take(40).collect(),
                };
                Self::parse(word).ok_or_else(unknown)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <std::borrow::Cow<'_, str> as serde::Deserialize>::deserialize(deserializer)?;
                word.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

/// The states that summaries of an environment count, zeros included: orphans are none of its resources any more. One of
/// them is of older clients.
pub const SUMMARY_STATES: [&str; 10] = [
    "unavailable",
    "skipped",
    "deployed",
    "failed",
    "deploying",
    "available",
    "cancelled",
    "undefined",
    "skipped_for_undefined",
    "non_compliant",
];

/// A text that stands for none of the variants of an enum.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is no {kind}")]
pub struct UnknownWord {
    kind: &'static str,
    word: String,
}

words! {
    /// `Rejected`: the model has mistakes. `Aborted`: our world failed, so trying again may help.
    CompileState {
        Queued = "queued",
        Running = "running",
        Exported = "exported",
        Compiled = "compiled",
        Rejected = "rejected",
        Aborted = "aborted",
    }

    /// What a handler says of one run.
    HandlerStatus {
        Deployed = "deployed",
        Failed = "failed",
        Skipped = "skipped",
        SkippedForDependency = "skipped_for_dependency",
        NonCompliant = "non_compliant",
        Unavailable = "unavailable",
        Dry = "dry",
    }

    LastRun {
        New = "new",
        Successful = "successful",
        Failed = "failed",
        Skipped = "skipped",
    }

    Blocked {
        NotBlocked = "not_blocked",
        Blocked = "blocked",
        TemporarilyBlocked = "temporarily_blocked",
    }

    Change {
        NoChange = "nochange",
        Created = "created",
        Updated = "updated",
        Purged = "purged",
    }

    /// How much a notification matters.
    Severity {
        Message = "message",
        Info = "info",
        Success = "success",
        Warning = "warning",
        Error = "error",
    }

    /// What was done to a resource, in its history.
    ActionKind {
        Store = "store",
        Deploy = "deploy",
        DryRun = "dryrun",
        CollectFacts = "getfact",
    }

    /// The old-style status of a resource, of a run and of a dependency. Source: docs/reference/deployment.md § 3.3.
    ResourceStatus {
        Available = "available",
        Deploying = "deploying",
        Undefined = "undefined",
        SkippedForUndefined = "skipped_for_undefined",
        Orphaned = "orphaned",
        Deployed = "deployed",
        Failed = "failed",
        Skipped = "skipped",
        NonCompliant = "non_compliant",
        Unavailable = "unavailable",
        Dry = "dry",
    }

    /// What a dry run says of a resource: that it was compared, or why not. `skipped`: its handler does not deal with it now.
    DryRunStatus {
        Changes = "changes",
        Undefined = "undefined",
        SkippedForUndefined = "skipped_for_undefined",
        AgentDown = "agent_down",
        Skipped = "skipped",
    }

    /// Whether a resource is as its desired state says. Source: docs/reference/deployment.md § 3.3.
    Compliance {
        Undefined = "undefined",
        HasUpdate = "has_update",
        Compliant = "compliant",
        NonCompliant = "non_compliant",
    }

    /// Who says that a fact or a parameter has its value. Source: docs/reference/deployment.md § 5.7.
    FactSource {
        Fact = "fact",
        Plugin = "plugin",
        User = "user",
        Form = "form",
        Report = "report",
    }

    /// How serious a line of a run's log is, the most serious first.
    LogLevel {
        Critical = "CRITICAL",
        Error = "ERROR",
        Warning = "WARNING",
        Info = "INFO",
        Debug = "DEBUG",
        Trace = "TRACE",
    }
}

impl HandlerStatus {
    /// Source: docs/reference/deployment.md § 3.2.
    pub fn last_run(self) -> LastRun {
        match self {
            Self::Deployed | Self::NonCompliant | Self::Dry => LastRun::Successful,
            Self::Skipped | Self::SkippedForDependency => LastRun::Skipped,
            Self::Failed | Self::Unavailable => LastRun::Failed,
        }
    }

    /// The old-style status that clients read.
    pub fn legacy(self) -> ResourceStatus {
        match self {
            Self::Deployed => ResourceStatus::Deployed,
            Self::Failed => ResourceStatus::Failed,
            Self::Skipped | Self::SkippedForDependency => ResourceStatus::Skipped,
            Self::NonCompliant => ResourceStatus::NonCompliant,
            Self::Unavailable => ResourceStatus::Unavailable,
            Self::Dry => ResourceStatus::Dry,
        }
    }
}
