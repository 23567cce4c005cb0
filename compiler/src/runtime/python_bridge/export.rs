//! What the export asks Python for: ids of resources, their objects, references, what getters uploaded. The fields that
//! classes compute are in `rendering`.

use std::collections::BTreeMap;

use rmpv::Value as Wire;

use crate::diagnostics::{Fail, fail, runtime};
use crate::hir::plugin::{PluginError, external};
use crate::protocol::{FromHost, Identify, ResourceClassInfo, ToHost, Unprocessed};
use crate::resources::NoModel;
use crate::runtime::Machine;
use crate::span::Loc;
use crate::types::{InstId, Value};

/// A resource that has changed while Python had it as an object.
pub struct Reassembled {
    /// Position among those that were given.
    pub resource: usize,
    /// The ids of what it requires now.
    pub requires: Vec<String>,
    /// All that is stored of it, sorted by name, if that has changed.
    pub fields: Option<Vec<(String, Value)>>,
}

impl Machine<'_> {
    /// The id of a reference that Python made, and by id its exported form and those of all that it needs.
    pub fn serialize_reference(
        &mut self,
        object: u32,
        loc: Loc,
    ) -> Result<(String, BTreeMap<String, Value>), NoModel> {
        let id = self.python.next_request();
        let error = match self.ask(ToHost::Serialize { id, object }) {
            Ok(FromHost::Serialized {
                reference, models, ..
            }) => {
                let mut by_id = BTreeMap::new();
                for model in models {
                    let id = model["id"].as_str().unwrap_or_default().to_owned();
                    let exported = self.value_of(&model, 0).map_err(NoModel::Failed)?;
                    by_id.insert(id, exported);
                }
                return Ok((reference, by_id));
            }
            Ok(FromHost::Ignored { .. }) => return Err(NoModel::Ignored),
            Ok(FromHost::Result { .. }) => return Err(NoModel::Unknown),
            Ok(answer) => self.refusal(answer),
            Err(error) => error,
        };
        let error = python_failure(error, "A reference can not be exported").at(loc);
        Err(NoModel::Failed(error))
    }

    /// The classes of Python's resources.
    pub fn resource_classes(&self) -> &[ResourceClassInfo] {
        match &self.python.resource_classes {
            Some(classes) => classes,
            None => &self.program.resource_classes,
        }
    }

    /// Asks which resource classes there are by now; whether Python wants to see all resources.
    pub fn begin_export(&mut self) -> Result<bool, Fail> {
        if !self.python.has_running_host() {
            return Ok(false);
        }
        let id = self.python.next_request();
        let error = match self.ask(ToHost::BeginExport { id }) {
            Ok(FromHost::ExportBegun {
                resources,
                wants_all,
                ..
            }) => {
                self.python.resource_classes = resources;
                self.resource_plans.clear();
                return Ok(wants_all);
            }
            Ok(answer) => self.refusal(answer),
            Err(error) => error,
        };
        Err(python_failure(error, "The resources can not be exported"))
    }

    /// The id of an instance's resource, of a class that computes it.
    pub fn identify(&mut self, instance: InstId, class: u32) -> Result<String, PluginError> {
        if let Some(known) = &self.python.identity {
            return Ok(known.clone());
        }
        let id = self.python.next_request();
        let message = ToHost::RenderFields {
            id,
            class,
            instance: self.to_wire(Value::Instance(instance)),
            identify: Identify::Whole,
            fields: Vec::new(),
        };
        match self.ask(message)? {
            FromHost::FieldsRendered {
                identity: Some(own),
                ..
            } => Ok(own.to_string()),
            FromHost::Ignored { reason, .. } => external("IgnoreResourceException", reason),
            FromHost::Result { .. } => Err(PluginError::Unknown),
            other => Err(self.refusal(other)),
        }
    }

    /// Lets Python make objects of resources: dependency managers change them, and classes serialize in their own ways.
    pub fn assemble(&mut self, resources: Vec<Unprocessed>) -> Result<Vec<Reassembled>, Fail> {
        let id = self.python.next_request();
        let error = match self.ask(ToHost::PostProcess { id, resources }) {
            Ok(FromHost::PostProcessed { resources, .. }) => {
                let mut changed = Vec::with_capacity(resources.len());
                for resource in resources {
                    let fields = match resource.attributes {
                        Some(Wire::Map(entries)) => Some(self.fields_of(&entries)?),
                        _ => None,
                    };
                    changed.push(Reassembled {
                        resource: resource.resource as usize,
                        requires: resource.requires,
                        fields,
                    });
                }
                return Ok(changed);
            }
            Ok(answer) => self.refusal(answer),
            Err(error) => error,
        };
        Err(python_failure(error, "The resources can not be assembled"))
    }

    fn fields_of(&mut self, entries: &[(Wire, Wire)]) -> Result<Vec<(String, Value)>, Fail> {
        let mut fields = Vec::with_capacity(entries.len());
        for (name, value) in entries {
            let name = name.as_str().unwrap_or_default().to_owned();
            fields.push((name, self.value_of(value, 0)?));
        }
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(fields)
    }

    /// What getters found besides values: unknown parameters stay here, the contents of files are the result.
    pub fn collect(&mut self) -> Result<BTreeMap<String, Vec<u8>>, Fail> {
        let mut contents = BTreeMap::new();
        if !self.python.has_running_host() {
            return Ok(contents);
        }
        let id = self.python.next_request();
        let answer = match self.ask(ToHost::Collect { id }) {
            Ok(FromHost::Collected {
                unknowns,
                files,
                service_definitions,
                ..
            }) => {
                self.report.service_definitions = service_definitions;
                Ok((unknowns, files))
            }
            Ok(answer) => Err(self.refusal(answer)),
            Err(error) => Err(error),
        };
        let (unknowns, files) = answer.map_err(collect_failure)?;
        for (name, content) in files {
            if let Wire::Binary(content) = content {
                contents.insert(name, content);
            }
        }
        for unknown in unknowns {
            let parameter = crate::UnknownParameter {
                resource: unknown.resource,
                parameter: unknown.parameter,
                source: unknown.source,
            };
            self.report.unknown_parameters.insert(parameter);
        }
        Ok(contents)
    }

    /// Lets the process that has the compile run look at the model; whether it wants the export.
    pub fn show(&mut self, export: Option<serde_json::Value>) -> Result<bool, Fail> {
        // Names are those of the whole model now.
        self.python.site = None;
        let id = self.python.next_request();
        let warnings = self.report.warnings.iter().cloned();
        let sources = &self.program.sources;
        let warnings = warnings.map(|warning| warning.into_diagnostic(sources).to_json());
        let shown = ToHost::Inspect {
            id,
            export,
            warnings: warnings.collect(),
        };
        match self.ask(shown) {
            Ok(FromHost::Result { value, .. }) => Ok(value.as_bool().unwrap_or_default()),
            // It is gone.
            Err(_) => Ok(false),
            Ok(answer) => {
                let error = self.refusal(answer);
                Err(python_failure(error, "The model can not be shown"))
            }
        }
    }

    /// Runs the finalizers; their errors count only after a success.
    pub fn finalize(&mut self) -> Vec<Fail> {
        let mut errors = Vec::new();
        // Each answer is the error of one of them, and the next request goes on behind it.
        while errors.len() < 100 {
            let id = self.python.next_request();
            let error = match self.ask(ToHost::Finalize { id }) {
                Ok(FromHost::Result { .. }) => return errors,
                Ok(answer) => self.refusal(answer),
                Err(error) => error,
            };
            let ended = matches!(&error, PluginError::External { type_name, .. } if type_name == "ConnectionError");
            let text = match error {
                PluginError::External { message, .. } | PluginError::Explicit { message, .. } => {
                    message
                }
                PluginError::Compile(error) => error.message,
                PluginError::Unset(_) | PluginError::Unknown => "a value is not known".to_owned(),
            };
            let message = format!("Finalizer failed: {text}");
            errors.push(fail("CompilerException", Loc::NONE, message));
            if ended {
                break;
            }
        }
        errors
    }
}

