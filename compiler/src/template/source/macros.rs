//! Macros as Jinja2 reads them: `varargs` and `kwargs` of the body are what the parameters leave over, and a default may
//! read the parameters before it. The engine's macros get parameters for the former and assignments for the latter, and an
//! object around them (`jinja_objects`). Source: docs/reference/std.md § 7.7.

use crate::template::source::rewrite::{expression, group_end, is_word, string_end};

/// A macro whose end is awaited.
pub(in crate::template) struct OpenMacro {
    name: String,
    takes_more: bool,
    takes_named: bool,
}

/// The tags in the place of `{% macro name(parameters) %}`; `body` is all that follows. `None`: it is none.
pub(in crate::template) fn begin(inner: &str, body: &str) -> Option<(String, OpenMacro)> {
    let (before, text, after) = trimmed(inner);
    let header = text.strip_prefix("macro")?.trim_start();
    let open = header.find('(')?;
    let name = header[..open].trim().to_owned();
    let length = group_end(&header[open..])?;
    let parameters = &header[open + 1..open + length - 1];
    let mut written = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    let mut late = String::new();
    for parameter in split(parameters) {
        let (parameter, default) = match parameter.split_once('=') {
            Some((parameter, default)) => (parameter.trim(), Some(default.trim())),
            None => (parameter.trim(), None),
        };
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
