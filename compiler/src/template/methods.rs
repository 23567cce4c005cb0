//! Methods of Python's texts, lists and dicts that the engine's own collection lacks.
//! Source: docs/reference/std.md § 7.6.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, ValueKind};
use minijinja::{Error, ErrorKind, State, Value as Jinja};

use crate::template::arguments::{all_defined, defined, in_order};
use crate::template::format::{format_map, format_method};
use crate::template::markup::centered;
use crate::template::objects::bytes::Bytes;
use crate::template::objects::containers::Sequence;
use crate::template::objects::model_objects::{ListObject, is_nothing};
use crate::template::repr::shown;
use crate::template::source::rewrite::SLICED;

/// Methods of dicts, which are not their entries.
pub(in crate::template) const OF_DICTS: &[&str] = &[
    "clear",
    "copy",
    "get",
    "items",
    "keys",
    "pop",
    "popitem",
    "setdefault",
    "update",
    "values",
];

/// Of texts and lists; none of their methods is anything else.
const OF_TEXTS: &[&str] = &[
    "capitalize",
    "casefold",
    "center",
    "count",
    "encode",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "format_map",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "translate",
    "upper",
    "zfill",
];
const OF_LISTS: &[&str] = &[
    "append", "clear", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse",
    "sort",
];

pub(in crate::template) fn is_method(value: &Jinja, name: &str) -> bool {
    let names = match value.kind() {
        ValueKind::String => OF_TEXTS,
        ValueKind::Seq | ValueKind::Iterable => OF_LISTS,
        ValueKind::Map => OF_DICTS,
        _ => &[],
    };
    names.contains(&name)
}

/// The parameters of methods of texts that can be given by name.
fn parameters_of(method: &str) -> &'static [&'static str] {
    match method {
        "split" | "rsplit" => &["sep", "maxsplit"],
        "splitlines" => &["keepends"],
        "expandtabs" => &["tabsize"],
        "encode" => &["encoding", "errors"],
        _ => &[],
    }
}

/// A method that was read and not called yet.
#[derive(Debug)]
pub(in crate::template) struct Bound {
    pub value: Jinja,
    pub name: String,
}

impl Object for Bound {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &State<'_, '_>, args: &[Jinja]) -> Result<Jinja, Error> {
        self.value.call_method(state, &self.name, args)
    }

    /// As Python shows it, with an address that is none.
    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = match self.value.kind() {
            ValueKind::String => "str",
            ValueKind::Seq => "list",
            ValueKind::Map => "dict",
            _ => "object",
        };
        let name = &self.name;
        write!(
            f,
            "<built-in method {name} of {class} object at 0x7f0000000000>"
        )
    }
}

pub(in crate::template) fn call(
    state: &State<'_, '_>,
    value: &Jinja,
    method: &str,
    args: &[Jinja],
) -> Result<Jinja, Error> {
    if method == SLICED {
        return sliced(value, args);
    }
    match (value.kind(), method) {
        // Only the fields that the text names are looked at.
        (ValueKind::String, "format") => {}
        // Nobody looks at what stands for a value that is not there.
        (ValueKind::Map, "get") => all_defined(args.get(..1).unwrap_or_default())?,
        (ValueKind::String | ValueKind::Seq | ValueKind::Map, _) => all_defined(args)?,
        _ => {}
    }
    let by_position;
    let mut args = args;
    if let (ValueKind::String, parameters @ [_, ..]) = (value.kind(), parameters_of(method)) {
        // The text itself comes first.
        let all: Vec<Jinja> = std::iter::once(value.clone())
            .chain(args.iter().cloned())
            .collect();
        by_position = in_order(method, parameters, &all)?;
        args = &by_position[1..];
    }
    let own = match value.kind() {
        ValueKind::String => text_method(value.as_str().unwrap_or(""), method, args)?,
        ValueKind::Seq => list_method(value, method, args)?,
        ValueKind::Number if args.is_empty() => number_method(value, method)?,
        ValueKind::Map if method == "copy" && args.is_empty() => Some(value.clone()),
        ValueKind::Map if method == "get" && matches!(args, [_] | [_, _]) => {
            let found = value.get_item(&args[0])?;
            let default = || args.get(1).cloned().unwrap_or_else(|| Jinja::from(()));
            Some(if found.is_undefined() {
                default()
            } else {
                found
            })
        }
        ValueKind::Map if args.is_empty() => {
            crate::template::objects::views::View::of(value, method)?
        }
        _ => None,
    };
    match own {
        Some(value) => Ok(value),
        None => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args),
    }
}

fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

fn text_method(text: &str, method: &str, args: &[Jinja]) -> Result<Option<Jinja>, Error> {
    let argument = |at: usize| args.get(at).map(shown);
    let needed = |at: usize| {
        argument(at).ok_or_else(|| failed(format!("{method}() takes one more argument")))
    };
    let width = || -> Result<usize, Error> {
        let width: i64 = args
            .first()
            .cloned()
            .ok_or_else(|| failed(format!("{method}() takes a width")))?
            .try_into()?;
        Ok(usize::try_from(width).unwrap_or(0).min(1_000_000))
    };
    let fill = || {
        argument(1)
            .and_then(|text| text.chars().next())
            .unwrap_or(' ')
    };
    let padding = |n: usize, fill: char| fill.to_string().repeat(n);
    let tuple = |parts: [&str; 3]| Sequence::tuple(parts.into_iter().map(Jinja::from).collect());
    let n_chars = text.chars().count();
    Ok(Some(match method {
        "index" | "rindex" => {
            let wanted = needed(0)?;
            let at = if method == "index" {
                text.find(&wanted)
            } else {
                text.rfind(&wanted)
            };
            let at = at.ok_or_else(|| failed("substring not found"))?;
            Jinja::from(text[..at].chars().count())
        }
        "partition" => {
            let separator = needed(0)?;
            match text.split_once(&separator) {
                Some((before, after)) => tuple([before, &separator, after]),
                None => tuple([text, "", ""]),
            }
        }
        "rpartition" => {
            let separator = needed(0)?;
            match text.rsplit_once(&separator) {
                Some((before, after)) => tuple([before, &separator, after]),
                None => tuple(["", "", text]),
            }
        }
        "ljust" => {
            let missing = width()?.saturating_sub(n_chars);
            Jinja::from(format!("{text}{}", padding(missing, fill())))
        }
        "rjust" => {
            let missing = width()?.saturating_sub(n_chars);
            Jinja::from(format!("{}{text}", padding(missing, fill())))
        }
        "center" => Jinja::from(centered(text, width()? as i64, fill())),
        "zfill" => {
            let missing = width()?.saturating_sub(n_chars);
            let sign = text.len() - text.trim_start_matches(['+', '-']).len();
            let (sign, digits) = text.split_at(sign.min(1));
            Jinja::from(format!("{sign}{}{digits}", padding(missing, '0')))
        }
        "swapcase" => Jinja::from(swapped_case(text)),
        "translate" => {
            let table = args
                .first()
                .ok_or_else(|| failed("translate() takes a table"))?;
            Jinja::from(translated(text, table)?)
        }
        "casefold" => Jinja::from(text.to_lowercase().replace('ß', "ss")),
        "rsplit" => Jinja::from(split_from_the_end(text, args)?),
        "join" => Jinja::from(joined(text, args)?),
        "format" => Jinja::from(format_method(text, args)?),
        "format_map" => {
            let values = args
                .first()
                .ok_or_else(|| failed("format_map() takes a dict"))?;
            Jinja::from(format_map(text, values)?)
        }
        "encode" => Bytes::encoded(text, &argument(0).unwrap_or_else(|| "utf-8".to_owned()))?,
        "removeprefix" => Jinja::from(text.strip_prefix(needed(0)?.as_str()).unwrap_or(text)),
        "removesuffix" => Jinja::from(text.strip_suffix(needed(0)?.as_str()).unwrap_or(text)),
        "expandtabs" => {
            let size = if args.is_empty() { 8 } else { width()?.max(1) };
            Jinja::from(expanded_tabs(text, size))
        }
        "istitle" => Jinja::from(is_title(text)),
        "isidentifier" => {
            let mut chars = text.chars();
            let first = chars.next().is_some_and(|c| c.is_alphabetic() || c == '_');
            Jinja::from(first && chars.all(|c| c.is_alphanumeric() || c == '_'))
        }
        "isdecimal" => Jinja::from(!text.is_empty() && text.chars().all(|c| c.is_ascii_digit())),
        "isprintable" => Jinja::from(!text.chars().any(char::is_control)),
        _ => return Ok(None),
    }))
}

