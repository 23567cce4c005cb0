//! Source files and places in them.

use crate::Location;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// A byte range of one file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Span {
    pub file: FileId,
    pub start: u32,
    pub end: u32,
}

impl Span {
    pub fn to(self, end: Span) -> Span {
        Span {
            end: end.end.max(self.start),
            ..self
        }
    }
}

/// A span by number, small enough to lie in every variable of the model.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Loc(pub u32);

impl Loc {
    pub const NONE: Loc = Loc(0);
}

pub struct SourceFile {
    /// The name of the file, as diagnostics have it.
    pub name: String,
    /// Line ends are `\n` only.
    pub text: String,
    line_starts: Vec<u32>,
}

impl SourceFile {
    pub fn new(name: String, text: String) -> Self {
        let mut line_starts = vec![0];
        let mut at = 0;
        // A line at a time, since the search for a byte looks at many of them at once.
        while let Some(length) = text[at..].find('\n') {
            at += length + 1;
            line_starts.push(at as u32);
        }
        SourceFile {
            name,
            text,
            line_starts,
        }
    }

    /// Where each line begins, in bytes.
    pub fn line_starts(&self) -> &[u32] {
        &self.line_starts
    }

    pub fn line(&self, offset: u32) -> u32 {
        self.line_starts.partition_point(|start| *start <= offset) as u32
    }

    /// Line and column from 1; columns count characters.
    fn position(&self, offset: u32) -> (u32, u32) {
        let line = self.line(offset);
        let start = self.line_starts[line as usize - 1] as usize;
        let end = (offset as usize).min(self.text.len());
        let column = self
            .text
            .get(start..end)
            .map_or(0, |text| text.chars().count());
        (line, column as u32 + 1)
    }
}

/// Messages cite files of the project as `./main.cf`.
fn cited(name: &str) -> String {
    if name.starts_with('/') {
        name.to_owned()
    } else {
        format!("./{name}")
    }
}

/// All files of one compile and the spans that outlive their syntax trees.
pub struct Sources {
    pub files: Vec<SourceFile>,
    spans: Vec<Span>,
}

impl Default for Sources {
    fn default() -> Self {
        let nowhere = Span {
            file: FileId(u32::MAX),
            start: 0,
            end: 0,
        };
        Sources {
            files: Vec::new(),
            spans: vec![nowhere],
        }
    }
}

impl Sources {
    pub fn add_file(&mut self, name: String, text: String) -> FileId {
        self.files.push(SourceFile::new(name, text));
        FileId(self.files.len() as u32 - 1)
    }

    pub fn loc(&mut self, span: Span) -> Loc {
        if let Some(last) = self.spans.last()
            && *last == span
        {
            return Loc(self.spans.len() as u32 - 1);
        }
        self.spans.push(span);
        Loc(self.spans.len() as u32 - 1)
    }

    /// All spans by their numbers; that of [`Loc::NONE`] is in no file.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    pub fn span(&self, loc: Loc) -> Option<Span> {
        (loc != Loc::NONE).then(|| self.spans[loc.0 as usize])
    }

    pub fn location(&self, loc: Loc) -> Option<Location> {
        self.span(loc).map(|span| self.span_location(span))
    }

    pub fn span_location(&self, span: Span) -> Location {
        let file = &self.files[span.file.0 as usize];
        let (line, column) = file.position(span.start);
        let (end_line, end_column) = file.position(span.end.max(span.start));
        Location {
            file: file.name.clone(),
            line,
            column: Some(column),
            end_line: Some(end_line),
            end_column: Some(end_column),
        }
    }

    /// `file:line`, as messages of the language cite places.
    pub fn brief(&self, loc: Loc) -> String {
        match self.span(loc) {
            Some(span) => {
                let file = &self.files[span.file.0 as usize];
                format!("{}:{}", cited(&file.name), file.line(span.start))
            }
            None => "unknown place".to_owned(),
        }
    }

    /// The whole text of a span.
    pub fn text(&self, span: Span) -> &str {
        let file = self.files.get(span.file.0 as usize);
        let text = file.and_then(|file| file.text.get(span.start as usize..span.end as usize));
        text.unwrap_or_default()
    }

    /// The text of a place, its first line.
    pub fn snippet(&self, loc: Loc) -> &str {
        let text = self.span(loc).map(|span| self.text(span));
        text.and_then(|text| text.lines().next()).unwrap_or("")
    }

    /// `file:line:column`
    pub fn exact(&self, loc: Loc) -> String {
        match self.location(loc) {
            Some(at) => format!("{}:{}:{}", cited(&at.file), at.line, at.column.unwrap_or(1)),
            None => "unknown place".to_owned(),
        }
    }
}
