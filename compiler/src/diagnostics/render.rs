//! Diagnostics for people: kind, message, the source with the places marked, notes, help, causes.

use std::ops::Range;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use crate::world::World;
use crate::{Diagnostic, Location, Note, Severity};

/// Causes of causes beyond this depth say nothing new.
const MAX_DEPTH: usize = 20;

/// Several lines of text, the last one ended.
pub fn render(diagnostic: &Diagnostic, world: &dyn World, color: bool) -> String {
    let mut groups = Vec::new();
    add_groups(&mut groups, diagnostic, None, world, 0);
    let renderer = if color {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    let mut text = renderer.decor_style(DecorStyle::Ascii).render(&groups);
    text.push('\n');
    // The source is shown as it is but for the controls that the renderer knows.
    if text.contains(is_hidden) {
        text = text.replace(is_hidden, "\u{fffd}");
    }
    text
}

/// Whether a character steers old terminals (C1), or turns the direction of a text around: what stands there would not be what is
/// read.
fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\u{7f}'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// One group for the diagnostic, one for each note about another file, and those of the causes.
fn add_groups<'a>(
    groups: &mut Vec<Group<'a>>,
    diagnostic: &'a Diagnostic,
    outer: Option<&Location>,
    world: &dyn World,
    depth: usize,
) {
    let level = match diagnostic.severity {
        Severity::Error if depth > 0 => Level::NOTE.with_name("caused by"),
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let (title, rest) = match diagnostic.message.split_once('\n') {
        Some((title, rest)) => (shown(title), shown(rest)),
        None => (shown(&diagnostic.message), String::new()),
    };
    let mut group = if depth == 0 {
        Group::with_title(level.primary_title(title).id(diagnostic.kind.as_str()))
    } else {
        Group::with_title(level.secondary_title(format!("{}: {title}", diagnostic.kind)))
    };
    let (beside, apart): (Vec<&Note>, Vec<&Note>) = diagnostic
        .notes
        .iter()
        .filter(|note| note.location.is_some())
        .partition(|note| is_beside(note, diagnostic));
    if let Some(location) = &diagnostic.location
        && (outer != Some(location) || !beside.is_empty())
    {
        group = match File::of(location, world) {
            Some(file) => group.element(file.snippet(location, &beside)),
            None => group.element(origin(location)),
        };
    }
    if !rest.is_empty() {
        group = group.element(Level::NOTE.message(dedent(&rest)));
    }
    for note in diagnostic
        .notes
        .iter()
        .filter(|note| note.location.is_none())
    {
        group = group.element(Level::NOTE.message(shown(&note.message)));
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(shown(help)));
    }
    groups.push(group);
    for note in apart {
        let title = Level::NOTE.secondary_title(shown(&note.message));
        let Some(location) = &note.location else {
            continue;
        };
        let group = Group::with_title(title);
        groups.push(match File::of(location, world) {
            Some(file) => group.element(file.snippet(location, &[])),
            None => group.element(origin(location)),
        });
    }
    if depth < MAX_DEPTH {
        let outer = diagnostic.location.as_ref().or(outer);
        for cause in &diagnostic.causes {
            add_groups(groups, cause, outer, world, depth + 1);
        }
    }
}

/// Whether a note can be a mark in the excerpt of its diagnostic.
fn is_beside(note: &Note, diagnostic: &Diagnostic) -> bool {
    match (&note.location, &diagnostic.location) {
        (Some(note), Some(main)) => note.file == main.file && note != main,
        _ => false,
    }
}

/// A text of the model, of its Python code or of a file name, without what steers a terminal: it is of whoever wrote the
/// repository.
fn shown(message: &str) -> String {
    let message = message.trim_end().replace('\t', "    ");
    let is_control = |c: char| c.is_ascii_control() && c != '\n';
    match message.contains(is_control) {
        true => message.replace(is_control, "\u{fffd}"),
        false => message,
    }
}

/// A name of a file, in one line.
fn shown_path(path: &str) -> String {
    path.replace(|c: char| c.is_ascii_control(), "\u{fffd}")
}

/// The text without the indentation that all its lines share.
fn dedent(text: &str) -> String {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let shared = lines.map(depth).min().unwrap_or(0);
    let lines = text.lines().map(|line| line.get(shared..).unwrap_or(""));
    lines.collect::<Vec<_>>().join("\n")
}

fn origin(location: &Location) -> Origin<'_> {
    let origin = Origin::path(shown_path(&location.file)).line(location.line as usize);
    match location.column {
        Some(column) => origin.char_column(column as usize),
        None => origin,
    }
}

