//! The Python host: a process that is started when a loaded module has Python files, and what it declares.
//!
//! The process gets an empty environment; what a model may see of ours goes with the first message. It ends with the
//! compile, also when the compile ends badly.

use crate::Options;
use crate::diagnostics::{Fail, fail};
use crate::hir::plugin::PythonPlugins;
use crate::project::Loaded;
use crate::protocol::{self, AttributeValue, Failure, FromHost, PythonModule, ToHost};
use crate::python_host::output::Output;
use crate::python_host::process::TimeLimit;
use crate::python_host::session::Session;
use crate::python_host::{HostCallbacks, PluginHost};
use crate::span::{Loc, Sources, Span};
use crate::world::World;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a compile's Python host leaves behind.
#[derive(Debug, Clone, Default)]
pub struct HostReport {
    pub(in crate::python_host) output: Output,
    pub(in crate::python_host) is_outdated: Arc<AtomicBool>,
}

impl HostReport {
    /// What was written to standard error, once the host is done.
    pub fn output(&self) -> String {
        self.output.take()
    }

    /// Whether the compile began with declarations of an earlier one that turned out to be others.
    pub fn is_outdated(&self) -> bool {
        self.is_outdated.load(Ordering::Relaxed)
    }
}

/// What Python gave to a compile.
#[derive(Default)]
pub struct Python {
    pub plugins: PythonPlugins,
    pub host: Option<Box<dyn PluginHost>>,
    /// Which module imported which.
    pub imports: Vec<(String, String)>,
    /// About annotations that say less than they seem to.
    pub warnings: Vec<String>,
}

/// Starts Python if a loaded module has Python files.
pub fn load_python(
    world: &dyn World,
    options: &Options,
    loaded: &Loaded,
    sources: &mut Sources,
    report: &HostReport,
) -> Result<Python, Fail> {
    let modules: Vec<_> = loaded
        .modules
        .iter()
        .filter_map(|module| module.python(world))
        .collect();
    let is_attached = options.python.attached().is_some();
    if modules.is_empty() && !is_attached {
        return Ok(Python::default());
    }
    let names: Vec<String> = modules.iter().map(|module| module.name.clone()).collect();
    let broken = |reason: String| {
        let message = format!(
            "Unable to load all plug-ins for module {}: {reason}",
            names.join(", ")
        );
        fail("CompilerException", Loc::NONE, message)
    };
    // What the modules need is installed in the project's own environment, if it has one.
    let own = crate::project::environment(world).map(|directory| format!("{directory}/bin/python"));
    let own = own.filter(|own| world.is_program(own));
    let own = own.map(|own| world.absolute(&own).into());
    let runtime = options.python.get(own).map_err(broken)?;
    if runtime.is_none() && !is_attached {
        return Err(broken("this compile has no Python".to_owned())
            .help("these modules have Python code: name a Python with --python or the variable STEWARD_PYTHON"));
    }
    let request = load_request(world, options, modules);
    let limit = options.time_limit.map(TimeLimit::new);
    let mut print = |line: &str| world.print(line);
    let begun = Session::begin(options, runtime, request, limit, report, &mut print);
    let (session, answer) = begun.map_err(|error| broken(error.message))?;
    match answer {
        FromHost::Loaded {
            mut plugins,
            resources,
            imports,
            warnings,
            dataclasses,
            ..
        } => {
            for plugin in &mut plugins {
                plugin.file = reported(world, &plugin.file);
            }
            Ok(Python {
                plugins: PythonPlugins {
                    plugins,
                    resources,
                    dataclasses,
                    open_namespaces: Vec::new(),
                },
                host: Some(Box::new(session)),
                imports,
                warnings,
            })
        }
        FromHost::LoadFailed {
            module,
            python_module,
            failure,
        } => {
            let message = match module.as_str() {
                // All are imported; what they declare does not fit.
                "" => failure.message.clone(),
                module => format!(
                    "Unable to load all plug-ins for module {module}:\n\t{} while loading plugin module {python_module}: {}",
                    failure.type_name, failure.message
                ),
            };
            let loc = python_loc(world, sources, &failure);
            let mut error = fail("CompilerException", loc, message);
            if let Some(help) = of_missing_package(&failure.type_name, &failure.message) {
                error = error.help(help);
            }
            let error = error.note(failure.traceback, Loc::NONE);
            Err(with_unmet_python(error, world, &names, session.python()))
        }
        other => Err(broken(format!(
            "the Python host answered {other:?} to the loading of modules"
        ))),
    }
}

