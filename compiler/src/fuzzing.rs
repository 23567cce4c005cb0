//! What fuzzing reaches besides [`crate::compile`]: parts of the compiler on a text alone (`compiler/fuzz`).

use crate::intern::Interner;
use crate::span::FileId;
use crate::syntax;

/// Where the tokens of a text are, blanks and comments included.
pub fn tokens(text: &str) -> Vec<(usize, usize)> {
    let tokens = syntax::tokens(text);
    let place = |token: &syntax::token::Token| (token.start as usize, token.end as usize);
    tokens.iter().map(place).collect()
}

/// Where the mistakes of a text are, if they have places.
pub fn mistakes(text: &str) -> Vec<(usize, usize)> {
    let parsed = syntax::parse(FileId(0), text, &mut Interner::default());
    let spans = parsed.errors.iter().filter_map(|error| error.span);
    spans
        .map(|span| (span.start as usize, span.end as usize))
        .collect()
}