/// The text of a file and where its lines begin.
struct File {
    text: String,
    line_starts: Vec<usize>,
}

impl File {
    fn of(location: &Location, world: &dyn World) -> Option<File> {
        let text = crate::builtin::text(&location.file)
            .map(str::to_owned)
            .or_else(|| world.read_reported(&location.file))?;
        let mut line_starts = vec![0];
        line_starts.extend(text.match_indices('\n').map(|(at, _)| at + 1));
        Some(File { text, line_starts })
    }

    fn line_start(&self, line: u32) -> usize {
        let start = self.line_starts.get(line.max(1) as usize - 1);
        start.copied().unwrap_or(self.text.len())
    }

    /// Lines and columns as a range of bytes.
    fn range(&self, location: &Location) -> Range<usize> {
        let offset = |line: u32, column: Option<u32>| {
            let start = self.line_start(line);
            let text = self.text[start..].lines().next().unwrap_or("");
            let chars = match column {
                Some(column) => column.max(1) as usize - 1,
                None => usize::MAX,
            };
            let length = text
                .char_indices()
                .nth(chars)
                .map_or(text.len(), |(at, _)| at);
            start + length
        };
        let start = match location.column {
            Some(column) => offset(location.line, Some(column)),
            None => self.line_start(location.line),
        };
        let end = match (location.end_line, location.end_column) {
            (Some(line), Some(column)) => offset(line, Some(column)),
            _ => offset(location.line, None),
        };
        start..end.max(start)
    }

    /// The lines from the first mark to the last one, marked.
    fn snippet<'a>(
        &self,
        location: &'a Location,
        notes: &[&'a Note],
    ) -> Snippet<'a, Annotation<'a>> {
        let mut marks = vec![(AnnotationKind::Primary, self.range(location), None)];
        for note in notes {
            if let Some(location) = &note.location {
                let label = shown(&note.message);
                marks.push((AnnotationKind::Context, self.range(location), Some(label)));
            }
        }
        let first = marks
            .iter()
            .map(|(_, range, _)| range.start)
            .min()
            .unwrap_or(0);
        let last = marks
            .iter()
            .map(|(_, range, _)| range.end)
            .max()
            .unwrap_or(0);
        let line = self.line_starts.partition_point(|start| *start <= first);
        let begin = self.line_start(line as u32);
        let end = self.text[last..]
            .find('\n')
            .map_or(self.text.len(), |at| last + at);
        let shift = |range: Range<usize>| range.start - begin..range.end - begin;
        Snippet::source(self.text[begin..end].to_owned())
            .path(shown_path(&location.file))
            .line_start(line)
            .annotations(
                marks
                    .into_iter()
                    .map(|(kind, range, label)| kind.span(shift(range)).label(label)),
            )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::MemWorld;

    /// Input: escapes for terminals, line breaks and characters that turn the direction of a text, in what Python code raises, in the name of a file and in the source (docs/reference/security.md § 4.23). Answer: each is a mark in what people are shown.
    #[test]
    fn nothing_of_a_repository_steers_a_terminal() {
        let evil = "\u{1b}]0;title\u{7}\u{9b}31m\u{202e}\u{2066}\r\u{7f}";
        let file = format!("{}\n.cf", evil);
        let world = MemWorld::default().file(&file, &format!("x = \"{evil}\"\n"));
        let place = |line| {
            Some(Location {
                file: file.clone(),
                line,
                column: Some(1),
                end_line: Some(line),
                end_column: Some(4),
            })
        };
        let one = |causes| Diagnostic {
            severity: Severity::Error,
            kind: "ExternalException".to_owned(),
            message: format!("one {evil}\n  and {evil}"),
            location: place(1),
            notes: vec![
                Note {
                    message: format!("note {evil}"),
                    location: None,
                },
                Note {
                    message: format!("place {evil}"),
                    location: place(1),
                },
            ],
            help: Some(format!("help {evil}")),
            raised: None,
            values: None,
            causes,
        };
        let text = render(&one(vec![one(Vec::new())]), &world, false);
        let is_bad = |c: &char| (c.is_control() && *c != '\n') || is_hidden(*c);
        assert_eq!(text.chars().find(is_bad), None, "{text:?}");
        assert!(
            text.contains("title") && text.contains("note: and "),
            "{text}"
        );
        let colored = render(&one(Vec::new()), &world, true);
        assert!(
            !colored.contains("\u{1b}]") && !colored.contains('\u{7}'),
            "{colored:?}"
        );
    }
}
