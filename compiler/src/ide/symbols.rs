//! The outline of a file.

use super::{Ide, Place};
use crate::intern::Interner;
use crate::span::{FileId, Span};
use crate::syntax::ast::{Item, Name, Stmt};
use crate::syntax::parse;

/// What kind of thing a definition makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SymbolKind {
    /// An entity.
    Entity,
    /// An attribute of an entity.
    Attribute,
    /// A relation between entities.
    Relation,
    /// An implementation.
    Implementation,
    /// A typedef.
    Typedef,
    /// A variable of the file.
    Variable,
}

/// One definition of a file, with those inside of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// What is shown beside the name: a type, an entity.
    pub detail: String,
    /// What it defines.
    pub kind: SymbolKind,
    /// The place of the whole definition.
    pub place: Place,
    /// The place of its name.
    pub selection: Place,
    /// The definitions inside of it: attributes of an entity.
    pub children: Vec<Symbol>,
}

impl Ide {
    /// The definitions of a text, in its order. It need not belong to a project.
    pub fn symbols(file: &str, text: &str) -> Result<Vec<Symbol>, String> {
        crate::on_deep_stack(|| symbols(file, text))
    }
}

fn symbols(file: &str, text: &str) -> Vec<Symbol> {
    let mut names = Interner::default();
    let text = format!("{text}\n");
    let ast = parse(FileId(0), &text, &mut names).ast;
    let place = |span: Span| Place {
        file: file.to_owned(),
        start: super::position(&text, span.start),
        end: super::position(&text, span.end),
    };
    let symbol = |name: Name, kind, extent: Span, detail: String| Symbol {
        name: names.text(name.symbol).to_owned(),
        detail,
        kind,
        place: place(extent),
        selection: place(name.span),
        children: Vec::new(),
    };
    let mut found: Vec<Symbol> = Vec::new();
    for item in &ast.items {
        match item {
            Item::Entity(entity) => {
                let attributes = entity.attributes.iter().map(|attribute| {
                    let list = if attribute.list { "[]" } else { "" };
                    let nullable = if attribute.nullable { "?" } else { "" };
                    let ty = format!("{}{list}{nullable}", names.text(attribute.base.symbol));
                    let extent = attribute.base.span.to(attribute.name.span);
                    symbol(attribute.name, SymbolKind::Attribute, extent, ty)
                });
                let children = attributes.collect();
                let parents = entity.parents.iter().map(|name| names.text(name.symbol));
                let parents = parents.collect::<Vec<_>>().join(", ");
                let mut entity = symbol(entity.name, SymbolKind::Entity, entity.extent, parents);
                entity.children = children;
                found.push(entity);
            }
            Item::Implementation(item) => {
                let entity = format!("for {}", names.text(item.entity.symbol));
                let kind = SymbolKind::Implementation;
                found.push(symbol(item.name, kind, item.extent, entity));
            }
            Item::Typedef(typedef) => {
                let base = names.text(typedef.base.symbol).to_owned();
                found.push(symbol(
                    typedef.name,
                    SymbolKind::Typedef,
                    typedef.span,
                    base,
                ));
            }
            Item::Relation(relation) => {
                let mut symbol = symbol(
                    relation.left.attribute,
                    SymbolKind::Relation,
                    relation.extent,
                    names.text(relation.right.symbol).to_owned(),
                );
                let owner = names.text(relation.left.entity.symbol);
                symbol.name = format!("{owner}.{}", symbol.name);
                found.push(symbol);
            }
            Item::Stmt(Stmt::Assign { target, span, .. }) => {
                let name = names.text(target.symbol);
                let is_variable = |known: &&Symbol| known.kind == SymbolKind::Variable;
                if !found
                    .iter()
                    .filter(is_variable)
                    .any(|known| known.name == name)
                {
                    found.push(symbol(*target, SymbolKind::Variable, *span, String::new()));
                }
            }
            _ => {}
        }
    }
    found
}
