//! Registers names and imports, in statement order over all files.

use super::build::Builder;
use super::{BlockId, Def, Entity, Implementation, ImplementationId, NamespaceId, Typedef};
use crate::diagnostics::{Warning, duplicate};
use crate::hash::Map;
use crate::intern::Symbol;
use crate::span::Loc;
use crate::syntax::ast::{self, Item};
use crate::types::{EntityId, Type, TypeId, TypedefId};

/// Definitions with the syntax they came from, in statement order.
#[derive(Default)]
pub(super) struct Items<'a> {
    pub entities: Vec<(NamespaceId, EntityId, &'a ast::Entity)>,
    pub implementations: Vec<(NamespaceId, ImplementationId, &'a ast::Implementation)>,
    /// What entities must be known for.
    pub late: Vec<(NamespaceId, DeferredItem<'a>)>,
}

#[derive(Clone, Copy)]
pub(super) enum DeferredItem<'a> {
    Implementation(ImplementationId, &'a ast::Implementation),
    Relation(&'a ast::Relation),
}

impl<'a> Builder<'a> {
    pub fn register(&mut self) -> Items<'a> {
        let loaded = self.loaded;
        let mut items = Items::default();
        let std = self.intern("std");
        let std_namespace = self
            .namespace_of
            .get(&std)
            .copied()
            .unwrap_or(NamespaceId(0));
        self.add_std_entity(std_namespace);
        for (at, source) in loaded.sources.iter().enumerate() {
            let namespace = NamespaceId(at as u32);
            let own = self.program.namespaces[at].name;
            self.program.namespaces[at].visible.insert(own, namespace);
            self.program.namespaces[at]
                .visible
                .insert(std, std_namespace);
            let mut imports: Map<Symbol, Loc> = Map::default();
            for item in &source.ast.items {
                match item {
                    Item::Import {
                        module,
                        alias,
                        span,
                    } => {
                        let loc = self.loc(*span);
                        let name = alias.map_or(module.symbol, |alias| alias.symbol);
                        if let Some(first) = imports.get(&name) {
                            let message = "Two import statements have the same name";
                            self.errors.push(duplicate(loc, *first, message));
                            self.unclear.insert((namespace, name));
                            continue;
                        }
                        imports.insert(name, loc);
                        match self.namespace_of.get(&module.symbol) {
                            Some(target) => {
                                self.program.namespaces[at].visible.insert(name, *target);
                            }
                            None => {
                                self.unclear.insert((namespace, name));
                            }
                        }
                    }
                    Item::Entity(entity) => {
                        let id = self.register_entity(namespace, entity);
                        items.entities.push((namespace, id, entity));
                    }
                    Item::Typedef(typedef) => self.register_typedef(namespace, typedef),
                    Item::Implementation(implementation) => {
                        let id = self.register_implementation(namespace, implementation);
                        items.implementations.push((namespace, id, implementation));
                        let late = DeferredItem::Implementation(id, implementation);
                        items.late.push((namespace, late));
                    }
                    Item::Relation(relation) => {
                        items
                            .late
                            .push((namespace, DeferredItem::Relation(relation)));
                    }
                    Item::Implement(_) | Item::Index { .. } | Item::Stmt(_) => {}
                }
            }
        }
        items
    }

    fn def_loc(&self, def: Def) -> Loc {
        match def {
            Def::Entity(id) => self.program.entity(id).loc,
            Def::Typedef(id) => self.program.typedefs[id.index()].loc,
            Def::Implementation(id) => self.program.implementations[id.index()].loc,
            Def::Plugin(_) => Loc::NONE,
        }
    }

    pub fn register_def(&mut self, namespace: NamespaceId, name: Symbol, def: Def, loc: Loc) {
        self.register_def_for(namespace, name, def, loc, "");
    }

    /// The same of an implementation, which says what it is for: ` for type A`.
    fn register_def_for(
        &mut self,
        namespace: NamespaceId,
        name: Symbol,
        def: Def,
        loc: Loc,
        purpose: &str,
    ) {
        let known = self.program.namespaces[namespace.index()]
            .defs
            .get(&name)
            .copied();
        if let Some(known) = known {
            let full = self.full_name(namespace, name);
            let what = match def {
                Def::Entity(_) => "Entity",
                Def::Typedef(_) => "TypeConstraint",
                Def::Implementation(_) => "Implementation",
                Def::Plugin(_) => "Type",
            };
            let message = format!("{what} {full}{purpose} is already defined");
            let mut error = duplicate(loc, self.def_loc(known), message);
            if let Def::Plugin(plugin) = def {
                let declared_at = &self.program.plugins[plugin.index()].declared_at;
                error.place.clone_from(declared_at);
            }
            self.errors.push(error);
            self.unclear.insert((namespace, name));
            for def in [known, def] {
                if let Def::Entity(entity) = def {
                    self.broken.insert(entity);
                }
            }
            return;
        }
        self.program.namespaces[namespace.index()]
            .defs
            .insert(name, def);
    }

    pub fn full_name(&self, namespace: NamespaceId, name: Symbol) -> String {
        format!(
            "{}::{}",
            self.text(self.program.namespaces[namespace.index()].name),
            self.text(name)
        )
    }

    fn add_std_entity(&mut self, namespace: NamespaceId) {
        let short = self.intern("Entity");
        let name = self.intern("std::Entity");
        self.add_entity(name, short, Loc::NONE);
        self.program.namespaces[namespace.index()]
            .defs
            .insert(short, Def::Entity(super::STD_ENTITY));
    }

    fn add_entity(&mut self, name: Symbol, short: Symbol, loc: Loc) -> EntityId {
        self.program.entities.push(Entity {
            name,
            short,
            loc,
            doc: None,
            parents: Vec::new(),
            ancestors: Vec::new(),
            children: Vec::new(),
            own: Vec::new(),
            slots: Vec::new(),
            slot_of: Map::default(),
            own_of: Map::default(),
            own_defaults: Vec::new(),
            defaults: Vec::new(),
            implements: Vec::new(),
            implement_parents: false,
            entries: Vec::new(),
            own_indexes: Vec::new(),
            indexes: Vec::new(),
            is_dataclass: false,
            field_types: Vec::new(),
        });
        EntityId(self.program.entities.len() as u32 - 1)
    }

    fn register_entity(&mut self, namespace: NamespaceId, entity: &ast::Entity) -> EntityId {
        let loc = self.loc(entity.name.span);
        let full = self.full_name(namespace, entity.name.symbol);
        let full = self.intern(&full);
        let id = self.add_entity(full, entity.name.symbol, loc);
        self.program.entities[id.index()].doc = entity.doc;
        self.register_def(namespace, entity.name.symbol, Def::Entity(id), loc);
        id
    }

    fn register_typedef(&mut self, namespace: NamespaceId, typedef: &ast::Typedef) {
        let loc = self.loc(typedef.name.span);
        let short = self.text(typedef.name.symbol).to_owned();
        if Type::primitive(&short).is_some() {
            self.program.warnings.push(Warning {
                kind: "CompilerRuntimeWarning",
                message: format!("Trying to override a built-in type: {short}"),
                loc,
                notes: Vec::new(),
            });
        }
        let full = self.full_name(namespace, typedef.name.symbol);
        let name = self.intern(&full);
        self.program.typedefs.push(Typedef {
            name,
            loc,
            base: TypeId(0),
            condition: None,
            text: String::new(),
        });
        let id = TypedefId(self.program.typedefs.len() as u32 - 1);
        self.register_def(namespace, typedef.name.symbol, Def::Typedef(id), loc);
    }

    fn register_implementation(
        &mut self,
        namespace: NamespaceId,
        implementation: &ast::Implementation,
    ) -> ImplementationId {
        let loc = self.loc(implementation.name.span);
        self.program.implementations.push(Implementation {
            entity: super::STD_ENTITY,
            namespace,
            loc,
            block: BlockId(0),
        });
        let id = ImplementationId(self.program.implementations.len() as u32 - 1);
        let purpose = format!(" for type {}", self.text(implementation.entity.symbol));
        self.register_def_for(
            namespace,
            implementation.name.symbol,
            Def::Implementation(id),
            loc,
            &purpose,
        );
        id
    }
}
