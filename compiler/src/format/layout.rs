//! Where lines end and where blanks stand.

use crate::syntax::token::{Kind, Token};
use crate::syntax::{TokenRole, TokenRoles};

/// One level of blocks or brackets.
const INDENT: usize = 4;

/// A token with what is around it in the source.
#[derive(Clone, Copy)]
struct Piece<'a> {
    kind: Kind,
    text: &'a str,
    mark: Option<TokenRole>,
    /// Ends of lines before it.
    n_lines: usize,
    /// Whether the elements of a bracket that opens are on lines of their own.
    is_broken: bool,
}

impl Piece<'_> {
    fn is(&self, byte: u8) -> bool {
        self.kind == Kind::Punct(byte)
    }

    fn opens(&self) -> bool {
        matches!(self.kind, Kind::Punct(b'(' | b'[' | b'{'))
    }

    fn closes(&self) -> bool {
        matches!(self.kind, Kind::Punct(b')' | b']' | b'}'))
    }

    fn is_comment(&self) -> bool {
        self.kind == Kind::Comment
    }

    fn is_name(&self) -> bool {
        matches!(self.kind, Kind::Id | Kind::Cid)
    }

    /// First of a line by what it is.
    fn starts_line(&self) -> bool {
        matches!(self.mark, Some(TokenRole::Start | TokenRole::Close))
    }
}

pub(super) fn lay_out(text: &str, tokens: &[Token], marks: &TokenRoles) -> String {
    let mut pieces = pieces(text, tokens, marks);
    mark_broken(&mut pieces);
    let pieces = with_commas(&pieces);
    let mut writer = Writer {
        out: String::with_capacity(text.len() + text.len() / 8),
        level: 0,
        indent: 0,
        brackets: Vec::new(),
        ternaries: vec![0],
    };
    for at in 0..pieces.len() {
        writer.write(&pieces, at);
    }
    if !writer.out.is_empty() {
        writer.out.push('\n');
    }
    writer.out
}

fn pieces<'a>(text: &'a str, tokens: &[Token], marks: &TokenRoles) -> Vec<Piece<'a>> {
    let mut pieces = Vec::with_capacity(tokens.len());
    let mut n_lines = 0;
    for token in tokens {
        let slice = &text[token.start as usize..token.end as usize];
        match token.kind {
            Kind::Blank => n_lines = slice.matches('\n').count(),
            Kind::End => {}
            kind => {
                pieces.push(Piece {
                    kind,
                    text: if kind == Kind::Comment {
                        slice.trim_end()
                    } else {
                        slice
                    },
                    mark: marks.get(&token.start).copied(),
                    n_lines,
                    is_broken: false,
                });
                n_lines = 0;
            }
        }
    }
    pieces
}

/// Brackets with an end of line directly among their elements.
fn mark_broken(pieces: &mut [Piece]) {
    let mut open: Vec<usize> = Vec::new();
    for at in 0..pieces.len() {
        let piece = pieces[at];
        let after_comment = at > 0 && pieces[at - 1].is_comment();
        if let Some(innermost) = open.last().copied() {
            let bracket = pieces[innermost];
            let is_empty = piece.closes() && innermost + 1 == at;
            let counts = piece.closes() || !is_joined(pieces, at);
            let tight = bracket.mark == Some(TokenRole::Multiplicity);
            if after_comment || piece.n_lines > 0 && counts && !is_empty && !tight {
                pieces[innermost].is_broken = true;
            }
        }
        if piece.opens() {
            open.push(at);
        } else if piece.closes() {
            open.pop();
        }
    }
}

/// Whether a token belongs to the line of the one before, wherever the author put it.
fn is_joined(pieces: &[Piece], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).map(|at| pieces[at]) else {
        return false;
    };
    let piece = pieces[at];
    if piece.is_comment() || before.is_comment() || piece.starts_line() {
        return false;
    }
    matches!(piece.kind, Kind::Punct(b',' | b'.') | Kind::Sep)
        || matches!(before.kind, Kind::Punct(b'.') | Kind::Sep)
        || piece.is(b'(') && before.is_name()
        || piece.is(b'[')
            && piece.mark != Some(TokenRole::Multiplicity)
            && (before.is_name() || before.is(b']'))
        || matches!(piece.mark, Some(TokenRole::Nullable | TokenRole::Colon))
        || piece.is(b')') && before.is(b'(')
        || piece.is(b']') && before.is(b'[')
        || piece.is(b'}') && before.is(b'{')
}

/// With a comma after the last element of broken brackets, without one in the others.
fn with_commas<'a>(pieces: &[Piece<'a>]) -> Vec<Piece<'a>> {
    let mut result = Vec::with_capacity(pieces.len() + 16);
    let mut open: Vec<Piece> = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        if piece.closes() {
            open.pop();
        }
        let next = pieces[at + 1..].iter().find(|piece| !piece.is_comment());
        let is_last = next.is_some_and(Piece::closes) && !piece.is_comment();
        let bracket = open.last().filter(|_| is_last);
        let takes_comma = bracket.filter(|bracket| bracket.mark == Some(TokenRole::Elements));
        if piece.is(b',') && takes_comma.is_some_and(|bracket| !bracket.is_broken) {
            continue;
        }
        result.push(*piece);
        if piece.opens() {
            open.push(*piece);
        } else if !piece.is(b',') && takes_comma.is_some_and(|bracket| bracket.is_broken) {
            result.push(Piece {
                kind: Kind::Punct(b','),
                text: ",",
                mark: None,
                n_lines: 0,
                is_broken: false,
            });
        }
    }
    result
}