/// What is wrong with what the model leaves besides resources: with the definitions of services in words of their own, which
/// name the service, since no code of the model runs there.
fn collect_failure(error: PluginError) -> Fail {
    const OF_SERVICES: &str = "inmanta_plugins.lsm._errors.LsmError";
    match error {
        PluginError::External {
            type_name, message, ..
        }
        | PluginError::Explicit {
            type_name, message, ..
        } if type_name == OF_SERVICES => fail("ExternalException", Loc::NONE, message),
        error => python_failure(error, "What the resources upload can not be collected"),
    }
}

pub(in crate::runtime) fn python_failure(error: PluginError, what: &str) -> Fail {
    match error {
        PluginError::Compile(error) => error,
        PluginError::External {
            type_name,
            message,
            traceback,
        }
        | PluginError::Explicit {
            type_name,
            message,
            traceback,
        } => {
            let cause = fail(
                "PythonException",
                Loc::NONE,
                format!("{type_name}: {message}"),
            );
            let error = fail("ExternalException", Loc::NONE, what).cause(*cause);
            match traceback {
                Some(traceback) => error.note(traceback, Loc::NONE),
                None => error,
            }
        }
        PluginError::Unset(_) | PluginError::Unknown => {
            runtime(Loc::NONE, format!("{what}: it reads what is not known"))
        }
    }
}