/// What the reference requires, and what is so in every environment of it: import names, and the packages where these have another
/// name. Its server's own needs are left out.
const WITH_REFERENCE: &[(&str, &str)] = &[
    ("click", "click"),
    ("cryptography", "cryptography"),
    ("dateutil", "python-dateutil"),
    ("docstring_parser", "docstring-parser"),
    ("email_validator", "email-validator"),
    ("jinja2", "Jinja2"),
    ("jsonpath_ng", "jsonpath-ng"),
    ("jwt", "PyJWT"),
    ("more_itertools", "more-itertools"),
    ("nacl", "PyNaCl"),
    ("packaging", "packaging"),
    ("pydantic", "pydantic"),
    ("requests", "requests"),
    ("ruamel", "ruamel.yaml"),
    ("texttable", "texttable"),
    ("toml", "toml"),
    ("tornado", "tornado"),
    ("typing_inspect", "typing-inspect"),
    ("yaml", "PyYAML"),
];

/// What to do about a package that a module imports and that is not there. Modules are often written where the reference is
/// installed, and with it all that its server needs, so nobody notices that they do not ask for it.
fn of_missing_package(type_name: &str, message: &str) -> Option<String> {
    let name = message
        .strip_prefix("No module named '")?
        .split(['.', '\''])
        .next()?;
    if type_name != "ModuleNotFoundError" || name == "inmanta_plugins" {
        return None;
    }
    let known = WITH_REFERENCE.iter().find(|(import, _)| *import == name);
    let what = match known {
        Some((_, package)) => format!(
            "no package of this environment has `{name}`, which comes with inmanta-core: add `{package}` to requirements.txt of the \
             project (or to what the module requires)"
        ),
        None => format!(
            "no package of this environment has `{name}`: name the one that has it in requirements.txt of the project (or among what \
             the module requires)"
        ),
    };
    Some(format!(
        "{what}; `steward project install` and the server install it then, from where `pip` of project.yml says"
    ))
}

/// The inputs as Python gets them. Service instances are a JSON text: there may be a hundred thousand, and Python reads JSON much
/// faster than frames.
fn inputs(given: &crate::Inputs) -> serde_json::Value {
    let mut inputs = serde_json::to_value(given).unwrap_or_default();
    if let Some(instances) = inputs.pointer_mut("/services/instances") {
        *instances = instances.to_string().into();
    }
    inputs
}

/// The message that a compile begins with.
fn load_request(world: &dyn World, options: &Options, modules: Vec<PythonModule>) -> ToHost {
    let own = options.inputs.environment.id.clone();
    ToHost::LoadCompile {
        modules,
        project_dir: world.absolute("").trim_end_matches('/').to_owned(),
        env: world.variables(),
        environment_id: own.or_else(|| options.environment_id.clone()),
        inputs: inputs(&options.inputs),
        keep: options.hosts.is_some(),
        trace: false,
        computing: None,
    }
}

/// A module that cannot be imported may want another Python than this one.
fn with_unmet_python(
    error: Fail,
    world: &dyn World,
    names: &[String],
    (version, program): (&str, &str),
) -> Fail {
    match crate::project::unmet_python(world, names, version) {
        Some(unmet) => error.help(format!(
            "{unmet}, and this is Python {version} ({program}): name another with --python or the variable STEWARD_PYTHON, or make the project's environment of it: `steward project install --python …`"
        )),
        None => error,
    }
}

/// A file as places name it: those of the project relative to it.
pub fn reported(world: &dyn World, path: &str) -> String {
    let root = world.absolute("");
    let below = path.strip_prefix(root.trim_end_matches('/'));
    let name = below.map_or(path, |rest| rest.trim_start_matches('/'));
    name.to_owned()
}

