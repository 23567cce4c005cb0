//! The Python host: a process that is started when a loaded module has Python files, and what it declares.
//!
//! The process gets an empty environment; what a model may see of ours goes with the first message. It ends with the
//! compile, also when the compile ends badly.

use std::io::{BufReader, BufWriter};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use super::{HostCallbacks, PluginHost, PythonPlugins};
use crate::diagnostics::{Fail, fail};
use crate::project::Loaded;
use crate::protocol::{self, Failure, FromHost, Got, ToHost};
use crate::span::{Loc, Sources, Span};
use crate::world::World;
use crate::{Options, PythonRuntime};

/// What Python gave to a compile.
#[derive(Default)]
pub struct Python {
    pub plugins: PythonPlugins,
    pub host: Option<Box<dyn PluginHost>>,
    pub has_finalizers: bool,
    pub has_dependency_managers: bool,
    /// About annotations that say less than they seem to.
    pub warnings: Vec<String>,
}

/// Starts Python if a loaded module has Python files.
pub fn load_python(
    world: &dyn World,
    options: &Options,
    loaded: &Loaded,
    sources: &mut Sources,
) -> Result<Python, Fail> {
    let modules: Vec<_> = loaded
        .modules
        .iter()
        .filter_map(|module| module.python(world))
        .collect();
    if modules.is_empty() {
        return Ok(Python::default());
    }
    let names: Vec<&str> = modules.iter().map(|module| module.name.as_str()).collect();
    let Some(mut runtime) = options.python.get() else {
        let message = format!(
            "Unable to load all plug-ins for module {}: this compile has no Python",
            names.join(", ")
        );
        return Err(fail("CompilerException", Loc::NONE, message)
            .help("these modules have Python code: give the compiler a Python interpreter"));
    };
    let broken = |reason: String| {
        let message = format!(
            "Unable to load all plug-ins for module {}: {reason}",
            names.join(", ")
        );
        fail("CompilerException", Loc::NONE, message)
    };
    // What the modules need is installed in the project's own environment, if it has one.
    let own = crate::project::environment(world).map(|directory| format!("{directory}/bin/python"));
    if let Some(own) = own.filter(|own| world.is_file(own)) {
        runtime.interpreter = world.absolute(&own).into();
    }
    let mut process = Process::start(&runtime).map_err(broken)?;
    let request = ToHost::LoadCompile {
        modules: modules.clone(),
        project_dir: world.absolute("").trim_end_matches('/').to_owned(),
        env: world.variables(),
        environment_id: options
            .inputs
            .environment
            .id
            .clone()
            .or_else(|| options.environment_id.clone()),
        inputs: serde_json::to_value(&options.inputs).unwrap_or_default(),
    };
    match process.request(request, &mut NoModel).map_err(broken)? {
        FromHost::Loaded {
            plugins,
            resources,
            has_finalizers,
            has_dependency_managers,
            warnings,
            dataclasses,
        } => Ok(Python {
            plugins: PythonPlugins {
                plugins,
                resources,
                dataclasses,
                open_namespaces: Vec::new(),
            },
            host: Some(Box::new(process)),
            has_finalizers,
            has_dependency_managers,
            warnings,
        }),
        FromHost::LoadFailed {
            module,
            python_module,
            failure,
        } => {
            let message = format!(
                "Unable to load all plug-ins for module {module}:\n\t{} while loading plugin module {python_module}: {}",
                failure.type_name, failure.message
            );
            let loc = python_loc(world, sources, &failure);
            Err(fail("CompilerException", loc, message).note(failure.traceback, Loc::NONE))
        }
        other => Err(broken(format!(
            "the Python host answered {other:?} to the loading of modules"
        ))),
    }
}

/// The line of a Python file as a place.
fn python_loc(world: &dyn World, sources: &mut Sources, failure: &Failure) -> Loc {
    let (Some(path), Some(line)) = (&failure.file, failure.line) else {
        return Loc::NONE;
    };
    let root = world.absolute("");
    let name = path
        .strip_prefix(root.trim_end_matches('/'))
        .map_or(path.as_str(), |rest| rest.trim_start_matches('/'));
    let Ok(text) = world.read_text(path) else {
        return Loc::NONE;
    };
    let start: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1) as usize)
        .map(str::len)
        .sum();
    let length = text[start..].lines().next().map_or(0, str::len);
    let file = sources.add_file(name.to_owned(), text);
    sources.loc(Span {
        file,
        start: start as u32,
        end: (start + length) as u32,
    })
}

