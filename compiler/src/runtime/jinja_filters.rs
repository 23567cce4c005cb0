//! Filters, tests and functions of Jinja2 that the engine lacks or has with other semantics. Source: std-module.md 7.6.

use std::cmp::Ordering;

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value as Jinja};

use super::jinja::{repr, shown, strip_tags};
use super::jinja_objects::Sequence;
use super::jinja_text::{self as text, WordWrap};

const LOREM: &str = "Lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore magna aliqua.";

pub(super) fn register(engine: &mut Environment<'static>) {
    for name in ["e", "escape", "forceescape"] {
        engine.add_filter(name, move |value: &Jinja| {
            if value.is_safe() && name != "forceescape" {
                return value.clone();
            }
            Jinja::from_safe_string(text::escaped(&shown(value)))
        });
    }
    engine.add_filter("safe", |value: &Jinja| {
        Jinja::from_safe_string(shown(value))
    });
    engine.add_filter("striptags", |value: &Jinja| strip_tags(&shown(value)));
    engine.add_filter("truncate", truncate);
    engine.add_filter("wordwrap", wordwrap);
    engine.add_filter("replace", replace);
    engine.add_filter("round", round);
    engine.add_filter("int", int);
    engine.add_filter("float", float);
    engine.add_filter("filesizeformat", |value: &Jinja, binary: Option<bool>| {
        number(value).map(|bytes| text::file_size(bytes, binary.unwrap_or(false)))
    });
    engine.add_filter("tojson", tojson);
    engine.add_filter("pprint", |value: &Jinja| text::pretty(value, 0));
    engine.add_filter("xmlattr", xmlattr);
    engine.add_filter("urlencode", urlencode);
    engine.add_filter("urlize", |value: &Jinja| text::with_links(&shown(value)));
    engine.add_filter("sum", sum);
    engine.add_filter("max", |values: Jinja, kwargs: Kwargs| {
        extreme(&values, &kwargs, Ordering::Greater)
    });
    engine.add_filter("min", |values: Jinja, kwargs: Kwargs| {
        extreme(&values, &kwargs, Ordering::Less)
    });
    engine.add_filter("dictsort", dictsort);
    engine.add_filter("items", |value: Jinja| {
        pairs(&value).map(|pairs| {
            pairs
                .into_iter()
                .map(|(key, value)| Sequence::tuple(vec![key, value]))
                .collect::<Vec<_>>()
        })
    });
    engine.add_filter("attr", |value: Jinja, name: String| {
        match value.get_attr(&name) {
            Ok(found) if !found.is_undefined() => found,
            _ => Jinja::from_object(super::jinja_methods::Bound { value, name }),
        }
    });
    engine.add_filter("random", random);
    engine.add_filter("groupby", groupby);
    engine.add_function("joiner", minijinja_contrib::globals::joiner);
    engine.add_test("mapping", |value: &Jinja| {
        // A dict of the model is a read-only view, which the reference does not count.
        value.kind() == ValueKind::Map && !super::jinja::is_model_dict(value)
    });
    engine.add_test("callable", |value: &Jinja| {
        value.kind() == ValueKind::Plain && !super::jinja::is_instance(value)
    });
    engine.add_function("lipsum", |_: Rest<Jinja>| LOREM);
    engine.add_function("__divisor__", divisor);
    engine.add_global("__true__", true);
    engine.add_global("__false__", false);
}

