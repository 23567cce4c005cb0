//! Macros as Jinja2 reads them: `varargs` and `kwargs` of the body are what the parameters leave over, and a default may
//! read the parameters before it. The engine's macros get parameters for the former and assignments for the latter, and an
//! object around them (`jinja_objects`). Source: docs/reference/std.md § 7.7.

use std::borrow::Cow;

use crate::template::source::rewrite::{expression, group_end, is_word, string_end};

/// Names of parameters that the engine takes for its own, and what they are called instead within their macro.
const RESERVED: &[(&str, &str)] = &[("loop", "__loop__"), ("self", "__self__")];

/// A macro whose end is awaited.
pub(in crate::template) struct OpenMacro {
    name: String,
    takes_more: bool,
    takes_named: bool,
    /// Which of the reserved names stand for parameters in its body, also for those of a macro around it.
    renamed: Vec<&'static str>,
    /// Loops of its body that are open: within these, `loop` is theirs.
    n_loops: usize,
}

impl OpenMacro {
    /// The inside of a tag of the body, with the names that the parameters have in it; `word`: its first word.
    pub(in crate::template) fn with_own_names<'t>(
        &mut self,
        inner: &'t str,
        word: &str,
    ) -> Cow<'t, str> {
        if self.renamed.is_empty() {
            return Cow::Borrowed(inner);
        }
        let is_assignment = word == "set";
        let named = renamed(inner, is_assignment, |name| self.own_name(name));
        match word {
            "for" => self.n_loops += 1,
            "endfor" => self.n_loops = self.n_loops.saturating_sub(1),
            _ => (),
        }
        Cow::Owned(named)
    }

    fn own_name(&self, name: &str) -> Option<&'static str> {
        let is_of_loop = name == "loop" && self.n_loops > 0;
        let is_renamed = self.renamed.contains(&name) && !is_of_loop;
        reserved(name).filter(|_| is_renamed)
    }

    /// The names that stand for parameters where a macro begins within this one.
    fn visible(&self) -> Vec<&'static str> {
        let visible = self.renamed.iter().copied();
        visible
            .filter(|name| self.own_name(name).is_some())
            .collect()
    }
}

/// What a parameter is called within its macro, if the engine takes its name for its own.
fn reserved(name: &str) -> Option<&'static str> {
    let known = RESERVED.iter().find(|(known, _)| *known == name);
    known.map(|(_, own)| *own)
}

/// What a template calls a parameter that has such a name.
pub(in crate::template) fn written_name(own: &str) -> &str {
    let known = RESERVED.iter().find(|(_, known)| *known == own);
    known.map_or(own, |(name, _)| name)
}

/// What the engine calls it.
pub(in crate::template) fn engine_name(written: &str) -> &str {
    reserved(written).unwrap_or(written)
}

/// An expression with other names: not behind a dot or a bar, and not where an argument has the name.
fn renamed(
    text: &str,
    is_assignment: bool,
    own_name: impl Fn(&str) -> Option<&'static str>,
) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = match c {
            '"' | '\'' => string_end(rest),
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (part, behind) = rest.split_at(length);
        let behind = behind.trim_start();
        let is_given = behind.starts_with('=') && !behind.starts_with("==");
        let is_argument = is_given && (!is_assignment || out.contains('('));
        let is_attribute = out.trim_end().ends_with(['.', '|']);
        match own_name(part).filter(|_| !is_argument && !is_attribute) {
            Some(own) => out.push_str(own),
            None => out.push_str(part),
        }
        at += length;
    }
    out
}

