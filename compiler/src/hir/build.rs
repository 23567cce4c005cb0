//! The order in which definitions are processed. Source: docs/reference/language.md § 8.1.

use std::rc::Rc;

use super::define::Items;
use super::{AttrId, Block, BlockId, Namespace, NamespaceId, Program};
use crate::diagnostics::{Fail, Warning};
use crate::hash::{Map, Set};
use crate::hir::plugin::{NativeDef, PythonPlugins};
use crate::intern::{Interner, Symbol};
use crate::project::{Loaded, Project};
use crate::protocol::DataclassInfo;
use crate::span::{Loc, Sources, Span};
use crate::syntax::ast;
use crate::types::EntityId;

pub(super) struct Builder<'a> {
    pub program: Program,
    pub loaded: &'a Loaded,
    pub namespace_of: Map<Symbol, NamespaceId>,
    /// Names that were looked for, with their qualifier and their last part if they have one.
    pub name_parts: Map<Symbol, Option<(Symbol, Symbol)>>,
    /// What constructors of an entity that was constructed need for its indexes.
    pub indexed: Map<EntityId, Rc<[Symbol]>>,
    pub this: Symbol,
    /// How many indexes were defined so far.
    pub n_indexes: u32,
    /// Conditions of implement statements, lowered once everything is defined.
    pub pending_conditions: Vec<(super::ImplementId, ast::ExprId)>,
    pub pending_annotations: Vec<PendingAnnotation>,
    /// All entities, parents before children.
    pub parents_first: Vec<EntityId>,
    /// Position of each variable of a root block.
    pub root_variables: Map<(BlockId, Symbol), u32>,
    /// Mistakes so far; each step goes on after one.
    pub errors: Vec<Fail>,
    /// Those that are met when one entity after the other is checked.
    pub entity_errors: Vec<(ErrorOrder, Fail)>,
    /// Entities of which something is not understood: what they lack is no mistake of its own.
    pub broken: Set<EntityId>,
    /// Names of a namespace that are defined twice, or whose definition is not understood.
    pub unclear: Set<(NamespaceId, Symbol)>,
    /// Namespaces whose plugins are not all known.
    pub open: Set<NamespaceId>,
}

/// Something that stands in a relation in the place of `--`.
pub(super) struct PendingAnnotation {
    pub namespace: NamespaceId,
    pub value: ast::ExprId,
    /// The entity that is written first.
    pub entity: EntityId,
    /// Its end of the relation.
    pub attribute: AttrId,
    pub loc: Loc,
}

/// What is wrong with the definitions, and with what uses them.
pub struct Mistakes {
    definitions: Vec<Fail>,
    /// Errors of entities, which are found once everything is defined.
    entities: Vec<(ErrorOrder, Fail)>,
    bodies: Vec<Fail>,
}

/// Where a mistake is met among those of the entities: first the defaults of one, then the rest of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ErrorOrder(EntityId, AttrId);

impl ErrorOrder {
    pub fn default_of(entity: EntityId, attribute: AttrId) -> Self {
        ErrorOrder(entity, attribute)
    }

    pub fn after_defaults(entity: EntityId) -> Self {
        ErrorOrder(entity, AttrId(u32::MAX - 1))
    }

    /// Its class in Python is looked at last.
    pub fn of_class(entity: EntityId) -> Self {
        ErrorOrder(entity, AttrId(u32::MAX))
    }
}

impl Mistakes {
    /// All of them in the order in which a compile meets them: the types of defaults are checked when all is defined, and
    /// before bodies are looked at. Source: docs/reference/language.md § 8.1, § 9.3.
    pub fn in_order(mut self, of_defaults: Vec<(ErrorOrder, Fail)>) -> Vec<Fail> {
        self.entities.extend(of_defaults);
        self.entities.sort_by_key(|(at, _)| *at);
        let entities = self.entities.into_iter().map(|(_, error)| error);
        let mut errors = self.definitions;
        errors.extend(entities);
        errors.extend(self.bodies);
        errors
    }
}

