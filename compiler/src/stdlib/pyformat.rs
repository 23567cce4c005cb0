//! Python's `str.format`, for `std::format`.

use crate::stdlib::lists::attribute;
use crate::stdlib::{Model, PluginError, Value, external};
use crate::syntax::strings::{FormatPiece, format_pieces};
use crate::types::format;

pub(super) fn format(
    model: &mut dyn Model,
    template: &str,
    positional: &[Value],
    named: &[(String, Value)],
) -> Result<String, PluginError> {
    let pieces = match format_pieces(template, 2) {
        Ok(pieces) => pieces,
        Err(reason) => return external("ValueError", reason),
    };
    let mut automatic = 0;
    render(model, &pieces, positional, named, &mut automatic)
}

/// The text that Python shows of a value; a plugin sees lists, dicts and instances behind a proxy.
pub(super) fn text_of(model: &dyn Model, value: Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::List(_) | Value::Dict(_) | Value::Instance(_) => format!("@{}", model.repr(value)),
        Value::Opaque(number) if model.heap_ref().is_behind_proxy(number) => {
            format!("@{}", model.repr(value))
        }
        value => model.text(value),
    }
}

/// No text is made longer: 256 MiB.
const MAX_TEXT: usize = 256 << 20;

fn render(
    model: &mut dyn Model,
    pieces: &[FormatPiece],
    positional: &[Value],
    named: &[(String, Value)],
    automatic: &mut usize,
) -> Result<String, PluginError> {
    let mut out = String::new();
    for piece in pieces {
        if out.len() > MAX_TEXT {
            return external("MemoryError", "the text is too long");
        }
        match piece {
            FormatPiece::Text(text) => out.push_str(text),
            FormatPiece::Field {
                name,
                conversion,
                spec,
                ..
            } => {
                let value = field(model, name, positional, named, automatic)?;
                let spec = render(model, spec, positional, named, automatic)?;
                let (value, text) = match conversion {
                    None => (value, text_of(model, value)),
                    Some('s') => {
                        let text = text_of(model, value);
                        (model.heap().new_str(&text), text)
                    }
                    Some('r' | 'a') => {
                        let text = match value {
                            Value::Str(_) => model.repr(value),
                            value => text_of(model, value),
                        };
                        (model.heap().new_str(&text), text)
                    }
                    Some(other) => {
                        return external(
                            "ValueError",
                            format!("Unknown conversion specifier {other}"),
                        );
                    }
                };
                match format::format(model.heap_ref(), value, &spec, &text) {
                    Ok(text) => out.push_str(&text),
                    Err(reason) => return external("ValueError", reason),
                }
            }
        }
    }
    Ok(out)
}

fn field(
    model: &mut dyn Model,
    name: &str,
    positional: &[Value],
    named: &[(String, Value)],
    automatic: &mut usize,
) -> Result<Value, PluginError> {
    let end = name.find(['.', '[']).unwrap_or(name.len());
    let (first, mut rest) = name.split_at(end);
    let by_position = |at: usize| match positional.get(at) {
        Some(value) => Ok(*value),
        None => external(
            "IndexError",
            format!("Replacement index {at} out of range for positional args tuple"),
        ),
    };
    const MANUAL: usize = usize::MAX;
    let mut value = if first.is_empty() {
        if *automatic == MANUAL {
            let message =
                "cannot switch from manual field specification to automatic field numbering";
            return external("ValueError", message);
        }
        *automatic += 1;
        by_position(*automatic - 1)?
    } else if let Ok(at) = first.parse::<usize>() {
        if *automatic != 0 && *automatic != MANUAL {
            let message =
                "cannot switch from automatic field numbering to manual field specification";
            return external("ValueError", message);
        }
        *automatic = MANUAL;
        by_position(at)?
    } else {
        match named.iter().find(|(known, _)| known == first) {
            Some((_, value)) => *value,
            None => return external("KeyError", crate::types::text::quoted(first)),
        }
    };
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            value = attribute(model, value, &after[..end], false)?;
            rest = &after[end..];
            continue;
        }
        let Some((key, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        else {
            return external("ValueError", "Missing ']' in format string");
        };
        value = match value {
            Value::List(list) => match key
                .parse::<usize>()
                .ok()
                .and_then(|at| model.heap_ref().list(list).get(at))
            {
                Some(value) => *value,
                None => return external("IndexError", "list index out of range"),
            },
            Value::Dict(dict) => match model.heap_ref().dict_get(dict, key) {
                Some(value) => value,
                None => return external("KeyError", crate::types::text::quoted(key)),
            },
            Value::Str(_) => character(model, value, key)?,
            _ => return external("TypeError", "the object is not subscriptable"),
        };
        rest = after;
    }
    if matches!(value, Value::Unknown(_)) {
        return Err(PluginError::Unknown);
    }
    Ok(value)
}

/// `{0[1]}` of a text.
fn character(model: &mut dyn Model, text: Value, key: &str) -> Result<Value, PluginError> {
    let Ok(at) = key.parse::<usize>() else {
        return external("TypeError", "string indices must be integers, not 'str'");
    };
    let character = model.text(text).chars().nth(at);
    match character {
        Some(character) => Ok(model.heap().new_str(character.encode_utf8(&mut [0; 4]))),
        None => external("IndexError", "string index out of range"),
    }
}
