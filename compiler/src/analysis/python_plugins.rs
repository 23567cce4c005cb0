//! Plugins of Python modules as their text declares them, without running any Python: for tools that must not execute
//! what they look at. It sees `@plugin` before a `def`; what is made in other ways stays unseen, and a file in which there
//! may be such is open.

use crate::analysis::python_text::{LogicalLine, blanked, logical_lines};
use crate::project::Module;
use crate::protocol::{Annotation, Parameter, ParameterKind, PluginInfo};
use crate::world::World;

pub struct Scanned {
    pub info: PluginInfo,
    /// `(a: "string", b: int = 3) -> "bool"`, as it is written.
    pub signature: String,
    /// No other decorator stands between, which could change what it takes.
    pub is_certain: bool,
}

impl Scanned {
    /// As a call may use it: where the parameters are not certain, anything goes.
    pub fn callable(&self) -> PluginInfo {
        let mut info = self.info.clone();
        if self.is_certain {
            return info;
        }
        info.returns = Annotation::Any;
        for parameter in &mut info.parameters {
            parameter.annotation = Annotation::Any;
            parameter.has_default = true;
            if parameter.kind == ParameterKind::Positional {
                parameter.kind = ParameterKind::KeywordOnly;
            }
        }
        for kind in [ParameterKind::VarPositional, ParameterKind::VarKeyword] {
            info.parameters.push(Parameter {
                name: String::new(),
                kind,
                annotation: Annotation::Any,
                has_default: false,
            });
        }
        info
    }
}

/// The plugins of a module, and the namespaces that may have more.
pub fn scan(world: &dyn World, module: &Module) -> (Vec<Scanned>, Vec<String>) {
    let mut scanned = Vec::new();
    let mut open = Vec::new();
    let Some(python) = module.python(world) else {
        return (scanned, open);
    };
    let root = world.absolute("");
    for file in &python.files {
        let path = file.path.strip_prefix(&root).unwrap_or(&file.path);
        let path = path.trim_start_matches('/');
        let Some(namespace) = file.module.strip_prefix("inmanta_plugins.") else {
            continue;
        };
        let namespace = namespace.replace('.', "::");
        let text = world
            .read_text(path)
            .or_else(|_| world.read_text(&file.path));
        let is_complete = text.is_ok_and(|text| scan_file(&text, path, &namespace, &mut scanned));
        if !is_complete {
            open.push(namespace);
        }
    }
    (scanned, open)
}

/// Decorators that make no plugin.
const HARMLESS: &[&str] = &[
    "abstractmethod",
    "cache",
    "cached_property",
    "classmethod",
    "contextmanager",
    "dataclass",
    "dependency_manager",
    "deprecated",
    "getter",
    "lru_cache",
    "mutator",
    "overload",
    "override",
    "property",
    "provider",
    "reference",
    "resource",
    "setter",
    "staticmethod",
    "total_ordering",
    "wraps",
];

/// Words of which a plugin may be made that no `@plugin` shows.
const TRICKS: &[&str] = &[
    "FunctionType",
    "Plugin",
    "PluginMeta",
    "__import__",
    "__module__",
    "eval",
    "exec",
    "globals",
    "plugin",
];

struct Decorator {
    name: Option<String>,
    is_certain: bool,
}

/// Finds the plugins of a file; whether there are surely no others.
fn scan_file(text: &str, file: &str, namespace: &str, scanned: &mut Vec<Scanned>) -> bool {
    let code = blanked(text);
    let mut is_complete = true;
    let mut decorator: Option<Decorator> = None;
    for line in logical_lines(text, &code) {
        if line.code.starts_with('@') {
            let (path, last) = decorator_path(line.code);
            if last != "plugin" {
                is_complete &= HARMLESS.contains(&last);
                if let Some(decorator) = &mut decorator {
                    decorator.is_certain = false;
                }
                continue;
            }
            let given = given_name(&line, path);
            is_complete &= line.indent == 0 && given.is_ok() && decorator.is_none();
            decorator = (line.indent == 0).then(|| Decorator {
                name: given.unwrap_or(None),
                is_certain: true,
            });
            continue;
        }
        let is_def = line.code.starts_with("def ") || line.code.starts_with("async def ");
        let Some(decorator) = decorator.take() else {
            is_complete &= !is_trick(&line);
            continue;
        };
        let definition = definition(&line).filter(|_| is_def);
        is_complete &= definition.is_some();
        let Some((name, signature)) = definition else {
            continue;
        };
        let (parameters, takes_context) = parameters(&signature);
        let returns = signature
            .rsplit_once("->")
            .map_or("", |(_, returns)| returns);
        let name = decorator.name.unwrap_or(name);
        scanned.push(Scanned {
            info: PluginInfo {
                name: format!("{namespace}::{name}"),
                file: file.to_owned(),
                line: line.number,
                parameters,
                returns: model_type(returns.trim()),
                allow_unknown: true,
                takes_context,
                emits_statements: false,
                commands: Vec::new(),
                deprecated: None,
                docstring: line
                    .code
                    .ends_with(':')
                    .then(|| docstring(line.rest))
                    .flatten(),
            },
            is_certain: decorator.is_certain && !words(line.code).any(|word| word == "lambda"),
            signature,
        });
    }
    is_complete && decorator.is_none()
}

