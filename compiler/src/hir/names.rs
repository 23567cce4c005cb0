//! Names to definitions. Source: language.md 3.4.

use super::build::Builder;
use super::{Def, NamespaceId};
use crate::diagnostics::{Fail, fail, not_found};
use crate::intern::Symbol;
use crate::span::Loc;
use crate::syntax::ast::Name;
use crate::types::{EntityId, Type, TypeId};

impl Builder<'_> {
    /// The namespace that a qualifier names in a file.
    pub fn visible(&self, namespace: NamespaceId, qualifier: Symbol) -> Option<NamespaceId> {
        self.program.namespaces[namespace.index()]
            .visible
            .get(&qualifier)
            .copied()
    }

    fn type_not_found(&self, namespace: NamespaceId, name: Symbol, loc: Loc) -> Fail {
        let message = format!(
            "could not find type {} in namespace {}",
            self.text(name),
            self.text(self.program.namespaces[namespace.index()].name)
        );
        fail("TypeNotFoundException", loc, message)
    }

    fn missing_import(
        &self,
        namespace: NamespaceId,
        name: Symbol,
        qualifier: &str,
        loc: Loc,
    ) -> Fail {
        let mut error = self.type_not_found(namespace, name, loc);
        error.kind = "MissingImportException";
        error
            .message
            .push_str(&self.import_hint(namespace, qualifier));
        error
    }

    fn import_hint(&self, namespace: NamespaceId, qualifier: &str) -> String {
        let file = self.program.namespaces[namespace.index()].file;
        let file = &self.program.sources.files[file.0 as usize].name;
        format!(".\nTry importing the module with `import {qualifier}` in {file}")
    }

    pub fn find_def(
        &mut self,
        namespace: NamespaceId,
        name: Symbol,
        loc: Loc,
    ) -> Result<Def, Fail> {
        if let Some((qualifier, last)) = self.program.names.text(name).rsplit_once("::") {
            let (qualifier, last) = (qualifier.to_owned(), last.to_owned());
            let symbol = self.intern(&qualifier);
            let Some(target) = self.visible(namespace, symbol) else {
                return Err(self
                    .missing_import(namespace, name, &qualifier, loc)
                    .following(self.unclear.contains(&(namespace, symbol))));
            };
            let last = self.intern(&last);
            let found = self.program.namespaces[target.index()]
                .defs
                .get(&last)
                .copied();
            return found.ok_or_else(|| self.type_not_found(target, name, loc));
        }
        let mut at = Some(namespace);
        while let Some(id) = at {
            let candidate = &self.program.namespaces[id.index()];
            if let Some(def) = candidate.defs.get(&name) {
                return Ok(*def);
            }
            at = candidate.parent;
        }
        Err(self.type_not_found(namespace, name, loc))
    }

    pub fn find_entity(&mut self, namespace: NamespaceId, name: Name) -> Result<EntityId, Fail> {
        let loc = self.loc(name.span);
        match self.find_def(namespace, name.symbol, loc)? {
            Def::Entity(id) => Ok(id),
            _ => Err(crate::diagnostics::typing(
                loc,
                format!("{} is not an entity", self.text(name.symbol)),
            )
            .following(self.unclear.contains(&(namespace, name.symbol)))),
        }
    }

    /// A type by its base name.
    pub fn find_type(
        &mut self,
        namespace: NamespaceId,
        name: Symbol,
        loc: Loc,
    ) -> Result<TypeId, Fail> {
        if let Some(primitive) = Type::primitive(self.text(name)) {
            if primitive == Type::Number {
                self.warn_number(loc);
            }
            return Ok(self.program.add_type(primitive));
        }
        match self.find_def(namespace, name, loc)? {
            Def::Entity(id) => Ok(self.program.add_type(Type::Entity(id))),
            Def::Typedef(id) => Ok(self.program.add_type(Type::Typedef(id))),
            Def::Implementation(_) | Def::Plugin(_) => {
                Err(self.type_not_found(namespace, name, loc))
            }
        }
    }

    fn warn_number(&mut self, loc: Loc) {
        self.program.warnings.push(crate::diagnostics::Warning {
            kind: "TypeDeprecationWarning",
            message: "Type 'number' is deprecated, use 'float' or 'int' instead".to_owned(),
            loc,
        });
    }

    /// The root block's variable that `a::b::x` names.
    pub fn find_qualified_variable(
        &mut self,
        namespace: NamespaceId,
        name: Symbol,
        loc: Loc,
    ) -> Result<Option<(NamespaceId, u32)>, Fail> {
        let text = self.program.names.text(name);
        let (qualifier, last) = text.rsplit_once("::").unwrap_or(("", text));
        let (qualifier, last) = (qualifier.to_owned(), last.to_owned());
        let symbol = self.intern(&qualifier);
        let Some(target) = self.visible(namespace, symbol) else {
            let message = format!(
                "Namespace {qualifier} not found.
Try importing it with `import {qualifier}`"
            );
            let follows = self.unclear.contains(&(namespace, symbol));
            return Err(not_found(loc, message).following(follows));
        };
        let last = self.intern(&last);
        Ok(self
            .root_variable(target, last)
            .map(|index| (target, index)))
    }

    pub fn root_variable(&self, namespace: NamespaceId, name: Symbol) -> Option<u32> {
        let root = self.program.namespaces[namespace.index()].root;
        self.root_variables.get(&(root, name)).copied()
    }
}
