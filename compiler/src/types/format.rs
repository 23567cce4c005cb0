//! Python's format mini-language: `{x:>10}`, `{n:03d}`, `{f:.2f}`.

use num_bigint::BigInt;
use num_traits::Signed;

use super::text;
use super::value::{Heap, Value};

#[derive(Debug, Default)]
struct Spec {
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    /// `z`: a number that is rounded to zero has no sign.
    no_negative_zero: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    grouping: Option<char>,
    precision: Option<usize>,
    kind: Option<char>,
}

/// Wider than any sensible text, so that a spec can not eat the memory.
const MAX_WIDTH: usize = 1_000_000;

fn parse(spec: &str) -> Result<Spec, String> {
    let invalid = || "Invalid format specifier".to_owned();
    let chars: Vec<char> = spec.chars().collect();
    let mut parsed = Spec::default();
    let mut at = 0;
    let is_align = |c: Option<&char>| matches!(c, Some('<' | '>' | '=' | '^'));
    if is_align(chars.get(1)) {
        parsed.fill = Some(chars[0]);
        parsed.align = Some(chars[1]);
        at = 2;
    } else if is_align(chars.first()) {
        parsed.align = Some(chars[0]);
        at = 1;
    }
    if let Some(c @ ('+' | '-' | ' ')) = chars.get(at) {
        parsed.sign = Some(*c);
        at += 1;
    }
    if chars.get(at) == Some(&'z') {
        parsed.no_negative_zero = true;
        at += 1;
    }
    if chars.get(at) == Some(&'#') {
        parsed.alternate = true;
        at += 1;
    }
    if chars.get(at) == Some(&'0') {
        parsed.zero = true;
        at += 1;
    }
    let number = |at: &mut usize| -> Result<Option<usize>, String> {
        let start = *at;
        let mut value = 0usize;
        while let Some(digit) = chars.get(*at).and_then(|c| c.to_digit(10)) {
            value = value.saturating_mul(10).saturating_add(digit as usize);
            *at += 1;
        }
        if value > MAX_WIDTH {
            return Err("Too many decimal digits in format string".to_owned());
        }
        Ok((*at > start).then_some(value))
    };
    parsed.width = number(&mut at)?.unwrap_or(0);
    if let Some(c @ (',' | '_')) = chars.get(at) {
        parsed.grouping = Some(*c);
        at += 1;
    }
    if chars.get(at) == Some(&'.') {
        at += 1;
        parsed.precision = Some(number(&mut at)?.ok_or("Format specifier missing precision")?);
    }
    if at < chars.len() {
        parsed.kind = Some(chars[at]);
        at += 1;
    }
    if at < chars.len() {
        return Err(invalid());
    }
    if let (Some(separator), Some(kind @ ('b' | 'c' | 'n' | 'o' | 's' | 'x' | 'X'))) =
        (parsed.grouping, parsed.kind)
        && (separator == ',' || matches!(kind, 'c' | 'n' | 's'))
    {
        return Err(format!("Cannot specify '{separator}' with '{kind}'."));
    }
    Ok(parsed)
}

/// What an integer can not be given.
fn check_integer(spec: &Spec) -> Result<(), String> {
    if spec.precision.is_some() {
        return Err("Precision not allowed in integer format specifier".to_owned());
    }
    if spec.no_negative_zero {
        return Err(
            "Negative zero coercion (z) not allowed in integer format specifier".to_owned(),
        );
    }
    if spec.kind == Some('c') {
        let refused = match (spec.sign, spec.alternate) {
            (Some(_), _) => "Sign",
            (None, true) => "Alternate form (#)",
            (None, false) => return Ok(()),
        };
        return Err(format!(
            "{refused} not allowed with integer format specifier 'c'"
        ));
    }
    Ok(())
}

/// What a text can not be given.
fn check_text(spec: &Spec) -> Result<(), String> {
    let refused = if spec.sign.is_some() {
        "Sign"
    } else if spec.no_negative_zero {
        "Negative zero coercion (z)"
    } else if spec.alternate {
        "Alternate form (#)"
    } else if let Some(separator) = spec.grouping {
        return Err(format!("Cannot specify '{separator}' with 's'."));
    } else if spec.align == Some('=') {
        return Err("'=' alignment not allowed in string format specifier".to_owned());
    } else {
        return Ok(());
    };
    Err(format!("{refused} not allowed in string format specifier"))
}

