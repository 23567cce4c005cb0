//! Go to definition.

use super::at::At;
use super::scope::{Binding, Scope};
use super::{Ide, Place, Position};
use crate::hir::{AttrId, Def, NamespaceId};
use crate::syntax::ast::Name;
use crate::types::EntityId;

impl Ide {
    /// Where the name at a place is defined.
    pub fn definition(&self, file: &str, position: Position) -> Option<Place> {
        let (file, _) = self.file(file)?;
        let offset = self.offset(file, position)?;
        let (namespace, _) = self.namespace(file)?;
        let at = self.name_at(namespace, offset)?;
        let scope = Scope::at(self, namespace, offset);
        match at {
            At::Module(name) => self.module_place(name),
            At::Def(name) => self.def_place(self.def(namespace, name)?),
            At::Variable(name) => {
                let (_, binding) = scope.named(self.program().text(name.symbol))?;
                self.binding_place(&binding)
            }
            At::AttributeOf(entity, name) => {
                let attr = self.attribute_of(namespace, entity, name)?;
                self.loc_place(self.program().attribute(attr).loc)
            }
            At::Attribute(object, name) => {
                let attr = scope.attribute(scope.infer(object), name.symbol)?;
                self.loc_place(self.program().attribute(attr).loc)
            }
            At::Argument(function, _) => self.def_place(self.def(namespace, function)?),
        }
    }

    pub(super) fn def(&self, namespace: NamespaceId, name: Name) -> Option<Def> {
        self.find_def(namespace, self.program().text(name.symbol))
    }

    pub(super) fn entity_of(&self, namespace: NamespaceId, name: Name) -> Option<EntityId> {
        match self.def(namespace, name)? {
            Def::Entity(entity) => Some(entity),
            _ => None,
        }
    }

    pub(super) fn attribute_of(
        &self,
        namespace: NamespaceId,
        entity: Name,
        name: Name,
    ) -> Option<AttrId> {
        let entity = self.entity_of(namespace, entity)?;
        self.program().find_attribute(entity, name.symbol)
    }

    fn module_place(&self, name: Name) -> Option<Place> {
        let namespaces = &self.program().namespaces;
        let found = namespaces
            .iter()
            .find(|namespace| namespace.name == name.symbol)?;
        self.span_place(crate::span::Span {
            file: found.file,
            start: 0,
            end: 0,
        })
    }

    fn def_place(&self, def: Def) -> Option<Place> {
        let program = self.program();
        match def {
            Def::Entity(id) => self.loc_place(program.entity(id).loc),
            Def::Typedef(id) => self.loc_place(program.typedefs[id.index()].loc),
            Def::Implementation(id) => self.loc_place(program.implementations[id.index()].loc),
            Def::Plugin(id) => {
                let name = program.text(program.plugins[id.index()].name);
                let mut scanned = self.analysis.plugins.iter();
                let scanned = scanned.find(|scanned| scanned.info.name == name)?;
                let start = Position {
                    line: scanned.info.line.max(1) - 1,
                    column: 0,
                };
                Some(Place {
                    file: scanned.info.file.clone(),
                    start,
                    end: start,
                })
            }
        }
    }

    fn binding_place(&self, binding: &Binding) -> Option<Place> {
        match binding {
            Binding::Assigned(name, _) | Binding::Element(name, _) => self.span_place(name.span),
            Binding::Attribute(attr) => self.loc_place(self.program().attribute(*attr).loc),
            Binding::This(entity) => self.loc_place(self.program().entity(*entity).loc),
        }
    }
}
