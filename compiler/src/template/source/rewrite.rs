//! What Jinja2 reads otherwise than our engine: tuples, `%` after a text, `/`. Source: docs/reference/std.md § 7.6,
//! § 7.7.
//!
//! They become calls that the engine knows, on the same line, so that errors keep their lines. `and` and `or` get one more
//! operand that is not constant: the engine gives a boolean where all of them are.

use std::borrow::Cow;

use crate::template::source::dotted_filters::without_dots;
use crate::template::source::macros::{self, OpenMacro, split};

/// The method that stands for a slice.
pub(in crate::template) const SLICED: &str = "__sliced__";

/// Words before a parenthesis that open an expression, not the arguments of a call.
const KEYWORDS: &[&str] = &[
    "if", "elif", "else", "in", "not", "and", "or", "is", "set", "return", "do", "include",
    "import", "extends", "print",
];

pub(in crate::template) fn adapt(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 16);
    let mut macros: Vec<OpenMacro> = Vec::new();
    let mut rest = source;
    loop {
        let Some(at) = rest.find(['{']) else {
            out.push_str(rest);
            return out;
        };
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let close = match rest.get(..2) {
            Some("{#") => "#}",
            Some("{{") => "}}",
            Some("{%") => "%}",
            _ => {
                out.push('{');
                rest = &rest[1..];
                continue;
            }
        };
        let Some(end) = end_of(rest, close) else {
            out.push_str(rest);
            return out;
        };
        let (tag, after) = rest.split_at(end);
        let words = tag[2..].trim_start_matches(['-', '+']).trim_start();
        if close == "%}" && words.starts_with("raw") {
            // Nothing is read up to its end.
            let length = after.find("endraw").unwrap_or(after.len());
            out.push_str(tag);
            out.push_str(&after[..length]);
            rest = &after[length..];
            continue;
        }
        let word: &str = words.split(|c| !is_word(c)).next().unwrap_or("");
        let inner = tag.get(2..tag.len() - 2).unwrap_or("");
        let inner = &*without_dots(inner, close == "%}" && word == "filter");
        let inner = &*match macros.last_mut() {
            // Its own parameters are those of a macro that begins.
            Some(open) if close != "#}" && word != "macro" => open.with_own_names(inner, word),
            _ => Cow::Borrowed(inner),
        };
        let macro_tag = match (close, word) {
            ("%}", "macro") => macros::begin(inner, after, macros.last()).map(|(tags, open)| {
                macros.push(open);
                tags
            }),
            ("%}", "endmacro") => macros.pop().map(|open| macros::end(inner, &open)),
            ("%}", "include") => Some(include(inner)),
            _ => None,
        };
        if let Some(tags) = macro_tag {
            out.push_str(&tags);
        } else if close == "#}" {
            out.push_str(tag);
        } else {
            out.push_str(&tag[..2]);
            // Targets of loops, assignments and macros are no expressions.
            let start = if close == "%}" {
                expression_start(inner)
            } else {
                0
            };
            out.push_str(&inner[..start]);
            if close == "%}" && word == "for" && start < inner.len() {
                out.push_str(&loop_over(&inner[start..]));
            } else if close == "%}" && word == "set" && is_single(inner, start) {
                out.push_str(&bounded(&inner[start..]));
            } else {
                // `{{- x` is no sign.
                let text = &inner[start..];
                let mark = text.len() - text.strip_prefix(['-', '+']).unwrap_or(text).len();
                let (mark, text) = text.split_at(if start == 0 { mark } else { 0 });
                out.push_str(mark);
                out.push_str(&expression(text));
            }
            out.push_str(&tag[tag.len() - 2..]);
        }
        rest = after;
    }
}

/// What stands behind `in` of a loop.
fn loop_over(text: &str) -> String {
    let text_end = text.trim_end_matches(['-', '+']).len();
    let (iterable, rest) = text.split_at(iterable_end(&text[..text_end]));
    let blanks = iterable.trim_end().len();
    let (iterable, between) = iterable.split_at(blanks);
    let rest = expression(rest);
    format!("__iterable__({}){between}{rest}", expression(iterable))
}

/// Whether one name gets one value: `{% set a, b = c, d %}` and the form with a block stay.
fn is_single(inner: &str, start: usize) -> bool {
    let (target, value) = inner.split_at(start);
    !value.trim().is_empty() && !target.contains(',') && split(value).len() == 1
}

