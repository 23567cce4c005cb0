//! Errors of the template engine as a compile tells them: what is not there by its name, and the
//! line of the template.
//!
//! The engine says that something undefined was used, but not what; the model's side of a rendering
//! notes each name that it was asked for in vain (`Missing`), and the last of these that fits is
//! the one to name.

use std::ops::Range;

use minijinja::ErrorKind;

use crate::Location;
use crate::diagnostics::{Fail, fail, not_found};
use crate::hir::plugin::{PluginError, external};
use crate::runtime::Machine;
use crate::span::Loc;
use crate::template::{Missing, MissingName, with_dots};
use crate::types::Value;

impl Machine<'_> {
    /// What a rendering gave, or what is wrong with its template.
    pub(in crate::runtime) fn rendered(
        &mut self,
        rendered: Result<String, minijinja::Error>,
        path: &str,
        missing: &Missing,
    ) -> Result<Value, PluginError> {
        let error = match rendered {
            Ok(text) => return Ok(self.state.heap.new_str(&text)),
            Err(error) => error,
        };
        let error = innermost(&error);
        let detail = error
            .detail()
            .map(with_dots)
            .unwrap_or_else(|| error.kind().to_string());
        let missing_name = place_of(error).and_then(|(text, range)| missing.of(text, range));
        let is_missing = match error.kind() {
            ErrorKind::UndefinedError | ErrorKind::UnknownMethod | ErrorKind::UnknownBlock => true,
            ErrorKind::InvalidOperation => match detail.as_str() {
                // `super()` and `caller()` where there is none.
                "no parent block exists"
                | "cannot super outside of block"
                | "value of type undefined is not callable" => true,
                // A sign, and what is extended, included or imported.
                "template name was not a string" => missing_name.is_some(),
                _ if error.detail().is_none() => missing_name.is_some(),
                detail => {
                    let is_operand = detail.contains("undefined") && !detail.contains("convert");
                    is_operand && missing_name.is_some()
                }
            },
            ErrorKind::UnknownFunction => missing_name.is_some(),
            _ => false,
        };
        if is_missing {
            let message = match &missing_name {
                Some(missing_name) => format!("'{}' is undefined", missing_name.path),
                None => detail,
            };
            let similar = missing_name.as_ref().and_then(|it| it.similar.as_ref());
            let failure = not_found(Loc::NONE, message).did_you_mean(similar);
            let failure = self.in_template(failure, error, missing_name.as_ref());
            return Err(PluginError::Compile(failure));
        }
        if let Some(what) = detail.strip_suffix("object is not iterable") {
            // An instance is the only plain object of the model.
            let what = what.replace("plain ", "'JinjaDynamicProxy' ");
            return external("TypeError", format!("{what}object is not iterable"));
        }
        let type_name = match error.kind() {
            ErrorKind::TemplateNotFound => {
                let mut missing = missing_templates(&detail);
                return match missing.len() {
                    0 => external("jinja2.exceptions.TemplateNotFound", path),
                    1 => external("jinja2.exceptions.TemplateNotFound", missing.remove(0)),
                    _ => {
                        let names = missing.join(", ");
                        let message = format!("none of the templates given were found: {names}");
                        external("jinja2.exceptions.TemplatesNotFound", message)
                    }
                };
            }
            ErrorKind::SyntaxError => "TemplateSyntaxError",
            ErrorKind::UnknownFilter | ErrorKind::UnknownTest => "TemplateAssertionError",
            _ => "TemplateRuntimeError",
        };
        let unknown = detail.strip_suffix(" is unknown");
        let unknown = unknown.and_then(|what| what.split_once(' '));
        let detail = match unknown {
            Some((what @ ("filter" | "test"), name)) => format!("No {what} named '{name}'."),
            _ => detail,
        };
        let message = format!("jinja2.exceptions.{type_name}: {detail}");
        let failure = fail("PythonException", Loc::NONE, message);
        Err(PluginError::Compile(self.in_template(failure, error, None)))
    }

    /// Says where in a template it is.
    fn in_template(
        &self,
        failure: Fail,
        error: &minijinja::Error,
        missing_name: Option<&MissingName>,
    ) -> Fail {
        let (Some(name), Some(line)) = (error.name(), error.line()) else {
            return failure;
        };
        // What the engine reads has the lines of what is written.
        let read = error.template_source().unwrap_or("");
        let start = missing_name.and_then(|missing_name| read.get(..missing_name.start?));
        let line = start.map_or(line, |before| 1 + before.matches('\n').count());
        let text = self.template_source(name).unwrap_or_default();
        let written = text.lines().nth(line - 1).unwrap_or("");
        let at = missing_name.and_then(|missing_name| {
            let mut places = written.match_indices(&missing_name.path);
            let column = written[..places.next()?.0].chars().count();
            let n_chars = missing_name.path.chars().count();
            places.next().is_none().then_some((column, n_chars))
        });
        let line = line as u32;
        let place = self.template_path(name).map(|file| Location {
            file,
            line,
            column: at.map(|(start, _)| start as u32 + 1),
            end_line: at.map(|_| line),
            end_column: at.map(|(start, length)| (start + length) as u32 + 1),
        });
        failure.note_outside(format!("in the template {name}, line {line}"), place)
    }
}

/// The templates that are not there, as the engine's errors tell them: one that is rendered, extended, imported or included,
/// or all those of an include that takes the first that is there.
fn missing_templates(detail: &str) -> Vec<String> {
    let one = detail
        .strip_prefix("template ")
        .and_then(|rest| rest.strip_suffix(" does not exist"))
        .or_else(|| detail.strip_prefix("tried to include non-existing template "));
    let all = detail
        .strip_prefix("tried to include one of multiple templates, none of which existed ")
        .and_then(|rest| serde_json::from_str(rest).ok());
    match one {
        Some(name) => vec![serde_json::from_str(name).unwrap_or_else(|_| name.to_owned())],
        None => all.unwrap_or_default(),
    }
}

/// What the engine was busy with, in the template as it reads it: the line, if no more is known.
fn place_of(error: &minijinja::Error) -> Option<(&str, Range<usize>)> {
    let text = error.template_source()?;
    let line = || {
        let mut start = 0;
        let mut lines = text.split_inclusive('\n');
        for _ in 1..error.line()? {
            start += lines.next()?.len();
        }
        Some(start..start + lines.next()?.len())
    };
    let place = error.range().or_else(line)?;
    text.get(place.clone()).map(|_| (text, place))
}

/// The error of the included template in which it is.
fn innermost(error: &minijinja::Error) -> &minijinja::Error {
    let mut error = error;
    while matches!(error.kind(), ErrorKind::BadInclude | ErrorKind::EvalBlock)
        && let Some(source) = std::error::Error::source(error)
        && let Some(inner) = source.downcast_ref()
    {
        error = inner;
    }
    error
}
