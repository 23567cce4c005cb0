//! Python's regular expressions by way of `fancy_regex`.

use std::sync::{Arc, OnceLock};

use fancy_regex::{CompileError, Error, Regex, RegexBuilder};

/// The pattern of `matching /…/`: cheap to clone, compiled at most once.
#[derive(Debug, Clone)]
pub struct Pattern(Arc<(Box<str>, OnceLock<Option<Regex>>)>);

impl Pattern {
    /// # Errors
    /// What is wrong with it, in words for the author of the model.
    pub fn checked(pattern: &str) -> Result<Self, String> {
        let regex = compile(pattern, true)?;
        Ok(Self(Arc::new((pattern.into(), Some(regex).into()))))
    }

    /// One of ours, compiled when the first value is matched: most models use few of them.
    pub fn builtin(pattern: &str) -> Self {
        Self(Arc::new((pattern.into(), OnceLock::new())))
    }

    pub fn text(&self) -> &str {
        &self.0.0
    }

    /// Whether the pattern matches from the start, as `re.match` does. `None`: matching took too
    /// many steps.
    pub fn is_match(&self, text: &str) -> Option<bool> {
        let (pattern, compiled) = &*self.0;
        let regex = compiled.get_or_init(|| compile(pattern, true).ok());
        is_match(regex.as_ref()?, text)
    }
}

/// Steps of one match; a hostile pattern ends after some milliseconds.
const MAX_STEPS: usize = 1_000_000;
/// Bytes of one compiled pattern.
const MAX_BYTES: usize = 16 << 20;

/// Compiles a pattern of Python's `re`; `at_start` as `re.match`, else as `re.search`.
pub fn compile(pattern: &str, at_start: bool) -> Result<Regex, String> {
    let checked = crate::pattern::syntax::check(pattern)?;
    let ascii = checked.flags.contains('a');
    let translated = translate(checked.body, ascii, checked.flags.contains('m'));
    let start = if at_start { r"\A" } else { "" };
    let flags: String = checked
        .flags
        .chars()
        .filter(|c| "imsx".contains(*c))
        .collect();
    let full = match flags.as_str() {
        "" => format!("{start}(?:{translated})"),
        // A comment of the pattern must not hide the end of the group.
        flags if flags.contains('x') => format!("{start}(?{flags}:{translated}\n)"),
        flags => format!("{start}(?{flags}:{translated})"),
    };
    RegexBuilder::new(&full)
        .backtrack_limit(MAX_STEPS)
        .delegate_size_limit(MAX_BYTES)
        .build()
        .map_err(|error| match error {
            Error::CompileError(CompileError::LookBehindNotConst) => {
                "look-behind requires fixed-width pattern".to_owned()
            }
            error => error.to_string(),
        })
}

/// `None`: matching took too many steps.
pub fn is_match(regex: &Regex, text: &str) -> Option<bool> {
    regex.is_match(text).ok()
}

/// Rewrites what the two dialects understand differently.
fn translate(pattern: &str, ascii: bool, multiline: bool) -> String {
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut at = 0;
    let mut in_class = false;
    let mut class_start = 0;
    let mut n_groups = 0;
    let mut names = Vec::new();
    while at < chars.len() {
        let c = chars[at];
        match c {
            '\\' => {
                if let Some((code, length)) = octal(&chars[at + 1..], in_class) {
                    out.push_str(&format!("\\x{{{code:x}}}"));
                    at += 1 + length;
                    continue;
                }
                let next = chars.get(at + 1).copied();
                if let Some(class) = next.and_then(|letter| class(letter, in_class, ascii)) {
                    out.push_str(class);
                    at += 2;
                    continue;
                }
                match next {
                    Some('Z') if !in_class => out.push_str(r"\z"),
                    Some(
                        c @ ('<' | '>' | '_' | '"' | '\'' | '%' | '@' | '!' | ',' | ';' | '=' | ':'
                        | '`' | '/'),
                    ) => {
                        out.push(c);
                    }
                    Some(c) => {
                        out.push('\\');
                        out.push(c);
                    }
                    None => out.push('\\'),
                }
                at += 2;
                continue;
            }
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if chars.get(at + 1) == Some(&'^') {
                    out.push('^');
                    at += 1;
                }
                if chars.get(at + 1) == Some(&']') {
                    out.push_str(r"\]");
                    at += 1;
                }
                class_start = at + 1;
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '[' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            '-' if in_class => {
                let first = at == class_start;
                let last = chars.get(at + 1) == Some(&']');
                out.push_str(if first || last { r"\-" } else { "-" });
            }
            '(' if !in_class => {
                at += group(&chars[at..], &mut n_groups, &mut names, &mut out);
                continue;
            }
            '$' if !in_class && multiline => out.push('$'),
            // At the very end nothing is left that a consumed line feed could be missed by, and without a look-ahead
            // matching takes linear time.
            '$' if !in_class && chars[at + 1..].iter().all(|c| *c == ')') => {
                out.push_str(r"\n?\z");
            }
            '$' if !in_class => out.push_str(r"(?=\n?\z)"),
            '{' if !in_class => {
                let rest: String = chars[at + 1..].iter().take_while(|c| **c != '}').collect();
                let closed = chars.get(at + 1 + rest.chars().count()) == Some(&'}');
                let bounds = rest.chars().all(|c| c.is_ascii_digit() || c == ',')
                    && rest.matches(',').count() <= 1;
                if closed && bounds && !rest.is_empty() {
                    out.push_str(if rest.starts_with(',') { "{0" } else { "{" });
                } else {
                    out.push_str(r"\{");
                }
            }
            _ => out.push(c),
        }
        at += 1;
    }
    out
}

