//! What is inside string tokens: escapes, `{{ }}` placeholders, f-string fields.
//! Source: docs/reference/language.md § 1.5, § 1.6.

pub struct Unescaped {
    pub text: String,
    /// An unknown escape was kept as it is.
    pub invalid_escape: bool,
    /// Behind each escape: how far that is in the text, and in the source.
    behind_escapes: Vec<(usize, usize)>,
}

impl Unescaped {
    /// Where in the source the character at an offset of the text is, from the beginning of the string's body.
    pub fn source_offset(&self, offset: usize) -> usize {
        let n_before = self
            .behind_escapes
            .partition_point(|(of_text, _)| *of_text <= offset);
        let (of_text, of_source) = match n_before {
            0 => (0, 0),
            n_before => self.behind_escapes[n_before - 1],
        };
        of_source + offset - of_text
    }
}

/// Decodes escapes; a malformed `\x`, `\u`, `\N` is an error text.
pub fn unescape(body: &str) -> Result<Unescaped, String> {
    if !body.contains('\\') {
        return Ok(Unescaped {
            text: body.to_owned(),
            invalid_escape: false,
            behind_escapes: Vec::new(),
        });
    }
    let mut text = String::with_capacity(body.len());
    let mut invalid_escape = false;
    let mut behind_escapes = Vec::new();
    let mut rest = body;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(escape) = rest.chars().next() else {
            text.push('\\');
            break;
        };
        rest = &rest[escape.len_utf8()..];
        match escape {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            'a' => text.push('\x07'),
            'b' => text.push('\x08'),
            'f' => text.push('\x0c'),
            'v' => text.push('\x0b'),
            '\\' | '\'' | '"' => text.push(escape),
            '\n' => {}
            '0'..='7' => {
                let more = rest
                    .bytes()
                    .take(2)
                    .take_while(|b| (b'0'..=b'7').contains(b))
                    .count();
                let mut code = escape as u32 - '0' as u32;
                for digit in rest[..more].bytes() {
                    code = code * 8 + u32::from(digit - b'0');
                }
                rest = &rest[more..];
                text.push(char::from_u32(code).unwrap_or('\u{fffd}'));
            }
            'x' | 'u' | 'U' => {
                let n_digits = match escape {
                    'x' => 2,
                    'u' => 4,
                    _ => 8,
                };
                let digits = rest
                    .get(..n_digits)
                    .filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
                let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                let Some(c) = code.and_then(char::from_u32) else {
                    return Err(format!("malformed \\{escape} escape in a string"));
                };
                text.push(c);
                rest = &rest[n_digits..];
            }
            'N' => {
                let name = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
                let Some((name, after)) = name else {
                    return Err("malformed \\N character escape in a string".to_owned());
                };
                let Some(c) = unicode_names2::character(name) else {
                    return Err(format!("unknown Unicode character name `{name}`"));
                };
                text.push(c);
                rest = after;
            }
            other => {
                invalid_escape = true;
                text.push('\\');
                text.push(other);
            }
        }
        behind_escapes.push((text.len(), body.len() - rest.len()));
    }
    text.push_str(rest);
    Ok(Unescaped {
        text,
        invalid_escape,
        behind_escapes,
    })
}

/// A piece of a string with placeholders; the placeholder is the dotted text inside.
#[derive(Debug, PartialEq)]
pub enum Piece<'a> {
    Text(&'a str),
    Placeholder(&'a str),
}

pub fn placeholders(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut text_start = 0;
    let mut search = 0;
    while let Some(found) = text[search..].find("{{") {
        let open = search + found;
        match placeholder_at(text, open) {
            Some((name, end)) => {
                if open > text_start {
                    pieces.push(Piece::Text(&text[text_start..open]));
                }
                pieces.push(Piece::Placeholder(name));
                text_start = end;
                search = end;
            }
            None => search = open + 1,
        }
    }
    if text_start < text.len() {
        pieces.push(Piece::Text(&text[text_start..]));
    }
    pieces
}

fn placeholder_at(text: &str, open: usize) -> Option<(&str, usize)> {
    let inner = &text[open + 2..];
    let start = inner.len() - inner.trim_start().len();
    let name_length = inner[start..]
        .bytes()
        .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        .count();
    let name = &inner[start..start + name_length];
    let after = &inner[start + name_length..];
    let blank = after.len() - after.trim_start().len();
    if name.is_empty() || !after[blank..].starts_with("}}") {
        return None;
    }
    Some((name, open + 2 + start + name_length + blank + 2))
}

/// A piece of an f-string.
#[derive(Debug, PartialEq)]
pub enum FormatPiece {
    Text(String),
    Field {
        name: String,
        /// Where the name begins, in bytes of the whole text.
        at: usize,
        conversion: Option<char>,
        spec: Vec<FormatPiece>,
    },
}

/// Parses the grammar of Python's `string.Formatter`; the error is its reason.
pub fn format_pieces(text: &str, nesting: u32) -> Result<Vec<FormatPiece>, String> {
    pieces_from(text, 0, nesting)
}

/// The pieces of a part of a text that begins there.
fn pieces_from(text: &str, start: usize, nesting: u32) -> Result<Vec<FormatPiece>, String> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        literal.push_str(&rest[..at]);
        let brace = rest.as_bytes()[at];
        rest = &rest[at + 1..];
        if rest.as_bytes().first() == Some(&brace) {
            literal.push(brace as char);
            rest = &rest[1..];
            continue;
        }
        if brace == b'}' {
            return Err("Single '}' encountered in format string".to_owned());
        }
        if rest.is_empty() {
            return Err("Single '{' encountered in format string".to_owned());
        }
        let mut depth = 1;
        let end = rest.bytes().position(|byte| {
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        let Some(end) = end else {
            return Err("expected '}' before end of string".to_owned());
        };
        if nesting == 0 {
            return Err("Max string recursion exceeded".to_owned());
        }
        let field = &rest[..end];
        let at = start + text.len() - rest.len();
        rest = &rest[end + 1..];
        if !literal.is_empty() {
            pieces.push(FormatPiece::Text(std::mem::take(&mut literal)));
        }
        pieces.push(format_field(field, at, nesting)?);
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        pieces.push(FormatPiece::Text(literal));
    }
    Ok(pieces)
}

fn format_field(field: &str, at: usize, nesting: u32) -> Result<FormatPiece, String> {
    let mut in_brackets = false;
    let name_end = field
        .char_indices()
        .find(|(_, c)| {
            match c {
                '[' => in_brackets = true,
                ']' => in_brackets = false,
                _ => {}
            }
            !in_brackets && matches!(c, '!' | ':')
        })
        .map_or(field.len(), |(at, _)| at);
    let name = field[..name_end].to_owned();
    if name.contains('{') {
        return Err("unexpected '{' in field name".to_owned());
    }
    let mut after = &field[name_end..];
    let mut conversion = None;
    if let Some(text) = after.strip_prefix('!') {
        let Some(c) = text.chars().next() else {
            return Err("end of string while looking for conversion specifier".to_owned());
        };
        conversion = Some(c);
        after = &text[c.len_utf8()..];
        if !after.is_empty() && !after.starts_with(':') {
            return Err("expected ':' after conversion specifier".to_owned());
        }
    }
    let spec = match after.strip_prefix(':') {
        Some(spec) => pieces_from(spec, at + field.len() - spec.len(), nesting - 1)?,
        None => Vec::new(),
    };
    Ok(FormatPiece::Field {
        name,
        at,
        conversion,
        spec,
    })
}
