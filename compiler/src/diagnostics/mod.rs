//! Mistakes as data: what goes wrong inside is a [`Failure`] with compact places; what a caller gets is a
//! [`Diagnostic`](crate::Diagnostic).

mod order;
mod render;
mod similar;
mod unknown;

use crate::span::{Loc, Sources};
use crate::{Diagnostic, Location, Note, Severity};

pub use order::{MAX_ERRORS, identity, in_order};
pub use render::render;
pub use similar::closest;
pub use unknown::name_missing_variables;

/// A mistake in the model; boxed, because results pass through the hot path.
pub type Fail = Box<Failure>;

#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub kind: &'static str,
    pub message: String,
    pub loc: Loc,
    /// Its place if that is in no source of the model.
    pub place: Option<Location>,
    pub notes: Vec<(String, Loc)>,
    /// About files that are no sources of the model.
    pub outside: Vec<Note>,
    pub help: Option<String>,
    pub causes: Vec<Failure>,
    /// Full name of the exception that a plugin raised on purpose.
    pub raised: Option<String>,
    /// The old and the new value of a variable that is set twice, if they are data.
    pub values: Option<Box<[serde_json::Value; 2]>>,
    /// Only a mistake because of another one that is reported already: nobody is told.
    pub follows: bool,
}

/// The note of a place where a value is read that is not there.
pub const READ_HERE: &str = "it is read here";

pub fn fail(kind: &'static str, loc: Loc, message: impl Into<String>) -> Fail {
    Box::new(Failure {
        kind,
        message: message.into(),
        loc,
        place: None,
        notes: Vec::new(),
        outside: Vec::new(),
        help: None,
        causes: Vec::new(),
        raised: None,
        values: None,
        follows: false,
    })
}

pub fn runtime(loc: Loc, message: impl Into<String>) -> Fail {
    fail("RuntimeException", loc, message)
}

pub fn typing(loc: Loc, message: impl Into<String>) -> Fail {
    fail("TypingException", loc, message)
}

pub fn not_found(loc: Loc, message: impl Into<String>) -> Fail {
    fail("NotFoundException", loc, message)
}

/// `first` is the other definition.
pub fn duplicate(loc: Loc, first: Loc, message: impl Into<String>) -> Fail {
    fail("DuplicateException", loc, message).note("the other definition is here", first)
}

impl Failure {
    pub fn note(mut self: Box<Self>, message: impl Into<String>, loc: Loc) -> Box<Self> {
        self.notes.push((message.into(), loc));
        self
    }

    /// A note about a file that is no source of the model.
    pub fn note_outside(
        mut self: Box<Self>,
        message: impl Into<String>,
        location: Option<Location>,
    ) -> Box<Self> {
        self.outside.push(Note {
            message: message.into(),
            location,
        });
        self
    }

    pub fn help(mut self: Box<Self>, help: impl Into<String>) -> Box<Self> {
        self.help = Some(help.into());
        self
    }

    /// Names the exception that a plugin raised on purpose.
    pub fn raised(mut self: Box<Self>, type_name: impl Into<String>) -> Box<Self> {
        self.raised = Some(type_name.into());
        self
    }

    /// A help for when there is no better one.
    pub fn or_help(self: Box<Self>, help: &str) -> Box<Self> {
        match self.help {
            Some(_) => self,
            None => self.help(help),
        }
    }

    /// Whether it, or what caused it, is the consequence of another mistake.
    pub fn is_consequence(&self) -> bool {
        self.follows || self.causes.iter().any(Failure::is_consequence)
    }

    /// Marks it as the consequence of another mistake.
    pub fn following(mut self: Box<Self>, follows: bool) -> Box<Self> {
        self.follows |= follows;
        self
    }

    pub fn cause(mut self: Box<Self>, cause: Failure) -> Box<Self> {
        self.causes.push(cause);
        self
    }

    /// Fills in a place where none is known yet.
    pub fn at(mut self: Box<Self>, loc: Loc) -> Box<Self> {
        if self.loc == Loc::NONE {
            self.loc = loc;
        }
        self
    }

