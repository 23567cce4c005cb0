//! Arguments of a call to the parameters of a plugin. Source: docs/reference/language.md § 10.3.

use crate::hir::plugin::{Parameter, PluginDef};
use crate::protocol::ParameterKind;
use crate::types::{TypeId, Value};

/// Arguments by parameter.
#[derive(Clone, Debug, Default)]
pub struct Bound {
    /// Positional parameters in order; `None`: the default.
    pub values: Vec<Option<Value>>,
    /// How many of them the call gives by position; the others have their names.
    pub n_positional: usize,
    pub var_args: Vec<Value>,
    /// Keyword-only and `**` arguments, in the order of the call.
    pub keywords: Vec<(String, Value)>,
    /// Position and name of the parameters in `values`, for natives.
    pub defaults: Vec<Value>,
}

impl Bound {
    pub fn arg(&self, at: usize) -> Value {
        match self.values.get(at) {
            Some(Some(value)) => *value,
            _ => self.defaults.get(at).copied().unwrap_or(Value::Null),
        }
    }
}

/// A value to check: parameter name, its type, the value.
pub type Check = (String, TypeId, Value);

fn quoted_list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [first, second] => format!("{first} and {second}"),
        [rest @ .., last] => format!("{}, and {last}", rest.join(", ")),
    }
}

/// The arguments by parameter, and what there is to check up to the first that fits none. Errors read like Python's.
pub fn bind(
    name: &str,
    plugin: &PluginDef,
    positional: &[Value],
    named: &[(String, Value)],
) -> (Result<Bound, String>, Vec<Check>) {
    let mut checks = Vec::new();
    let bound = bind_each(name, plugin, positional, named, &mut checks);
    (bound, checks)
}

fn bind_each(
    name: &str,
    plugin: &PluginDef,
    positional: &[Value],
    named: &[(String, Value)],
    checks: &mut Vec<Check>,
) -> Result<Bound, String> {
    let parameters = &plugin.parameters;
    let plain: Vec<&Parameter> = parameters
        .iter()
        .filter(|p| p.kind == ParameterKind::Positional)
        .collect();
    let keyword_only: Vec<&Parameter> = parameters
        .iter()
        .filter(|p| p.kind == ParameterKind::KeywordOnly)
        .collect();
    let var_positional = parameters
        .iter()
        .find(|p| p.kind == ParameterKind::VarPositional);
    let var_keyword = parameters
        .iter()
        .find(|p| p.kind == ParameterKind::VarKeyword);
    if positional.len() > plain.len() && var_positional.is_none() {
        let takes = plain.len();
        return Err(format!(
            "{name}() takes {takes} positional arguments but {} were given",
            positional.len()
        ));
    }
    let given = |parameter: &Parameter| named.iter().any(|(known, _)| *known == parameter.name);
    let missing = |candidates: &[&Parameter]| -> Vec<String> {
        candidates
            .iter()
            .filter(|parameter| !parameter.has_default && !given(parameter))
            .map(|parameter| parameter.name.clone())
            .collect()
    };
    let missing_error = |missing: Vec<String>, kind: &str| {
        let names: Vec<&str> = missing.iter().map(String::as_str).collect();
        let noun = if names.len() == 1 {
            "argument"
        } else {
            "arguments"
        };
        format!(
            "{name}() missing {} required {kind} {noun}: {}",
            names.len(),
            quoted_list(&names)
        )
    };
    let absent = missing(&plain[positional.len().min(plain.len())..]);
    if !absent.is_empty() {
        return Err(missing_error(absent, "positional"));
    }
    let absent = missing(&keyword_only);
    if !absent.is_empty() {
        return Err(missing_error(absent, "keyword-only"));
    }
    let mut bound = Bound {
        values: vec![None; plain.len()],
        n_positional: positional.len().min(plain.len()),
        defaults: plain.iter().map(|parameter| parameter.default).collect(),
        ..Bound::default()
    };
    for (at, value) in positional.iter().enumerate() {
        match plain.get(at) {
            Some(parameter) => {
                bound.values[at] = Some(*value);
                checks.push((parameter.name.clone(), parameter.ty, *value));
            }
            None => {
                bound.var_args.push(*value);
                if let Some(parameter) = var_positional {
                    checks.push((parameter.name.clone(), parameter.ty, *value));
                }
            }
        }
    }
    for (keyword, value) in named {
        if let Some(at) = plain
            .iter()
            .position(|parameter| parameter.name == *keyword)
        {
            if bound.values[at].is_some() {
                return Err(format!(
                    "{name}() got multiple values for argument '{keyword}'"
                ));
            }
            bound.values[at] = Some(*value);
            checks.push((keyword.clone(), plain[at].ty, *value));
        } else if let Some(parameter) = keyword_only
            .iter()
            .find(|parameter| parameter.name == *keyword)
        {
            bound.keywords.push((keyword.clone(), *value));
            checks.push((keyword.clone(), parameter.ty, *value));
        } else if let Some(parameter) = var_keyword {
            bound.keywords.push((keyword.clone(), *value));
            checks.push((parameter.name.clone(), parameter.ty, *value));
        } else {
            return Err(format!(
                "{name}() got an unexpected keyword argument: '{keyword}'"
            ));
        }
    }
    Ok(bound)
}