/// Python divides nothing by zero.
fn divisor(value: Jinja) -> Result<Jinja, Error> {
    match f64::try_from(value.clone()) {
        Ok(0.0) => Err(invalid("division by zero")),
        _ => Ok(value),
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

fn number(value: &Jinja) -> Result<f64, Error> {
    match value.as_str() {
        Some(text) => text
            .trim()
            .parse()
            .map_err(|_| invalid(format!("could not convert string to float: '{text}'"))),
        None => f64::try_from(value.clone()),
    }
}

/// Arguments of a filter with more of them than the engine's own conversion takes.
struct Given {
    positional: Vec<Jinja>,
    named: Kwargs,
}

impl Given {
    fn new(args: &[Jinja]) -> Result<Given, Error> {
        let (positional, named): (&[Jinja], Kwargs) = minijinja::value::from_args(args)?;
        let positional = positional.to_vec();
        Ok(Given { positional, named })
    }

    /// By position, else by name; null counts as not given.
    fn value(&self, at: usize, name: &str) -> Result<Option<Jinja>, Error> {
        match self.positional.get(at).filter(|value| !value.is_none()) {
            Some(value) => Ok(Some(value.clone())),
            None => self.named.get(name),
        }
    }

    fn get<T: TryFrom<Jinja, Error = Error>>(
        &self,
        at: usize,
        name: &str,
        default: T,
    ) -> Result<T, Error> {
        self.value(at, name)?.map_or(Ok(default), T::try_from)
    }

    fn text(&self, at: usize, name: &str, default: &str) -> Result<String, Error> {
        let value = self.value(at, name)?;
        Ok(value.map_or_else(|| default.to_owned(), |value| shown(&value)))
    }
}

fn truncate(value: &Jinja, args: Rest<Jinja>) -> Result<String, Error> {
    let given = Given::new(&args)?;
    let length = given.get(0, "length", 255usize)?;
    let kill = given.get(1, "killwords", false)?;
    let end = given.text(2, "end", "...")?;
    let leeway = given.get(3, "leeway", 5usize)?;
    given.named.assert_all_used()?;
    Ok(text::truncated(&shown(value), length, kill, &end, leeway))
}

fn wordwrap(value: &Jinja, args: Rest<Jinja>) -> Result<String, Error> {
    let given = Given::new(&args)?;
    let wrap = WordWrap {
        width: given.get(0, "width", 79usize)?.max(1),
        break_long_words: given.get(1, "break_long_words", true)?,
        break_on_hyphens: given.get(3, "break_on_hyphens", true)?,
    };
    let separator = given.text(2, "wrapstring", "\n")?;
    given.named.assert_all_used()?;
    let lines: Vec<String> = shown(value)
        .lines()
        .map(|line| wrap.wrap(line).join(&separator))
        .collect();
    Ok(lines.join(&separator))
}

fn replace(value: &Jinja, old: &Jinja, new: &Jinja, count: Option<usize>) -> String {
    let (value, old, new) = (shown(value), shown(old), shown(new));
    match count {
        Some(count) => value.replacen(&old, &new, count),
        None => value.replace(&old, &new),
    }
}

fn round(
    value: &Jinja,
    precision: Option<i32>,
    method: Option<String>,
    kwargs: Kwargs,
) -> Result<Jinja, Error> {
    let precision = kwargs
        .get::<Option<i32>>("precision")?
        .or(precision)
        .unwrap_or(0);
    let method = kwargs.get::<Option<String>>("method")?.or(method);
    kwargs.assert_all_used()?;
    // Python rounds integers to integers.
    let common = matches!(method.as_deref(), None | Some("common"));
    if value.is_integer() && common && precision >= 0 {
        return Ok(value.clone());
    }
    let value = number(value)?;
    let scale = 10f64.powi(precision);
    Ok(Jinja::from(match method.as_deref() {
        None | Some("common") => text::round_half_even(value, precision),
        Some("ceil") => (value * scale).ceil() / scale,
        Some("floor") => (value * scale).floor() / scale,
        Some(_) => return Err(invalid("method must be common, ceil or floor")),
    }))
}

fn int(
    value: &Jinja,
    default: Option<Jinja>,
    base: Option<u32>,
    kwargs: Kwargs,
) -> Result<Jinja, Error> {
    let default = kwargs
        .get::<Option<Jinja>>("default")?
        .or(default)
        .unwrap_or_else(|| Jinja::from(0));
    let base = kwargs.get::<Option<u32>>("base")?.or(base).unwrap_or(10);
    kwargs.assert_all_used()?;
    if let Some(text) = value.as_str() {
        let text = text.trim();
        let digits = match base {
            16 => text.trim_start_matches("0x").trim_start_matches("0X"),
            8 => text.trim_start_matches("0o").trim_start_matches("0O"),
            2 => text.trim_start_matches("0b").trim_start_matches("0B"),
            _ => text,
        };
        if let Ok(int) = i128::from_str_radix(&digits.replace('_', ""), base.clamp(2, 36)) {
            return Ok(Jinja::from(int));
        }
        return Ok(match text.parse::<f64>() {
            Ok(float) if float.is_finite() => Jinja::from(float.trunc() as i128),
            _ => default,
        });
    }
    Ok(match value.kind() {
        ValueKind::Bool => Jinja::from(i64::from(value.is_true())),
        ValueKind::Number if value.is_integer() => value.clone(),
        ValueKind::Number => {
            f64::try_from(value.clone()).map_or(default, |float| Jinja::from(float.trunc() as i128))
        }
        _ => default,
    })
}

fn float(value: &Jinja, default: Option<f64>) -> f64 {
    number(value).unwrap_or_else(|_| default.unwrap_or(0.0))
}

fn tojson(value: &Jinja, indent: Option<usize>, kwargs: Kwargs) -> Result<String, Error> {
    let indent = kwargs.get::<Option<usize>>("indent")?.or(indent);
    kwargs.assert_all_used()?;
    let mut out = String::new();
    text::write_json(value, indent, 0, &mut out)?;
    Ok(out
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\'', "\\u0027"))
}

fn pairs(value: &Jinja) -> Result<Vec<(Jinja, Jinja)>, Error> {
    if value.kind() != ValueKind::Map {
        return Err(invalid("Can only get item pairs from a mapping."));
    }
    if let Some(entries) = super::jinja::model_entries(value) {
        return Ok(entries);
    }
    value
        .try_iter()?
        .map(|key| Ok((key.clone(), value.get_item(&key)?)))
        .collect()
}

fn xmlattr(value: &Jinja, autospace: Option<bool>) -> Result<String, Error> {
    let mut parts = Vec::new();
    for (key, value) in pairs(value)? {
        let key = shown(&key);
        if key.contains([' ', '\t', '\n', '/', '>', '=']) {
            return Err(invalid(format!(
                "Invalid character in attribute name: '{key}'"
            )));
        }
        if !value.is_none() && !value.is_undefined() {
            parts.push(format!(
                "{}=\"{}\"",
                text::escaped(&key),
                text::escaped(&shown(&value))
            ));
        }
    }
    let joined = parts.join(" ");
    Ok(if autospace.unwrap_or(true) && !joined.is_empty() {
        format!(" {joined}")
    } else {
        joined
    })
}

fn urlencode(value: &Jinja) -> Result<String, Error> {
    let pair = |key: &Jinja, value: &Jinja| {
        format!(
            "{}={}",
            text::quoted_url(&shown(key), true),
            text::quoted_url(&shown(value), true)
        )
    };
    Ok(match value.kind() {
        ValueKind::Map => pairs(value)?
            .iter()
            .map(|(key, value)| pair(key, value))
            .collect::<Vec<_>>()
            .join("&"),
        ValueKind::Seq | ValueKind::Iterable => {
            let mut parts = Vec::new();
            for item in value.try_iter()? {
                parts.push(pair(
                    &item.get_item_by_index(0)?,
                    &item.get_item_by_index(1)?,
                ));
            }
            parts.join("&")
        }
        _ => text::quoted_url(&shown(value), false),
    })
}

/// `a.b.0`, as filters name attributes.
fn dotted(value: &Jinja, path: &Jinja) -> Result<Jinja, Error> {
    let Some(path) = path.as_str() else {
        return value.get_item(path);
    };
    let mut at = value.clone();
    for part in path.split('.') {
        at = match part.parse::<usize>() {
            Ok(index) => at.get_item_by_index(index)?,
            Err(_) => at.get_attr(part)?,
        };
    }
    Ok(at)
}

fn sum(
    values: &Jinja,
    attribute: Option<Jinja>,
    start: Option<Jinja>,
    kwargs: Kwargs,
) -> Result<Jinja, Error> {
    let attribute = kwargs
        .get::<Option<Jinja>>("attribute")?
        .or(attribute)
        .filter(|attribute| !attribute.is_none());
    let start = kwargs
        .get::<Option<Jinja>>("start")?
        .or(start)
        .unwrap_or_else(|| Jinja::from(0));
    kwargs.assert_all_used()?;
    let mut integer = start
        .is_integer()
        .then(|| i128::try_from(start.clone()))
        .transpose()?;
    let mut float = f64::try_from(start)?;
    for value in values.try_iter()? {
        let value = match &attribute {
            Some(attribute) => dotted(&value, attribute)?,
            None => value,
        };
        let whole = value.is_integer() || value.kind() == ValueKind::Bool;
        integer = match (integer, whole) {
            (Some(sum), true) => sum.checked_add(i128::try_from(value.clone())?),
            _ => None,
        };
        float += f64::try_from(value)?;
    }
    Ok(integer.map_or_else(|| Jinja::from(float), Jinja::from))
}

/// Texts are compared without case, unless it is asked for.
fn folded(value: Jinja, case_sensitive: bool) -> Jinja {
    match value.as_str() {
        Some(text) if !case_sensitive => Jinja::from(text.to_lowercase()),
        _ => value,
    }
}

fn extreme(values: &Jinja, kwargs: &Kwargs, wanted: Ordering) -> Result<Jinja, Error> {
    let attribute: Option<Jinja> = kwargs.get("attribute")?;
    let case_sensitive = kwargs
        .get::<Option<bool>>("case_sensitive")?
        .unwrap_or(false);
    kwargs.assert_all_used()?;
    let mut best: Option<(Jinja, Jinja)> = None;
    for value in values.try_iter()? {
        let key = match &attribute {
            Some(attribute) => dotted(&value, attribute)?,
            None => value.clone(),
        };
        let key = folded(key, case_sensitive);
        if best
            .as_ref()
            .is_none_or(|(known, _)| key.cmp(known) == wanted)
        {
            best = Some((key, value));
        }
    }
    Ok(best.map_or(Jinja::UNDEFINED, |(_, value)| value))
}

fn dictsort(
    value: &Jinja,
    case_sensitive: Option<bool>,
    by: Option<String>,
    reverse: Option<bool>,
    kwargs: Kwargs,
) -> Result<Vec<Jinja>, Error> {
    let case_sensitive = kwargs
        .get::<Option<bool>>("case_sensitive")?
        .or(case_sensitive)
        .unwrap_or(false);
    let by = kwargs.get::<Option<String>>("by")?.or(by);
    let reverse = kwargs
        .get::<Option<bool>>("reverse")?
        .or(reverse)
        .unwrap_or(false);
    kwargs.assert_all_used()?;
    let by_value = match by.as_deref() {
        None | Some("key") => false,
        Some("value") => true,
        Some(_) => return Err(invalid("You can only sort by either \"key\" or \"value\"")),
    };
    let mut pairs = pairs(value)?;
    let of = |pair: &(Jinja, Jinja)| {
        folded(
            if by_value {
                pair.1.clone()
            } else {
                pair.0.clone()
            },
            case_sensitive,
        )
    };
    pairs.sort_by_key(&of);
    if reverse {
        pairs.reverse();
    }
    Ok(pairs
        .into_iter()
        .map(|(key, value)| Sequence::tuple(vec![key, value]))
        .collect())
}

/// Tuples of what the values have in common and of the values, sorted.
fn groupby(values: &Jinja, args: Rest<Jinja>) -> Result<Vec<Jinja>, Error> {
    let given = Given::new(&args)?;
    let attribute = given
        .value(0, "attribute")?
        .ok_or_else(|| Error::from(ErrorKind::MissingArgument))?;
    let default = given.value(1, "default")?;
    let case_sensitive = given.get(2, "case_sensitive", false)?;
    given.named.assert_all_used()?;
    let mut keyed = Vec::new();
    for value in values.try_iter()? {
        let found = dotted(&value, &attribute)?;
        let found = match &default {
            Some(default) if found.is_undefined() => default.clone(),
            _ => found,
        };
        keyed.push((folded(found.clone(), case_sensitive), found, value));
    }
    keyed.sort_by(|(left, ..), (right, ..)| left.cmp(right));
    let groups = keyed.chunk_by(|(left, ..), (right, ..)| left == right);
    let group = |group: &[(Jinja, Jinja, Jinja)]| {
        let values: Vec<Jinja> = group.iter().map(|(.., value)| value.clone()).collect();
        let items = vec![group[0].1.clone(), Jinja::from(values)];
        Sequence::named(items, &["grouper", "list"])
    };
    Ok(groups.map(group).collect())
}

/// One of the values: which one follows from them, because the same model gives the same resources.
fn random(values: &Jinja) -> Result<Jinja, Error> {
    let items: Vec<Jinja> = values.try_iter()?.collect();
    let seed = repr(values).bytes().fold(5381u64, |hash, byte| {
        hash.wrapping_mul(33) ^ u64::from(byte)
    });
    Ok(match items.len() {
        0 => Jinja::UNDEFINED,
        length => items[(seed % length as u64) as usize].clone(),
    })
}