    /// Lower is more important. Source: docs/reference/language.md § 9.
    pub fn importance(&self) -> i32 {
        match self.kind {
            "ModuleLoadingException" => 5,
            "TypingException" | "CycleException" | "IndexException" | "IndexCollisionException" => {
                10
            }
            "DirectExecuteException" => 11,
            "TypeNotFoundException"
            | "MissingImportException"
            | "NotFoundException"
            | "AmbiguousTypeException" => 20,
            "UnsetException" => 30,
            "DuplicateException" => 40,
            "ModifiedAfterFreezeException" => 50,
            "DoubleSetException" => 51,
            "ExternalException" | "ExplicitPluginException" => 60,
            "OptionalValueException" => 61,
            "KeyException" => 70,
            "AttributeException" | "WrappingRuntimeException" | "PluginTypeException" => self
                .causes
                .iter()
                .map(|cause| cause.importance() + 1)
                .max()
                .unwrap_or(100),
            _ => 100,
        }
    }

    /// As a warning: it fails only if it runs.
    pub fn into_doubt(self, sources: &Sources) -> Diagnostic {
        Diagnostic {
            severity: Severity::Warning,
            ..self.into_diagnostic(sources)
        }
    }

    pub fn into_diagnostic(self, sources: &Sources) -> Diagnostic {
        let mut notes = self.notes;
        // Nobody looks twice at one place to learn that it is the place.
        notes.retain(|(message, loc)| message != READ_HERE || *loc != self.loc);
        let mut notes = into_notes(notes, sources);
        notes.extend(self.outside);
        Diagnostic {
            severity: Severity::Error,
            kind: self.kind.to_owned(),
            message: self.message,
            location: sources.location(self.loc).or(self.place),
            notes,
            help: self.help,
            raised: self.raised,
            values: self.values,
            causes: self
                .causes
                .into_iter()
                .map(|cause| cause.into_diagnostic(sources))
                .collect(),
        }
    }
}

fn into_notes(notes: Vec<(String, Loc)>, sources: &Sources) -> Vec<Note> {
    let notes = notes.into_iter().map(|(message, loc)| Note {
        message,
        location: sources.location(loc),
    });
    notes.collect()
}

/// A doubt, to be shown once.
#[derive(Debug, Clone, PartialEq)]
pub struct Warning {
    pub kind: &'static str,
    pub message: String,
    pub loc: Loc,
    pub notes: Vec<(String, Loc)>,
}

impl Warning {
    pub fn into_diagnostic(self, sources: &Sources) -> Diagnostic {
        Diagnostic {
            severity: Severity::Warning,
            kind: self.kind.to_owned(),
            message: self.message,
            location: sources.location(self.loc),
            notes: into_notes(self.notes, sources),
            help: None,
            raised: None,
            values: None,
            causes: Vec::new(),
        }
    }
}

impl Diagnostic {
    /// The object of the compile contract.
    pub fn to_json(&self) -> serde_json::Value {
        let mut object = serde_json::Map::new();
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        object.insert("severity".into(), severity.into());
        object.insert("kind".into(), self.kind.clone().into());
        object.insert("message".into(), self.message.clone().into());
        place_into(&mut object, self.location.as_ref());
        if !self.notes.is_empty() {
            let notes = self.notes.iter().map(|note| {
                let mut object = serde_json::Map::new();
                object.insert("message".into(), note.message.clone().into());
                place_into(&mut object, note.location.as_ref());
                serde_json::Value::Object(object)
            });
            object.insert("notes".into(), notes.collect());
        }
        if let Some(help) = &self.help {
            object.insert("help".into(), help.clone().into());
        }
        if let Some(raised) = &self.raised {
            object.insert("raised".into(), raised.clone().into());
        }
        if let Some(values) = &self.values {
            object.insert("values".into(), values.to_vec().into());
        }
        if !self.causes.is_empty() {
            object.insert(
                "causes".into(),
                self.causes.iter().map(Diagnostic::to_json).collect(),
            );
        }
        serde_json::Value::Object(object)
    }
}

fn place_into(
    object: &mut serde_json::Map<String, serde_json::Value>,
    location: Option<&Location>,
) {
    object.insert("file".into(), location.map(|at| at.file.clone()).into());
    object.insert("line".into(), location.map(|at| at.line).into());
    object.insert("column".into(), location.and_then(|at| at.column).into());
    object.insert(
        "end_line".into(),
        location.and_then(|at| at.end_line).into(),
    );
    object.insert(
        "end_column".into(),
        location.and_then(|at| at.end_column).into(),
    );
}