/// The line of a Python file as a place.
fn python_loc(world: &dyn World, sources: &mut Sources, failure: &Failure) -> Loc {
    let (Some(path), Some(line)) = (&failure.file, failure.line) else {
        return Loc::NONE;
    };
    let Ok(text) = world.read_text(path) else {
        return Loc::NONE;
    };
    let start: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1) as usize)
        .map(str::len)
        .sum();
    let length = text[start..].lines().next().map_or(0, str::len);
    let file = sources.add_file(reported(world, path), text);
    sources.loc(Span {
        file,
        start: start as u32,
        end: (start + length) as u32,
    })
}

/// While modules are loaded there is no model to ask.
pub(in crate::python_host) struct NoModel<'a> {
    print: &'a mut dyn FnMut(&str),
    /// Something was printed or logged.
    pub(in crate::python_host) has_spoken: bool,
}

impl<'a> NoModel<'a> {
    pub(in crate::python_host) fn new(print: &'a mut dyn FnMut(&str)) -> Self {
        Self {
            print,
            has_spoken: false,
        }
    }
}

impl HostCallbacks for NoModel<'_> {
    fn get(&mut self, _: u32, attribute: &str) -> AttributeValue {
        AttributeValue::NoAttribute(format!(
            "there is no model yet, so no attribute {attribute}"
        ))
    }

    fn expected_reads(&mut self, _: u32, _: &str) -> Option<Vec<u8>> {
        None
    }

    fn lookup(&mut self, name: &str) -> AttributeValue {
        AttributeValue::NoAttribute(format!("there is no model yet, so no variable {name}"))
    }

    fn entity(&mut self, _: &str) -> ToHost {
        protocol::no_entity()
    }

    fn entities(&mut self) -> ToHost {
        ToHost::EntityNames { names: Vec::new() }
    }

    fn instances(&mut self, _: &str) -> ToHost {
        ToHost::InstanceList {
            instances: Vec::new(),
        }
    }

    fn typedef(&mut self, _: &str) -> ToHost {
        ToHost::TypedefInfo {
            base: None,
            condition: None,
        }
    }

    fn validate(&mut self, typedef: &str, _: &rmpv::Value) -> AttributeValue {
        AttributeValue::NoAttribute(format!("there is no model yet, so no type {typedef}"))
    }

    fn place(&mut self, _: u32) -> ToHost {
        ToHost::Place {
            places: Vec::new(),
            given: Vec::new(),
        }
    }

    fn native(
        &mut self,
        plugin: &str,
        _: &[rmpv::Value],
        _: &[(String, rmpv::Value)],
        _: Option<String>,
    ) -> AttributeValue {
        AttributeValue::NoAttribute(format!("there is no model yet, so no plugin {plugin}"))
    }

    fn log(&mut self, _: &str, _: &str) {
        self.has_spoken = true;
    }

    fn services(&mut self, _: serde_json::Value) -> ToHost {
        ToHost::ServiceList {
            services: String::new(),
            failure: Some("there is no model yet, so no service instances".to_owned()),
        }
    }

    fn write_service(&mut self, _: serde_json::Value) {}

    fn print(&mut self, line: &str) {
        self.has_spoken = true;
        (self.print)(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_to_ask_for_is_named_where_it_is_known() {
        let help = |message: &str| of_missing_package("ModuleNotFoundError", message);
        let yaml = help("No module named 'yaml'").unwrap();
        assert!(yaml.contains("add `PyYAML` to requirements.txt"), "{yaml}");
        let part = help("No module named 'jinja2.sandbox'").unwrap();
        assert!(part.contains("add `Jinja2` to"), "{part}");
        let other = help("No module named 'netmiko.ssh'").unwrap();
        assert!(other.contains("has `netmiko`: name the one"), "{other}");
        assert_eq!(help("No module named 'inmanta_plugins.x'"), None);
        assert_eq!(help("something else"), None);
        assert_eq!(
            of_missing_package("ValueError", "No module named 'yaml'"),
            None
        );
    }
}
