//! What a name is: its declaration and its documentation, as Markdown.

use super::at::At;
use super::scope::{Binding, Scope};
use super::{Ide, Place, Position};
use crate::hir::{AttrId, AttributeKind, Def, NamespaceId};
use crate::protocol::{Annotation, ParameterKind};
use crate::span::{Loc, Span};
use crate::syntax::ast::Item;
use crate::types::EntityId;

impl Ide {
    /// Markdown about the name at a place, and the place of the name.
    pub fn hover(&self, file: &str, position: Position) -> Option<(String, Place)> {
        let (file, _) = self.file(file)?;
        let offset = self.offset(file, position)?;
        let (namespace, _) = self.namespace(file)?;
        let at = self.name_at(namespace, offset)?;
        let scope = Scope::at(self, namespace, offset);
        let program = self.program();
        let text = match at {
            At::Module(name) => {
                let text = program.text(name.symbol);
                let mut namespaces = program.namespaces.iter();
                let at = namespaces.position(|namespace| namespace.name == name.symbol)?;
                let doc = self.ast(NamespaceId(at as u32)).doc;
                markdown(&format!("import {text}"), &self.doc(doc))
            }
            At::Def(name) => self.describe(self.def(namespace, name)?),
            At::Variable(name) => {
                let text = program.text(name.symbol);
                match scope.named(text)?.1 {
                    Binding::Attribute(attr) => self.describe_attribute(attr),
                    _ => {
                        let ty = scope.type_of_name(text);
                        let ty = scope.type_text(ty).unwrap_or_else(|| "?".to_owned());
                        markdown(&format!("{text}: {ty}"), "")
                    }
                }
            }
            At::AttributeOf(entity, name) => {
                self.describe_attribute(self.attribute_of(namespace, entity, name)?)
            }
            At::Attribute(object, name) => {
                self.describe_attribute(scope.attribute(scope.infer(object), name.symbol)?)
            }
            At::Argument(function, _) => self.describe(self.def(namespace, function)?),
        };
        Some((text, self.span_place(at.name().span)?))
    }

    /// The text of a documentation, without its quotes and the indentation.
    pub(super) fn doc(&self, doc: Option<Span>) -> String {
        let Some(doc) = doc else {
            return String::new();
        };
        let text = self.text(doc);
        let body = text.get(3..text.len().saturating_sub(3)).unwrap_or("");
        let lines: Vec<&str> = body.lines().map(str::trim).collect();
        lines.join("\n").trim().to_owned()
    }

    /// The definition that stands at a place.
    fn item_at(&self, loc: Loc) -> Option<&Item> {
        let span = self.program().sources.span(loc)?;
        let (_, ast) = self.namespace(span.file)?;
        ast.items.iter().find(|item| match item {
            Item::Entity(entity) => entity.name.span == span,
            Item::Typedef(typedef) => typedef.name.span == span,
            Item::Implementation(implementation) => implementation.name.span == span,
            Item::Relation(relation) => {
                relation.span == span
                    || relation
                        .right_end
                        .is_some_and(|end| end.attribute.span == span)
            }
            _ => false,
        })
    }

    pub(super) fn describe(&self, def: Def) -> String {
        let program = self.program();
        match def {
            Def::Entity(id) => {
                let entity = program.entity(id);
                let parents = entity.parents.iter().map(|id| program.entity_name(*id));
                let parents: Vec<&str> = parents.filter(|name| *name != "std::Entity").collect();
                let mut text = format!("entity {}", program.text(entity.name));
                if !parents.is_empty() {
                    text.push_str(&format!(" extends {}", parents.join(", ")));
                }
                markdown(&text, &self.entity_doc(id))
            }
            Def::Typedef(id) => {
                let typedef = &program.typedefs[id.index()];
                let (text, doc) = match self.item_at(typedef.loc) {
                    Some(Item::Typedef(typedef)) => (self.text(typedef.span), typedef.doc),
                    _ => (program.text(typedef.name), None),
                };
                markdown(text, &self.doc(doc))
            }
            Def::Implementation(id) => {
                let implementation = &program.implementations[id.index()];
                let doc = match self.item_at(implementation.loc) {
                    Some(Item::Implementation(item)) => item.doc,
                    _ => None,
                };
                let name = program.sources.snippet(implementation.loc);
                let entity = program.entity_name(implementation.entity);
                markdown(
                    &format!("implementation {name} for {entity}"),
                    &self.doc(doc),
                )
            }
            Def::Plugin(id) => {
                let name = program.text(program.plugins[id.index()].name);
                let mut scanned = self.analysis.plugins.iter();
                let scanned = scanned.find(|scanned| scanned.info.name == name);
                let doc = scanned.and_then(|scanned| scanned.info.docstring.clone());
                let signature = match scanned {
                    Some(scanned) => scanned.signature.clone(),
                    None => self.native_signature(id.index()),
                };
                markdown(&format!("{name}{signature}"), &doc.unwrap_or_default())
            }
        }
    }