/// A class of characters as Python has it. `ascii`: the pattern has the flag `(?a)`. For Python all numbers are of a word, marks and
/// other connectors than `_` are not; and four separators of ASCII are blanks.
fn class(letter: char, in_class: bool, ascii: bool) -> Option<&'static str> {
    Some(match (letter, ascii, in_class) {
        ('d', true, true) => "0-9",
        ('d', true, false) => "[0-9]",
        ('D', true, _) => "[^0-9]",
        ('w', true, true) => "a-zA-Z0-9_",
        ('w', true, false) => "[a-zA-Z0-9_]",
        ('W', true, _) => "[^a-zA-Z0-9_]",
        ('s', true, true) => r" \t-\r",
        ('s', true, false) => r"[ \t-\r]",
        ('S', true, _) => r"[^ \t-\r]",
        ('w', false, true) => r"\p{L}\p{N}_",
        ('w', false, false) => r"[\p{L}\p{N}_]",
        ('W', false, _) => r"[^\p{L}\p{N}_]",
        ('s', false, true) => r"\s\x1c-\x1f",
        ('s', false, false) => r"[\s\x1c-\x1f]",
        ('S', false, _) => r"[^\s\x1c-\x1f]",
        _ => return None,
    })
}

/// A character by its octal number, behind the backslash: its code, and how many digits that has. Outside of sets one to three
/// digits behind a `0`, or three digits; what is shorter refers to a group.
fn octal(chars: &[char], in_class: bool) -> Option<(u32, usize)> {
    let digits = chars.iter().take(3).take_while(|c| c.is_digit(8));
    let digits: String = digits.collect();
    let is_octal = match in_class {
        true => !digits.is_empty(),
        false => digits.starts_with('0') || digits.len() == 3,
    };
    let code = u32::from_str_radix(&digits, 8).ok()?;
    is_octal.then_some((code, digits.len()))
}

/// The start of a group: names become numbers, since names and numbers do not go together. Gives what was read.
fn group(
    chars: &[char],
    n_groups: &mut usize,
    names: &mut Vec<(String, usize)>,
    out: &mut String,
) -> usize {
    let start: String = chars.iter().take(4).collect();
    let name = |from: usize, end: char| -> String {
        chars[from..].iter().take_while(|c| **c != end).collect()
    };
    let number = |names: &[(String, usize)], name: &str| {
        let known = names.iter().find(|(known, _)| known == name);
        known.map_or_else(|| name.to_owned(), |(_, number)| number.to_string())
    };
    if start == "(?P<" {
        *n_groups += 1;
        let name = name(4, '>');
        let length = name.chars().count();
        names.push((name, *n_groups));
        out.push('(');
        length + 5
    } else if start == "(?P=" {
        let name = name(4, ')');
        out.push_str(&format!("(?:\\{})", number(names, &name)));
        name.chars().count() + 5
    } else if start.starts_with("(?(") {
        let name = name(3, ')');
        out.push_str(&format!("(?({})", number(names, &name)));
        name.chars().count() + 4
    } else if start.starts_with("(?#") {
        name(3, ')').chars().count() + 4
    } else {
        *n_groups += usize::from(!start.starts_with("(?"));
        out.push('(');
        1
    }
}

#[cfg(test)]
mod tests {
    use crate::pattern::{compile, is_match};

    /// What a hostile pattern says of a text on which it would try everything.
    #[track_caller]
    fn check(pattern: &str, wanted: Option<bool>) {
        let regex = compile(pattern, true).expect("it is a pattern");
        let text = "a".repeat(20_000) + "!";
        assert_eq!(is_match(&regex, &text), wanted, "{pattern}");
    }

    #[test]
    fn nested_repeats_take_linear_time() {
        check("(a+)+$", Some(false));
        check("(a|a)*$", Some(false));
        check("(a*)*b", Some(false));
    }

    #[test]
    fn what_has_to_try_everything_is_given_up() {
        check(r"((a+)+)\1$", None);
        check(r"(?:(?=a)a+)+$", None);
    }

    #[test]
    fn names_and_numbers_of_groups_go_together() {
        let regex = compile(r"(?P<n>a)(b)\1(?P=n)\2(?(n)c|d)$", true).expect("it is a pattern");
        assert_eq!(is_match(&regex, "abaabc"), Some(true));
        assert_eq!(is_match(&regex, "abaabd"), Some(false));
    }

    #[test]
    fn a_pattern_that_needs_too_much_memory_is_refused() {
        assert!(compile(r"((\w{1000}){1000}){1000}", true).is_err());
        assert!(compile(&"(".repeat(100_000), true).is_err());
    }
}
