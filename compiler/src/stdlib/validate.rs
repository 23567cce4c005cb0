//! `std::validate_type`. Source: docs/reference/std.md § 6.

use num_bigint::BigInt;
use num_traits::{FromPrimitive, Signed, Zero};

use crate::pattern as regex;
use crate::stdlib::pydantic_types;
use crate::stdlib::text_types as texts;
use crate::stdlib::{Bound, Model, PluginError, Value, external, str_arg};
use crate::types::{DictId, Heap, cast};

pub(super) fn validate_type(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let heap = model.heap_ref();
    let name = str_arg(heap, args, 0);
    if !["pydantic.", "datetime.", "ipaddress.", "uuid."]
        .iter()
        .any(|prefix| name.starts_with(prefix))
    {
        return Ok(Value::Bool(false));
    }
    let parameters = match args.arg(2) {
        Value::Dict(dict) => Some(dict),
        _ => None,
    };
    validate(heap, name, args.arg(1), parameters).map(Value::Bool)
}

pub(super) fn validate(
    heap: &Heap,
    name: &str,
    value: Value,
    parameters: Option<DictId>,
) -> Result<bool, PluginError> {
    match name {
        "pydantic.constr" => return constr(heap, value, parameters),
        "pydantic.conbytes" => return conbytes(heap, value, parameters),
        "pydantic.conint" => return connumber(heap, value, parameters, Kind::Int),
        "pydantic.confloat" => return connumber(heap, value, parameters, Kind::Float),
        "pydantic.condecimal" => return connumber(heap, value, parameters, Kind::Decimal),
        _ => {}
    }
    let has_parameters = parameters.is_some_and(|dict| !heap.dict(dict).entries.is_empty());
    let text = match value {
        Value::Str(id) => Some(heap.str(id)),
        _ => None,
    };
    let on_text = |check: fn(&str) -> bool| text.is_some_and(check);
    // A truth value is no number of seconds.
    let seconds = match value {
        Value::Int(_) | Value::Big(_) | Value::Float(_) => heap.to_float(value),
        _ => None,
    };
    let on_moment = |of_text: fn(&str) -> bool, of_number: fn(f64) -> bool| {
        text.map_or(seconds.is_some_and(of_number), of_text)
    };
    // Addresses are numbers, too, and so are networks of one address.
    let address = match value {
        Value::Bool(_) | Value::Int(_) | Value::Big(_) => heap.to_big(value),
        _ => None,
    };
    let on_address = |check: fn(&str) -> bool, bits: u32| {
        let is_number = address
            .as_ref()
            .is_some_and(|number| !number.is_negative() && *number < BigInt::from(1) << bits);
        text.map_or(is_number, check)
    };
    let number = |int: bool| as_number(heap, value, if int { Kind::Int } else { Kind::Float });
    let sign = |wanted: &[std::cmp::Ordering], int: bool| {
        let order = number(int).and_then(|value| value.partial_cmp(&0.0));
        order.is_some_and(|order| wanted.contains(&order))
    };
    use std::cmp::Ordering::{Equal, Greater, Less};
    let valid = match name {
        "datetime.date" => on_moment(texts::is_date, texts::is_date_number),
        "datetime.time" => on_moment(texts::is_time, texts::is_time_number),
        "datetime.datetime" => on_moment(texts::is_datetime, texts::is_datetime_number),
        "ipaddress.IPv4Address" => on_address(|text| texts::parse_v4(text).is_some(), 32),
        "ipaddress.IPv4Interface" => {
            on_address(|text| texts::parse_v4_interface(text).is_some(), 32)
        }
        "ipaddress.IPv4Network" => on_address(
            |text| texts::parse_v4_interface(text).is_some_and(|i| texts::is_network(&i)),
            32,
        ),
        "ipaddress.IPv6Address" => on_address(|text| texts::parse_v6(text).is_some(), 128),
        "ipaddress.IPv6Interface" => {
            on_address(|text| texts::parse_v6_interface(text).is_some(), 128)
        }
        "ipaddress.IPv6Network" => on_address(
            |text| texts::parse_v6_interface(text).is_some_and(|i| texts::is_network(&i)),
            128,
        ),
        "pydantic.IPvAnyAddress" => on_address(|text| texts::parse_address(text).is_some(), 128),
        "pydantic.IPvAnyInterface" => {
            on_address(|text| texts::parse_interface(text).is_some(), 128)
        }
        "pydantic.IPvAnyNetwork" => on_address(|text| texts::parse_network(text).is_some(), 128),
        "uuid.UUID" => on_text(texts::is_uuid),
        "pydantic.EmailStr" | "pydantic.NameEmail" => on_text(texts::is_email),
        "pydantic.AnyUrl" => on_text(texts::is_url),
        "pydantic.AnyHttpUrl" => on_text(texts::is_http_url),
        "pydantic.HttpUrl" => {
            on_text(|text| text.chars().count() <= 2083 && texts::is_http_url(text))
        }
        "pydantic.NegativeFloat" => sign(&[Less], false),
        "pydantic.PositiveFloat" => sign(&[Greater], false),
        "pydantic.NonNegativeFloat" => sign(&[Equal, Greater], false),
        "pydantic.NonPositiveFloat" => sign(&[Less, Equal], false),
        "pydantic.NegativeInt" => sign(&[Less], true),
        "pydantic.PositiveInt" => sign(&[Greater], true),
        "pydantic.NonNegativeInt" => sign(&[Equal, Greater], true),
        "pydantic.NonPositiveInt" => sign(&[Less, Equal], true),
        "pydantic.FiniteFloat" => number(false).is_some_and(f64::is_finite),
        "pydantic.StrictBool" => matches!(value, Value::Bool(_)),
        "pydantic.StrictInt" => matches!(value, Value::Int(_) | Value::Big(_)),
        // An integer is taken for a number by strict pydantic, too.
        "pydantic.StrictFloat" => matches!(value, Value::Float(_) | Value::Int(_) | Value::Big(_)),
        "pydantic.StrictStr" => text.is_some(),
        other => match pydantic_types::is_valid(heap, other, value) {
            Some(valid) => valid,
            None => {
                return external(
                    "ValueError",
                    format!("unsupported type {other} for validate_type"),
                );
            }
        },
    };
    Ok(valid && !has_parameters)
}