/// The value of an assignment.
fn bounded(text: &str) -> String {
    let value = text.trim_end_matches(['-', '+']);
    let (value, mark) = text.split_at(value.len());
    let blanks = value.len() - value.trim_start().len();
    let (before, value) = value.split_at(blanks);
    let (value, after) = value.split_at(value.trim_end().len());
    let value = expression(value);
    format!("{before}__bounded__({value}){after}{mark}")
}

/// What an included template sets is its own.
fn include(inner: &str) -> String {
    let (before, text, after) = macros::trimmed(inner);
    let text = expression(text);
    format!("{{%{before} with %}}{{% {text} %}}{{% endwith {after}%}}")
}

/// The end of a tag, whose texts may hold what looks like it.
fn end_of(text: &str, close: &str) -> Option<usize> {
    if close == "#}" {
        return text.find(close).map(|at| at + 2);
    }
    let mut at = 2;
    while at < text.len() {
        if text[at..].starts_with(close) {
            // `}}}` ends a dict and then the tag.
            let more = close == "}}" && text[at..].starts_with("}}}");
            return Some(at + if more { 3 } else { 2 });
        }
        let c = text[at..].chars().next()?;
        at = match c {
            '"' | '\'' => at + string_end(&text[at..]),
            c => at + c.len_utf8(),
        };
    }
    None
}

