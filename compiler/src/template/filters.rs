//! Filters, tests and functions of Jinja2 that the engine lacks or has with other semantics.
//! Source: docs/reference/std.md § 7.6.

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value as Jinja};

use crate::template::arguments::{
    add_filter, add_items_filter, add_text_filter, defined, in_order, items_of, text_of,
};
use crate::template::objects::containers::Sequence;
use crate::template::objects::model_objects::is_nothing;
use crate::template::repr::{repr, shown};
use crate::template::text::{self as text, WordWrap};

const LOREM: &str = "Lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore magna aliqua.";

pub(in crate::template) fn register(engine: &mut Environment<'static>) {
    for name in ["e", "escape", "forceescape"] {
        add_filter(engine, name, &[], move |value: &Jinja| {
            if value.is_safe() && name != "forceescape" {
                return value.clone();
            }
            Jinja::from_safe_string(text::escaped(&shown(value)))
        });
    }
    add_filter(engine, "safe", &[], |value: &Jinja| {
        Jinja::from_safe_string(shown(value))
    });
    add_filter(engine, "truncate", &[], truncate);
    add_filter(engine, "wordwrap", &[], wordwrap);
    add_filter(engine, "replace", &["old", "new", "count"], replace);
    add_filter(engine, "round", &[], round);
    add_filter(engine, "int", &[], int);
    add_filter(engine, "float", &["default"], float);
    add_filter(
        engine,
        "filesizeformat",
        &["binary"],
        |value: &Jinja, binary: Option<bool>| {
            number(value).map(|bytes| text::file_size(bytes, binary.unwrap_or(false)))
        },
    );
    add_filter(engine, "tojson", &[], tojson);
    add_filter(engine, "xmlattr", &["autospace"], xmlattr);
    add_filter(engine, "urlencode", &[], urlencode);
    add_filter(engine, "sum", &[], sum);
    engine.add_filter("items", |value: Jinja| {
        // The only one that says what is undefined to be empty.
        if is_nothing(&value) {
            return Ok(Vec::new());
        }
        pairs(&value).map(|pairs| {
            pairs
                .into_iter()
                .map(|(key, value)| Sequence::tuple(vec![key, value]))
                .collect::<Vec<_>>()
        })
    });
    add_filter(engine, "attr", &["name"], |value: Jinja, name: String| {
        // The entries of a dict are no attributes.
        let is_dict =
            value.kind() == ValueKind::Map && !crate::template::repr::is_namespace(&value);
        match value.get_attr(&name) {
            Ok(found) if !is_dict && !found.is_undefined() => found,
            _ if crate::template::methods::is_method(&value, &name) => {
                Jinja::from_object(crate::template::methods::Bound { value, name })
            }
            _ => Jinja::UNDEFINED,
        }
    });
    // What a filter gave is called; `source::rewrite` writes it so.
    add_filter(
        engine,
        "__call__",
        &[],
        |state: &State, value: Jinja, args: Rest<Jinja>| value.call(state, &args),
    );
    add_filter(engine, "abs", &[], abs);
    add_filter(engine, "random", &[], random);
    // What is undefined has a `repr`.
    engine.add_filter("pprint", |value: &Jinja| text::pretty(value, 0));
    of_the_engine(engine);
    engine.add_function("joiner", minijinja_contrib::globals::joiner);
    engine.add_function("lipsum", |_: Rest<Jinja>| LOREM);
    engine.add_function("__divisor__", divisor);
    engine.add_function("__modulus__", modulus);
    engine.add_function("__exponent__", exponent);
    engine.add_function("__iterable__", iterable);
    engine.add_function("__bounded__", |value: Jinja| {
        bounded(&value).map(|()| value)
    });
    engine.add_global("__true__", true);
    engine.add_global("__false__", false);
}

/// Filters that do what the engine's do.
fn of_the_engine(engine: &mut Environment<'static>) {
    use minijinja::filters;

    add_text_filter(engine, "upper", &[], filters::upper);
    add_text_filter(engine, "lower", &[], filters::lower);
    add_text_filter(engine, "capitalize", &[], filters::capitalize);
    add_text_filter(engine, "trim", &["chars"], filters::trim);
    add_filter(engine, "first", &[], filters::first);
    add_filter(engine, "last", &[], |values: Jinja| {
        // The engine does not know the last key of a dict.
        match values.kind() {
            ValueKind::Map => Ok(values.try_iter()?.last().unwrap_or(Jinja::UNDEFINED)),
            _ => filters::last(values),
        }
    });
    add_filter(engine, "length", &[], filters::length);
    add_filter(engine, "count", &[], filters::length);
    add_items_filter(engine, "list", &[], filters::list);
    add_items_filter(engine, "reverse", &[], filters::reverse);
    add_items_filter(engine, "batch", &["linecount", "fill_with"], filters::batch);
    add_items_filter(engine, "slice", &["slices", "fill_with"], filters::slice);
}

/// Python divides nothing by zero.
fn divisor(value: Jinja) -> Result<Jinja, Error> {
    match f64::try_from(value.clone()) {
        Ok(0.0) => Err(invalid("division by zero")),
        _ => Ok(value),
    }
}