/// `format(value, spec)`; the text of other kinds of values is given by the caller as `other`.
pub fn format(heap: &Heap, value: Value, spec: &str, other: &str) -> Result<String, String> {
    if spec.is_empty() {
        return Ok(other.to_owned());
    }
    let parsed = parse(spec)?;
    let code = |kind: &str| {
        format!(
            "Unknown format code '{}' for object of type '{kind}'",
            parsed.kind.unwrap_or(' ')
        )
    };
    match value {
        Value::Str(_) if !matches!(parsed.kind, None | Some('s')) => Err(code("str")),
        Value::Str(id) => {
            check_text(&parsed)?;
            Ok(text_field(heap.str(id), &parsed))
        }
        Value::Bool(_) | Value::Int(_) | Value::Big(_) => match parsed.kind {
            None | Some('d' | 'b' | 'o' | 'x' | 'X' | 'n' | 'c') => {
                let int = heap.to_big(value).unwrap_or_default();
                check_integer(&parsed)?;
                Ok(integer_field(&int, &parsed))
            }
            Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%') => {
                let float = heap
                    .to_float(value)
                    .ok_or("int too large to convert to float")?;
                Ok(float_field(float, &parsed))
            }
            _ => Err(code(heap.python_type(value))),
        },
        Value::Float(float) => match parsed.kind {
            None | Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | 'n' | '%') => {
                Ok(float_field(float, &parsed))
            }
            _ => Err(code("float")),
        },
        value => Err(format!(
            "unsupported format string passed to {}.__format__",
            heap.python_type(value)
        )),
    }
}

fn text_field(text: &str, spec: &Spec) -> String {
    let cut: String = match spec.precision {
        Some(precision) => text.chars().take(precision).collect(),
        None => text.to_owned(),
    };
    let fill = spec.fill.unwrap_or(if spec.zero { '0' } else { ' ' });
    pad(&cut, "", fill, spec.align.unwrap_or('<'), spec.width)
}

fn pad(body: &str, sign: &str, fill: char, align: char, width: usize) -> String {
    let length = body.chars().count() + sign.chars().count();
    let missing = width.saturating_sub(length);
    let fills = |count: usize| fill.to_string().repeat(count);
    match align {
        '<' => format!("{sign}{body}{}", fills(missing)),
        '^' => format!(
            "{}{sign}{body}{}",
            fills(missing / 2),
            fills(missing - missing / 2)
        ),
        '=' => format!("{sign}{}{body}", fills(missing)),
        _ => format!("{}{sign}{body}", fills(missing)),
    }
}

fn number_field(negative: bool, prefix: &str, whole: &str, rest: &str, spec: &Spec) -> String {
    let sign = match (negative, spec.sign) {
        (true, _) => "-",
        (false, Some('+')) => "+",
        (false, Some(' ')) => " ",
        _ => "",
    };
    let group = |digits: &str, every: usize, separator: char| {
        let mut out = String::new();
        for (at, c) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(every) {
                out.push(separator);
            }
            out.push(c);
        }
        out
    };
    let every = if matches!(spec.kind, Some('b' | 'o' | 'x' | 'X')) {
        4
    } else {
        3
    };
    let fill = spec.fill.unwrap_or(if spec.zero { '0' } else { ' ' });
    let align = spec.align.unwrap_or(if spec.zero { '=' } else { '>' });
    let mut whole = whole.to_owned();
    if let Some(separator) = spec.grouping {
        if fill == '0' && align == '=' {
            let fixed = sign.len() + prefix.len() + rest.len();
            while fixed + group(&whole, every, separator).len() < spec.width {
                whole.insert(0, '0');
            }
        }
        whole = group(&whole, every, separator);
    }
    pad(
        &format!("{whole}{rest}"),
        &format!("{sign}{prefix}"),
        fill,
        align,
        spec.width,
    )
}

fn integer_field(int: &BigInt, spec: &Spec) -> String {
    let magnitude = int.magnitude();
    let (prefix, digits) = match spec.kind {
        Some('b') => ("0b", magnitude.to_str_radix(2)),
        Some('o') => ("0o", magnitude.to_str_radix(8)),
        Some('x') => ("0x", magnitude.to_str_radix(16)),
        Some('X') => ("0X", magnitude.to_str_radix(16).to_uppercase()),
        Some('c') => {
            let c = u32::try_from(magnitude)
                .ok()
                .and_then(char::from_u32)
                .unwrap_or('\u{fffd}');
            return number_field(false, "", &c.to_string(), "", spec);
        }
        _ => ("", magnitude.to_string()),
    };
    number_field(
        int.is_negative(),
        if spec.alternate { prefix } else { "" },
        &digits,
        "",
        spec,
    )
}

