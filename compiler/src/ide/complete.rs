//! What may stand at a place. The text there is being written, so it is understood from the tokens before.

use super::scope::Scope;
use super::{Ide, Position};
use crate::analysis::Static;
use crate::hir::{Def, NamespaceId};
use crate::protocol::ParameterKind;
use crate::syntax::token::{Keyword, Kind, Token};
use crate::syntax::tokens;
use crate::types::EntityId;
use crate::world::World;

/// What kind of thing a proposal is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompletionKind {
    /// A variable of a block or a file.
    Variable,
    /// An attribute or a relation.
    Attribute,
    /// An entity.
    Entity,
    /// A typedef, or a type of the language.
    Typedef,
    /// An implementation.
    Implementation,
    /// A plugin.
    Plugin,
    /// A module, or a namespace of one.
    Module,
    /// A keyword argument of a call or constructor.
    Argument,
    /// A word of the language.
    Keyword,
}

/// One proposal of what may be written at a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// What is shown.
    pub label: String,
    /// What kind of thing it is.
    pub kind: CompletionKind,
    /// What is shown beside it: its type or signature.
    pub detail: String,
    /// What is written; the label, but with `=` for arguments.
    pub insert: String,
}

const KEYWORDS: &[&str] = &[
    "and",
    "as",
    "dict",
    "elif",
    "else",
    "end",
    "entity",
    "extends",
    "false",
    "for",
    "if",
    "implement",
    "implementation",
    "import",
    "in",
    "index",
    "is defined",
    "matching",
    "not",
    "null",
    "or",
    "parents",
    "true",
    "typedef",
    "undef",
    "using",
    "when",
];
const PRIMITIVES: &[&str] = &["bool", "float", "int", "list", "number", "string"];

/// What is written before the place.
struct Before<'t> {
    text: &'t str,
    /// The tokens before the place, without blanks and comments, and without the word at the place.
    tokens: Vec<Token>,
}

impl<'t> Before<'t> {
    fn kind(&self, back: usize) -> Option<Kind> {
        let at = self.tokens.len().checked_sub(back)?;
        self.tokens.get(at).map(|token| token.kind)
    }

    fn slice(&self, at: usize) -> &'t str {
        let token = self.tokens[at];
        &self.text[token.start as usize..token.end as usize]
    }

    /// The qualified name that ends before token `end`: `a::b::C`.
    fn qualified(&self, end: usize) -> Option<String> {
        let mut at = end;
        let mut parts = Vec::new();
        loop {
            at = at.checked_sub(1)?;
            if !matches!(self.tokens[at].kind, Kind::Id | Kind::Cid) {
                return None;
            }
            parts.push(self.slice(at));
            match at.checked_sub(1).map(|at| self.tokens[at].kind) {
                Some(Kind::Sep) => at -= 1,
                _ => break,
            }
        }
        parts.reverse();
        Some(parts.join("::"))
    }
}

impl Ide {
    /// What may stand at a place of a file whose text may be newer than this project.
    pub fn completion(
        &self,
        world: &dyn World,
        file: &str,
        text: &str,
        position: Position,
    ) -> Vec<Completion> {
        let Some((namespace, offset)) = self.file(file).and_then(|(id, _)| {
            let (namespace, _) = self.namespace(id)?;
            Some((namespace, super::offset(text, position)?))
        }) else {
            return Vec::new();
        };
        let mut found = self.complete(world, namespace, text, offset);
        let mut seen = std::collections::HashSet::new();
        found.retain(|one| seen.insert((one.label.clone(), one.kind == CompletionKind::Argument)));
        found
    }

    fn complete(
        &self,
        world: &dyn World,
        namespace: NamespaceId,
        text: &str,
        offset: u32,
    ) -> Vec<Completion> {
        let mut before: Vec<Token> = tokens(&text[..offset as usize]);
        before.retain(|token| token.kind != Kind::End);
        let inside = before.last().map(|token| token.kind);
        // A quote that is not closed yet, a comment.
        if matches!(inside, Some(Kind::Comment | Kind::Illegal)) {
            return Vec::new();
        }
        before.retain(|token| !matches!(token.kind, Kind::Blank | Kind::Comment));
        // The word that is being written.
        if before.last().is_some_and(|token| {
            token.end == offset && matches!(token.kind, Kind::Id | Kind::Cid | Kind::Keyword(_))
        }) {
            before.pop();
        }
        let before = Before {
            text,
            tokens: before,
        };
        let scope = Scope::at(self, namespace, offset);
        let end = before.tokens.len();
        if let Some(module) = import(&before) {
            return self.modules(world, &module);
        }
        match before.kind(1) {
            Some(Kind::Punct(b'.')) => self.attributes_after(&scope, &before, end - 1),
            Some(Kind::Sep) => match before.qualified(end - 1) {
                Some(qualifier) => self.members(namespace, &qualifier),
                None => Vec::new(),
            },
            _ => {
                let mut found = Vec::new();
                if let Some(only) = self.arguments(namespace, &before, &mut found)
                    && only
                {
                    return found;
                }
                self.names(&scope, &mut found);
                found
            }
        }
    }

