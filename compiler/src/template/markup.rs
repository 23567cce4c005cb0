//! Filters about markup and words of texts. Source: docs/reference/std.md § 7.6.

use minijinja::value::{Rest, ValueKind};
use minijinja::{AutoEscape, Environment, Error, State, Value as Jinja};

use crate::template::arguments::{add_filter, defined, items_of, text_of};
use crate::template::filters::{Given, dotted};
use crate::template::repr::shown;
use crate::template::text::escaped;

pub(in crate::template) fn register(engine: &mut Environment<'static>) {
    add_filter(engine, "join", &[], join);
    add_filter(engine, "indent", &[], indent);
    add_filter(engine, "title", &[], |value: &Jinja| titled(&shown(value)));
    add_filter(engine, "striptags", &[], |value: &Jinja| {
        without_tags(&shown(value))
    });
    add_filter(engine, "wordcount", &[], |value: &Jinja| {
        n_words(&shown(value))
    });
    add_filter(
        engine,
        "center",
        &["width"],
        |value: &Jinja, width: Option<i64>| centered(&shown(value), width.unwrap_or(80), ' '),
    );
    add_filter(engine, "urlize", &[], urlize);
}

fn join(state: &State<'_, '_>, values: &Jinja, args: Rest<Jinja>) -> Result<Jinja, Error> {
    let given = Given::new(&args)?;
    let separator = given.value(0, "d")?.unwrap_or_else(|| Jinja::from(""));
    let attribute = given.value(1, "attribute")?;
    given.named.assert_all_used()?;
    let mut items = Vec::new();
    for value in items_of(values)? {
        let value = match &attribute {
            Some(attribute) => dotted(&value, attribute)?,
            None => value,
        };
        defined(&value)?;
        items.push(value);
    }
    let escapes = state.auto_escape() != AutoEscape::None;
    let is_markup = escapes && (separator.is_safe() || items.iter().any(Jinja::is_safe));
    let part = |value: &Jinja| match is_markup && !value.is_safe() {
        true => escaped(&shown(value)),
        false => shown(value),
    };
    let parts: Vec<String> = items.iter().map(part).collect();
    let joined = parts.join(&part(&separator));
    Ok(match is_markup {
        true => Jinja::from_safe_string(joined),
        false => Jinja::from(joined),
    })
}

