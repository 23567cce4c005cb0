//! Arguments of a call to the parameters of a plugin. Source: docs/reference/language.md § 10.3.

use smallvec::SmallVec;

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
pub type Check<'p> = (&'p str, TypeId, Value);

/// What is checked of one call. Few plugins have more parameters.
pub type Checks<'p> = SmallVec<[Check<'p>; 6]>;

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
pub fn bind<'p>(
    name: &str,
    plugin: &'p PluginDef,
    positional: &[Value],
    named: &[(String, Value)],
) -> (Result<Bound, String>, Checks<'p>) {
    let mut checks = Checks::new();
    let bound = bind_each(name, plugin, positional, named, &mut checks);
    (bound, checks)
}

/// The parameters of a plugin by their kinds.
struct Signature<'n, 'p> {
    name: &'n str,
    plain: SmallVec<[&'p Parameter; 6]>,
    keyword_only: Vec<&'p Parameter>,
    var_positional: Option<&'p Parameter>,
    var_keyword: Option<&'p Parameter>,
}

impl<'n, 'p> Signature<'n, 'p> {
    fn of(name: &'n str, plugin: &'p PluginDef) -> Self {
        let all = plugin.parameters.iter();
        let of = |kind: ParameterKind| all.clone().filter(move |parameter| parameter.kind == kind);
        Signature {
            name,
            plain: of(ParameterKind::Positional).collect(),
            keyword_only: of(ParameterKind::KeywordOnly).collect(),
            var_positional: of(ParameterKind::VarPositional).next(),
            var_keyword: of(ParameterKind::VarKeyword).next(),
        }
    }

    /// Whether there are as many arguments as it takes. The error is Python's.
    fn check_count(&self, n_positional: usize, named: &[(String, Value)]) -> Result<(), String> {
        let takes = self.plain.len();
        if n_positional > takes && self.var_positional.is_none() {
            return Err(format!(
                "{}() takes {takes} positional arguments but {n_positional} were given",
                self.name
            ));
        }
        self.check_missing(&self.plain[n_positional.min(takes)..], named, "positional")?;
        self.check_missing(&self.keyword_only, named, "keyword-only")
    }

    fn check_missing(
        &self,
        candidates: &[&Parameter],
        named: &[(String, Value)],
        kind: &str,
    ) -> Result<(), String> {
        let is_given =
            |parameter: &Parameter| named.iter().any(|(known, _)| *known == parameter.name);
        let missing = candidates
            .iter()
            .filter(|parameter| !parameter.has_default && !is_given(parameter));
        let names: Vec<&str> = missing.map(|parameter| parameter.name.as_str()).collect();
        let noun = match names.len() {
            0 => return Ok(()),
            1 => "argument",
            _ => "arguments",
        };
        Err(format!(
            "{}() missing {} required {kind} {noun}: {}",
            self.name,
            names.len(),
            quoted_list(&names)
        ))
    }

    fn bind_positional(&self, bound: &mut Bound, checks: &mut Checks<'p>, positional: &[Value]) {
        for (at, value) in positional.iter().enumerate() {
            let parameter = match self.plain.get(at) {
                Some(parameter) => {
                    bound.values[at] = Some(*value);
                    Some(*parameter)
                }
                None => {
                    bound.var_args.push(*value);
                    self.var_positional
                }
            };
            checks.extend(parameter.map(|known| (known.name.as_str(), known.ty, *value)));
        }
    }

    fn bind_named(
        &self,
        bound: &mut Bound,
        checks: &mut Checks<'p>,
        keyword: &str,
        value: Value,
    ) -> Result<(), String> {
        let is_it = |parameter: &&Parameter| parameter.name == keyword;
        let name = self.name;
        let parameter = if let Some(at) = self.plain.iter().position(is_it) {
            if bound.values[at].is_some() {
                return Err(format!(
                    "{name}() got multiple values for argument '{keyword}'"
                ));
            }
            bound.values[at] = Some(value);
            self.plain[at]
        } else {
            let known = self.keyword_only.iter().copied().find(|known| is_it(known));
            let Some(parameter) = known.or(self.var_keyword) else {
                return Err(format!(
                    "{name}() got an unexpected keyword argument: '{keyword}'"
                ));
            };
            bound.keywords.push((keyword.to_owned(), value));
            parameter
        };
        checks.push((parameter.name.as_str(), parameter.ty, value));
        Ok(())
    }
}

/// `checks` has what was bound before something went wrong, too.
fn bind_each<'p>(
    name: &str,
    plugin: &'p PluginDef,
    positional: &[Value],
    named: &[(String, Value)],
    checks: &mut Checks<'p>,
) -> Result<Bound, String> {
    let signature = Signature::of(name, plugin);
    signature.check_count(positional.len(), named)?;
    let plain = &signature.plain;
    let mut bound = Bound {
        values: vec![None; plain.len()],
        n_positional: positional.len().min(plain.len()),
        defaults: plain.iter().map(|parameter| parameter.default).collect(),
        ..Bound::default()
    };
    signature.bind_positional(&mut bound, checks, positional);
    for (keyword, value) in named {
        signature.bind_named(&mut bound, checks, keyword, *value)?;
    }
    Ok(bound)
}