/// The tags in the place of `{% macro name(parameters) %}`; `body` is all that follows, `around` the macro around it. `None`: it
/// is none.
pub(in crate::template) fn begin(
    inner: &str,
    body: &str,
    around: Option<&OpenMacro>,
) -> Option<(String, OpenMacro)> {
    let (before, text, after) = trimmed(inner);
    let header = text.strip_prefix("macro")?.trim_start();
    let open = header.find('(')?;
    let name = header[..open].trim().to_owned();
    let length = group_end(&header[open..])?;
    let parameters = &header[open + 1..open + length - 1];
    let mut written = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    let mut late = String::new();
    let mut renamed = around.map(OpenMacro::visible).unwrap_or_default();
    for parameter in split(parameters) {
        let (parameter, default) = match parameter.split_once('=') {
            Some((parameter, default)) => (parameter.trim(), Some(default.trim())),
            None => (parameter.trim(), None),
        };
        let known = RESERVED.iter().find(|(name, _)| *name == parameter);
        renamed.extend(known.map(|(name, _)| *name));
        let parameter = engine_name(parameter);
        match default {
            Some(default) if words(default).any(|word| names.contains(&word)) => {
                written.push(format!("{parameter}=__unset__"));
                let default = expression(default);
                late.push_str(&format!(
                    "{{% if {parameter} is __unset__ %}}{{% set {parameter} = {default} %}}{{% endif %}}"
                ));
            }
            Some(default) => written.push(format!("{parameter}={}", expression(default))),
            None => written.push(parameter.to_owned()),
        }
        names.push(parameter);
    }
    let used = used(body);
    let takes = |name: &str| used.contains(&name) && !names.contains(&name);
    let open = OpenMacro {
        takes_more: takes("varargs"),
        takes_named: takes("kwargs"),
        name: name.clone(),
        renamed,
        n_loops: 0,
    };
    for (is_taken, extra) in [(open.takes_more, "varargs"), (open.takes_named, "kwargs")] {
        if is_taken {
            written.push(format!("{extra}=none"));
        }
    }
    let parameters = written.join(", ");
    // What is cut of the text behind the tag is cut behind the last one.
    let tags = match late.strip_suffix("%}") {
        Some(late) => format!("{{%{before} macro {name}({parameters}) %}}{late}{after}%}}"),
        None => format!("{{%{before} macro {name}({parameters}) {after}%}}"),
    };
    Some((tags, open))
}

/// The tags in the place of `{% endmacro %}`.
pub(in crate::template) fn end(inner: &str, open: &OpenMacro) -> String {
    let (before, _, after) = trimmed(inner);
    let OpenMacro {
        name,
        takes_more,
        takes_named,
        ..
    } = open;
    format!(
        "{{%{before} endmacro %}}{{% set {name} = __macro__({name}, {takes_more}, {takes_named}) {after}%}}"
    )
}

/// The inside of a tag without the marks that cut blanks around it, and those marks.
pub(in crate::template) fn trimmed(inner: &str) -> (&str, &str, &str) {
    let is_mark = |c: char| matches!(c, '-' | '+');
    let before = &inner[..inner.len() - inner.trim_start_matches(is_mark).len()];
    let after = &inner[inner.trim_end_matches(is_mark).len()..];
    if before.len() + after.len() > inner.len() {
        return (before, "", "");
    }
    let text = &inner[before.len()..inner.len() - after.len()];
    (before, text.trim(), after)
}

/// The parts between the commas that are in no group and no text.
pub(in crate::template) fn split(parameters: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(c) = parameters[at..].chars().next() {
        let rest = &parameters[at..];
        at += match c {
            '"' | '\'' => string_end(rest),
            '(' | '[' | '{' => group_end(rest).unwrap_or(rest.len()),
            ',' => {
                parts.push(&parameters[start..at]);
                start = at + 1;
                1
            }
            c => c.len_utf8(),
        };
    }
    parts.push(&parameters[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// Of the inside of a dict: its keys and values as arguments, where keys of several kinds may be equal; `None`: keys are
/// texts, or it is no such thing.
pub(in crate::template) fn entries(inner: &str) -> Option<String> {
    let mut arguments = Vec::new();
    let mut is_mixed = false;
    for entry in split(inner) {
        let (key, value) = entry.split_at(colon(entry)?);
        is_mixed |= !key.trim_start().starts_with(['"', '\'']);
        arguments.push(format!("({key}), ({})", &value[1..]));
    }
    is_mixed.then(|| arguments.join(", "))
}

fn colon(text: &str) -> Option<usize> {
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        at += match c {
            ':' => return Some(at),
            '"' | '\'' => string_end(rest),
            '(' | '[' | '{' => group_end(rest).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
    }
    None
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_word(c)).filter(|word| !word.is_empty())
}

/// Words in the tags of a body, up to the end of the macro.
fn used(body: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut depth = 0;
    let mut rest = body;
    while let Some(at) = rest.find("{{").into_iter().chain(rest.find("{%")).min() {
        let tag = &rest[at..];
        let close = if tag.starts_with("{{") { "}}" } else { "%}" };
        let length = tag.find(close).map_or(tag.len(), |end| end + 2);
        let mut words = words(&tag[..length]).peekable();
        match words.peek() {
            Some(&"macro") if close == "%}" => depth += 1,
            Some(&"endmacro") if close == "%}" && depth == 0 => break,
            Some(&"endmacro") if close == "%}" => depth -= 1,
            _ => (),
        }
        found.extend(words);
        rest = &tag[length..];
    }
    found
}
