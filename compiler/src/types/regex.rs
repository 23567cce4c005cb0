//! Python's regular expressions by way of `fancy_regex`.

use fancy_regex::Regex;

pub fn check(pattern: &str) -> Result<(), String> {
    compile(pattern, true).map(|_| ())
}

/// Compiles a pattern of Python's `re`; `at_start` as `re.match`, else as `re.search`.
pub fn compile(pattern: &str, at_start: bool) -> Result<Regex, String> {
    let translated = translate(pattern);
    let full = if at_start {
        format!(r"\A(?:{translated})")
    } else {
        translated
    };
    Regex::new(&full).map_err(|error| error.to_string())
}

/// `None`: matching took too many steps.
pub fn is_match(regex: &Regex, text: &str) -> Option<bool> {
    regex.is_match(text).ok()
}

/// Rewrites what the two dialects understand differently.
fn translate(pattern: &str) -> String {
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut at = 0;
    let mut in_class = false;
    let mut class_start = 0;
    while at < chars.len() {
        let c = chars[at];
        match c {
            '\\' => {
                let next = chars.get(at + 1).copied();
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
            '$' if !in_class => out.push_str(r"(?=\n?\z)"),
            '{' if !in_class => {
                let rest: String = chars[at + 1..].iter().take_while(|c| **c != '}').collect();
                let closed = chars.get(at + 1 + rest.chars().count()) == Some(&'}');
                let bounds = rest.chars().all(|c| c.is_ascii_digit() || c == ',')
                    && rest.matches(',').count() <= 1;
                if closed && bounds && rest != "," && !rest.is_empty() {
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