    /// After `a.b.`, whose last dot is token `end`.
    fn attributes_after(&self, scope: &Scope, before: &Before, end: usize) -> Vec<Completion> {
        let mut start = end;
        while start >= 2
            && before.tokens[start - 1].kind == Kind::Id
            && before.tokens[start - 2].kind == Kind::Punct(b'.')
        {
            start -= 2;
        }
        // At a relation: `Entity.`
        let Some(first) = before.qualified(start) else {
            return Vec::new();
        };
        let mut ty = match self.find_def(scope.namespace, &first) {
            Some(Def::Entity(entity)) => Static::Entity(entity),
            _ => scope.type_of_name(&first),
        };
        for at in (start + 1..end).step_by(2) {
            let name = self.program().names.find(before.slice(at));
            let attr = name.and_then(|name| scope.attribute(ty, name));
            ty = attr.map_or(Static::Unknown, |attr| scope.type_of_attribute(attr));
        }
        match ty {
            Static::Entity(entity) => self.attributes(entity, CompletionKind::Attribute, &[]),
            _ => Vec::new(),
        }
    }

    fn attributes(
        &self,
        entity: EntityId,
        kind: CompletionKind,
        without: &[&str],
    ) -> Vec<Completion> {
        let program = self.program();
        let slots = program.entity(entity).slots.iter();
        let found = slots.map(|attr| {
            let name = program.text(program.attribute(*attr).name);
            let end = if kind == CompletionKind::Argument {
                "="
            } else {
                ""
            };
            Completion {
                label: name.to_owned(),
                kind,
                detail: self.attribute_text(*attr),
                insert: format!("{name}{end}"),
            }
        });
        found
            .filter(|one| !without.contains(&one.label.as_str()))
            .collect()
    }

    /// Keyword arguments of the call or constructor around the place. `Some(true)`: nothing else may stand there.
    fn arguments(
        &self,
        namespace: NamespaceId,
        before: &Before,
        found: &mut Vec<Completion>,
    ) -> Option<bool> {
        if !matches!(before.kind(1), Some(Kind::Punct(b'(' | b'[' | b','))) {
            return None;
        }
        let mut depth = 0;
        let mut given = Vec::new();
        let mut at = before.tokens.len();
        loop {
            at = at.checked_sub(1)?;
            match before.tokens[at].kind {
                Kind::Punct(b')' | b']' | b'}') => depth += 1,
                Kind::Punct(b'(' | b'[') if depth == 0 => break,
                Kind::Punct(b'{') if depth == 0 => return None,
                Kind::Punct(b'(' | b'[' | b'{') => depth -= 1,
                Kind::Punct(b'=') if depth == 0 && at > 0 => given.push(before.slice(at - 1)),
                _ => {}
            }
        }
        let name = before.qualified(at)?;
        match self.find_def(namespace, &name)? {
            Def::Entity(entity) => {
                found.extend(self.attributes(entity, CompletionKind::Argument, &given));
                Some(true)
            }
            Def::Plugin(plugin) => {
                let plugin = &self.program().plugins[plugin.index()];
                let parameters = plugin.parameters.iter().filter(|parameter| {
                    use ParameterKind::{KeywordOnly, Positional};
                    matches!(parameter.kind, Positional | KeywordOnly)
                });
                found.extend(
                    parameters
                        .filter(|parameter| !given.contains(&parameter.name.as_str()))
                        .map(|parameter| Completion {
                            label: parameter.name.clone(),
                            kind: CompletionKind::Argument,
                            detail: self.program().type_text(parameter.ty),
                            insert: format!("{}=", parameter.name),
                        }),
                );
                Some(false)
            }
            _ => None,
        }
    }

