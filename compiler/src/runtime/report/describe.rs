//! Instances and expressions as text, in the form that the reference has.

use crate::hir::{ExprId, ExprKind, FormatPart, Ref};
use crate::runtime::{InstId, Machine, ModelState};
use crate::types::Heap;
use crate::types::text::Instances;

impl ModelState<'_> {
    /// Lets the heap make new values while the machine names instances.
    pub(in crate::runtime) fn with_heap<R>(
        &mut self,
        work: impl FnOnce(&mut Heap, &Self) -> R,
    ) -> R {
        let mut heap = std::mem::take(&mut self.heap);
        let result = work(&mut heap, self);
        self.heap = heap;
        result
    }
}

impl Machine<'_> {
    /// A reference as it was written.
    pub(in crate::runtime) fn expr_name(&self, expr: ExprId) -> String {
        match self.program.expr(expr).kind {
            ExprKind::Attr(object, name) => {
                format!("{}.{}", self.expr_name(object), self.program.text(name))
            }
            ExprKind::Var(Ref::Member { name, .. } | Ref::Missing(name)) => {
                self.program.text(name).to_owned()
            }
            ExprKind::Var(Ref::This) => "self".to_owned(),
            _ => {
                let span = self.program.sources.span(self.program.expr(expr).loc);
                let text = span.and_then(|span| {
                    let file = &self.program.sources.files[span.file.0 as usize];
                    file.text.get(span.start as usize..span.end as usize)
                });
                text.unwrap_or("value").to_owned()
            }
        }
    }

    /// What an attribute is read of. Within a format string names are at its place, so the placeholder that reads the attribute
    /// says it.
    pub(in crate::runtime) fn object_name(&self, object: ExprId, attribute: &str) -> String {
        let mut root = object;
        let mut path = vec![attribute];
        while let ExprKind::Attr(inner, name) = self.program.expr(root).kind {
            path.push(self.program.text(name));
            root = inner;
        }
        path.reverse();
        let literal = self.expr_name(root);
        let names: Vec<&str> = match literal.as_bytes() {
            [b'f', b'"' | b'\'', ..] => fields(&literal).collect(),
            [b'"' | b'\'', ..] => braced(&literal).collect(),
            _ => Vec::new(),
        };
        let owner = names.iter().find_map(|name| {
            let name = name.trim_matches(['{', '}']);
            let mut parts = name.split('.').map(str::trim);
            let owner = parts.next()?;
            let is_read = path.iter().all(|wanted| parts.next() == Some(*wanted));
            is_read.then(|| owner.to_owned())
        });
        let Some(owner) = owner else {
            return self.expr_name(object);
        };
        path.pop();
        [owner.as_str()]
            .into_iter()
            .chain(path)
            .collect::<Vec<_>>()
            .join(".")
    }

    /// A placeholder of a format string as it is written, the one behind these parts: with its braces in a plain string
    /// (`{{ r }}`), without them in an f-string (`r`).
    pub(in crate::runtime) fn placeholder(&self, expr: ExprId, before: &[FormatPart]) -> String {
        let mut root = expr;
        while let ExprKind::Attr(object, _) = self.program.expr(root).kind {
            root = object;
        }
        // Names inside of a format string are at its place.
        let literal = self.expr_name(root);
        let n = before
            .iter()
            .filter(|part| !matches!(part, FormatPart::Text(_)))
            .count();
        let found = match literal.starts_with('f') {
            true => fields(&literal).nth(n),
            false => braced(&literal).nth(n),
        };
        found.map_or_else(|| self.expr_name(expr), str::to_owned)
    }
}

/// What is between double braces, with these: `{{ a.b }}`. Other text between double braces is no placeholder.
fn braced(literal: &str) -> impl Iterator<Item = &str> {
    literal.match_indices("{{").filter_map(|(start, _)| {
        let length = literal[start..].find("}}")?;
        let name = literal[start + 2..start + length].trim();
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
        let is_placeholder = !name.is_empty() && name.chars().all(is_name);
        is_placeholder.then(|| &literal[start..start + length + 2])
    })
}

/// The names of the fields of an f-string: what is behind a single brace, up to its conversion or its format.
fn fields(literal: &str) -> impl Iterator<Item = &str> {
    let mut rest = literal;
    std::iter::from_fn(move || {
        loop {
            let (_, behind) = rest.split_once('{')?;
            if let Some(behind) = behind.strip_prefix('{') {
                rest = behind;
                continue;
            }
            // Two colons are part of a name.
            let is_end = |at: &usize| match behind.as_bytes()[*at] {
                b'}' | b'!' => true,
                _ => !behind[*at..].starts_with("::") && !behind[..*at].ends_with(':'),
            };
            let end = behind
                .match_indices(['}', '!', ':'])
                .map(|(at, _)| at)
                .find(is_end)?;
            rest = &behind[end..];
            return Some(behind[..end].trim());
        }
    })
}

impl Instances for ModelState<'_> {
    fn instance_text(&self, id: InstId) -> String {
        self.describe_instance(id)
    }

    fn instance_handle(&self, id: InstId) -> String {
        format!(
            "{} 7f{:010x}",
            self.program.entity_name(self.instance(id).entity),
            u64::from(id.0) * 16
        )
    }
}