pub(in crate::template) fn string_end(text: &str) -> usize {
    let quote = text.chars().next();
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if Some(c) == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

fn expression_start(inner: &str) -> usize {
    let word = inner.trim_start_matches(['-', '+']).trim_start();
    let offset = inner.len() - word.len();
    let after = |mark: &str| {
        word.find(mark)
            .map_or(inner.len(), |at| offset + at + mark.len())
    };
    if word.starts_with("for") {
        after(" in ")
    } else if word.starts_with("set") {
        after("=")
    } else if word.starts_with("macro") || word.starts_with("call") || word.starts_with("block") {
        inner.len()
    } else {
        0
    }
}

pub(in crate::template) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A string literal at a place, with the operand of a `%` behind it; where it ends.
fn percent(text: &str, start: usize, out: &mut String) -> usize {
    let end = start + string_end(&text[start..]);
    let literal = &text[start..end];
    let rest = text[end..].trim_start();
    let Some(operand) = rest.strip_prefix('%').filter(|rest| !rest.starts_with('}')) else {
        out.push_str(literal);
        return end;
    };
    let operand_start = text.len() - operand.trim_start().len();
    let length = operand_with_filters(&text[operand_start..]);
    let operand_end = operand_start + length.unwrap_or(0);
    out.push_str(&format!(
        "({literal}|__percent__({}))",
        expression(&text[operand_start..operand_end])
    ));
    operand_end
}

pub(in crate::template) fn expression(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut at = 0;
    // Where the arguments of a filter end: a group behind them calls what the filter gave.
    let mut filter_end = None;
    while let Some(c) = text[at..].chars().next() {
        match c {
            '"' | '\'' => {
                at = percent(text, at, &mut out);
            }
            '(' => {
                let Some(length) = group_end(&text[at..]) else {
                    out.push_str(&text[at..]);
                    return out;
                };
                let inner = &text[at + 1..at + length - 1];
                let before = out.trim_end();
                let is_call = before.ends_with([')', ']', '}'])
                    || (!is_literal(&out) && before.len() == out.len());
                if !is_call && is_tuple(inner) {
                    // `(1, 2) + …`: the sum of two tuples is a tuple.
                    let end = at + length;
                    let rest = text[end..].trim_start();
                    if let Some(operand) = rest.strip_prefix('+') {
                        let start = text.len() - operand.trim_start().len();
                        let stop = start + operand_end(&text[start..]);
                        let left = expression(inner);
                        let right = expression(&text[start..stop]);
                        out.push_str(&format!("__plus__(__tuple__({left}), {right})"));
                        at = stop;
                        continue;
                    }
                    out.push_str("__tuple__");
                }
                filter_end = group(inner, filter_end, &mut out);
                at += length;
            }
            '[' | '{' if is_literal(&out) => {
                let Some(length) = group_end(&text[at..]) else {
                    out.push_str(&text[at..]);
                    return out;
                };
                out.push_str(&literal(c, &text[at + 1..at + length - 1]));
                at += length;
            }
            '[' => {
                let Some(length) = group_end(&text[at..]) else {
                    out.push_str(&text[at..]);
                    return out;
                };
                out.push_str(&index(&text[at + 1..at + length - 1]));
                at += length;
            }
            '-' | '+' if is_literal(&out) => {
                at += 1;
                // The engine has no sign that changes nothing. Behind the last word of a tag it is a mark of whitespace.
                if c == '-' || text[at..].trim().is_empty() {
                    out.push(c);
                }
                at += signed(&text[at..], &mut out);
            }
            // Not the `**` of an argument.
            '*' if text[at..].starts_with("**") && is_operand(&out) => {
                let start = text.len() - text[at + 2..].trim_start().len();
                let end = start + operand_with_filters(&text[start..]).unwrap_or(0);
                out.push_str(&text[at..start]);
                if end > start {
                    out.push_str(&format!("__exponent__({})", expression(&text[start..end])));
                }
                at = end;
            }
            '/' | '%' => {
                let operator = if text[at..].starts_with("//") { 2 } else { 1 };
                let start = text.len() - text[at + operator..].trim_start().len();
                let end = start + divisor_end(&text[start..]);
                out.push_str(&text[at..start]);
                if end > start {
                    let check = if c == '/' { "divisor" } else { "modulus" };
                    let operand = expression(&text[start..end]);
                    out.push_str(&format!("__{check}__({operand})"));
                }
                at = end;
            }
            c if is_word(c) => {
                let length = text[at..].find(|c| !is_word(c)).unwrap_or(text.len() - at);
                let word = &text[at..at + length];
                out.push_str(match word {
                    "and" => "and __true__ and",
                    "or" => "or __false__ or",
                    word => word,
                });
                at += length;
            }
            c => {
                out.push(c);
                at += c.len_utf8();
            }
        }
    }
    out
}

/// A group in parentheses. Behind the arguments of a filter, which end at `filter_end`, it calls what the filter gave. Where it ends
/// if it is such a call or such arguments itself.
fn group(inner: &str, filter_end: Option<usize>, out: &mut String) -> Option<usize> {
    let is_call_of_result = filter_end == Some(out.trim_end().len());
    let is_of_filter = is_call_of_result || is_filter_name(out);
    if is_call_of_result {
        out.push_str("|__call__");
    }
    out.push('(');
    out.push_str(&expression(inner));
    out.push(')');
    is_of_filter.then_some(out.len())
}

/// A list, or a dict if it opens with a brace.
fn literal(open: char, inner: &str) -> String {
    if split(inner)
        .iter()
        .any(|item| item.trim_start().starts_with('*'))
    {
        // Jinja2 reads no such item, and so does the engine, in a list of its own.
        return match open {
            '[' => format!("[{inner}]"),
            _ => format!("{{{inner}}}"),
        };
    }
    let inner = expression(inner);
    match open {
        '[' => format!("__list__({inner})"),
        _ => match macros::entries(&inner) {
            Some(entries) => format!("__entries__({entries})"),
            None => format!("__dict__({{{inner}}})"),
        },
    }
}

/// What stands between brackets behind an operand. A part of a list of the model is one, too; the engine makes one of its own
/// of it.
fn index(inner: &str) -> String {
    match slice_bounds(inner) {
        Some(bounds) => format!(".{SLICED}({bounds})"),
        None => format!("[{}]", expression(inner)),
    }
}

/// The arguments that stand for `a:b:c` between brackets; `None`: it is no slice.
fn slice_bounds(inner: &str) -> Option<String> {
    let mut bounds = Vec::new();
    let mut start = 0;
    let mut at = 0;
    while let Some(c) = inner[at..].chars().next() {
        at += match c {
            '"' | '\'' => string_end(&inner[at..]),
            '(' | '[' | '{' => group_end(&inner[at..])?,
            ':' => {
                bounds.push(&inner[start..at]);
                start = at + 1;
                1
            }
            c => c.len_utf8(),
        };
    }
    if bounds.is_empty() {
        return None;
    }
    bounds.push(inner.get(start..).unwrap_or(""));
    let bound = |text: &&str| match text.trim() {
        "" => "none".to_owned(),
        text => expression(text),
    };
    let bounds: Vec<String> = bounds.iter().map(bound).collect();
    Some(bounds.join(", "))
}

/// What stands behind a sign, in parentheses if it is more than a name: Jinja2 negates `x.y`, the engine takes `y` of the
/// negated `x`. The length of what was read.
fn signed(text: &str, out: &mut String) -> usize {
    let start = text.len() - text.trim_start().len();
    let operand = &text[start..];
    let length = operand_end(operand);
    let begins_name = operand.starts_with(|c: char| is_word(c) && !c.is_ascii_digit());
    if !begins_name || !operand[..length].contains(['.', '[', '(']) {
        return 0;
    }
    out.push_str(&format!(
        "{}({})",
        &text[..start],
        expression(&operand[..length])
    ));
    start + length
}

/// Whether this text ends with a filter, whose arguments may follow.
fn is_filter_name(before: &str) -> bool {
    let before = before.trim_end();
    let rest = before.trim_end_matches(is_word);
    rest.len() < before.len() && rest.trim_end().ends_with('|')
}

/// Whether an operator may follow, and not a `**` that begins an argument.
fn is_operand(before: &str) -> bool {
    let before = before.trim_end();
    !before.is_empty() && !before.ends_with(['(', ','])
}

/// Whether a bracket after this text begins a literal: it follows no operand.
fn is_literal(before: &str) -> bool {
    let before = before.trim_end();
    if before.ends_with([')', ']', '}', '"', '\'']) {
        return false;
    }
    let length: usize = before
        .chars()
        .rev()
        .take_while(|c| is_word(*c))
        .map(char::len_utf8)
        .sum();
    let word = &before[before.len() - length..];
    word.is_empty() || KEYWORDS.contains(&word)
}

/// The end of what is divided by; nothing where a power follows.
fn divisor_end(text: &str) -> usize {
    match operand_with_filters(text) {
        Some(end) if !text[end..].trim_start().starts_with("**") => end,
        _ => 0,
    }
}

/// The end of an operand with its sign and its filters. `None`: there is none.
fn operand_with_filters(text: &str) -> Option<usize> {
    let unsigned = text.trim_start_matches(['-', '+', ' ']);
    let length = operand_end(unsigned);
    if length == 0 {
        return None;
    }
    let mut end = text.len() - unsigned.len() + length;
    while let Some(filter) = text[end..].trim_start().strip_prefix('|') {
        let filter = filter.trim_start();
        end = text.len() - filter.len() + operand_end(filter);
    }
    Some(end)
}

/// The end of what a loop goes over: its condition or `recursive` may follow.
fn iterable_end(text: &str) -> usize {
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        at += match c {
            '"' | '\'' => string_end(&text[at..]),
            '(' | '[' | '{' => match group_end(&text[at..]) {
                Some(length) => length,
                None => return text.len(),
            },
            c if is_word(c) => {
                let length = text[at..].find(|c| !is_word(c)).unwrap_or(text.len() - at);
                if matches!(&text[at..at + length], "if" | "recursive") {
                    return at;
                }
                length
            }
            c => c.len_utf8(),
        };
    }
    text.len()
}

