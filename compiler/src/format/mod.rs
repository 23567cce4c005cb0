//! `steward fmt`: one layout for all models.
//!
//! In: a text. Out: the same tokens and comments, laid out. Few opinions, as gofmt has: four blanks a level, a statement a
//! line, at most one empty line, blanks around operators, a comma at the end of each list of several lines. Where a list
//! or an expression is broken into lines is the author's decision.

mod layout;
#[cfg(test)]
mod tests;

use crate::diagnostics::{Fail, fail};
use crate::intern::Interner;
use crate::span::{Loc, Sources};
use crate::syntax::token::{Kind, Token};
use crate::syntax::{parse_marked, tokens};
use crate::{Diagnostic, Severity};

/// The text in its one layout, or why it has none: its mistakes of syntax. `name` is how diagnostics call the file.
pub fn format(name: &str, text: &str) -> Result<String, Vec<Diagnostic>> {
    crate::on_deep_stack(|| format_here(name, text)).unwrap_or_else(|reason| Err(vec![own(reason)]))
}

fn format_here(name: &str, text: &str) -> Result<String, Vec<Diagnostic>> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut sources = Sources::default();
    // As in a compile, the last line is ended.
    let file = sources.add_file(name.to_owned(), text + "\n");
    let text = sources.files[file.0 as usize].text.clone();
    let (parsed, marks) = parse_marked(file, &text, &mut Interner::default());
    if !parsed.errors.is_empty() {
        let diagnostics = parsed.errors.into_iter().map(|error| {
            let loc = error.span.map_or(Loc::NONE, |span| sources.loc(span));
            let help = error.help();
            let mut error: Fail = fail(error.kind, loc, error.message);
            if let Some(help) = help {
                error = error.help(help);
            }
            error.into_diagnostic(&sources)
        });
        return Err(diagnostics.collect());
    }
    let formatted = layout::lay_out(&text, &tokens(&text), &marks);
    if significant(&formatted) != significant(&text) {
        return Err(vec![own("the layout would change the text".to_owned())]);
    }
    Ok(formatted)
}

fn own(message: String) -> Diagnostic {
    Diagnostic {
        severity: Severity::Error,
        kind: "InvalidCompilerState".to_owned(),
        message,
        location: None,
        notes: Vec::new(),
        help: None,
        raised: None,
        values: None,
        causes: Vec::new(),
    }
}

/// What must stay: all tokens and comments but blanks, and but commas after the last of several elements.
fn significant(text: &str) -> Vec<&str> {
    let all = tokens(text);
    let slice = |token: &Token| text[token.start as usize..token.end as usize].trim_end();
    let tokens: Vec<Token> = all
        .into_iter()
        .filter(|token| !matches!(token.kind, Kind::Blank | Kind::End))
        .collect();
    let closes = |at: usize| {
        let mut after = tokens[at + 1..].iter();
        let next = after.find(|token| token.kind != Kind::Comment);
        next.is_some_and(|token| matches!(token.kind, Kind::Punct(b')' | b']' | b'}')))
    };
    tokens
        .iter()
        .enumerate()
        .filter(|(at, token)| token.kind != Kind::Punct(b',') || !closes(*at))
        .map(|(_, token)| slice(token))
        .collect()
}
