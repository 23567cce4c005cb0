//! Where to go on after a mistake.
//!
//! A wrong guess makes mistakes up, and one made-up mistake costs more than ten missed ones: so only what begins a line
//! counts, at the depth of indentation at which it must be.

use super::super::token::{Keyword, Kind, Token};
use super::{Parse, Parser, SyntaxError};

/// More mistakes of one file help nobody.
const MAX_ERRORS: usize = 20;

fn defines(kind: Kind) -> bool {
    use Keyword::{Entity, Implement, Implementation, Import, Index, Typedef};
    matches!(
        kind,
        Kind::Keyword(Entity | Implement | Implementation | Import | Index | Typedef)
    )
}

fn ends_block(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Keyword(Keyword::End | Keyword::Else | Keyword::Elif)
    )
}

impl Parser<'_> {
    /// How far a token is from the start of its line; `None`: it is not the first of its line.
    fn indentation(&self, token: Token) -> Option<usize> {
        let before = self.text[..token.start as usize].bytes().rev();
        // Backwards, and only over blanks: lines may be long.
        let mut n_blanks = 0;
        for byte in before {
            match byte {
                b'\n' => return Some(n_blanks),
                b' ' | b'\t' => n_blanks += 1,
                _ => return None,
            }
        }
        Some(n_blanks)
    }

    /// Keeps the mistake of an item that began at token `start` and goes to the next one.
    pub(super) fn recover(&mut self, start: usize, error: SyntaxError) {
        let unclosed = self.is_open_quote();
        self.errors.push(error);
        if unclosed || self.errors.len() >= MAX_ERRORS {
            self.at = self.tokens.len() - 1;
            return;
        }
        if self.at == start {
            self.bump();
        }
        while self.kind() != Kind::End && !self.starts_item() {
            self.bump();
        }
    }

    /// A quote that nothing closes: what follows may be the text of a string.
    fn is_open_quote(&self) -> bool {
        let token = self.token();
        token.kind == Kind::Illegal
            && self.slice(token) == "\""
            && self.at > 0
            && self.tokens[self.at - 1].end == token.start
            && self.slice(self.tokens[self.at - 1]) == "\"\""
    }

    fn starts_item(&self) -> bool {
        let Some(indentation) = self.indentation(self.token()) else {
            return false;
        };
        match self.kind() {
            kind if defines(kind) => true,
            Kind::Keyword(Keyword::For | Keyword::If) => indentation == 0,
            Kind::Cid => indentation == 0 && self.kind_after(1) == Kind::Punct(b'.'),
            Kind::Id => {
                indentation == 0
                    && matches!(
                        self.kind_after(1),
                        Kind::Sep
                            | Kind::PlusEquals
                            | Kind::Punct(b'=')
                            | Kind::Punct(b'.')
                            | Kind::Punct(b'(')
                    )
            }
            _ => false,
        }
    }

    /// The end of a block whose beginning was not understood.
    pub(super) fn at_left_over(&self) -> bool {
        ends_block(self.kind())
    }

    pub(super) fn skip_left_over(&mut self) {
        self.bump();
        while self.kind() != Kind::End && !self.starts_item() && !self.at_left_over() {
            self.bump();
        }
    }

    /// Keeps the mistake of a part (from token `start`) of a block, whose first token is `first`, and goes to the next
    /// part or to the end of the block. Gives the mistake back if neither can be told from the indentation.
    pub(super) fn recover_in_block(
        &mut self,
        first: usize,
        start: usize,
        error: Box<SyntaxError>,
    ) -> Parse<()> {
        let first = self.tokens.get(first).copied();
        let Some(depth) = first.and_then(|first| self.indentation(first)) else {
            return Err(error);
        };
        if self.is_open_quote() || self.errors.len() + 1 >= MAX_ERRORS {
            return Err(error);
        }
        let begin = self.at;
        if self.at == start {
            self.bump();
        }
        while self.kind() != Kind::End {
            if let Some(indentation) = self.indentation(self.token()) {
                let starts = matches!(
                    self.kind(),
                    Kind::Id
                        | Kind::Cid
                        | Kind::Keyword(Keyword::For | Keyword::If | Keyword::Dict)
                );
                if indentation == depth && starts || indentation < depth && ends_block(self.kind())
                {
                    self.errors.push(*error);
                    return Ok(());
                }
                if indentation < depth || ends_block(self.kind()) {
                    break;
                }
            }
            self.bump();
        }
        self.at = begin;
        Err(error)
    }
}