/// The lines as `str.splitlines` gives them: what ends with a line feed has no empty line behind
/// it.
pub(in crate::template) fn split_lines(text: &str) -> Vec<&str> {
    let is_end = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'
                ..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(is_end) {
        lines.push(&rest[..at]);
        let end = match rest[at..].starts_with("\r\n") {
            true => 2,
            false => rest[at..].chars().next().map_or(1, char::len_utf8),
        };
        rest = &rest[at + end..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

fn indent(value: &Jinja, args: Rest<Jinja>) -> Result<String, Error> {
    let given = Given::new(&args)?;
    let width = given.value(0, "width")?.unwrap_or_else(|| Jinja::from(4));
    let indentation = match width.as_str() {
        Some(text) => text.to_owned(),
        None => " ".repeat(i64::try_from(width)?.clamp(0, 100_000) as usize),
    };
    let first = given.get(1, "first", false)?;
    let blank = given.get(2, "blank", false)?;
    given.named.assert_all_used()?;
    let text = format!("{}\n", text_of(value)?);
    let mut out = String::new();
    for (at, line) in split_lines(&text).into_iter().enumerate() {
        let is_indented = match at {
            0 => first,
            _ => blank || !line.is_empty(),
        };
        if at > 0 {
            out.push('\n');
        }
        if is_indented {
            out.push_str(&indentation);
        }
        out.push_str(line);
    }
    Ok(out)
}

/// Words begin behind blanks, hyphens and opening brackets.
fn titled(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut begins = true;
    for c in text.chars() {
        let is_between = c.is_whitespace() || matches!(c, '-' | '(' | '{' | '[' | '<');
        if begins && !is_between {
            out.extend(c.to_uppercase());
        } else {
            out.extend(c.to_lowercase());
        }
        begins = is_between;
    }
    out
}

fn n_words(text: &str) -> usize {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
        .count()
}

/// The text between blanks as `str.center` puts it: the odd blank goes to the left if the width is
/// odd.
pub(in crate::template) fn centered(text: &str, width: i64, fill: char) -> String {
    let width = usize::try_from(width).unwrap_or(0).min(1_000_000);
    let missing = width.saturating_sub(text.chars().count());
    let left = missing / 2 + (missing & width & 1);
    let padding = |n: usize| fill.to_string().repeat(n);
    format!("{}{text}{}", padding(left), padding(missing - left))
}

/// The text without what stands between `start` and `end`.
fn without(text: &str, start: &str, end: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(start) {
        let Some(length) = rest[at..].find(end) else {
            break;
        };
        out.push_str(&rest[..at]);
        rest = &rest[at + length + end.len()..];
    }
    out.push_str(rest);
    out
}

fn without_tags(text: &str) -> String {
    let text = without(&without(text, "<!--", "-->"), "<", ">");
    let words: Vec<&str> = text.split_whitespace().collect();
    unescaped(&words.join(" "))
}

/// Names of characters in HTML that texts of configurations have.
const ENTITIES: &[(&str, &str)] = &[
    ("amp", "&"),
    ("lt", "<"),
    ("gt", ">"),
    ("quot", "\""),
    ("apos", "'"),
    ("nbsp", "\u{a0}"),
    ("copy", "©"),
    ("reg", "®"),
    ("ndash", "–"),
    ("mdash", "—"),
    ("hellip", "…"),
];

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let Some((name, after)) = rest[1..].split_once(';') else {
            break;
        };
        let number = name.strip_prefix('#').and_then(|number| {
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?).map(String::from)
        });
        let named = ENTITIES.iter().find(|(known, _)| *known == name);
        match number.or(named.map(|(_, text)| (*text).to_owned())) {
            Some(text) => {
                out.push_str(&text);
                rest = after;
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Makes links of addresses: `http://…`, `https://…`, `www.…`, and of those of mail.
fn urlize(value: &Jinja, args: Rest<Jinja>) -> Result<String, Error> {
    let given = Given::new(&args)?;
    let limit = given.get(0, "trim_url_limit", usize::MAX)?;
    let nofollow = given.get(1, "nofollow", false)?;
    let target = given.value(2, "target")?;
    let rel = given.text(3, "rel", "")?;
    given.named.assert_all_used()?;
    let mut relations: Vec<&str> = rel.split_whitespace().collect();
    relations.push("noopener");
    relations.extend(nofollow.then_some("nofollow"));
    relations.sort_unstable();
    relations.dedup();
    let mut attributes = format!(" rel=\"{}\"", escaped(&relations.join(" ")));
    if let Some(target) = target.filter(|target| target.kind() != ValueKind::Undefined) {
        attributes.push_str(&format!(" target=\"{}\"", escaped(&shown(&target))));
    }
    let mut out = String::new();
    for piece in shown(value).split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        let core = word.trim_start_matches(['(', '<']);
        let before = &word[..word.len() - core.len()];
        let mut end = core.trim_end_matches(['.', ',', ')', '>']).len();
        // A bracket that is closed belongs to the address.
        for (open, close) in [('(', ')'), ('<', '>')] {
            let count = |text: &str, c: char| text.matches(c).count();
            while count(&core[..end], open) > count(&core[..end], close)
                && let Some(at) = core[end..].find(close)
            {
                end += at + 1;
            }
        }
        match linked(&core[..end], limit, &attributes) {
            Some(link) => {
                out.push_str(&escaped(before));
                out.push_str(&link);
                out.push_str(&escaped(&core[end..]));
            }
            None => out.push_str(&escaped(word)),
        }
        out.push_str(&piece[word.len()..]);
    }
    Ok(out)
}

/// An address without `http://` and `www.` ends with one of these.
const TOPS: &[&str] = &[
    ".com", ".net", ".int", ".edu", ".gov", ".org", ".info", ".mil",
];

fn linked(text: &str, limit: usize, attributes: &str) -> Option<String> {
    let is_label =
        |label: &str| label.len() >= 2 && label.bytes().all(|byte| byte.is_ascii_alphabetic());
    let has_top = |host: &str| {
        let parts = host.rsplit_once('.');
        parts.is_some_and(|(name, top)| !name.is_empty() && is_label(top))
    };
    let shortened = match text.chars().count() > limit {
        true => text.chars().take(limit).collect::<String>() + "...",
        false => text.to_owned(),
    };
    let plain = text;
    let (href, text) = (escaped(text), escaped(&shortened));
    let address = plain.split("://").nth(1).unwrap_or(plain);
    let host = address.split(['/', '?', '#', ':']).next().unwrap_or("");
    let is_known = if ["http://", "https://"]
        .iter()
        .any(|it| plain.starts_with(it))
    {
        has_top(host) || is_label(host) || host.parse::<std::net::Ipv4Addr>().is_ok()
    } else {
        let has_known_top = TOPS.iter().any(|top| host.ends_with(top));
        has_top(host) && (plain.starts_with("www.") || has_known_top && !plain.contains('@'))
    };
    if is_known {
        let scheme = if address.len() == plain.len() {
            "https://"
        } else {
            ""
        };
        return Some(format!("<a href=\"{scheme}{href}\"{attributes}>{text}</a>"));
    }
    let mail = href.strip_prefix("mailto:").unwrap_or(&href);
    let (name, host) = mail.split_once('@')?;
    let is_mail = !name.is_empty() && has_top(host) && !mail.contains([':', '/']);
    is_mail.then(|| format!("<a href=\"mailto:{mail}\">{mail}</a>"))
}