/// The length of `( … )` at the start of a text.
pub(in crate::template) fn group_end(text: &str) -> Option<usize> {
    let mut depth = 0u32;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        match c {
            '"' | '\'' => {
                at += string_end(&text[at..]);
                continue;
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += c.len_utf8();
    }
    None
}

/// A name with what follows it, a literal, or a group.
fn operand_end(text: &str) -> usize {
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        at += match c {
            '"' | '\'' if at == 0 => return string_end(text),
            '{' if at > 0 => break,
            '(' | '[' | '{' => match group_end(&text[at..]) {
                Some(length) => length,
                None => return text.len(),
            },
            c if is_word(c) || c == '.' => c.len_utf8(),
            '-' | '+' if is_exponent(&text[..at]) => 1,
            _ => break,
        };
    }
    at
}

/// Whether this is the start of a number whose exponent follows: `1.5e`.
fn is_exponent(text: &str) -> bool {
    let digits = text.strip_suffix(['e', 'E']).unwrap_or("");
    !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// Whether a group has a comma of its own, or nothing at all.
fn is_tuple(inner: &str) -> bool {
    let mut at = 0;
    while let Some(c) = inner[at..].chars().next() {
        at += match c {
            '"' | '\'' => string_end(&inner[at..]),
            '(' | '[' | '{' => match group_end(&inner[at..]) {
                Some(length) => length,
                None => return false,
            },
            ',' => return true,
            c => c.len_utf8(),
        };
    }
    inner.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use crate::template::source::rewrite::adapt;

    #[track_caller]
    fn check(source: &str, wanted: &str) {
        assert_eq!(adapt(source), wanted);
    }

    #[test]
    fn tuples_become_calls() {
        check("{{ (1, 2) }}", "{{ __tuple__(1, 2) }}");
        check(
            "{{ () }} {{ (1,) }} {{ (1) }}",
            "{{ __tuple__() }} {{ __tuple__(1,) }} {{ (1) }}",
        );
        check(
            "{% for a, b in [(1, 2)] %}",
            "{% for a, b in __iterable__(__list__(__tuple__(1, 2))) %}",
        );
        check(
            "{% if x in (1, f(2, 3)) %}",
            "{% if x in __tuple__(1, f(2, 3)) %}",
        );
    }

    #[test]
    fn lists_and_dicts_become_ones_that_can_be_changed() {
        check(
            "{% set x = [1, y[0], {'a': []}] %}",
            "{% set x = __bounded__(__list__(1, y[0], __dict__({'a': __list__()}))) %}",
        );
        check("{{ x[1] + f()['a'] }}", "{{ x[1] + f()['a'] }}");
        check(
            "{{ a if b in [1] else [2] }}",
            "{{ a if b in __list__(1) else __list__(2) }}",
        );
    }

    #[test]
    fn macros_take_what_their_bodies_read() {
        check(
            "{% macro m(a, b=[]) -%}{{ a }}{%- endmacro %}",
            "{% macro m(a, b=__list__()) -%}{{ a }}{%- endmacro %}{% set m = __macro__(m, false, false) %}",
        );
        check(
            "{% macro m(a, b=a) %}{{ varargs }}{% endmacro -%}",
            "{% macro m(a, b=__unset__, varargs=none) %}{% if b is __unset__ %}{% set b = a %}{% endif %}\
             {{ varargs }}{% endmacro %}{% set m = __macro__(m, true, false) -%}",
        );
    }

    #[test]
    fn parameters_may_have_the_names_of_the_engine() {
        check(
            "{% macro m(a, loop) %}{{ loop.index ~ a.loop ~ f(loop=loop) }}{% for x in loop.y %}{{ loop.last }}{% endfor %}\
             {% if loop == 1 %}{% set loop = 'loop' %}{% endif %}{% endmacro %}{{ loop }}",
            "{% macro m(a, __loop__) %}{{ __loop__.index ~ a.loop ~ f(loop=__loop__) }}\
             {% for x in __iterable__(__loop__.y) %}{{ loop.last }}{% endfor %}\
             {% if __loop__ == 1 %}{% set __loop__ = __bounded__('loop') %}{% endif %}\
             {% endmacro %}{% set m = __macro__(m, false, false) %}{{ loop }}",
        );
        check(
            "{% macro m(self=1) %}{% macro n(b) %}{{ self }}{% endmacro %}{% endmacro %}",
            "{% macro m(__self__=1) %}{% macro n(b) %}{{ __self__ }}{% endmacro %}{% set n = __macro__(n, false, false) %}\
             {% endmacro %}{% set m = __macro__(m, false, false) %}",
        );
    }

    #[test]
    fn what_an_included_template_sets_stays_there() {
        check(
            "{%- include ['a'] ignore missing -%}",
            "{%- with %}{% include __list__('a') ignore missing %}{% endwith -%}",
        );
    }

    #[test]
    fn divisors_become_calls() {
        check(
            "{{ 6 / 2 / -x.y|int(1) }}",
            "{{ 6 / __divisor__(2) / __divisor__(-(x.y)|int(1)) }}",
        );
        check("{{ 6 // 2 ~ 'a/b' }}", "{{ 6 // __divisor__(2) ~ 'a/b' }}");
        check("{{ 6 / 0 ** 0 }}", "{{ 6 / 0 ** __exponent__(0) }}");
    }

    #[test]
    fn signs_are_of_the_whole_operand() {
        check(
            "{{- -x.y + -d['a'] - f(-x.y) -}}{{ 1 - x.y -}}",
            "{{- -(x.y) + -(d['a']) - f(-(x.y)) -}}{{ 1 - x.y -}}",
        );
        check("{{ - l[0]|abs }}", "{{ - (l[0])|abs }}");
        check(
            "{{ +x.y }}{{ +1 }}{% else +%}",
            "{{ (x.y) }}{{ 1 }}{% else +%}",
        );
        for source in [
            "{{ -x }}{{ -1.5 }}{{ a -b.c }}{{ x.y-}}",
            "{%- if x.y -%}{%+ if x.y %}",
        ] {
            check(source, source);
        }
        check("{%- if -x.y -%}", "{%- if -(x.y) -%}");
    }

    #[test]
    fn exponents_become_calls_and_arguments_stay() {
        check(
            "{{ 2 ** -x|abs }}{{ f(**x) }}{{ f(1, **x) }}",
            "{{ 2 ** __exponent__(-x|abs) }}{{ f(**x) }}{{ f(1, **x) }}",
        );
    }

    #[test]
    fn what_loops_go_over_is_held_up() {
        check(
            "{%- for (a, b) in x if a -%}{% for c in [1] recursive %}",
            "{%- for (a, b) in __iterable__(x) if a -%}{% for c in __iterable__(__list__(1)) recursive %}",
        );
        check(
            "{% for a in (x if b else []) %}{% for c in 'if'-%}",
            "{% for a in __iterable__((x if b else __list__())) %}{% for c in __iterable__('if')-%}",
        );
    }

    #[test]
    fn a_group_behind_the_arguments_of_a_filter_calls() {
        check(
            "{{ x|attr('y')(1) (2)|f (3)(4) }}{{ x|f + g(1)(2) }}",
            "{{ x|attr('y')|__call__(1) |__call__(2)|f (3)|__call__(4) }}{{ x|f + g(1)(2) }}",
        );
    }

    #[test]
    fn operators_of_booleans_are_never_constant() {
        check(
            "{{ 1 and 0 or band }}",
            "{{ 1 and __true__ and 0 or __false__ or band }}",
        );
    }

    #[test]
    fn slices_become_calls_of_a_method() {
        check("{{ l[1:] }}", "{{ l.__sliced__(1, none) }}");
        check(
            "{{ d['a:b'][:n + 1][::-1].x }}",
            "{{ d['a:b'].__sliced__(none, n + 1).__sliced__(none, none, -1).x }}",
        );
        check("{{ l[{'a': 1}.a] }}", "{{ l[__dict__({'a': 1}).a] }}");
    }

    #[test]
    fn calls_targets_texts_and_raw_blocks_stay() {
        for source in [
            "{{ f(1, 2) }} {{ a.b(1, 2)(3, 4) }} {{ x|f(1, 2) }}",
            "{% set (a, b) = x %}{% macro m(a, b=1) %}{% call(a, b) m() %}",
            "{{ \"(1, 2)\" }} (1, 2) {# (1, 2) #}",
            "{% raw %}{{ (1, 2) }}{% endraw %}",
            "{{ {'a': {'b': 1}}}}",
            "{ {{",
        ] {
            check(source, source);
        }
    }

    #[test]
    fn names_of_filters_have_dots_and_texts_keep_theirs() {
        check(
            "a | b.c {{ x | b.c(y.z|d.e) ~ 'a|b.c' ~ f.g }}{# x|b.c #}",
            "a | b.c {{ x | b__dot__c(y.z|d__dot__e) ~ 'a|b.c' ~ f.g }}{# x|b.c #}",
        );
        check(
            "{%- filter b.c(x.y) | d.e -%}{% endfilter %}{% set z | b.c %}{% endset %}{% call m(x|b.c) %}",
            "{%- filter b__dot__c(x.y) | d__dot__e -%}{% endfilter %}{% set z | b__dot__c %}{% endset %}{% call m(x|b__dot__c) %}",
        );
        check(
            "{% raw %}{{ x|b.c }}{% endraw %}",
            "{% raw %}{{ x|b.c }}{% endraw %}",
        );
    }

    #[test]
    fn a_text_that_is_formatted_becomes_a_filter() {
        check(
            "{{ '%s' % x.y[0] ~ 'z' }}",
            "{{ ('%s'|__percent__(x.y[0])) ~ 'z' }}",
        );
        check(
            "{{ '%s %s' % (a, 1) }}",
            "{{ ('%s %s'|__percent__(__tuple__(a, 1))) }}",
        );
        check("{% if '%}' == x %}", "{% if '%}' == x %}");
    }
}