fn float_field(value: f64, spec: &Spec) -> String {
    let magnitude = value.abs();
    let upper = matches!(spec.kind, Some('E' | 'F' | 'G'));
    let mut body = if !magnitude.is_finite() {
        text::float(magnitude)
    } else {
        match spec.kind.map(|kind| kind.to_ascii_lowercase()) {
            Some('f') => pointed(fixed(magnitude, spec.precision.unwrap_or(6)), spec),
            Some('%') => pointed(fixed(magnitude * 100.0, spec.precision.unwrap_or(6)), spec) + "%",
            Some('e') => pointed(exponent(magnitude, spec.precision.unwrap_or(6)), spec),
            Some('g' | 'n') => {
                let precision = spec.precision.unwrap_or(6).max(1);
                pointed(general(magnitude, precision, spec.alternate, false), spec)
            }
            _ => match spec.precision {
                None => text::float(magnitude),
                Some(precision) => {
                    let precision = precision.max(1);
                    pointed(general(magnitude, precision, spec.alternate, true), spec)
                }
            },
        }
    };
    if upper {
        body = body.to_uppercase();
    }
    let split = body
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(body.len());
    let (whole, rest) = body.split_at(split);
    let mut digits = body.chars().take_while(|c| !matches!(c, 'e' | 'E'));
    let is_zero = magnitude.is_finite() && !digits.any(|c| matches!(c, '1'..='9'));
    number_field(
        value.is_sign_negative() && !value.is_nan() && !(spec.no_negative_zero && is_zero),
        "",
        whole,
        rest,
        spec,
    )
}

/// A number of the alternate form (`#`) has a point, also without digits behind it.
fn pointed(mut number: String, spec: &Spec) -> String {
    if spec.alternate && !number.contains('.') {
        let at = number.find('e').unwrap_or(number.len());
        number.insert(at, '.');
    }
    number
}

/// No number has more digits behind the point: what follows are zeros. (More than 65 535 are none that the standard library
/// would write.)
const MAX_DIGITS: usize = 1100;

/// The zeros behind the digits that a number has.
fn zeros(precision: usize) -> String {
    "0".repeat(precision.saturating_sub(MAX_DIGITS))
}

fn fixed(value: f64, precision: usize) -> String {
    let n_digits = precision.min(MAX_DIGITS);
    let text = format!("{value:.n_digits$}");
    if value.is_finite() {
        text + &zeros(precision)
    } else {
        text
    }
}

fn exponent(value: f64, precision: usize) -> String {
    let n_digits = precision.min(MAX_DIGITS);
    let text = format!("{value:.n_digits$e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let exponent: i32 = exponent.parse().unwrap_or(0);
            format!(
                "{mantissa}{}e{}{:02}",
                zeros(precision),
                if exponent < 0 { '-' } else { '+' },
                exponent.abs()
            )
        }
        None => text,
    }
}

/// `%g`; `as_float` keeps one digit after the point, as `format(1.0, ".3")` does.
fn general(value: f64, precision: usize, alternate: bool, as_float: bool) -> String {
    let scientific = exponent(value, precision - 1);
    let power: i32 = scientific
        .split_once('e')
        .and_then(|(_, power)| power.parse().ok())
        .unwrap_or(0);
    // One digit less where one behind the point is kept for it: with one digit in all there is always an exponent.
    let limit = precision as i32 - i32::from(as_float);
    if power < -4 || power >= limit {
        let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "+00"));
        let mantissa = if alternate {
            mantissa
        } else {
            trim_zeros(mantissa)
        };
        return format!("{mantissa}e{exponent}");
    }
    let digits = (precision as i32 - 1 - power).max(0) as usize;
    let text = fixed(value, digits);
    let text = if alternate {
        text.as_str()
    } else {
        trim_zeros(&text)
    };
    if as_float && !text.contains('.') {
        format!("{text}.0")
    } else {
        text.to_owned()
    }
}

fn trim_zeros(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}