/// `value[start:stop:step]`, as Python takes it.
fn sliced(value: &Jinja, args: &[Jinja]) -> Result<Jinja, Error> {
    if is_nothing(value) {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    let bound = |at: usize| -> Result<Option<i64>, Error> {
        let bound = args.get(at).filter(|bound| !bound.is_none());
        bound.cloned().map(i64::try_from).transpose()
    };
    let (start, stop) = (bound(0)?, bound(1)?);
    let step = bound(2)?.unwrap_or(1);
    if step == 0 {
        return Err(failed("slice step cannot be zero"));
    }
    if let Some(text) = value.as_str() {
        let chars: Vec<char> = text.chars().collect();
        let places = places(chars.len(), start, stop, step);
        return Ok(places.map(|at| chars[at]).collect::<String>().into());
    }
    if let Some(list) = value.downcast_object_ref::<ListObject>() {
        let places = places(list.items.len(), start, stop, step);
        return Ok(list.part(places));
    }
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Jinja> = value.try_iter()?.collect();
            let places = places(items.len(), start, stop, step);
            Ok(places.map(|at| items[at].clone()).collect())
        }
        kind => Err(failed(format!("value of type {kind} cannot be sliced"))),
    }
}

/// The places that a slice takes of so many.
fn places(
    length: usize,
    start: Option<i64>,
    stop: Option<i64>,
    step: i64,
) -> impl Iterator<Item = usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let (least, most) = if step > 0 {
        (0, length)
    } else {
        (-1, length - 1)
    };
    let within = |at: i64| match at < 0 {
        true => at.saturating_add(length).max(least),
        false => at.min(most),
    };
    let (first, last) = if step > 0 {
        (least, most)
    } else {
        (most, least)
    };
    let mut at = start.map_or(first, within);
    let end = stop.map_or(last, within);
    std::iter::from_fn(move || {
        let goes_on = if step > 0 { at < end } else { at > end };
        let place = usize::try_from(at).ok().filter(|_| goes_on)?;
        at = at.saturating_add(step);
        Some(place)
    })
}

/// Python joins texts only.
fn joined(separator: &str, args: &[Jinja]) -> Result<String, Error> {
    let items = args.first();
    let items = items.ok_or_else(|| failed("join() takes one more argument"))?;
    let mut parts = Vec::new();
    for (at, item) in items.try_iter()?.enumerate() {
        let Some(part) = item.as_str() else {
            let kind = item.kind();
            return Err(failed(format!(
                "sequence item {at}: expected a string, found {kind}"
            )));
        };
        parts.push(part.to_owned());
    }
    Ok(parts.join(separator))
}

fn number_method(value: &Jinja, method: &str) -> Result<Option<Jinja>, Error> {
    Ok(match method {
        "bit_length" if value.is_integer() => {
            let int = i128::try_from(value.clone())?.unsigned_abs();
            Some(Jinja::from(u128::BITS - int.leading_zeros()))
        }
        "is_integer" => {
            let is_whole = f64::try_from(value.clone())?.fract() == 0.0;
            Some(Jinja::from(value.is_integer() || is_whole))
        }
        _ => None,
    })
}

fn swapped_case(text: &str) -> String {
    let swapped = text.chars().flat_map(|c| {
        if c.is_uppercase() {
            c.to_lowercase().collect::<Vec<_>>()
        } else {
            c.to_uppercase().collect()
        }
    });
    swapped.collect()
}

