//! Plugins of Python modules as their text declares them, without running any Python: for tools that must not execute
//! what they look at. It sees `@plugin` before a `def`; what is made in other ways stays unseen.

use crate::project::Module;
use crate::protocol::{Annotation, Parameter, ParameterKind, PluginInfo};
use crate::world::World;

pub struct Scanned {
    pub info: PluginInfo,
    /// `(a: "string", b: int = 3) -> "bool"`, as it is written.
    pub signature: String,
}

/// The plugins of a module, and the namespaces that may have more.
pub fn scan(world: &dyn World, module: &Module) -> (Vec<Scanned>, Vec<String>) {
    let mut scanned = Vec::new();
    let mut namespaces = Vec::new();
    let Some(python) = module.python(world) else {
        return (scanned, namespaces);
    };
    let root = world.absolute("");
    for file in &python.files {
        let path = file.path.strip_prefix(&root).unwrap_or(&file.path);
        let path = path.trim_start_matches('/');
        let Some(namespace) = file.module.strip_prefix("inmanta_plugins.") else {
            continue;
        };
        let namespace = namespace.replace('.', "::");
        if let Ok(text) = world
            .read_text(path)
            .or_else(|_| world.read_text(&file.path))
        {
            scan_file(&text, path, &namespace, &mut scanned);
        }
        namespaces.push(namespace);
    }
    (scanned, namespaces)
}

fn scan_file(text: &str, file: &str, namespace: &str, scanned: &mut Vec<Scanned>) {
    let lines: Vec<&str> = text.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        let Some(given) = decorator(lines[at]) else {
            at += 1;
            continue;
        };
        // Other decorators and the rest of this one's arguments may lie between.
        let Some(ahead) = lines[at + 1..]
            .iter()
            .take(30)
            .position(|line| line.starts_with("def ") || line.starts_with("async def "))
        else {
            at += 1;
            continue;
        };
        let line = at + 1 + ahead;
        if let Some((name, signature)) = definition(&lines[line..]) {
            let (parameters, takes_context) = parameters(&signature);
            let name = given.unwrap_or(name);
            scanned.push(Scanned {
                info: PluginInfo {
                    name: format!("{namespace}::{name}"),
                    file: file.to_owned(),
                    line: line as u32 + 1,
                    parameters,
                    returns: Annotation::Any,
                    allow_unknown: true,
                    takes_context,
                    emits_statements: false,
                    commands: Vec::new(),
                    deprecated: None,
                    docstring: docstring(&lines[line..]),
                },
                signature,
            });
        }
        at = line + 1;
    }
}

/// Of `@plugin` and its like: the name it gives, if it gives one.
fn decorator(line: &str) -> Option<Option<String>> {
    let text = line.strip_prefix('@')?;
    let (path, arguments) = text.split_once('(').unwrap_or((text, ""));
    let last = path.trim().rsplit('.').next()?;
    if last.split_whitespace().next()? != "plugin" {
        return None;
    }
    let first = arguments.split([',', ')']).next()?.trim();
    let first = first.strip_prefix("name=").unwrap_or(first);
    let quoted = first.starts_with(['"', '\'']);
    Some(quoted.then(|| first.trim_matches(['"', '\'']).to_owned()))
}

/// Name, and the text from the opening bracket to the colon.
fn definition(lines: &[&str]) -> Option<(String, String)> {
    let text = lines
        .iter()
        .take(100)
        .copied()
        .collect::<Vec<_>>()
        .join("\n");
    let after = text.split_once("def ")?.1;
    let (name, rest) = after.split_once('(')?;
    let mut depth = 1;
    let close = rest.char_indices().find(|(_, c)| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    let parameters = &rest[..close.0];
    let returns = rest[close.0 + 1..].split(':').next().unwrap_or("").trim();
    let flat: Vec<&str> = parameters.split_whitespace().collect();
    let mut signature = format!("({})", flat.join(" ").trim_end_matches(','));
    if !returns.is_empty() {
        signature.push(' ');
        signature.push_str(returns);
    }
    Some((name.trim().to_owned(), signature))
}

fn parameters(signature: &str) -> (Vec<Parameter>, bool) {
    let mut depth = 0;
    let mut parts = vec![String::new()];
    for c in signature.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        match c {
            '(' if depth == 1 => {}
            ')' if depth == 0 => break,
            ',' if depth == 1 => parts.push(String::new()),
            c => {
                if let Some(part) = parts.last_mut() {
                    part.push(c);
                }
            }
        }
    }
    let mut parameters = Vec::new();
    let mut takes_context = false;
    let mut kind = ParameterKind::Positional;
    for part in &parts {
        let part = part.trim();
        let (declared, default) = part.split_once('=').unwrap_or((part, ""));
        let (name, annotation) = declared.split_once(':').unwrap_or((declared, ""));
        let annotation = annotation.trim().trim_matches(['"', '\'']);
        if annotation.rsplit('.').next() == Some("Context") {
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
            annotation: Annotation::Any,
            has_default: !default.is_empty(),
        });
    }
    (parameters, takes_context)
}

/// The string that a body begins with.
fn docstring(lines: &[&str]) -> Option<String> {
    let body = lines
        .iter()
        .position(|line| line.trim_end().ends_with(':'))?
        + 1;
    let text = lines.get(body..)?.join("\n");
    let text = text.trim_start();
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
    use super::*;

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
        scan_file(text, "x.py", "m", &mut scanned);
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
}