/// Resolves the loaded files, the native plugins and those of Python modules to one program. It comes back with mistakes, too,
/// with what was understood.
pub fn build(
    project: &Project,
    loaded: &Loaded,
    sources: Sources,
    names: Interner,
    warnings: Vec<Warning>,
    natives: Vec<NativeDef>,
    mut python: PythonPlugins,
) -> (Program, Mistakes) {
    let program = Program {
        names,
        sources,
        warnings,
        precedence: project.precedence.clone(),
        ..Program::default()
    };
    let mut builder = Builder {
        program,
        loaded,
        namespace_of: Map::default(),
        name_parts: Map::default(),
        indexed: Map::default(),
        this: Symbol(0),
        n_indexes: 0,
        pending_conditions: Vec::new(),
        pending_annotations: Vec::new(),
        parents_first: Vec::new(),
        root_variables: Map::default(),
        errors: Vec::new(),
        entity_errors: Vec::new(),
        broken: Set::default(),
        unclear: Set::default(),
        open: Set::default(),
    };
    let classes = std::mem::take(&mut python.dataclasses);
    let items = builder.define(natives, python, &classes);
    let definitions = std::mem::take(&mut builder.errors);
    builder.lower(&items);
    builder.program.broken = builder.broken;
    let mistakes = Mistakes {
        definitions,
        entities: builder.entity_errors,
        bodies: builder.errors,
    };
    (builder.program, mistakes)
}

impl<'a> Builder<'a> {
    fn define(
        &mut self,
        natives: Vec<NativeDef>,
        python: PythonPlugins,
        classes: &[DataclassInfo],
    ) -> Items<'a> {
        self.this = self.intern("self");
        self.add_namespaces();
        self.declare_roots();
        let items = self.register();
        self.register_plugins(natives, python);
        self.define_typedefs();
        self.define_entities(&items);
        self.define_relations(&items);
        self.lay_out();
        self.define_indexes();
        self.define_implements();
        self.resolve_plugins(classes);
        self.check_entities();
        self.check_dataclasses(classes);
        self.lower_typedefs();
        items
    }

    fn lower(&mut self, items: &Items) {
        self.lower_conditions();
        self.lower_implementations(items);
        self.lower_roots();
        let resolved = self.resolve_policy();
        self.keep(resolved);
    }

    /// Keeps a mistake, so that the work can go on.
    pub fn keep<T>(&mut self, result: Result<T, Fail>) -> Option<T> {
        result.map_err(|error| self.errors.push(error)).ok()
    }

    /// Whether an entity may have more than is known of it.
    pub fn is_broken(&self, entity: EntityId) -> bool {
        self.broken.contains(&entity)
            || self
                .program
                .entity(entity)
                .ancestors
                .iter()
                .any(|ancestor| self.broken.contains(ancestor))
    }

    pub fn intern(&mut self, text: &str) -> Symbol {
        self.program.names.intern(text)
    }

    pub fn text(&self, symbol: Symbol) -> &str {
        self.program.names.text(symbol)
    }

    pub fn loc(&mut self, span: Span) -> Loc {
        self.program.sources.loc(span)
    }

    fn add_namespaces(&mut self) {
        for source in &self.loaded.sources {
            let name = self.intern(&source.namespace);
            let id = NamespaceId(self.program.namespaces.len() as u32);
            self.namespace_of.insert(name, id);
            let root = self.add_block();
            self.program.namespaces.push(Namespace {
                name,
                parent: None,
                visible: Map::default(),
                defs: Map::default(),
                file: source.file,
                root,
                is_std: source.is_std,
            });
        }
        for at in 0..self.program.namespaces.len() {
            let parent = self.loaded.sources[at]
                .namespace
                .rsplit_once("::")
                .map(|(parent, _)| parent.to_owned());
            if let Some(parent) = parent {
                let parent = self.intern(&parent);
                self.program.namespaces[at].parent = self.namespace_of.get(&parent).copied();
            }
        }
    }

    pub fn add_block(&mut self) -> BlockId {
        self.program.blocks.push(Block::default());
        BlockId(self.program.blocks.len() as u32 - 1)
    }
}
