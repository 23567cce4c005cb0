//! `steward lsm`: the services of an environment of a server. What can be ordered, what was ordered, and how it goes.

mod catalog;
mod given;
mod history;
mod instances;
mod table;
mod watch;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use serde_json::Value;
use steward_lsm::ServiceEntity;
use uuid::Uuid;

use super::compile::find_project;
use super::remote::{Remote, RemoteError, ServerArguments, segment};
use super::terminal::{Paint, Style, printable, write_out};
use super::{FAILED, TROUBLE, USAGE, log};
use crate::domain::chain;

/// What is wrong, and the exit code.
type Failure = (String, u8);

#[derive(Debug, Subcommand)]
pub(super) enum LsmCommand {
    /// What can be ordered: the services, their attributes and lifecycles.
    #[command(args_conflicts_with_subcommands = true)]
    Catalog {
        #[command(subcommand)]
        command: Option<CatalogCommand>,
        #[command(flatten)]
        server: Common,
    },
    /// The instances of a service, the newest first.
    List(ListArguments),
    /// One instance: its state and its attributes.
    Show(InstanceArguments),
    /// Order an instance. Its attributes are checked here before they are sent.
    Create(CreateArguments),
    /// Change attributes of an instance.
    Update(UpdateArguments),
    /// Delete an instance: it goes through its lifecycle, which removes its resources.
    Delete(DeleteArguments),
    /// Ask for another state, where the lifecycle lets clients do that.
    SetState(StateArguments),
    /// Follow an instance through its states, until it stays in one: exit code 1 if that is a bad one.
    Watch(WatchArguments),
    /// Why an instance was rejected, or failed.
    Diagnose(DiagnoseArguments),
    /// What happened to an instance, the newest first.
    Events(HistoryArguments),
    /// The versions of an instance, the newest first.
    Log(HistoryArguments),
}