    /// The definitions and variables of a namespace.
    fn members(&self, namespace: NamespaceId, qualifier: &str) -> Vec<Completion> {
        let program = self.program();
        let mut found = Vec::new();
        if let Some(target) = self.find_namespace(namespace, qualifier) {
            self.defs(target, &mut found);
            let root = program.namespaces[target.index()].root;
            for name in &program.blocks[root.index()].variables {
                found.push(plain(program.text(*name), CompletionKind::Variable, ""));
            }
        }
        let prefix = format!("{qualifier}::");
        for name in program.namespaces[namespace.index()].visible.keys() {
            if let Some(rest) = program.text(*name).strip_prefix(&prefix) {
                found.push(plain(rest, CompletionKind::Module, ""));
            }
        }
        found.sort_by(|a, b| a.label.cmp(&b.label));
        found
    }

    fn defs(&self, namespace: NamespaceId, found: &mut Vec<Completion>) {
        let program = self.program();
        for (name, def) in &program.namespaces[namespace.index()].defs {
            let (kind, detail) = match def {
                Def::Entity(id) => (
                    CompletionKind::Entity,
                    format!("entity {}", program.entity_name(*id)),
                ),
                Def::Typedef(id) => {
                    let typedef = &program.typedefs[id.index()];
                    let base = program.type_text(typedef.base);
                    (CompletionKind::Typedef, format!("typedef as {base}"))
                }
                Def::Implementation(id) => {
                    let entity = program.implementations[id.index()].entity;
                    let entity = program.entity_name(entity);
                    (CompletionKind::Implementation, format!("for {entity}"))
                }
                Def::Plugin(id) => (CompletionKind::Plugin, self.native_signature(id.index())),
            };
            found.push(plain(program.text(*name), kind, &detail));
        }
    }

    /// All that can be named without a qualifier.
    fn names(&self, scope: &Scope, found: &mut Vec<Completion>) {
        let program = self.program();
        for (name, value) in scope.variables() {
            let ty = value.map_or(Static::Unknown, |value| scope.infer(value));
            let detail = scope.type_text(ty).unwrap_or_default();
            let text = program.text(name.symbol);
            found.push(plain(text, CompletionKind::Variable, &detail));
        }
        if let Some(entity) = scope.entity {
            let name = program.entity_name(entity);
            found.push(plain("self", CompletionKind::Variable, name));
            found.extend(self.attributes(entity, CompletionKind::Attribute, &[]));
        }
        let first = found.len();
        let mut at = Some(scope.namespace);
        while let Some(id) = at {
            self.defs(id, found);
            at = program.namespaces[id.index()].parent;
        }
        for (name, target) in &program.namespaces[scope.namespace.index()].visible {
            if *target != scope.namespace {
                found.push(plain(program.text(*name), CompletionKind::Module, ""));
            }
        }
        found[first..].sort_by(|a, b| a.label.cmp(&b.label));
        let words = PRIMITIVES.iter().chain(KEYWORDS);
        found.extend(words.map(|word| plain(word, CompletionKind::Keyword, "")));
    }

    /// Modules to import: all, or those below a namespace.
    fn modules(&self, world: &dyn World, above: &str) -> Vec<Completion> {
        let Some(project) = &self.analysis.project else {
            return Vec::new();
        };
        let names = crate::project::namespaces(world, project, above);
        let found = names.iter();
        found
            .map(|name| plain(name, CompletionKind::Module, ""))
            .collect()
    }
}

/// In `import a::b::`: what is written of the name, without the last separator.
fn import(before: &Before) -> Option<String> {
    let mut at = before.tokens.len();
    let mut parts = Vec::new();
    while at >= 2
        && before.tokens[at - 1].kind == Kind::Sep
        && before.tokens[at - 2].kind == Kind::Id
    {
        parts.push(before.slice(at - 2));
        at -= 2;
    }
    let keyword = at.checked_sub(1).map(|at| before.tokens[at].kind)?;
    parts.reverse();
    (keyword == Kind::Keyword(Keyword::Import)).then(|| parts.join("::"))
}

fn plain(label: &str, kind: CompletionKind, detail: &str) -> Completion {
    Completion {
        label: label.to_owned(),
        kind,
        detail: detail.to_owned(),
        insert: label.to_owned(),
    }
}
