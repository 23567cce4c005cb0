//! Python's two ways to format texts, `%` and `format`, for values of templates. Source: docs/reference/std.md § 7.6.

use minijinja::value::{Kwargs, ValueKind, from_args};
use minijinja::{Error, ErrorKind, Value as Jinja};

use crate::syntax::strings::{FormatPiece, format_pieces};
use crate::template::arguments::defined;
use crate::template::repr::{repr, shown};
use crate::types::{Heap, Value, format};

/// No text is made longer: 256 MiB.
const MAX_TEXT: usize = 256 << 20;
const MAX_WIDTH: i64 = 1_000_000;

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// `format(value, spec)`.
fn formatted(value: &Jinja, spec: &str) -> Result<String, Error> {
    let mut heap = Heap::default();
    let converted = match value.kind() {
        ValueKind::Bool => Value::Bool(value.is_true()),
        ValueKind::Number if value.is_integer() => match i128::try_from(value.clone()) {
            Ok(int) => heap.new_int(int.into()),
            Err(_) => Value::Float(f64::try_from(value.clone())?),
        },
        ValueKind::Number => Value::Float(f64::try_from(value.clone())?),
        ValueKind::String => heap.new_str(value.as_str().unwrap_or("")),
        ValueKind::Map => heap.new_dict(Vec::new()),
        ValueKind::Seq | ValueKind::Iterable => heap.new_list(&[]),
        _ => Value::Null,
    };
    format::format(&heap, converted, spec, &shown(value)).map_err(invalid)
}

/// The method `format` of texts.
pub(in crate::template) fn format_method(template: &str, args: &[Jinja]) -> Result<String, Error> {
    let (positional, named): (&[Jinja], Kwargs) = from_args(args)?;
    let by_name = |name: &str| match named.has(name) {
        true => named.get::<Jinja>(name),
        false => Err(invalid(repr(&Jinja::from(name)))),
    };
    Fields {
        positional,
        by_name: &by_name,
        automatic: Some(0),
    }
    .fill(template)
}

/// The method `format_map`.
pub(in crate::template) fn format_map(template: &str, values: &Jinja) -> Result<String, Error> {
    let by_name = |name: &str| {
        let found = values.get_item(&Jinja::from(name))?;
        match found.is_undefined() {
            true => Err(invalid(repr(&Jinja::from(name)))),
            false => Ok(found),
        }
    };
    Fields {
        positional: &[],
        by_name: &by_name,
        automatic: Some(0),
    }
    .fill(template)
}

struct Fields<'a> {
    positional: &'a [Jinja],
    by_name: &'a dyn Fn(&str) -> Result<Jinja, Error>,
    /// The next field without a name; `None`: fields are numbered by hand.
    automatic: Option<usize>,
}

