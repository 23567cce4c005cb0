//! Text to tokens. Never fails: what is no token becomes [`Kind::Illegal`]. Source: docs/reference/language.md § 1.2,
//! in whose order the rules are tried.

use super::token::{Cmp, Keyword, Kind, Token};

pub fn tokens(text: &str) -> Vec<Token> {
    let mut lexer = Lexer {
        bytes: text.as_bytes(),
        at: 0,
    };
    let mut tokens = Vec::with_capacity(text.len() / 4 + 2);
    while lexer.at < lexer.bytes.len() {
        let start = lexer.at;
        let kind = lexer.next();
        // An illegal character is a whole one, however many bytes it has.
        while lexer.at < text.len() && !text.is_char_boundary(lexer.at) {
            lexer.at += 1;
        }
        debug_assert!(lexer.at > start);
        tokens.push(Token {
            kind,
            start: start as u32,
            end: lexer.at as u32,
        });
    }
    let end = text.len() as u32;
    tokens.push(Token {
        kind: Kind::End,
        start: end,
        end,
    });
    tokens
}

struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn take(&mut self, n_bytes: usize, kind: Kind) -> Kind {
        self.at += n_bytes;
        kind
    }

    fn next(&mut self) -> Kind {
        let byte = self.peek(0);
        let next = self.peek(1);
        match byte {
            b' ' | b'\t' | b'\n' => {
                while matches!(self.peek(0), b' ' | b'\t' | b'\n') {
                    self.at += 1;
                }
                Kind::Blank
            }
            b'f' | b'r' if matches!(next, b'"' | b'\'') => {
                if let Some(end) = self.string_end(self.at + 1) {
                    self.at = end;
                    return if byte == b'f' {
                        Kind::Format
                    } else {
                        Kind::Raw
                    };
                }
                self.word()
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word(),
            b':' if next == b':' => self.take(2, Kind::Sep),
            b'-' if matches!(next, b'-' | b'>') => self.take(2, Kind::Rel),
            b'<' if next == b'-' => self.take(2, Kind::Rel),
            b'!' if next == b'=' => self.take(2, Kind::Cmp(Cmp::Ne)),
            b'=' if next == b'=' => self.take(2, Kind::Cmp(Cmp::Eq)),
            b'>' if next == b'=' => self.take(2, Kind::Cmp(Cmp::Ge)),
            b'<' if next == b'=' => self.take(2, Kind::Cmp(Cmp::Le)),
            b'<' => self.take(1, Kind::Cmp(Cmp::Lt)),
            b'>' => self.take(1, Kind::Cmp(Cmp::Gt)),
            b'+' if next == b'=' => self.take(2, Kind::PlusEquals),
            b'#' => {
                while self.at < self.bytes.len() && self.peek(0) != b'\n' {
                    self.at += 1;
                }
                Kind::Comment
            }
            b'"' | b'\'' => self.string(),
            b'0'..=b'9' | b'-' | b'.' => self.number(),
            b'*' if next == b'*' => self.take(2, Kind::StarStar),
            b'+' | b'/' | b':' | b'[' | b']' | b'(' | b')' | b'=' | b',' | b'{' | b'}' | b'?'
            | b'*' | b'%' => self.take(1, Kind::Punct(byte)),
            _ => self.take(1, Kind::Illegal),
        }
    }

    fn word(&mut self) -> Kind {
        let start = self.at;
        while is_word(self.peek(0)) {
            self.at += 1;
        }
        let text = &self.bytes[start..self.at];
        if text == b"matching"
            && let Some(end) = self.regex_end()
        {
            self.at = end;
            return Kind::Regex;
        }
        if text[0].is_ascii_uppercase() {
            return Kind::Cid;
        }
        match Keyword::of(text) {
            Some(keyword) => Kind::Keyword(keyword),
            None => Kind::Id,
        }
    }

    /// After `matching`: the end of a following `/regex/`.
    fn regex_end(&self) -> Option<usize> {
        let mut at = self.at;
        while matches!(self.bytes.get(at), Some(b' ' | b'\t' | b'\n' | 0x0b | 0x0c)) {
            at += 1;
        }
        if at == self.at || self.bytes.get(at) != Some(&b'/') {
            return None;
        }
        at += 1;
        let body = at;
        loop {
            match self.bytes.get(at)? {
                b'/' if at > body => return Some(at + 1),
                b'/' | b'\n' => return None,
                b'\\' => {
                    if matches!(self.bytes.get(at + 1), None | Some(b'\n')) {
                        return None;
                    }
                    at += 2;
                }
                _ => at += 1,
            }
        }
    }

    fn string(&mut self) -> Kind {
        if let Some(end) = self.multi_line_end() {
            self.at = end;
            return Kind::MultiLine;
        }
        match self.string_end(self.at) {
            Some(end) => {
                self.at = end;
                Kind::Str
            }
            None => self.take(1, Kind::Illegal),
        }
    }

    /// End of the single-line string whose delimiter is at `start`.
    fn string_end(&self, start: usize) -> Option<usize> {
        let delimiter = *self.bytes.get(start)?;
        let mut at = start + 1;
        loop {
            match self.bytes.get(at)? {
                b'\n' => return None,
                b'\\' => {
                    if matches!(self.bytes.get(at + 1), None | Some(b'\n')) {
                        return None;
                    }
                    at += 2;
                }
                byte if *byte == delimiter => return Some(at + 1),
                _ => at += 1,
            }
        }
    }

    fn multi_line_end(&self) -> Option<usize> {
        let quotes = |at: usize| {
            self.bytes[at.min(self.bytes.len())..]
                .iter()
                .take(5)
                .take_while(|b| **b == b'"')
                .count()
        };
        let opening = quotes(self.at);
        // The opening run is as long as it can be, but gives quotes back when nothing closes it then.
        for open in (3..=opening).rev() {
            let mut at = self.at + open;
            while at < self.bytes.len() {
                let run = quotes(at);
                if run >= 3 {
                    return Some(at + run);
                }
                at += run.max(1);
            }
        }
        None
    }

    fn number(&mut self) -> Kind {
        let digits = |from: usize| {
            self.bytes[from.min(self.bytes.len())..]
                .iter()
                .take_while(|b| b.is_ascii_digit())
                .count()
        };
        let sign = usize::from(self.peek(0) == b'-');
        let whole = digits(self.at + sign);
        let dot = self.at + sign + whole;
        if self.bytes.get(dot) == Some(&b'.') {
            let fraction = digits(dot + 1);
            if fraction > 0 {
                self.at = dot + 1 + fraction;
                return Kind::Float;
            }
        }
        if whole > 0 {
            self.at = dot;
            return Kind::Int;
        }
        let byte = self.peek(0);
        self.take(1, Kind::Punct(byte))
    }
}
