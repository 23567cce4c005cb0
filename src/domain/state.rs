//! The states of compiles and resources, with the words of docs/reference/deployment.md § 3.2.

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($variant),* }

        impl $name {
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }

            /// `None` for a word that is none of these.
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }
    )*};
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
    pub fn legacy(self) -> &'static str {
        match self {
            Self::SkippedForDependency => "skipped",
            other => other.as_str(),
        }
    }
}