impl Fields<'_> {
    fn fill(&mut self, template: &str) -> Result<String, Error> {
        let pieces = format_pieces(template, 2).map_err(invalid)?;
        self.render(&pieces)
    }

    fn render(&mut self, pieces: &[FormatPiece]) -> Result<String, Error> {
        let mut out = String::new();
        for piece in pieces {
            if out.len() > MAX_TEXT {
                return Err(invalid("the text is too long"));
            }
            match piece {
                FormatPiece::Text(text) => out.push_str(text),
                FormatPiece::Field {
                    name,
                    conversion,
                    spec,
                    ..
                } => {
                    let value = self.field(name)?;
                    let spec = self.render(spec)?;
                    let value = match conversion {
                        None => {
                            defined(&value)?;
                            value
                        }
                        Some('s') => {
                            defined(&value)?;
                            Jinja::from(shown(&value))
                        }
                        Some('r' | 'a') => Jinja::from(repr(&value)),
                        Some(other) => {
                            return Err(invalid(format!("Unknown conversion specifier {other}")));
                        }
                    };
                    out.push_str(&formatted(&value, &spec)?);
                }
            }
        }
        Ok(out)
    }

    /// The value of `0.name[key]`.
    fn field(&mut self, name: &str) -> Result<Jinja, Error> {
        let end = name.find(['.', '[']).unwrap_or(name.len());
        let (first, mut rest) = name.split_at(end);
        let mut value = match (first.parse::<usize>(), self.automatic) {
            (Ok(at), None | Some(0)) => {
                self.automatic = None;
                self.by_position(at)?
            }
            (Err(_), Some(next)) if first.is_empty() => {
                self.automatic = Some(next + 1);
                self.by_position(next)?
            }
            (Err(_), _) if !first.is_empty() => (self.by_name)(first)?,
            _ => {
                return Err(invalid(
                    "cannot switch between manual field specification and automatic field numbering",
                ));
            }
        };
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('.') {
                let end = after.find(['.', '[']).unwrap_or(after.len());
                value = value.get_attr(&after[..end])?;
                rest = &after[end..];
            } else {
                let key = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
                let (key, after) = key.ok_or_else(|| invalid("Missing ']' in format string"))?;
                value = match key.parse::<usize>() {
                    Ok(at) => value.get_item(&Jinja::from(at))?,
                    Err(_) => value.get_item(&Jinja::from(key))?,
                };
                rest = after;
            }
            if value.is_undefined() {
                return Err(Error::new(
                    ErrorKind::UndefinedError,
                    format!("there is no {name}"),
                ));
            }
        }
        Ok(value)
    }

    fn by_position(&self, at: usize) -> Result<Jinja, Error> {
        self.positional.get(at).cloned().ok_or_else(|| {
            invalid(format!(
                "Replacement index {at} out of range for positional args tuple"
            ))
        })
    }
}

/// What stands between `%` and the letter of a conversion.
#[derive(Default)]
struct Conversion {
    left: bool,
    zero: bool,
    alternate: bool,
    /// The sign before positive numbers: `+` or a blank.
    sign: Option<char>,
    width: usize,
    precision: Option<usize>,
}

/// Python's `%` formatting with these operands; `named` has those of `%(name)s`.
pub(in crate::template) fn percent(
    template: &str,
    operands: &[Jinja],
    named: Option<&Jinja>,
) -> Result<String, Error> {
    let mut out = String::new();
    let mut operands = operands.iter();
    let mut next = || {
        let operand = operands.next().cloned();
        operand.ok_or_else(|| invalid("not enough arguments for format string"))
    };
    let mut by_name = false;
    let mut chars = template.chars().peekable();
    while let Some(c) = chars.next() {
        if out.len() > MAX_TEXT {
            return Err(invalid("the text is too long"));
        }
        if c != '%' {
            out.push(c);
            continue;
        }
        let name = chars
            .next_if_eq(&'(')
            .map(|_| chars.by_ref().take_while(|c| *c != ')').collect::<String>());
        let mut conversion = Conversion::default();
        while let Some(flag) = chars.next_if(|c| "-+ 0#".contains(*c)) {
            match flag {
                '-' => conversion.left = true,
                '0' => conversion.zero = true,
                '#' => conversion.alternate = true,
                ' ' => conversion.sign = conversion.sign.or(Some(' ')),
                _ => conversion.sign = Some('+'),
            }
        }
        let mut number = |chars: &mut std::iter::Peekable<std::str::Chars>| {
            if chars.next_if_eq(&'*').is_some() {
                return i64::try_from(next()?);
            }
            let mut number = 0i64;
            while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
                chars.next();
                number = number.saturating_mul(10).saturating_add(i64::from(digit));
            }
            Ok(number)
        };
        let width = number(&mut chars)?;
        conversion.left |= width < 0;
        conversion.width = width.unsigned_abs().min(MAX_WIDTH as u64) as usize;
        if chars.next_if_eq(&'.').is_some() {
            let precision = number(&mut chars)?.clamp(0, MAX_WIDTH);
            conversion.precision = Some(precision as usize);
        }
        while chars.next_if(|c| "hlL".contains(*c)).is_some() {}
        let kind = chars.next().ok_or_else(|| invalid("incomplete format"))?;
        if kind == '%' {
            out.push('%');
            continue;
        }
        let value = match &name {
            Some(name) => {
                by_name = true;
                let values = named.ok_or_else(|| invalid("format requires a mapping"))?;
                let found = values.get_item(&Jinja::from(name.as_str()))?;
                if found.is_undefined() {
                    return Err(invalid(repr(&Jinja::from(name.as_str()))));
                }
                found
            }
            None => next()?,
        };
        out.push_str(&conversion.apply(kind, &value)?);
    }
    if next().is_ok() && !by_name && named.is_none() {
        return Err(invalid(
            "not all arguments converted during string formatting",
        ));
    }
    Ok(out)
}

