//! Between our values and the protocol's.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use lsp_types::{
    CompletionItem, CompletionItemKind, DiagnosticRelatedInformation, DiagnosticSeverity,
    DocumentSymbol, InsertTextFormat, Location, NumberOrString, Range, Uri,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use steward_compiler::ide::{self, CompletionKind, Ide, Place, SymbolKind};
use steward_compiler::{Diagnostic, Severity, builtin_text};

use super::workspace::normal;

const KEPT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

pub fn path_of(uri: &Uri) -> Option<PathBuf> {
    if uri.scheme()?.as_str() != "file" {
        return None;
    }
    let path = percent_decode_str(uri.path().as_str()).decode_utf8().ok()?;
    Some(normal(Path::new(path.as_ref())))
}

pub fn uri_of(path: &Path) -> Option<Uri> {
    let path = utf8_percent_encode(path.to_str()?, KEPT);
    Uri::from_str(&format!("file://{path}")).ok()
}

pub fn position(position: lsp_types::Position) -> ide::Position {
    ide::Position {
        line: position.line,
        column: position.character,
    }
}

pub fn range(place: &Place) -> Range {
    let position = |at: ide::Position| lsp_types::Position::new(at.line, at.column);
    Range::new(position(place.start), position(place.end))
}

/// Where a file of a project is. Those of the built-in modules are put into the user's cache, to be read there.
pub fn path_in(root: &Path, name: &str) -> PathBuf {
    let path = normal(&root.join(name));
    match builtin_text(name) {
        Some(text) if !path.exists() => {
            let cached = crate::cli::cache_dir().join("model").join(name);
            if std::fs::read_to_string(&cached).is_ok_and(|known| known == text) {
                return cached;
            }
            let written = cached
                .parent()
                .map_or(Ok(()), std::fs::create_dir_all)
                .and_then(|()| std::fs::write(&cached, text));
            written.map_or(path, |()| cached)
        }
        _ => path,
    }
}

pub fn location(place: &Place, root: &Path) -> Option<Location> {
    let uri = uri_of(&path_in(root, &place.file))?;
    Some(Location::new(uri, range(place)))
}

/// The file of a diagnostic, and what the editor shows there. One without a place is shown at the start of `main.cf`.
pub fn diagnostic(
    diagnostic: &Diagnostic,
    ide: &Ide,
    root: &Path,
) -> (PathBuf, lsp_types::Diagnostic) {
    let place = diagnostic
        .location
        .as_ref()
        .map(|location| ide.place(location));
    let path = match &place {
        Some(place) => path_in(root, &place.file),
        None => root.join("main.cf"),
    };
    let notes = diagnostic.notes.iter();
    let related = notes.filter_map(|note| {
        let place = ide.place(note.location.as_ref()?);
        Some(DiagnosticRelatedInformation {
            location: location(&place, root)?,
            message: note.message.clone(),
        })
    });
    let related: Vec<_> = related.collect();
    let shown = lsp_types::Diagnostic {
        related_information: (!related.is_empty()).then_some(related),
        ..bare(diagnostic, place.as_ref().map(range).unwrap_or_default())
    };
    (path, shown)
}

/// A diagnostic of a text without a project.
pub fn alone(diagnostic: &Diagnostic, text: &str) -> lsp_types::Diagnostic {
    let lines: Vec<&str> = text.lines().collect();
    let position = |line: u32, column: u32| {
        let text = lines.get(line.max(1) as usize - 1).copied().unwrap_or("");
        let chars = text.chars().take(column.max(1) as usize - 1);
        let column = chars.map(char::len_utf16).sum::<usize>();
        lsp_types::Position::new(line.max(1) - 1, column as u32)
    };
    let range = diagnostic.location.as_ref().map(|at| {
        let start = position(at.line, at.column.unwrap_or(1));
        let end = match (at.end_line, at.end_column) {
            (Some(line), Some(column)) => position(line, column),
            _ => start,
        };
        Range::new(start, end)
    });
    bare(diagnostic, range.unwrap_or_default())
}

fn bare(diagnostic: &Diagnostic, range: Range) -> lsp_types::Diagnostic {
    let severity = match diagnostic.severity {
        Severity::Error => DiagnosticSeverity::ERROR,
        Severity::Warning => DiagnosticSeverity::WARNING,
    };
    lsp_types::Diagnostic {
        range,
        severity: Some(severity),
        code: Some(NumberOrString::String(diagnostic.kind.clone())),
        source: Some("steward".to_owned()),
        message: message(diagnostic),
        ..lsp_types::Diagnostic::default()
    }
}

/// The text of a diagnostic, with its causes, its help, and those notes that have no place.
fn message(diagnostic: &Diagnostic) -> String {
    let mut text = diagnostic.message.trim_end().to_owned();
    for note in &diagnostic.notes {
        if note.location.is_none() {
            text.push_str(&format!("\nnote: {}", note.message));
        }
    }
    for cause in &diagnostic.causes {
        text.push_str(&format!("\ncaused by: {}", message(cause)));
    }
    if let Some(help) = &diagnostic.help {
        text.push_str(&format!("\nhelp: {help}"));
    }
    text
}

pub fn completion(found: ide::Completion) -> CompletionItem {
    let kind = match found.kind {
        CompletionKind::Variable => CompletionItemKind::VARIABLE,
        CompletionKind::Attribute => CompletionItemKind::FIELD,
        CompletionKind::Entity => CompletionItemKind::CLASS,
        CompletionKind::Typedef => CompletionItemKind::INTERFACE,
        CompletionKind::Implementation => CompletionItemKind::METHOD,
        CompletionKind::Plugin => CompletionItemKind::FUNCTION,
        CompletionKind::Module => CompletionItemKind::MODULE,
        CompletionKind::Argument => CompletionItemKind::PROPERTY,
        CompletionKind::Keyword => CompletionItemKind::KEYWORD,
    };
    CompletionItem {
        label: found.label,
        kind: Some(kind),
        detail: (!found.detail.is_empty()).then_some(found.detail),
        insert_text: Some(found.insert),
        insert_text_format: Some(InsertTextFormat::PLAIN_TEXT),
        ..CompletionItem::default()
    }
}

pub fn symbol(found: ide::Symbol) -> DocumentSymbol {
    let kind = match found.kind {
        SymbolKind::Entity => lsp_types::SymbolKind::CLASS,
        SymbolKind::Attribute => lsp_types::SymbolKind::FIELD,
        SymbolKind::Relation => lsp_types::SymbolKind::PROPERTY,
        SymbolKind::Implementation => lsp_types::SymbolKind::METHOD,
        SymbolKind::Typedef => lsp_types::SymbolKind::INTERFACE,
        SymbolKind::Variable => lsp_types::SymbolKind::VARIABLE,
    };
    let children: Vec<DocumentSymbol> = found.children.into_iter().map(symbol).collect();
    #[expect(deprecated, reason = "the field has to be given")]
    DocumentSymbol {
        name: found.name,
        detail: (!found.detail.is_empty()).then_some(found.detail),
        kind,
        tags: None,
        deprecated: None,
        range: range(&found.place),
        selection_range: range(&found.selection),
        children: (!children.is_empty()).then_some(children),
    }
}