/// Each character as the table has it by its number: another one, by text or number, none for null, itself where there is none.
fn translated(text: &str, table: &Jinja) -> Result<String, Error> {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let found = match table.kind() {
            ValueKind::Map | ValueKind::Seq => table.get_item(&Jinja::from(u32::from(c)))?,
            kind => return Err(failed(format!("{kind} is no table of characters"))),
        };
        if found.is_undefined() {
            out.push(c);
        } else if let Some(other) = found.as_str() {
            out.push_str(other);
        } else if !found.is_none() {
            let other = u32::try_from(found)?;
            let other = char::from_u32(other)
                .ok_or_else(|| failed(format!("{other} is the number of no character")))?;
            out.push(other);
        }
    }
    Ok(out)
}

/// `rsplit(separator, count)`
fn split_from_the_end(text: &str, args: &[Jinja]) -> Result<Vec<Jinja>, Error> {
    let count: usize = args.get(1).cloned().map_or(Ok(usize::MAX), |count| {
        i64::try_from(count).map(|count| usize::try_from(count).unwrap_or(usize::MAX))
    })?;
    let separator = args
        .first()
        .filter(|separator| !separator.is_none() && !separator.is_undefined());
    let mut parts: Vec<Jinja> = match separator.map(shown) {
        Some(separator) => {
            let parts = text.rsplitn(count.saturating_add(1), &separator);
            parts.map(Jinja::from).collect()
        }
        None => words_from_the_end(text, count),
    };
    parts.reverse();
    Ok(parts)
}

/// The last words first, at most `count` of them, then what is before them.
fn words_from_the_end(text: &str, count: usize) -> Vec<Jinja> {
    let mut words = Vec::new();
    let mut rest = text.trim_end();
    while words.len() < count
        && let Some(at) = rest.rfind(char::is_whitespace)
    {
        let word = &rest[at..];
        words.push(Jinja::from(word.trim_start()));
        rest = rest[..at].trim_end();
    }
    if !rest.is_empty() {
        words.push(Jinja::from(rest));
    }
    words
}

/// Spaces in the place of tabs, up to the next multiple of `size`.
fn expanded_tabs(text: &str, size: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for c in text.chars() {
        match c {
            '\t' => {
                let n = size - column % size;
                out.extend(std::iter::repeat_n(' ', n));
                column += n;
            }
            c => {
                out.push(c);
                column = if c == '\n' { 0 } else { column + 1 };
            }
        }
    }
    out
}

fn is_title(text: &str) -> bool {
    let mut any = false;
    let mut in_word = false;
    for c in text.chars() {
        if c.is_uppercase() && in_word || c.is_lowercase() && !in_word {
            return false;
        }
        in_word = c.is_alphabetic();
        any |= in_word;
    }
    any
}

/// The first place of a value. Python compares one item after the other, and what is undefined is equal to nothing.
pub(in crate::template) fn place_of(
    items: impl Iterator<Item = Jinja>,
    wanted: &Jinja,
) -> Result<Option<usize>, Error> {
    for (at, item) in items.enumerate() {
        defined(&item)?;
        defined(wanted)?;
        if item == *wanted {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn list_method(value: &Jinja, method: &str, args: &[Jinja]) -> Result<Option<Jinja>, Error> {
    match (method, args) {
        ("index", [wanted]) => {
            let at = place_of(value.try_iter()?, wanted)?;
            let at = at.ok_or_else(|| failed(format!("{} is not in list", shown(wanted))))?;
            Ok(Some(Jinja::from(at)))
        }
        ("count", [wanted]) => {
            let mut count = 0_u64;
            for item in value.try_iter()? {
                defined(&item)?;
                count += u64::from(item == *wanted);
            }
            Ok(Some(Jinja::from(count)))
        }
        ("copy", []) => Ok(Some(value.clone())),
        _ => Ok(None),
    }
}
