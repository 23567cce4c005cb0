//! Tokens: kinds and byte ranges. Blanks and comments are tokens too, so that the tokens of a file are its text.

use crate::span::{FileId, Span};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Blank,
    Comment,
    Id,
    Cid,
    Keyword(Keyword),
    Int,
    Float,
    Str,
    MultiLine,
    Raw,
    Format,
    Regex,
    /// `--`, `->`, `<-`
    Rel,
    Cmp(Cmp),
    PlusEquals,
    /// `::`
    Sep,
    StarStar,
    Punct(u8),
    /// A character that starts no token.
    Illegal,
    End,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cmp {
    Eq,
    Ne,
    Lt,
    Gt,
    Le,
    Ge,
}

macro_rules! keywords {
    ($($variant:ident $text:literal),* $(,)?) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Keyword { $($variant),* }

        impl Keyword {
            const ALL: &[(&[u8], Keyword)] = &[$(($text.as_bytes(), Keyword::$variant)),*];

            pub fn of(text: &[u8]) -> Option<Keyword> {
                let first = text.first()?.wrapping_sub(b'a');
                let mut left = *BY_FIRST_LETTER.get(usize::from(first))?;
                // Few keywords have their first letter in common, and most words of a model are none.
                while left != 0 {
                    let (word, keyword) = Self::ALL[left.trailing_zeros() as usize];
                    if text == word {
                        return Some(keyword);
                    }
                    left &= left - 1;
                }
                None
            }
        }
    };
}

keywords! {
    Typedef "typedef", As "as", Entity "entity", Extends "extends", End "end", In "in",
    Implementation "implementation", For "for", Matching "matching", Index "index", Implement "implement",
    Using "using", When "when", And "and", Or "or", Not "not", True "true", False "false", Import "import",
    Is "is", Defined "defined", Dict "dict", Null "null", Undef "undef", Parents "parents", If "if",
    Else "else", Elif "elif",
}

/// For each letter, a bit for each keyword that begins with it.
const BY_FIRST_LETTER: [u32; 26] = {
    let mut all = [0; 26];
    let mut at = 0;
    while at < Keyword::ALL.len() {
        all[(Keyword::ALL[at].0[0] - b'a') as usize] |= 1 << at;
        at += 1;
    }
    all
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    pub kind: Kind,
    pub start: u32,
    pub end: u32,
}

impl Token {
    pub fn span(self, file: FileId) -> Span {
        Span {
            file,
            start: self.start,
            end: self.end,
        }
    }
}
