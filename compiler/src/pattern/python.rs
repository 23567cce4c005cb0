//! Python's regular expressions by way of `fancy_regex`.

use std::sync::{Arc, OnceLock};

use fancy_regex::{CompileError, Error, ParseError, Regex, RegexBuilder};

/// The pattern of `matching /…/`: cheap to clone, compiled at most once.
#[derive(Debug, Clone)]
pub struct Pattern(Arc<(Box<str>, OnceLock<Option<Regex>>)>);

impl Pattern {
    /// # Errors
    /// What is wrong with it, in words for the author of the model.
    pub fn checked(pattern: &str) -> Result<Self, String> {
        if is_plain(pattern) {
            crate::pattern::syntax::check(pattern)?;
            return Ok(Self::builtin(pattern));
        }
        let regex = compile(pattern, true)?;
        Ok(Self(Arc::new((pattern.into(), Some(regex).into()))))
    }

    /// One that is a pattern for sure, compiled when the first value is matched: most models use few of them.
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

/// How much all repetitions of a plain pattern may come to, in pieces such as `\w`: a piece takes some 25 KiB.
const MAX_PLAIN_SIZE: usize = 256;

/// Whether a pattern that Python takes is sure to compile here, which takes longer than to see it: letters, digits and signs,
/// sets of such, `.`, the usual classes, groups without `(?`, and repetitions that come to little.
fn is_plain(pattern: &str) -> bool {
    let body = pattern.strip_prefix('^').unwrap_or(pattern);
    let body = body.strip_suffix('$').unwrap_or(body).as_bytes();
    let mut size = 1;
    let mut n_pieces = 1;
    let mut in_set = false;
    let mut at = 0;
    while let Some(byte) = body.get(at) {
        let next = body.get(at + 1);
        match byte {
            // A set of nothing but signs that mean themselves there; where it may not be so, its first one says so.
            b'[' if in_set || matches!(next, Some(b'^' | b']')) => return false,
            b'[' => in_set = true,
            b']' => in_set = false,
            b'\\' if in_set || !next.is_some_and(|c| b"dws.-/+*?()[]{}|^$".contains(c)) => {
                return false;
            }
            b'\\' => {
                n_pieces += 1;
                at += 1;
            }
            b'^' | b'$' => return false,
            // A group that may be empty is seldom, and not worth a thought.
            b'(' | b'|' if matches!(next, Some(b'?' | b')' | b'|')) => return false,
            b'{' if !in_set => {
                let digits = body[at + 1..].iter().take_while(|c| **c != b'}');
                let bounds: Vec<u8> = digits.copied().collect();
                let most = bounds.rsplit(|c| *c == b',').next().unwrap_or_default();
                let most = std::str::from_utf8(most).ok();
                let Some(most) = most.and_then(|most| most.parse::<u16>().ok()) else {
                    return false;
                };
                size *= usize::from(most.max(1));
                at += 1 + bounds.len();
            }
            b'{' | b'}' | b'&' | b'~' => return false,
            b'.' => n_pieces += 1,
            byte if byte.is_ascii_alphanumeric() => {}
            byte if b" !\"#%'()*+,-/:;<=>?@_`|".contains(byte) => {}
            _ => return false,
        }
        at += 1;
        if size * n_pieces > MAX_PLAIN_SIZE || body.len() > MAX_PLAIN_SIZE {
            return false;
        }
    }
    true
}

/// Compiles a pattern of Python's `re`; `at_start` as `re.match`, else as `re.search`.
pub fn compile(pattern: &str, at_start: bool) -> Result<Regex, String> {
    let checked = crate::pattern::syntax::check(pattern)?;
    let ascii = checked.flags.contains('a');
    let scope = Scope {
        ascii,
        multiline: checked.flags.contains('m'),
    };
    let start = if at_start { r"\A" } else { "" };
    let flags: String = checked
        .flags
        .chars()
        .filter(|c| "imsx".contains(*c))
        .collect();
    let build = |translated: &str| {
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
            .map_err(Box::new)
    };
    let is_not_repeatable =
        |error: &Error| matches!(error, Error::ParseError(_, ParseError::TargetNotRepeatable));
    let built = match build(&translate(checked.body, scope, false)) {
        Err(error) if is_not_repeatable(&error) => build(&translate(checked.body, scope, true)),
        built => built,
    };
    built.map_err(|error| match *error {
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

/// What flags say of a group and of the groups in it.
#[derive(Clone, Copy)]
struct Scope {
    ascii: bool,
    multiline: bool,
}

/// A group that is not closed yet.
struct OpenGroup {
    /// Where it begins in the translation.
    start: usize,
    /// Whether it may be nothing but conditions such as `(?=a)` or `(?:^)`.
    may_be_empty: bool,
    /// What held before it.
    before: Scope,
}

impl OpenGroup {
    /// The group that begins there; comments and references are closed at once.
    fn at(chars: &[char], start: usize, before: Scope) -> Option<OpenGroup> {
        let first: String = chars.iter().take(4).collect();
        let is_closed = first.starts_with("(?#") || first == "(?P=";
        (!is_closed).then(|| OpenGroup {
            start,
            may_be_empty: first.starts_with("(?") && first != "(?P<",
            before,
        })
    }

    /// Gives the group, which ends here, a branch that never matches.
    fn make_repeatable(&self, out: &mut String) {
        if self.may_be_empty {
            out.insert_str(self.start, "(?:");
            out.push_str("|(?!))");
        }
    }
}

/// Rewrites what the two dialects understand differently. `repeats_conditions`: what is repeated may match no character, as Python
/// takes it; such a group gets another branch that never matches, since what has branches can be repeated.
fn translate(pattern: &str, mut scope: Scope, repeats_conditions: bool) -> String {
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut at = 0;
    let mut in_class = false;
    let mut class_start = 0;
    let mut n_groups = 0;
    let mut names = Vec::new();
    let mut open: Vec<OpenGroup> = Vec::new();
    while at < chars.len() {
        let c = chars[at];
        let Scope { ascii, multiline } = scope;
        match c {
            '\\' => {
                let named = named_character(&chars[at + 1..]);
                if let Some((code, length)) = named.or_else(|| octal(&chars[at + 1..], in_class)) {
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
                push_escape(next, in_class, &mut out);
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
                open.extend(OpenGroup::at(&chars[at..], out.len(), scope));
                at += match local_flags(&chars[at..], &mut scope) {
                    Some((group, length)) => {
                        out.push_str(&group);
                        length
                    }
                    None => group(&chars[at..], &mut n_groups, &mut names, &mut out),
                };
                continue;
            }
            ')' if !in_class => {
                out.push(')');
                if let Some(group) = open.pop() {
                    scope = group.before;
                    let is_repeated = matches!(chars.get(at + 1), Some('*' | '+' | '?' | '{'));
                    if repeats_conditions && is_repeated {
                        group.make_repeatable(&mut out);
                    }
                }
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

/// A backslash with what follows it, which is no class and no number.
fn push_escape(next: Option<char>, in_class: bool, out: &mut String) {
    match next {
        Some('Z') if !in_class => out.push_str(r"\z"),
        Some(
            c
            @ ('<' | '>' | '_' | '"' | '\'' | '%' | '@' | '!' | ',' | ';' | '=' | ':' | '`' | '/'),
        ) => {
            out.push(c);
        }
        Some(c) => {
            out.push('\\');
            out.push(c);
        }
        None => out.push('\\'),
    }
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

/// `N{NAME}` behind a backslash: the number of the character, and how long that is.
fn named_character(chars: &[char]) -> Option<(u32, usize)> {
    if !chars.starts_with(&['N', '{']) {
        return None;
    }
    let name: String = chars[2..].iter().take_while(|c| **c != '}').collect();
    let length = name.chars().count() + 3;
    unicode_names2::character(&name).map(|c| (u32::from(c), length))
}

/// The start of a group with flags of its own, and how long it is. Which alphabet counts is no flag of the other dialect.
fn local_flags(chars: &[char], scope: &mut Scope) -> Option<(String, usize)> {
    let text: String = chars.iter().take_while(|c| **c != ':').collect();
    let letters = text.strip_prefix("(?")?;
    if letters.is_empty() || !letters.chars().all(|c| "aimsux-".contains(c)) {
        return None;
    }
    let (on, off) = letters.split_once('-').unwrap_or((letters, ""));
    scope.ascii = on.contains('a') || scope.ascii && !on.contains('u');
    scope.multiline = on.contains('m') || scope.multiline && !off.contains('m');
    let kept = letters.replace(['a', 'u'], "");
    Some((format!("(?{kept}:"), text.chars().count() + 1))
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
    fn what_is_taken_for_plain_compiles() {
        let pieces = [
            "a",
            "b",
            "7",
            "_",
            ".",
            r"\d",
            r"\w",
            r"\.",
            r"\s",
            "[a-z0-9-]",
            "[^a]",
            "[",
            "]",
            "(",
            ")",
            "(?:",
            "(a|b)",
            "()",
            "|",
            "*",
            "+",
            "?",
            "{2}",
            "{1,63}",
            "{,4}",
            "{2,}",
            "{2000}",
            "-",
            "/",
            "^",
            "$",
            r"\",
            r"\1",
            "é",
            "[]",
            "[a",
            "z-a]",
            "#",
            " ",
            "(?i)",
        ];
        // The same in each run: what matters is that there are many.
        let mut state = 1_u64;
        let mut n_plain = 0;
        for _ in 0..20_000 {
            let mut pattern = String::new();
            for _ in 0..state % 7 + 1 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                pattern.push_str(pieces[(state >> 33) as usize % pieces.len()]);
            }
            if super::is_plain(&pattern) && crate::pattern::syntax::check(&pattern).is_ok() {
                n_plain += 1;
                assert!(compile(&pattern, true).is_ok(), "{pattern}");
            }
        }
        assert!(n_plain > 2_000, "{n_plain} are plain");
        for pattern in [
            "^[a-z][a-z0-9_-]{0,62}$",
            r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$",
            r"^\d+\.\d+$",
            "^(1|10|40|100)G$",
            "^[A-Z]+-[0-9]+(-[a-z]+)*$",
        ] {
            assert!(super::is_plain(pattern), "{pattern}");
            assert!(compile(pattern, true).is_ok(), "{pattern}");
        }
        for pattern in [
            r"(\w{64}){64}",
            "(?i)a",
            "(a)(?=b)",
            r"(a)\1",
            "[^a]",
            "a$b",
            "(|a)*",
            "é",
        ] {
            assert!(!super::is_plain(pattern), "{pattern}");
        }
    }

    #[test]
    fn a_mistake_in_a_plain_pattern_is_seen_at_once() {
        for pattern in ["a**", "(a", "[z-a]", "*a", "a{3,2}"] {
            assert_eq!(
                super::Pattern::checked(pattern).err(),
                compile(pattern, true).err(),
                "{pattern}"
            );
            assert!(super::Pattern::checked(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn names_and_numbers_of_groups_go_together() {
        let regex = compile(r"(?P<n>a)(b)\1(?P=n)\2(?(n)c|d)$", true).expect("it is a pattern");
        assert_eq!(is_match(&regex, "abaabc"), Some(true));
        assert_eq!(is_match(&regex, "abaabd"), Some(false));
    }

    #[test]
    fn conditions_can_be_repeated() {
        for (pattern, text, wanted) in [
            ("(?:(?=a))*b", "b", true),
            ("(?=a){2}ab", "ab", true),
            ("(?=a){2}ab", "cb", false),
            ("(?!a)+b", "b", true),
            ("(?!a)+ab", "ab", false),
            ("c?(?<=c)*b", "b", true),
            ("c?(?<=c)+b", "b", false),
            ("(?:^)?(?:)*a", "a", true),
            (r"(?:\b)+a", "a", true),
            ("(?=(a))?b*a", "ba", true),
        ] {
            let regex = compile(pattern, true).expect(pattern);
            assert_eq!(is_match(&regex, text), Some(wanted), "{pattern} {text}");
        }
    }

    #[test]
    fn flags_hold_for_their_group() {
        for (pattern, text, wanted) in [
            (r"(?a:\w+)$", "ab", true),
            (r"(?a:\w+)$", "ab\u{e9}", false),
            (r"(?a:\w)\w$", "a\u{e9}", true),
            (r"(?a)(?u:\w)\w$", "\u{e9}a", true),
            (r"(?a)(?u:\w)\w$", "\u{e9}\u{e9}", false),
            (r"(?m:a$)\nb", "a\nb", true),
            (r"(?m:a$\n)b$c", "a\nb\nc", false),
            (r"(?m)(?-m:a$)\nb", "a\nb", false),
            (r"(?ai:A\w)$", "ab", true),
            (
                r"\N{BULLET}[\N{DIGIT ONE}-\N{DIGIT THREE}]",
                "\u{2022}2",
                true,
            ),
        ] {
            let regex = compile(pattern, true).expect(pattern);
            assert_eq!(is_match(&regex, text), Some(wanted), "{pattern} {text}");
        }
        for pattern in [
            "(?L)a",
            "(?au)a",
            "(a)(?(1)b|c|d)",
            "(?L:a)",
            "(?au:a)",
            "(?-a:b)",
            "(?i-i:a)",
            "(?i-:a)",
            r"\N",
            r"\N{}",
            r"\N{NO SUCH}",
        ] {
            assert!(compile(pattern, true).is_err(), "{pattern}");
        }
    }

    #[test]
    fn a_pattern_that_needs_too_much_memory_is_refused() {
        assert!(compile(r"((\w{1000}){1000}){1000}", true).is_err());
        assert!(compile(&"(".repeat(100_000), true).is_err());
    }
}
