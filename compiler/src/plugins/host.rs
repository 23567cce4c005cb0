//! The Python host: its process and what it loads.

use super::{PluginHost, PythonPlugins};
use crate::Options;
use crate::diagnostics::{Fail, fail};
use crate::project::Loaded;
use crate::span::Loc;
use crate::world::World;

/// What Python gave to a compile.
#[derive(Default)]
pub struct Python {
    pub plugins: PythonPlugins,
    pub host: Option<Box<dyn PluginHost>>,
}

/// Starts Python if a loaded module has Python files.
pub fn load_python(world: &dyn World, options: &Options, loaded: &Loaded) -> Result<Python, Fail> {
    let modules: Vec<_> = loaded
        .modules
        .iter()
        .filter_map(|module| module.python(world))
        .collect();
    if modules.is_empty() {
        return Ok(Python::default());
    }
    let names: Vec<&str> = modules.iter().map(|module| module.name.as_str()).collect();
    let _ = options;
    let message = format!(
        "Unable to load all plug-ins for module {}: this compile has no Python",
        names.join(", ")
    );
    Err(fail("CompilerException", Loc::NONE, message)
        .help("give the compiler a Python interpreter"))
}