/// Of `@a.b(…)`: `a.b`, and `b`.
fn decorator_path(code: &str) -> (&str, &str) {
    let text = &code[1..];
    let path = text.split('(').next().unwrap_or(text);
    (path, path.rsplit('.').next().unwrap_or(path).trim())
}

/// The name that `@plugin(…)` gives, if it gives one; `Err`: it is computed.
fn given_name(line: &LogicalLine, path: &str) -> Result<Option<String>, ()> {
    let at = 1 + path.len();
    let arguments = without_comments(&line.raw[at..], &line.code[at..]);
    let arguments = arguments.trim_start_matches('(');
    let first = arguments.split([',', ')']).next().unwrap_or("").trim();
    let quoted = match first.split_once('=') {
        None => first,
        Some((key, value)) if key.trim() == "name" => value.trim(),
        Some(_) if line.code.contains("name") => return Err(()),
        Some(_) => return Ok(None),
    };
    match quoted.chars().next() {
        None => Ok(None),
        Some(quote @ ('"' | '\'')) => Ok(Some(quoted.trim_matches(quote).to_owned())),
        Some(_) => Err(()),
    }
}

/// Whether a line may make a plugin in another way than by `@plugin`, or give what is known of plugins another name.
fn is_trick(line: &LogicalLine) -> bool {
    let mut words = words(line.code);
    if !matches!(words.clone().next(), Some("from" | "import")) {
        return words.any(|word| TRICKS.contains(&word));
    }
    let names_plugins = words
        .clone()
        .any(|word| matches!(word, "plugin" | "Context"));
    line.code.contains('*') || (names_plugins && words.any(|word| word == "as"))
}