/// Whether a version of Python is one that our package runs on.
fn is_recent(version: &str) -> bool {
    let mut numbers = version
        .split('.')
        .map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(3), Some(11))
}

/// While modules are loaded there is no model to ask.
struct NoModel;

impl HostCallbacks for NoModel {
    fn get(&mut self, _: u32, attribute: &str) -> Got {
        Got::NoAttribute(format!(
            "there is no model yet, so no attribute {attribute}"
        ))
    }

    fn lookup(&mut self, name: &str) -> Got {
        Got::NoAttribute(format!("there is no model yet, so no variable {name}"))
    }

    fn entity(&mut self, _: &str) -> ToHost {
        protocol::no_entity()
    }

    fn instances(&mut self, _: &str) -> ToHost {
        ToHost::InstanceList {
            instances: Vec::new(),
        }
    }

    fn place(&mut self, _: u32) -> ToHost {
        ToHost::Place {
            file: None,
            line: 0,
        }
    }

    fn log(&mut self, _: &str, _: &str) {}
}

struct Process {
    child: Child,
    stdin: Option<BufWriter<ChildStdin>>,
    stdout: BufReader<ChildStdout>,
}

impl Process {
    fn start(runtime: &PythonRuntime) -> Result<Process, String> {
        let mut child = runtime
            .command("compile")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| {
                format!(
                    "{} can not be started: {error}",
                    runtime.interpreter.display()
                )
            })?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(stdout)) = pipes else {
            return Err("the Python host has no pipes".to_owned());
        };
        let mut process = Process {
            child,
            stdin: Some(BufWriter::new(stdin)),
            stdout: BufReader::new(stdout),
        };
        match process.receive()? {
            FromHost::Hello {
                protocol: protocol::VERSION,
                python,
                ..
            } if is_recent(&python) => Ok(process),
            FromHost::Hello { python, .. } if !is_recent(&python) => Err(format!(
                "{} is Python {python}, but 3.11 or later is needed",
                runtime.interpreter.display()
            )),
            FromHost::Hello { protocol, .. } => Err(format!(
                "the Python host speaks version {protocol} of the protocol, not {}",
                protocol::VERSION
            )),
            other => Err(format!("the Python host began with {other:?}")),
        }
    }

    fn receive(&mut self) -> Result<FromHost, String> {
        match protocol::read_frame(&mut self.stdout) {
            Ok(Some(message)) => Ok(message),
            Ok(None) => Err("the Python host ended".to_owned()),
            Err(error) => Err(format!("the Python host can not be understood: {error}")),
        }
    }

    fn send(&mut self, message: &ToHost) -> Result<(), String> {
        let Some(stdin) = &mut self.stdin else {
            return Err("the Python host ended".to_owned());
        };
        protocol::write_frame(stdin, message)
            .map_err(|error| format!("the Python host does not listen: {error}"))
    }
}

impl PluginHost for Process {
    fn request(
        &mut self,
        message: ToHost,
        callbacks: &mut dyn HostCallbacks,
    ) -> Result<FromHost, String> {
        self.send(&message)?;
        loop {
            match self.receive()? {
                FromHost::Get {
                    instance,
                    attribute,
                } => {
                    let outcome = callbacks.get(instance, &attribute);
                    self.send(&ToHost::Got { outcome })?;
                }
                FromHost::Lookup { name } => {
                    let outcome = callbacks.lookup(&name);
                    self.send(&ToHost::Got { outcome })?;
                }
                FromHost::Entity { name } => {
                    let info = callbacks.entity(&name);
                    self.send(&info)?;
                }
                FromHost::Instances { entity } => {
                    let found = callbacks.instances(&entity);
                    self.send(&found)?;
                }
                FromHost::Where { instance } => {
                    let place = callbacks.place(instance);
                    self.send(&place)?;
                }
                FromHost::Log { level, message } => callbacks.log(&level, &message),
                answer => return Ok(answer),
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A host whose pipe is closed ends by itself; one that does not is ended.
        drop(self.stdin.take());
        for _ in 0..50 {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