/// The engine's remainder is never negative, Python's has the sign of the divisor.
fn modulus(value: Jinja) -> Result<Jinja, Error> {
    match f64::try_from(value.clone()) {
        Ok(number) if number < 0.0 => Err(invalid("`%` by a negative number")),
        _ => divisor(value),
    }
}

/// A power of a negative integer is a float.
fn exponent(value: Jinja) -> Result<Jinja, Error> {
    if value.is_integer() && i128::try_from(value.clone())? < 0 {
        return Ok(Jinja::from(f64::try_from(value)?));
    }
    Ok(value)
}

/// What a loop goes over: the engine takes null for an empty list, and does not know where a text ends.
fn iterable(value: Jinja) -> Result<Jinja, Error> {
    if value.is_none() {
        return Err(invalid("'NoneType' object is not iterable"));
    }
    Ok(match value.as_str() {
        Some(text) => text.chars().map(|c| Jinja::from(c.to_string())).collect(),
        None => value,
    })
}

/// What a name is given does not grow without end: texts of 64 MiB, lists of a million elements.
pub(in crate::template) fn bounded(value: &Jinja) -> Result<(), Error> {
    const MAX_TEXT: usize = 64 << 20;
    const MAX_LIST: usize = 1_000_000;
    let is_too_long = match value.kind() {
        ValueKind::String => value.as_str().is_some_and(|text| text.len() > MAX_TEXT),
        ValueKind::Seq | ValueKind::Iterable => value
            .try_iter()
            .is_ok_and(|mut items| items.nth(MAX_LIST).is_some()),
        _ => false,
    };
    match is_too_long {
        true => Err(invalid("the template makes too long a text or list")),
        false => Ok(()),
    }
}

/// What looks at a value does not take an optional relation without one.
fn not_nothing(value: &Jinja) -> Result<(), Error> {
    match is_nothing(value) {
        true => Err(Error::from(ErrorKind::UndefinedError)),
        false => Ok(()),
    }
}

pub(in crate::template) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

pub(in crate::template) fn number(value: &Jinja) -> Result<f64, Error> {
    not_nothing(value)?;
    match value.as_str() {
        Some(text) => text
            .trim()
            .replace('_', "")
            .parse()
            .map_err(|_| invalid(format!("could not convert string to float: '{text}'"))),
        None if value.kind() == ValueKind::Bool => Ok(f64::from(u8::from(value.is_true()))),
        None => f64::try_from(value.clone()),
    }
}

/// Arguments of a filter with more of them than the engine's own conversion takes.
pub(in crate::template) struct Given {
    positional: Vec<Jinja>,
    pub named: Kwargs,
}

impl Given {
    pub fn new(args: &[Jinja]) -> Result<Given, Error> {
        let (positional, named): (&[Jinja], Kwargs) = minijinja::value::from_args(args)?;
        let positional = positional.to_vec();
        Ok(Given { positional, named })
    }

    /// The argument at a position, else by its name; null counts as not given.
    pub fn value(&self, at: usize, name: &str) -> Result<Option<Jinja>, Error> {
        match self.positional.get(at).filter(|value| !value.is_none()) {
            Some(value) => Ok(Some(value.clone())),
            None => self.named.get(name),
        }
    }

    pub fn get<T: TryFrom<Jinja, Error = Error>>(
        &self,
        at: usize,
        name: &str,
        default: T,
    ) -> Result<T, Error> {
        self.value(at, name)?.map_or(Ok(default), T::try_from)
    }

    pub fn text(&self, at: usize, name: &str, default: &str) -> Result<String, Error> {
        let value = self.value(at, name)?;
        Ok(value.map_or_else(|| default.to_owned(), |value| shown(&value)))
    }
}