struct Bracket {
    byte: u8,
    is_broken: bool,
    is_multiplicity: bool,
    /// The indentation of the line on which it opens.
    indent: usize,
}

struct Writer {
    out: String,
    /// How many blocks are open.
    level: usize,
    /// The indentation of the current line.
    indent: usize,
    brackets: Vec<Bracket>,
    /// Question marks that wait for their colon, in each bracket.
    ternaries: Vec<u32>,
}

impl Writer {
    fn write(&mut self, pieces: &[Piece], at: usize) {
        let piece = pieces[at];
        if piece.mark == Some(TokenRole::Close) {
            self.level = self.level.saturating_sub(1);
        }
        let closed = if piece.closes() {
            self.ternaries.pop();
            self.brackets.pop()
        } else {
            None
        };
        if at > 0 {
            self.separate(pieces, at, closed.as_ref());
        }
        self.out.push_str(piece.text);
        if piece.mark == Some(TokenRole::Colon) {
            self.level += 1;
        }
        if let Kind::Punct(byte @ (b'(' | b'[' | b'{')) = piece.kind {
            self.ternaries.push(0);
            self.brackets.push(Bracket {
                byte,
                is_broken: piece.is_broken,
                is_multiplicity: piece.mark == Some(TokenRole::Multiplicity),
                indent: self.indent,
            });
        }
        if let Some(open) = self.ternaries.last_mut() {
            if piece.is(b'?') && piece.mark.is_none() {
                *open += 1;
            } else if piece.is(b':') && piece.mark.is_none() && *open > 0 {
                *open -= 1;
            }
        }
    }

    /// What comes between a token and the one before.
    fn separate(&mut self, pieces: &[Piece], at: usize, closed: Option<&Bracket>) {
        let (before, piece) = (pieces[at - 1], pieces[at]);
        let after_colon = before.mark == Some(TokenRole::Colon);
        if piece.is_comment() && piece.n_lines == 0 && !before.is_comment() {
            self.out.push_str("  ");
            return;
        }
        if self.breaks(pieces, at, closed) {
            let may_be_empty = self.brackets.is_empty()
                && closed.is_none()
                && !after_colon
                && piece.mark != Some(TokenRole::Close)
                && self.is_between_statements(pieces, at);
            self.out.push('\n');
            if may_be_empty && piece.n_lines > 1 {
                self.out.push('\n');
            }
            self.indent = self.indent_of(pieces, at, closed);
            self.out
                .extend(std::iter::repeat_n(' ', self.indent * INDENT));
        } else if self.has_blank(pieces, at, closed) {
            self.out.push(' ');
        }
    }

    fn breaks(&self, pieces: &[Piece], at: usize, closed: Option<&Bracket>) -> bool {
        let (before, piece) = (pieces[at - 1], pieces[at]);
        if before.is_comment() || piece.is_comment() || piece.starts_line() {
            return true;
        }
        if before.mark == Some(TokenRole::Colon) {
            return true;
        }
        if let Some(bracket) = closed {
            return bracket.is_broken && !before.opens();
        }
        let bracket = self.brackets.last();
        if before.opens() {
            return bracket.is_some_and(|bracket| bracket.is_broken);
        }
        let may_break = bracket.is_none_or(|bracket| bracket.is_broken);
        piece.n_lines > 0 && may_break && !is_joined(pieces, at)
    }

    /// A comment is between statements when a statement, or nothing, follows.
    fn is_between_statements(&self, pieces: &[Piece], at: usize) -> bool {
        let next = pieces[at..].iter().find(|piece| !piece.is_comment());
        self.brackets.is_empty() && next.is_none_or(Piece::starts_line)
    }

    fn indent_of(&self, pieces: &[Piece], at: usize, closed: Option<&Bracket>) -> usize {
        if let Some(bracket) = closed {
            return bracket.indent;
        }
        if self.is_between_statements(pieces, at) {
            return self.level;
        }
        let last = pieces[..at].iter().rev().find(|piece| !piece.is_comment());
        let broken = self.brackets.iter().rev().find(|bracket| bracket.is_broken);
        match (broken, last) {
            (Some(bracket), Some(last)) if last.opens() || last.is(b',') => bracket.indent + 1,
            (Some(bracket), _) => {
                // A comment after the last element belongs to the elements.
                let next = pieces[at..].iter().find(|piece| !piece.is_comment());
                let is_last = pieces[at].is_comment() && next.is_some_and(Piece::closes);
                bracket.indent + if is_last { 1 } else { 2 }
            }
            // The documentation of a block.
            (None, Some(last)) if last.mark == Some(TokenRole::Colon) => self.level,
            (None, _) if pieces[at].kind == Kind::MultiLine => self.level,
            (None, _) => self.level + 1,
        }
    }

    fn has_blank(&self, pieces: &[Piece], at: usize, closed: Option<&Bracket>) -> bool {
        let (before, piece) = (pieces[at - 1], pieces[at]);
        if closed.is_some() || before.opens() || is_joined(pieces, at) {
            return false;
        }
        let Some(bracket) = self.brackets.last() else {
            return true;
        };
        if bracket.is_multiplicity || piece.is(b'=') || before.is(b'=') {
            return false;
        }
        // A dict of arguments: `**x`.
        if before.kind == Kind::StarStar {
            let mut ahead = pieces[..at - 1].iter().rev();
            let ahead = ahead.find(|piece| !piece.is_comment());
            return !ahead.is_some_and(|ahead| ahead.opens() || ahead.is(b','));
        }
        let is_key = bracket.byte == b'{' && self.ternaries.last() == Some(&0);
        !(piece.is(b':') && is_key)
    }
}
