//! What an editor asks: what is this, where is it from, what may stand here. Pure: a project and a place in, an answer out.
//!
//! [`Ide`] is a project as it was read once. Its files may be full of mistakes: the tree has what was understood, `complete`
//! looks at tokens where there is no tree. Types are guesses of `scope`, good enough to propose and to jump.
//!
//! Places are those of the language server protocol: lines from 0, columns from 0 in UTF-16 units.

mod at;
mod complete;
mod definition;
mod hover;
mod scope;
mod symbols;
#[cfg(test)]
mod tests;

pub use complete::{Completion, CompletionKind};
pub use symbols::{Symbol, SymbolKind};

use crate::analysis::{Analysis, analyze};
use crate::hir::{Def, NamespaceId, Program};
use crate::span::{FileId, Loc, SourceFile, Span};
use crate::syntax::ast::Ast;
use crate::world::World;
use crate::{Compiled, Location};

/// A place in a text that an editor has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Position {
    /// The line, from 0.
    pub line: u32,
    /// The column, from 0, in UTF-16 units.
    pub column: u32,
}

/// A piece of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The name of the file, as diagnostics have it.
    pub file: String,
    /// Its first character.
    pub start: Position,
    /// The place behind its last character.
    pub end: Position,
}

/// A project as it was read once.
pub struct Ide {
    analysis: Analysis,
    checked: Compiled,
}

impl Ide {
    /// Reads a project; nothing of it is executed.
    pub fn read(world: &dyn World) -> Result<Ide, String> {
        crate::on_deep_stack(|| {
            let mut analysis = analyze(world);
            let checked = crate::check::diagnostics_of(&mut analysis, world);
            Ide { analysis, checked }
        })
    }

    /// What a check says.
    pub fn checked(&self) -> &Compiled {
        &self.checked
    }

    /// The files that belong to the project, as diagnostics name them.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        let files = &self.program().sources.files;
        files.iter().map(|file| file.name.as_str())
    }

    /// The place of a diagnostic of this project.
    pub fn place(&self, location: &Location) -> Place {
        let file = self.file(&location.file);
        let position = |line: u32, column: Option<u32>| {
            let line = line.max(1) - 1;
            let text = file.and_then(|(_, file)| file.text.lines().nth(line as usize));
            let text = text.unwrap_or("");
            let n_chars = column.map_or(usize::MAX, |column| column.max(1) as usize - 1);
            let column = text
                .chars()
                .take(n_chars)
                .map(char::len_utf16)
                .sum::<usize>();
            Position {
                line,
                column: column as u32,
            }
        };
        let start = position(location.line, Some(location.column.unwrap_or(1)));
        let end = match (location.end_line, location.end_column) {
            (Some(line), Some(column)) => position(line, Some(column)),
            _ => position(location.line, None),
        };
        Place {
            file: location.file.clone(),
            start,
            end: end.max(start),
        }
    }

    fn program(&self) -> &Program {
        &self.analysis.program
    }

    fn file(&self, name: &str) -> Option<(FileId, &SourceFile)> {
        let files = &self.program().sources.files;
        let at = files.iter().position(|file| file.name == name)?;
        Some((FileId(at as u32), &files[at]))
    }

    /// The namespace of a file, and its tree.
    fn namespace(&self, file: FileId) -> Option<(NamespaceId, &Ast)> {
        let sources = &self.analysis.loaded.sources;
        let at = sources.iter().position(|source| source.file == file)?;
        Some((NamespaceId(at as u32), &sources[at].ast))
    }

    fn ast(&self, namespace: NamespaceId) -> &Ast {
        &self.analysis.loaded.sources[namespace.index()].ast
    }

    fn offset(&self, file: FileId, position: Position) -> Option<u32> {
        let text = &self.program().sources.files[file.0 as usize].text;
        offset(text, position)
    }

    fn span_place(&self, span: Span) -> Option<Place> {
        let file = self.program().sources.files.get(span.file.0 as usize)?;
        Some(Place {
            file: file.name.clone(),
            start: position(&file.text, span.start),
            end: position(&file.text, span.end),
        })
    }

    fn loc_place(&self, loc: Loc) -> Option<Place> {
        self.span_place(self.program().sources.span(loc)?)
    }

    fn text(&self, span: Span) -> &str {
        let file = self.program().sources.files.get(span.file.0 as usize);
        let text = file.and_then(|file| file.text.get(span.start as usize..span.end as usize));
        text.unwrap_or("")
    }

    /// What a name of a type, an implementation or a plugin means in a namespace.
    fn find_def(&self, namespace: NamespaceId, name: &str) -> Option<Def> {
        let program = self.program();
        if let Some((qualifier, last)) = name.rsplit_once("::") {
            let target = self.find_namespace(namespace, qualifier)?;
            let last = program.names.find(last)?;
            return program.namespaces[target.index()].defs.get(&last).copied();
        }
        let name = program.names.find(name)?;
        let mut at = Some(namespace);
        while let Some(id) = at {
            let known = &program.namespaces[id.index()];
            if let Some(def) = known.defs.get(&name) {
                return Some(*def);
            }
            at = known.parent;
        }
        None
    }

    fn find_namespace(&self, from: NamespaceId, name: &str) -> Option<NamespaceId> {
        let name = self.program().names.find(name)?;
        let visible = &self.program().namespaces[from.index()].visible;
        visible.get(&name).copied()
    }
}

/// A place as an offset in bytes.
pub fn offset(text: &str, position: Position) -> Option<u32> {
    let mut start = 0;
    for _ in 0..position.line {
        start += text[start..].find('\n')? + 1;
    }
    let mut column = 0;
    let mut at = start;
    for c in text[start..].chars() {
        if column >= position.column || c == '\n' {
            break;
        }
        column += c.len_utf16() as u32;
        at += c.len_utf8();
    }
    Some(at as u32)
}

/// An offset in bytes as a place.
pub fn position(text: &str, offset: u32) -> Position {
    let before = text.get(..offset as usize).unwrap_or(text);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() as u32;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let column = before[start..].chars().map(char::len_utf16).sum::<usize>() as u32;
    Position { line, column }
}