    pub(super) fn native_signature(&self, plugin: usize) -> String {
        let program = self.program();
        let plugin = &program.plugins[plugin];
        let parameters = plugin.parameters.iter().map(|parameter| {
            let stars = match parameter.kind {
                ParameterKind::VarPositional => "*",
                ParameterKind::VarKeyword => "**",
                _ => "",
            };
            let default = if parameter.has_default { " = …" } else { "" };
            let ty = program.type_text(parameter.ty);
            format!("{stars}{}: {ty}{default}", parameter.name)
        });
        let parameters: Vec<String> = parameters.collect();
        let returns = match plugin.returns_declared {
            Annotation::Missing => String::new(),
            _ => format!(" -> {}", program.type_text(plugin.returns)),
        };
        format!("({}){returns}", parameters.join(", "))
    }

    fn entity_doc(&self, id: EntityId) -> String {
        match self.item_at(self.program().entity(id).loc) {
            Some(Item::Entity(entity)) => self.doc(entity.doc),
            _ => String::new(),
        }
    }

    pub(super) fn attribute_text(&self, attr: AttrId) -> String {
        let program = self.program();
        let attribute = program.attribute(attr);
        let name = program.text(attribute.name);
        let owner = program.entity_name(attribute.entity);
        match attribute.kind {
            AttributeKind::Plain(ty) => format!("{} {owner}.{name}", program.type_text(ty)),
            AttributeKind::Relation {
                target,
                low,
                high,
                inverse,
            } => {
                let bounds = |low: u32, high: Option<u32>| match high {
                    Some(high) if high == low => format!("[{low}]"),
                    Some(high) => format!("[{low}:{high}]"),
                    None => format!("[{low}:]"),
                };
                let other = inverse.map(|inverse| program.attribute(inverse));
                let other = other.map(|other| match other.kind {
                    AttributeKind::Relation { low, high, .. } => {
                        format!(".{} {}", program.text(other.name), bounds(low, high))
                    }
                    AttributeKind::Plain(_) => String::new(),
                });
                format!(
                    "{owner}.{name} {} -- {}{}",
                    bounds(low, high),
                    program.entity_name(target),
                    other.unwrap_or_default()
                )
            }
        }
    }

    pub(super) fn attribute_doc(&self, attr: AttrId) -> String {
        let attribute = self.program().attribute(attr);
        if attribute.is_relation() {
            return match self.item_at(attribute.loc) {
                Some(Item::Relation(relation)) => self.doc(relation.doc),
                _ => String::new(),
            };
        }
        let name = self.program().text(attribute.name);
        let doc = self.entity_doc(attribute.entity);
        let mark = format!(":attr {name}:");
        let Some((_, rest)) = doc.split_once(&mark) else {
            return String::new();
        };
        let end = rest.find("\n:").unwrap_or(rest.len());
        rest[..end].trim().to_owned()
    }

    fn describe_attribute(&self, attr: AttrId) -> String {
        markdown(&self.attribute_text(attr), &self.attribute_doc(attr))
    }
}

fn markdown(code: &str, doc: &str) -> String {
    if doc.is_empty() {
        format!("```inmanta\n{code}\n```")
    } else {
        format!("```inmanta\n{code}\n```\n\n{doc}")
    }
}
