//! Ids, states and settings: plain data, and the one place that reads the clock.

mod agent_place;
mod code;
mod cron;
mod data_dir;
mod environment_names;
mod error;
mod facts;
mod ids;
mod interval;
mod key_order;
mod like;
mod names;
mod packages;
mod priority;
mod resource_id;
mod settings;
mod shared_text;
mod state;
mod text;
mod time;
mod wake;

pub use agent_place::{AgentPlace, SshTarget, check_agent_map, read_agent_map, unusable_places};
pub use code::{CodeFile, CodeModule, Content, OWN_MODULES, PackagesElsewhere, VersionCode};
pub use data_dir::DataDir;
pub use environment_names::{environment_name, set_environment_names, shown_environment};
pub use error::{chain, plain_cause};
pub use facts::FactTimes;
pub use ids::{
    ActionId, CompileId, DryRunId, EnvironmentId, ParameterId, ProjectId, ResourceSetId,
};
pub use interval::{Interval, IntervalError};
pub use key_order::{order_keys, order_keys_of};
pub use like::Like;
pub use names::{AgentName, VersionNumber};
pub use packages::{
    HandlerPackages, PipOptions, check_requirement, module_of_requirement, name_of_requirement,
};
pub use priority::{ByPriority, Priority, Turns};
pub use resource_id::{NotAResourceId, ResourceId};
pub use settings::{
    Definition, SettingError, SettingKind, Settings, check as check_setting,
    definitions as setting_definitions,
};
pub use shared_text::SharedText;
pub use state::{
    ActionKind, Blocked, Change, CompileState, Compliance, DryRunStatus, FactSource, HandlerStatus,
    LastRun, LogLevel, ResourceStatus, SUMMARY_STATES, Severity, UnknownWord,
};
pub use text::{is_unprintable, printable, without_middle};
pub use time::Timestamp;
pub use wake::WakeHandle;