fn words(code: &str) -> impl Iterator<Item = &str> + Clone {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

/// Name, and the text from the opening bracket to the colon.
fn definition(line: &LogicalLine) -> Option<(String, String)> {
    let open = line.code.find('(')?;
    let name = line.code[..open].split_once("def ")?.1;
    // Of `def f[T](…)`.
    let name = name.split('[').next()?.trim();
    let mut depth = 0;
    let close = line.code[open..].char_indices().find(|(_, c)| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    let close = open + close.0;
    let after = &line.code[close + 1..];
    let colon = after.find(':')?;
    let returns = line.raw[close + 1..close + 1 + colon].trim();
    let written = without_comments(&line.raw[open + 1..close], &line.code[open + 1..close]);
    let flat: Vec<&str> = written.split_whitespace().collect();
    let mut signature = format!("({})", flat.join(" ").trim_end_matches(','));
    if !returns.is_empty() {
        signature.push(' ');
        signature.push_str(returns);
    }
    Some((name.to_owned(), signature))
}

/// A `#` that the code does not show, and that is in no string, begins a comment.
fn without_comments(raw: &str, code: &str) -> String {
    let is_comment = |at: usize| {
        let line = code[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let n_quotes = code[line..at].matches(['"', '\'']).count();
        n_quotes.is_multiple_of(2)
    };
    let mut kept = String::new();
    let mut at = 0;
    for line in raw.split_inclusive('\n') {
        let mut hashes = line.match_indices('#').map(|(hash, _)| hash);
        let end = hashes.find(|hash| is_comment(at + hash));
        kept.push_str(&line[..end.unwrap_or(line.len())]);
        kept.push(' ');
        at += line.len();
    }
    kept
}

fn parameters(signature: &str) -> (Vec<Parameter>, bool) {
    let code = blanked(signature);
    let mut depth = 0;
    let mut parts = Vec::new();
    let mut start = 1;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if (c == ',' && depth == 1) || depth == 0 {
            parts.push(&signature[start..at]);
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    let mut parameters = Vec::new();
    let mut takes_context = false;
    let mut kind = ParameterKind::Positional;
    for part in &parts {
        let part = part.trim();
        let (declared, default) = part.split_once('=').unwrap_or((part, ""));
        let (name, annotation) = declared.split_once(':').unwrap_or((declared, ""));
        let annotation = annotation.trim();
        let class = annotation.trim_matches(['"', '\'']);
        if class.rsplit('.').next() == Some("Context") {
            takes_context = true;
            continue;
        }
        let (name, kind) = match name.trim() {
            "" | "/" => continue,
            "*" => {
                kind = ParameterKind::KeywordOnly;
                continue;
            }
            name => match (name.strip_prefix("**"), name.strip_prefix('*')) {
                (Some(name), _) => (name, ParameterKind::VarKeyword),
                (None, Some(name)) => {
                    kind = ParameterKind::KeywordOnly;
                    (name, ParameterKind::VarPositional)
                }
                (None, None) => (name, kind),
            },
        };
        parameters.push(Parameter {
            name: name.to_owned(),
            kind,
            annotation: model_type(annotation),
            has_default: !default.is_empty(),
        });
    }
    (parameters, takes_context)
}

/// What an annotation says that is a string: a type of the model. Others may be anything.
fn model_type(annotation: &str) -> Annotation {
    for quote in ['"', '\''] {
        let inner = annotation.strip_prefix(quote);
        if let Some(inner) = inner.and_then(|rest| rest.strip_suffix(quote))
            && !inner.is_empty()
            && !inner.contains(['"', '\'', '\\'])
        {
            return Annotation::Model(inner.to_owned());
        }
    }
    Annotation::Any
}

/// The string that a body begins with.
fn docstring(body: &str) -> Option<String> {
    let text = body.trim_start();
    for quotes in ["\"\"\"", "'''"] {
        if let Some(rest) = text.strip_prefix(quotes) {
            let inner = rest.split(quotes).next()?;
            let lines: Vec<&str> = inner.lines().map(str::trim).collect();
            return Some(lines.join("\n").trim().to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::analysis::python_plugins::*;

    #[test]
    fn plugins_are_found_by_their_text() {
        let text = r#"
from inmanta import plugins
from inmanta.plugins import plugin, Context

@plugin
def simple(a: "string", b: "int" = 3) -> "bool":
    """
    Does it.

    :param a: what
    """
    return True

@plugins.plugin("other", allow_unknown=True)
@cached
def named(
    context: Context, items: dict[str, list[int]], *rest: "any", flag: bool = False, **more: "any",
) -> "dict":
    pass

def no_plugin(a): pass
"#;
        let mut scanned = Vec::new();
        let is_complete = scan_file(text, "x.py", "m", &mut scanned);
        assert!(!is_complete, "nobody knows what `@cached` does");
        assert!(scanned[0].is_certain && !scanned[1].is_certain);
        let names: Vec<&str> = scanned.iter().map(|s| s.info.name.as_str()).collect();
        assert_eq!(names, ["m::simple", "m::other"]);
        let simple = &scanned[0];
        assert_eq!(simple.info.line, 6);
        assert_eq!(
            simple.signature,
            "(a: \"string\", b: \"int\" = 3) -> \"bool\""
        );
        assert_eq!(
            simple.info.docstring.as_deref(),
            Some("Does it.\n\n:param a: what")
        );
        let other = &scanned[1].info;
        assert!(other.takes_context);
        let kinds: Vec<_> = other
            .parameters
            .iter()
            .map(|p| (p.name.as_str(), p.kind, p.has_default))
            .collect();
        assert_eq!(
            kinds,
            [
                ("items", ParameterKind::Positional, false),
                ("rest", ParameterKind::VarPositional, false),
                ("flag", ParameterKind::KeywordOnly, true),
                ("more", ParameterKind::VarKeyword, false),
            ]
        );
    }

    #[track_caller]
    fn may_have_more(text: &str, expected: bool) {
        let mut scanned = Vec::new();
        assert_eq!(scan_file(text, "x.py", "m", &mut scanned), !expected);
    }

    #[test]
    fn what_makes_plugins_out_of_sight_is_noticed() {
        let plain =
            "from inmanta.plugins import plugin, Context\nfrom inmanta.resources import resource\n";
        let plugin = "@plugin(  # the plugin\n    \"a\",\n)\ndef f(a: int) -> None:\n    \"\"\"\n@plugin\n    \"\"\"\n";
        let resource = "@resource(\"q::A\", agent=\"a\")\nclass A:\n    @plugins.deprecated(replaced_by=\"x\")\n    @property\n    def plugin_name(self): pass\n";
        may_have_more(&format!("{plain}{plugin}{resource}"), false);
        for trick in [
            "from x import *\n",
            "from inmanta.plugins import plugin as p\n",
            "g = plugin(f)\n",
            "def plugin(f): pass\n",
            "if x:\n    @plugin\n    def g(): pass\n",
            "class G(plugins.Plugin): pass\n",
            "exec(\"@plugin\")\n",
            "@registered\ndef g(): pass\n",
            "@plugin(NAME)\ndef g(): pass\n",
            "@plugin\nclass G: pass\n",
        ] {
            may_have_more(&format!("{plain}{plugin}{trick}"), true);
        }
    }

    #[test]
    fn parameters_are_told_from_their_defaults_and_comments() {
        let text = "@plugin\ndef f(\n    a: \"string\" = \"x, (y\",  # not b: this\n    /, *, c: int,  # one, two\n): pass\n";
        let mut scanned = Vec::new();
        scan_file(text, "x.py", "m", &mut scanned);
        let names: Vec<_> = scanned[0]
            .info
            .parameters
            .iter()
            .map(|p| (p.name.as_str(), p.has_default))
            .collect();
        assert_eq!(names, [("a", true), ("c", false)]);
    }
}
