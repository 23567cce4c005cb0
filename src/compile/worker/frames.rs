//! What the server and a compile worker say to each other: one request, one reply.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use steward_compiler::{
    Export, Partial, ServiceAnswer, ServiceQuestion, ServicesOutput, Variables,
};

use crate::domain::VersionCode;
use crate::executor::protocol::Python;
use crate::git::CommitId;
use crate::modules::Inspection;
use crate::sandbox::{SandboxPolicy, SandboxSupport};

/// What the server asks of a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// The first request: enter this sandbox, for good.
    Enter(Box<SandboxPolicy>),
    /// Read what a project asks for.
    Inspect {
        project_dir: PathBuf,
    },
    Compile(Box<Job>),
    /// The answer to [`Reply::Ask`].
    Found(Result<ServiceAnswer, String>),
}

/// What a worker answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    Entered(Result<SandboxSupport, String>),
    Inspected(Result<Box<Inspection>, Refusal>),
    /// Not yet: the compile that runs wants to know of instances that it was not given.
    Ask(ServiceQuestion),
    Compiled(Box<JobDone>),
}

/// For fuzzing: bytes as what a worker is told and says.
pub fn read_any_frame(bytes: &[u8]) {
    let _ = steward_compiler::protocol::decode::<Request>(bytes);
    let _ = steward_compiler::protocol::decode::<Reply>(bytes);
}

/// Why a project cannot be inspected.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::compile) struct Refusal {
    pub(in crate::compile) message: String,
    /// Trying again may help.
    pub(in crate::compile) is_transient: bool,
}

/// One compile to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::compile) struct Job {
    /// What lies in `project_dir`.
    pub(in crate::compile) commit: CommitId,
    pub(in crate::compile) project_dir: PathBuf,
    pub(in crate::compile) variables: Variables,
    pub(in crate::compile) environment_id: String,
    /// Parameters and facts that are known.
    pub(in crate::compile) inputs: steward_compiler::Inputs,
    /// The compile is one of some resource sets only.
    pub(in crate::compile) partial: Option<Partial>,
    pub(in crate::compile) python: Option<Python>,
    /// The virtual environment with the modules that the project asks for.
    pub(in crate::compile) venv: Option<PathBuf>,
    /// Where its HTTP clients find the proxy to the hosts that it may reach.
    pub(in crate::compile) proxy: Option<String>,
    /// The folder in which answers of Python code are kept between compiles; `None`: none are.
    pub(in crate::compile) answers: Option<PathBuf>,
    /// Left to Python code, a little less than to the whole: what hangs is then named.
    pub(in crate::compile) time_limit: Duration,
    /// What the compile may leave in its scratch folder at any time.
    pub(in crate::compile) scratch_bytes: u64,
}

/// What came of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::compile) struct JobDone {
    pub(in crate::compile) diagnostics: Vec<Reported>,
    /// Present when there is no error.
    pub(in crate::compile) export: Option<Export>,
    /// What it leaves for the service catalog and inventory.
    pub(in crate::compile) services: ServicesOutput,
    /// What `project.yml` says of the settings of the environment.
    pub(in crate::compile) settings: serde_json::Map<String, serde_json::Value>,
    /// What the executors need.
    pub(in crate::compile) code: VersionCode,
    /// What the model printed and its Python code wrote, capped.
    pub(in crate::compile) printed: String,
}

impl JobDone {
    pub(in crate::compile) fn n_errors(&self) -> usize {
        let diagnostics = self.diagnostics.iter();
        diagnostics.filter(|one| one.is_error).count()
    }

    pub(in crate::compile) fn has_errors(&self) -> bool {
        self.n_errors() > 0
    }
}

/// A diagnostic, as data and as texts for people.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::compile) struct Reported {
    pub(in crate::compile) is_error: bool,
    pub(in crate::compile) json: String,
    pub(in crate::compile) plain: String,
    pub(in crate::compile) colored: String,
}

impl Reported {
    /// An error that has no place in the model.
    pub(in crate::compile) fn error(kind: &str, message: String) -> Self {
        Self::without_place("error", kind, message)
    }

    /// A warning that has no place in the model.
    pub(in crate::compile) fn warning(kind: &str, message: String) -> Self {
        Self::without_place("warning", kind, message)
    }

    fn without_place(severity: &str, kind: &str, message: String) -> Self {
        let json = serde_json::json!({"severity": severity, "kind": kind, "message": message});
        Self {
            is_error: severity == "error",
            json: json.to_string(),
            plain: message.clone(),
            colored: message,
        }
    }
}
