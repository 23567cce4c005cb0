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
            pub fn of(text: &str) -> Option<Keyword> {
                match text { $($text => Some(Keyword::$variant),)* _ => None }
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