impl Conversion {
    fn apply(&self, kind: char, value: &Jinja) -> Result<String, Error> {
        let body = match kind {
            'd' | 'i' | 'u' | 'x' | 'X' | 'o' => return self.integer(kind, value),
            'e' | 'E' | 'f' | 'F' | 'g' | 'G' => {
                self.is_number(kind, value)?;
                let precision = self.precision.unwrap_or(6);
                let value = Jinja::from(f64::try_from(value.clone())?);
                return Ok(self.padded(&self.number(&value, &format!(".{precision}{kind}"))?));
            }
            'c' => match value.as_str() {
                Some(text) if text.chars().count() == 1 => text.to_owned(),
                _ if value.is_integer() => formatted(value, "c")?,
                _ => return Err(invalid("%c requires int or char")),
            },
            's' => {
                defined(value)?;
                shown(value)
            }
            'r' | 'a' => repr(value),
            other => {
                return Err(invalid(format!("unsupported format character '{other}'")));
            }
        };
        let precision = self.precision.unwrap_or(usize::MAX);
        let body: String = body.chars().take(precision).collect();
        let missing = " ".repeat(self.width.saturating_sub(body.chars().count()));
        Ok(match self.left {
            true => body + &missing,
            false => missing + &body,
        })
    }

    fn is_number(&self, kind: char, value: &Jinja) -> Result<(), Error> {
        match value.kind() {
            ValueKind::Number | ValueKind::Bool => Ok(()),
            _ => Err(invalid(format!(
                "%{kind} format: a number is required, not {}",
                value.kind()
            ))),
        }
    }

    fn integer(&self, kind: char, value: &Jinja) -> Result<String, Error> {
        self.is_number(kind, value)?;
        let is_whole = value.kind() == ValueKind::Bool || value.is_integer();
        let decimal = matches!(kind, 'd' | 'i' | 'u');
        if !is_whole && !decimal {
            return Err(invalid(format!("%{kind} format: an integer is required")));
        }
        let int = match is_whole {
            true => i128::try_from(value.clone())?,
            false => f64::try_from(value.clone())?.trunc() as i128,
        };
        let kind = if decimal { 'd' } else { kind };
        let body = self.number(&Jinja::from(int), &kind.to_string())?;
        let (start, digits) = split_number(&body);
        let missing = self.precision.unwrap_or(0).saturating_sub(digits.len());
        Ok(self.padded(&format!("{start}{}{digits}", "0".repeat(missing))))
    }

    fn number(&self, value: &Jinja, spec: &str) -> Result<String, Error> {
        let sign = self.sign.map(String::from).unwrap_or_default();
        let alternate = if self.alternate { "#" } else { "" };
        formatted(value, &format!("{sign}{alternate}{spec}"))
    }

    fn padded(&self, body: &str) -> String {
        let missing = self.width.saturating_sub(body.chars().count());
        if self.left {
            format!("{body}{}", " ".repeat(missing))
        } else if self.zero {
            let (start, digits) = split_number(body);
            format!("{start}{}{digits}", "0".repeat(missing))
        } else {
            format!("{}{body}", " ".repeat(missing))
        }
    }
}

/// Sign and prefix of a number, and its digits.
fn split_number(body: &str) -> (&str, &str) {
    let unsigned = body.trim_start_matches(['+', '-', ' ']);
    let has_prefix = ["0x", "0X", "0o"].iter().any(|it| unsigned.starts_with(it));
    let start = body.len() - unsigned.len() + if has_prefix { 2 } else { 0 };
    body.split_at(start)
}
