//! Names to definitions. Source: docs/reference/language.md § 3.4.

use super::build::Builder;
use super::{Def, NamespaceId, Typedef};
use crate::diagnostics::{Fail, closest, fail, not_found};
use crate::intern::Symbol;
use crate::span::Loc;
use crate::syntax::ast::Name;
use crate::types::{EntityId, Type, TypeId, TypedefId};

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

    /// What may be meant by a name that no definition has: a similar one that is seen from here, else the same one
    /// elsewhere.
    fn similar_def(&self, namespace: NamespaceId, name: Symbol) -> Option<String> {
        let program = &self.program;
        let text = self.text(name);
        if let Some((qualifier, last)) = text.rsplit_once("::") {
            let qualifier_symbol = program.names.find(qualifier)?;
            let target = self.visible(namespace, qualifier_symbol)?;
            let defs = &program.namespaces[target.index()].defs;
            let found = closest(last, defs.keys().map(|name| self.text(*name)))?;
            return Some(format!("{qualifier}::{found}"));
        }
        let mut seen: Vec<&str> = Vec::new();
        let mut at = Some(namespace);
        while let Some(id) = at {
            let known = &program.namespaces[id.index()];
            seen.extend(known.defs.keys().map(|name| self.text(*name)));
            at = known.parent;
        }
        if !text.starts_with(|c: char| c.is_ascii_uppercase()) {
            seen.extend(["string", "int", "float", "bool", "list", "dict"]);
        }
        if let Some(found) = closest(text, seen) {
            return Some(found.to_owned());
        }
        let visible = &program.namespaces[namespace.index()].visible;
        let mut elsewhere: Vec<String> = visible
            .iter()
            .filter(|(_, target)| {
                let defs = &program.namespaces[target.index()].defs;
                **target != namespace && defs.contains_key(&name)
            })
            .map(|(qualifier, _)| format!("{}::{text}", self.text(*qualifier)))
            .collect();
        elsewhere.sort();
        elsewhere.into_iter().next()
    }

    /// A namespace that is seen from here, for a qualifier that names none.
    fn similar_namespace(&self, namespace: NamespaceId, qualifier: &str) -> Option<String> {
        let visible = &self.program.namespaces[namespace.index()].visible;
        let names = visible.keys().map(|name| self.text(*name));
        closest(qualifier, names).map(str::to_owned)
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
        let similar = self.similar_namespace(namespace, qualifier);
        let last = self.text(name).rsplit("::").next().unwrap_or("");
        error.did_you_mean(similar.map(|similar| format!("{similar}::{last}")))
    }

    fn import_hint(&self, namespace: NamespaceId, qualifier: &str) -> String {
        let file = self.program.namespaces[namespace.index()].file;
        let file = &self.program.sources.files[file.0 as usize].name;
        format!(".\nTry importing the module with `import {qualifier}` in {file}")
    }

    /// The parts of a qualified name; `None`: it has no qualifier. Models name the same entities over and over, so each name is
    /// taken apart once.
    fn qualifier_and_last(&mut self, name: Symbol) -> Option<(Symbol, Symbol)> {
        if let Some(known) = self.name_parts.get(&name) {
            return *known;
        }
        let parts = self.text(name).rsplit_once("::");
        let parts = parts.map(|(qualifier, last)| (qualifier.to_owned(), last.to_owned()));
        let parts = parts.map(|(qualifier, last)| (self.intern(&qualifier), self.intern(&last)));
        self.name_parts.insert(name, parts);
        parts
    }

    pub fn find_def(
        &mut self,
        namespace: NamespaceId,
        name: Symbol,
        loc: Loc,
    ) -> Result<Def, Fail> {
        if let Some((qualifier, last)) = self.qualifier_and_last(name) {
            let Some(target) = self.visible(namespace, qualifier) else {
                return Err(self
                    .missing_import(namespace, name, self.text(qualifier), loc)
                    .following(self.unclear.contains(&(namespace, qualifier))));
            };
            let found = self.program.namespaces[target.index()]
                .defs
                .get(&last)
                .copied();
            return found.ok_or_else(|| {
                let similar = self.similar_def(namespace, name);
                self.type_not_found(target, name, loc).did_you_mean(similar)
            });
        }
        let mut at = Some(namespace);
        while let Some(id) = at {
            let candidate = &self.program.namespaces[id.index()];
            if let Some(def) = candidate.defs.get(&name) {
                return Ok(*def);
            }
            at = candidate.parent;
        }
        let similar = self.similar_def(namespace, name);
        Err(self
            .type_not_found(namespace, name, loc)
            .did_you_mean(similar))
    }

    /// What a call names. Nobody is told of a missing one where the module's Python may declare it.
    pub fn find_callee(
        &mut self,
        namespace: NamespaceId,
        name: Symbol,
        loc: Loc,
    ) -> Result<Def, Fail> {
        self.find_def(namespace, name, loc)
            .map_err(|error| error.following(self.may_be_plugin(namespace, name)))
    }

    /// Whether a name may be that of a plugin of which nothing is known.
    fn may_be_plugin(&self, namespace: NamespaceId, name: Symbol) -> bool {
        if let Some((qualifier, _)) = self.text(name).rsplit_once("::") {
            let qualifier = self.program.names.find(qualifier);
            let target = qualifier.and_then(|qualifier| self.visible(namespace, qualifier));
            return target.is_some_and(|target| self.open.contains(&target));
        }
        let parent = |id: &NamespaceId| self.program.namespaces[id.index()].parent;
        std::iter::successors(Some(namespace), parent).any(|id| self.open.contains(&id))
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
            Def::Implementation(_) => Ok(self.type_of_every_value(name, "an implementation", loc)),
            Def::Plugin(_) => Ok(self.type_of_every_value(name, "a plugin", loc)),
        }
    }

    /// The reference takes names of implementations and plugins for types, too. Every value has them.
    fn type_of_every_value(&mut self, name: Symbol, what: &str, loc: Loc) -> TypeId {
        let message = format!(
            "{} is {what} and no type: every value is accepted here",
            self.text(name)
        );
        self.program.warnings.push(crate::diagnostics::Warning {
            kind: "CompilerRuntimeWarning",
            message,
            loc,
            notes: Vec::new(),
        });
        let base = self.program.add_type(Type::Any);
        let mut typedefs = self.program.typedefs.iter();
        let known = typedefs.position(|it| (it.name, it.base) == (name, base));
        let id = known.unwrap_or_else(|| {
            self.program.typedefs.push(Typedef {
                name,
                loc,
                base,
                condition: None,
                text: String::new(),
            });
            self.program.typedefs.len() - 1
        });
        self.program.add_type(Type::Typedef(TypedefId(id as u32)))
    }

    fn warn_number(&mut self, loc: Loc) {
        self.program.warnings.push(crate::diagnostics::Warning {
            kind: "TypeDeprecationWarning",
            message: "Type 'number' is deprecated, use 'float' or 'int' instead".to_owned(),
            loc,
            notes: Vec::new(),
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
            let similar = self.similar_namespace(namespace, &qualifier);
            return Err(not_found(loc, message)
                .following(follows)
                .did_you_mean(similar.map(|similar| format!("{similar}::{last}"))));
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