fn truncate(value: &Jinja, args: Rest<Jinja>) -> Result<Jinja, Error> {
    let given = Given::new(&args)?;
    let length = given.get(0, "length", 255usize)?;
    let kill = given.get(1, "killwords", false)?;
    let end = given.text(2, "end", "...")?;
    let leeway = given.get(3, "leeway", 5usize)?;
    given.named.assert_all_used()?;
    // A list is short enough, too, but has no other way to be made shorter.
    let n_items = match value.kind() {
        _ if is_nothing(value) => Some(0),
        ValueKind::Seq | ValueKind::Map => value.len(),
        _ => None,
    };
    if n_items.is_some_and(|n_items| n_items <= length.saturating_add(leeway)) {
        return Ok(value.clone());
    }
    let text = text::truncated(text_of(value)?, length, kill, &end, leeway);
    Ok(Jinja::from(text))
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
    let lines: Vec<String> = text_of(value)?
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
    let value = &whole(value);
    // Python rounds integers to integers.
    let common = matches!(method.as_deref(), None | Some("common"));
    if value.is_integer() && common && precision >= 0 {
        return Ok(value.clone());
    }
    if value.is_integer() && common {
        let int = i128::try_from(value.clone())?;
        let scale = 10i128.checked_pow(precision.unsigned_abs());
        let rounded = scale.map_or(0, |scale| {
            let (whole, rest) = (int.div_euclid(scale), int.rem_euclid(scale));
            let up = rest * 2 > scale || rest * 2 == scale && whole % 2 != 0;
            (whole + i128::from(up)) * scale
        });
        return Ok(Jinja::from(rounded));
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

fn int(value: &Jinja, args: Rest<Jinja>) -> Result<Jinja, Error> {
    not_nothing(value)?;
    let args: Vec<Jinja> = std::iter::once(Jinja::UNDEFINED).chain(args.0).collect();
    let args = in_order("int", &["default", "base"], &args)?;
    // A default of null counts.
    let default = args.get(1).filter(|default| !default.is_undefined());
    let default = default.cloned().unwrap_or_else(|| Jinja::from(0));
    let base = args
        .get(2)
        .map_or(Ok(10), |base| u32::try_from(base.clone()))?;
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

/// Truth values are integers.
fn whole(value: &Jinja) -> Jinja {
    match value.kind() {
        ValueKind::Bool => Jinja::from(i64::from(value.is_true())),
        _ => value.clone(),
    }
}

fn abs(value: &Jinja) -> Result<Jinja, Error> {
    let value = whole(value);
    if value.is_integer() {
        return Ok(Jinja::from(i128::try_from(value)?.abs()));
    }
    match value.kind() {
        ValueKind::Number => Ok(Jinja::from(f64::try_from(value)?.abs())),
        kind => Err(invalid(format!("bad operand type for abs(): {kind}"))),
    }
}

fn float(value: &Jinja, default: Rest<Jinja>) -> Result<Jinja, Error> {
    not_nothing(value)?;
    let default = || default.first().cloned();
    Ok(number(value).map_or_else(
        |_| default().unwrap_or_else(|| Jinja::from(0.0)),
        Jinja::from,
    ))
}

fn tojson(value: &Jinja, indent: Option<usize>, kwargs: Kwargs) -> Result<String, Error> {
    let indent = kwargs.get::<Option<usize>>("indent")?.or(indent);
    kwargs.assert_all_used()?;
    if is_nothing(value) {
        return Err(invalid("what has no value is not JSON serializable"));
    }
    let mut out = String::new();
    text::write_json(value, indent, 0, &mut out)?;
    Ok(out
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\'', "\\u0027"))
}

pub(in crate::template) fn pairs(value: &Jinja) -> Result<Vec<(Jinja, Jinja)>, Error> {
    not_nothing(value)?;
    if value.kind() != ValueKind::Map {
        return Err(invalid("Can only get item pairs from a mapping."));
    }
    if let Some(of_model) = crate::template::objects::model_objects::model_entries(value) {
        return Ok(of_model.entries);
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
        defined(key)?;
        defined(value)?;
        Ok(format!(
            "{}={}",
            text::quoted_url(&shown(key), true),
            text::quoted_url(&shown(value), true)
        ))
    };
    Ok(match value.kind() {
        ValueKind::Map => pairs(value)?
            .iter()
            .map(|(key, value)| pair(key, value))
            .collect::<Result<Vec<_>, Error>>()?
            .join("&"),
        ValueKind::Seq | ValueKind::Iterable => {
            let mut parts = Vec::new();
            for item in value.try_iter()? {
                let both: Vec<Jinja> = iterable(item)?.try_iter()?.collect();
                let [key, value] = both.as_slice() else {
                    return Err(invalid("what is encoded for a URL has to be pairs"));
                };
                parts.push(pair(key, value)?);
            }
            parts.join("&")
        }
        _ => text::quoted_url(&shown(value), false),
    })
}

/// `a.b.0`, as filters name attributes.
pub(in crate::template) fn dotted(value: &Jinja, path: &Jinja) -> Result<Jinja, Error> {
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
    let mut items = Vec::new();
    for value in items_of(values)? {
        let item = match &attribute {
            Some(attribute) => dotted(&value, attribute)?,
            None => value,
        };
        defined(&item)?;
        items.push(item);
    }
    if start.kind() == ValueKind::Seq {
        let mut all: Vec<Jinja> = start.try_iter()?.collect();
        for item in items {
            all.extend(item.try_iter()?);
        }
        return Ok(Jinja::from(all));
    }
    let mut integer = start
        .is_integer()
        .then(|| i128::try_from(start.clone()))
        .transpose()?;
    let mut float = f64::try_from(start)?;
    for value in items {
        let value = whole(&value);
        integer = match (integer, value.is_integer()) {
            (Some(sum), true) => sum.checked_add(i128::try_from(value.clone())?),
            _ => None,
        };
        float += f64::try_from(value)?;
    }
    Ok(integer.map_or_else(|| Jinja::from(float), Jinja::from))
}

/// One of the values: which one follows from them, because the same model gives the same resources.
fn random(values: &Jinja) -> Result<Jinja, Error> {
    let items: Vec<Jinja> = items_of(values)?.collect();
    let seed = repr(values).bytes().fold(5381u64, |hash, byte| {
        hash.wrapping_mul(33) ^ u64::from(byte)
    });
    Ok(match items.len() {
        0 => Jinja::UNDEFINED,
        length => items[(seed % length as u64) as usize].clone(),
    })
}