#[derive(Debug, Subcommand)]
pub(super) enum CatalogCommand {
    /// The services, with how many instances each has.
    List(Common),
    /// A service: its attributes, and the states of its lifecycle.
    Show(ServiceArguments),
    /// The lifecycle as a picture. SVG is one; Mermaid and DOT are texts that other programs draw.
    Diagram {
        #[command(flatten)]
        of: ServiceArguments,
        #[arg(long, value_enum, default_value_t = DiagramFormat::Mermaid)]
        format: DiagramFormat,
        /// A state that stands out.
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
    },
    /// The attributes as JSON Schema.
    Schema {
        #[command(flatten)]
        of: ServiceArguments,
        /// Of what is given to create, what may be updated, or what is stored.
        #[arg(long = "for", value_enum, default_value_t = SchemaPurpose::Create)]
        purpose: SchemaPurpose,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum DiagramFormat {
    Mermaid,
    Dot,
    Svg,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum SchemaPurpose {
    Create,
    Update,
    Read,
}

/// What all of these commands have.
#[derive(Debug, clap::Args)]
pub(super) struct Common {
    #[command(flatten)]
    server: ServerArguments,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ServiceArguments {
    /// The service, as the catalog calls it.
    #[arg(value_name = "SERVICE")]
    service: String,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
pub(super) struct InstanceArguments {
    /// The service, as the catalog calls it.
    #[arg(value_name = "SERVICE")]
    service: String,
    /// The instance: its identity, or its id.
    #[arg(value_name = "INSTANCE")]
    instance: String,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
pub(super) struct ListArguments {
    #[command(flatten)]
    of: ServiceArguments,
    /// Only instances in this state; may be repeated.
    #[arg(long, value_name = "STATE")]
    state: Vec<String>,
    /// Those that have ended, too.
    #[arg(long)]
    all: bool,
    /// How many at most.
    #[arg(long, value_name = "N", default_value = "100")]
    limit: NonZeroUsize,
}

#[derive(Debug, clap::Args)]
pub(super) struct GivenArguments {
    /// A file with attributes, YAML or JSON; `-` is standard input.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// An attribute, its value as YAML; goes before that of the file. An update takes a path into one, too, such as
    /// `sites[name=ams1].mbps=200`.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = given::setting)]
    set: Vec<(String, String)>,
}

#[derive(Debug, clap::Args)]
pub(super) struct CreateArguments {
    #[command(flatten)]
    of: ServiceArguments,
    #[command(flatten)]
    given: GivenArguments,
    /// The id of the instance [default: a new one].
    #[arg(long, value_name = "UUID")]
    id: Option<Uuid>,
    /// Follow it through its states, as `steward lsm watch` does.
    #[arg(long)]
    watch: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct UpdateArguments {
    #[command(flatten)]
    of: InstanceArguments,
    #[command(flatten)]
    given: GivenArguments,
    #[command(flatten)]
    seen: Seen,
}

/// What all commands have that change an instance.
#[derive(Debug, clap::Args)]
pub(super) struct Seen {
    /// Refuse if the instance has another version by now [default: the one that it has].
    #[arg(long, value_name = "N")]
    version: Option<u64>,
    /// Follow it through its states, as `steward lsm watch` does.
    #[arg(long)]
    watch: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct DeleteArguments {
    #[command(flatten)]
    of: InstanceArguments,
    #[command(flatten)]
    seen: Seen,
}

#[derive(Debug, clap::Args)]
pub(super) struct StateArguments {
    #[command(flatten)]
    of: InstanceArguments,
    /// The state.
    #[arg(value_name = "STATE")]
    state: String,
    /// Why: it is kept with the event.
    #[arg(short = 'm', long, value_name = "TEXT")]
    message: Option<String>,
    #[command(flatten)]
    seen: Seen,
}

#[derive(Debug, clap::Args)]
pub(super) struct WatchArguments {
    #[command(flatten)]
    of: InstanceArguments,
    /// Go on until it is in this state.
    #[arg(long, value_name = "STATE")]
    until: Option<String>,
    /// End after so many seconds, with exit code 1.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub(super) struct DiagnoseArguments {
    #[command(flatten)]
    of: InstanceArguments,
    /// How many versions back failures and rejections are looked for.
    #[arg(long, value_name = "N", default_value_t = 1)]
    lookbehind: u64,
}

#[derive(Debug, clap::Args)]
pub(super) struct HistoryArguments {
    #[command(flatten)]
    of: InstanceArguments,
    /// How many at most.
    #[arg(long, value_name = "N", default_value = "50")]
    limit: NonZeroUsize,
}

#[expect(clippy::print_stderr, reason = "this is the prompt")]
pub(super) fn run(command: &LsmCommand) -> ExitCode {
    log::quiet();
    match dispatch(command) {
        Ok(code) => code,
        Err((message, code)) => {
            eprintln!("steward: {message}");
            ExitCode::from(code)
        }
    }
}

fn dispatch(command: &LsmCommand) -> Result<ExitCode, Failure> {
    match command {
        LsmCommand::Catalog { command, server } => match command {
            None => catalog::list(server),
            Some(CatalogCommand::List(common)) => catalog::list(common),
            Some(CatalogCommand::Show(of)) => catalog::show(of),
            Some(CatalogCommand::Diagram { of, format, state }) => {
                catalog::diagram(of, *format, state.as_deref())
            }
            Some(CatalogCommand::Schema { of, purpose }) => catalog::schema(of, *purpose),
        },
        LsmCommand::List(arguments) => instances::list(arguments),
        LsmCommand::Show(arguments) => instances::show(arguments),
        LsmCommand::Create(arguments) => instances::create(arguments),
        LsmCommand::Update(arguments) => instances::update(arguments),
        LsmCommand::Delete(arguments) => instances::delete(arguments),
        LsmCommand::SetState(arguments) => instances::set_state(arguments),
        LsmCommand::Watch(arguments) => watch::run(arguments),
        LsmCommand::Diagnose(arguments) => history::diagnose(arguments),
        LsmCommand::Events(arguments) => history::events(arguments),
        LsmCommand::Log(arguments) => history::log(arguments),
    }
}

/// A server whose services are asked for, and how answers are written.
struct Client {
    remote: Remote,
    paint: Paint,
    is_json: bool,
}

impl Client {
    fn of(common: &Common) -> Result<Self, Failure> {
        // `.inmanta` is in the project, but services can be asked for from anywhere.
        let project = find_project(None).unwrap_or_else(|_| ".".into());
        let remote = Remote::of_only(&common.server, &project);
        let remote = remote
            .map_err(|message| (message, USAGE))?
            .map_err(failure)?;
        Ok(Self {
            remote,
            paint: Paint::of_stdout(),
            is_json: common.json,
        })
    }

    fn get(&self, path: &str) -> Result<Value, Failure> {
        self.remote.get(path).map_err(failure)
    }

    fn call(&self, method: &'static str, path: &str, body: &Value) -> Result<Value, Failure> {
        let mut answer = self
            .remote
            .call(method, path, Some(body))
            .map_err(failure)?;
        Ok(answer["data"].take())
    }

    /// The record of a service.
    fn service(&self, name: &str) -> Result<Value, Failure> {
        let path = format!("/lsm/v1/service_catalog/{}", segment(name));
        match self.remote.get(&path) {
            Ok(mut answer) => Ok(answer["data"].take()),
            Err(RemoteError::Refused { status: 404, .. }) => {
                let list = self.get("/lsm/v1/service_catalog")?;
                let names = list["data"].as_array().into_iter().flatten();
                let names: Vec<&str> = names.filter_map(|one| one["name"].as_str()).collect();
                let known = if names.is_empty() {
                    "its catalog is empty".to_owned()
                } else {
                    format!("it has {}", names.join(", "))
                };
                Err((
                    format!("the environment has no service `{name}`: {known}"),
                    FAILED,
                ))
            }
            Err(error) => Err(failure(error)),
        }
    }

    /// The instance that somebody names, with the record of its service.
    fn instance(&self, arguments: &InstanceArguments) -> Result<(Value, Value), Failure> {
        let service = self.service(&arguments.service)?;
        let named = arguments.instance.as_str();
        let identity = service["service_identity"].as_str();
        let names_identity = |identity: &str| {
            let rest = named.strip_prefix(identity);
            rest.is_some_and(|rest| rest.starts_with('='))
        };
        let place = match identity {
            _ if named.parse::<Uuid>().is_ok() => named.to_owned(),
            Some(identity) if names_identity(identity) => named.to_owned(),
            Some(identity) => format!("{identity}={named}"),
            None => {
                let message = format!(
                    "`{named}` is no id, and the service {} has no identity to find its instances by",
                    arguments.service
                );
                return Err((message, USAGE));
            }
        };
        let path = format!("{}/{}", collection(&arguments.service), segment(&place));
        match self.remote.get(&path) {
            Ok(mut answer) => Ok((answer["data"].take(), service)),
            Err(RemoteError::Refused { status: 404, .. }) => {
                let message = format!("{} has no instance `{named}`", arguments.service);
                Err((message, FAILED))
            }
            Err(error) => Err(failure(error)),
        }
    }

    /// The definition that an instance follows.
    fn definition(
        &self,
        service: &Value,
        instance: Option<&Value>,
    ) -> Result<ServiceEntity, Failure> {
        let version = instance.map_or(&service["version"], |one| &one["service_entity_version"]);
        let name = service["name"].as_str().unwrap_or_default();
        let mut record = if *version == service["version"] {
            service.clone()
        } else {
            let path = format!("/lsm/v2/service_catalog/{}/{version}", segment(name));
            self.get(&path)?["data"].take()
        };
        // What the server says beside the definition itself.
        if let Some(fields) = record.as_object_mut() {
            for field in ["environment", "owned_entities", "instance_summary"] {
                fields.remove(field);
            }
        }
        ServiceEntity::from_value(&record).map_err(|problems| {
            let message = format!("the server's definition of {name} cannot be read: {problems}");
            (message, TROUBLE)
        })
    }

    /// Writes an answer: as JSON, or as people read it.
    fn write(&self, value: &Value, text: impl FnOnce(Paint) -> String) -> ExitCode {
        let text = if self.is_json {
            format!("{value}\n")
        } else {
            text(self.paint)
        };
        write_out(&text)
    }
}

fn failure(error: RemoteError) -> Failure {
    match error {
        RemoteError::Refused {
            status: 401,
            message,
            ..
        } => {
            let message = printable(&message);
            (
                format!("{message}: name a token with --token, or in .inmanta"),
                FAILED,
            )
        }
        RemoteError::Refused { message, .. } => (printable(&message), FAILED),
        error @ RemoteError::NoEnvironment { .. } => (printable(&error.to_string()), FAILED),
        error => (chain(&error), TROUBLE),
    }
}

fn collection(service: &str) -> String {
    format!("/lsm/v1/service_inventory/{}", segment(service))
}

fn path_of(instance: &Value) -> String {
    let text = |name: &str| instance[name].as_str().unwrap_or_default();
    format!("{}/{}", collection(text("service_entity")), text("id"))
}

/// What people call an instance: its identity, else its id.
fn name_of(instance: &Value) -> String {
    let identity = &instance["service_identity_attribute_value"];
    let name = identity.as_str().or(instance["id"].as_str());
    // An identity is any text; it stays on the line of what is said about it.
    let name = printable(name.unwrap_or_default());
    name.replace('\n', "\\n").replace('\t', "\\t")
}

/// How a state is shown: by its label.
fn style_of(service: &Value, state: &str) -> Option<Style> {
    let mut states = service["lifecycle"]["states"]
        .as_array()
        .into_iter()
        .flatten();
    let found = states.find(|one| one["name"] == state)?;
    match found["label"].as_str()? {
        "success" => Some(Style::Green),
        "warning" => Some(Style::Yellow),
        "danger" => Some(Style::Red),
        _ => Some(Style::Cyan),
    }
}

/// How long to wait before an instance is looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(200);