fn parameter(heap: &Heap, parameters: Option<DictId>, name: &str) -> Option<Value> {
    heap.dict_get(parameters?, name)
        .filter(|value| !matches!(value, Value::Null))
}

fn only(heap: &Heap, parameters: Option<DictId>, known: &[&str]) -> Result<(), PluginError> {
    let Some(parameters) = parameters else {
        return Ok(());
    };
    for (key, _) in &heap.dict(parameters).entries {
        let key = heap.str(*key);
        if !known.contains(&key) {
            return external(
                "TypeError",
                format!("got an unexpected keyword argument '{key}'"),
            );
        }
    }
    Ok(())
}

fn flag(heap: &Heap, parameters: Option<DictId>, name: &str) -> bool {
    matches!(parameter(heap, parameters, name), Some(Value::Bool(true)))
}

fn constr(heap: &Heap, value: Value, parameters: Option<DictId>) -> Result<bool, PluginError> {
    only(
        heap,
        parameters,
        &[
            "min_length",
            "max_length",
            "strict",
            "strip_whitespace",
            "to_lower",
            "to_upper",
            "pattern",
            "regex",
        ],
    )?;
    let Value::Str(id) = value else {
        return Ok(false);
    };
    let mut text = heap.str(id).to_owned();
    if flag(heap, parameters, "strip_whitespace") {
        text = text.trim().to_owned();
    }
    if flag(heap, parameters, "to_lower") {
        text = text.to_lowercase();
    }
    if flag(heap, parameters, "to_upper") {
        text = text.to_uppercase();
    }
    let length = text.chars().count() as i64;
    if let Some(Value::Int(least)) = parameter(heap, parameters, "min_length")
        && length < least
    {
        return Ok(false);
    }
    if let Some(Value::Int(most)) = parameter(heap, parameters, "max_length")
        && length > most
    {
        return Ok(false);
    }
    for (name, at_start) in [("pattern", false), ("regex", true)] {
        if let Some(Value::Str(pattern)) = parameter(heap, parameters, name) {
            let regex = match regex::compile(heap.str(pattern), at_start) {
                Ok(regex) => regex,
                Err(reason) => return external("SchemaError", reason),
            };
            if regex::is_match(&regex, &text) != Some(true) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Texts are taken for the bytes of their UTF-8; strictly taken, there are no bytes in a model.
fn conbytes(heap: &Heap, value: Value, parameters: Option<DictId>) -> Result<bool, PluginError> {
    only(heap, parameters, &["min_length", "max_length", "strict"])?;
    let length = match value {
        Value::Str(id) if !flag(heap, parameters, "strict") => heap.str(id).len() as i64,
        _ => return Ok(false),
    };
    let bound = |name: &str| match parameter(heap, parameters, name) {
        Some(Value::Int(bound)) => Some(bound),
        _ => None,
    };
    let is_long_enough = bound("min_length").is_none_or(|least| length >= least);
    let is_short_enough = bound("max_length").is_none_or(|most| length <= most);
    Ok(is_long_enough && is_short_enough)
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Int,
    Float,
    Decimal,
}

/// The number a value is leniently taken for.
fn as_number(heap: &Heap, value: Value, kind: Kind) -> Option<f64> {
    match value {
        Value::Bool(_) | Value::Int(_) | Value::Big(_) => heap.to_float(value),
        Value::Float(float) if kind != Kind::Int || float.fract() == 0.0 => Some(float),
        Value::Str(id) if kind == Kind::Int => {
            let text = heap.str(id);
            let whole = text.split_once('.').map_or(text, |(whole, rest)| {
                if rest.bytes().all(|b| b == b'0') && !rest.is_empty() {
                    whole
                } else {
                    text
                }
            });
            cast::parse_int(whole).and_then(|int| num_traits::ToPrimitive::to_f64(&int))
        }
        Value::Str(id) => cast::parse_float(heap.str(id)),
        _ => None,
    }
}

fn connumber(
    heap: &Heap,
    value: Value,
    parameters: Option<DictId>,
    kind: Kind,
) -> Result<bool, PluginError> {
    let mut known = vec!["gt", "ge", "lt", "le", "multiple_of", "strict"];
    match kind {
        Kind::Int => {}
        Kind::Float => known.push("allow_inf_nan"),
        Kind::Decimal => known.extend(["max_digits", "decimal_places", "allow_inf_nan"]),
    }
    only(heap, parameters, &known)?;
    if flag(heap, parameters, "strict") {
        let exact = match kind {
            Kind::Int => matches!(value, Value::Int(_) | Value::Big(_)),
            Kind::Float => matches!(value, Value::Float(_) | Value::Int(_) | Value::Big(_)),
            Kind::Decimal => false,
        };
        if !exact {
            return Ok(false);
        }
    }
    let Some(number) = as_number(heap, value, kind) else {
        return Ok(false);
    };
    let infinite_ok = !matches!(
        parameter(heap, parameters, "allow_inf_nan"),
        Some(Value::Bool(false))
    ) && kind == Kind::Float;
    if !number.is_finite() && !infinite_ok {
        return Ok(false);
    }
    let bound =
        |name: &str| parameter(heap, parameters, name).and_then(|bound| heap.to_float(bound));
    let mut valid = bound("gt").is_none_or(|bound| number > bound)
        && bound("ge").is_none_or(|bound| number >= bound)
        && bound("lt").is_none_or(|bound| number < bound)
        && bound("le").is_none_or(|bound| number <= bound);
    if let Some(step) = parameter(heap, parameters, "multiple_of") {
        // A float is what its digits are rounded to.
        let exact = heap.to_big(value).filter(|_| kind != Kind::Float);
        valid &= multiple(heap, exact, number, step);
    }
    if kind == Kind::Decimal {
        let text = match value {
            Value::Str(id) => heap.str(id).trim().to_owned(),
            Value::Float(float) => crate::types::text::float(float),
            _ => number.to_string(),
        };
        let digits = text.trim_start_matches(['+', '-']);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let n_digits = whole.trim_start_matches('0').len() + fraction.len();
        if let Some(Value::Int(most)) = parameter(heap, parameters, "max_digits") {
            valid &= n_digits as i64 <= most;
        }
        if let Some(Value::Int(most)) = parameter(heap, parameters, "decimal_places") {
            valid &= fraction.len() as i64 <= most;
        }
    }
    Ok(valid)
}

fn multiple(heap: &Heap, exact: Option<BigInt>, number: f64, step: Value) -> bool {
    if let (Some(step), Some(int)) = (
        heap.to_big(step),
        exact.or_else(|| BigInt::from_f64(number)),
    ) {
        return !step.is_zero() && (int % step).is_zero() && number.fract() == 0.0;
    }
    let step = heap.to_float(step).unwrap_or(f64::NAN);
    let rest = (number / step).fract().abs();
    rest < 1e-9 || 1.0 - rest < 1e-9
}
