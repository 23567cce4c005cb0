//! The resolved program: names are ids, entities have layouts, blocks know their variables.
//!
//! [`build`] turns the syntax trees of a compile into a [`Program`], or the first mistake of its definitions.

mod build;
mod calls;
mod constructors;
mod dataclasses;
mod define;
mod entities;
mod expressions;
mod fold;
mod names;
pub(super) mod plugin;
mod relations;
mod statements;
mod text;
mod typedefs;

pub use build::{ErrorOrder, Mistakes, build};
pub(crate) use constructors::missing_index;

use crate::diagnostics::Warning;
use crate::hash::{Map, Set};
use crate::hir::plugin::PluginDef;
use crate::intern::{Interner, Symbol};
use crate::project::PrecedenceRule;
use crate::protocol::ResourceClassInfo;
use crate::span::{FileId, Loc, Sources, Span};
use crate::syntax::ast::Operator;
use crate::types::{EntityId, Heap, Type, TypeId, TypedefId, Value, index};

/// `std::Entity`.
pub const STD_ENTITY: EntityId = EntityId(0);

index! { NamespaceId, AttrId, ImplementationId, ImplementId, BlockId, StmtId, ExprId, ConstructId, CallId, QueryId, ComprehensionId, PluginId, TableId }

/// Everything that does not change while a model runs. `heap` holds the constants and grows at run time.
#[derive(Default)]
pub struct Program {
    pub names: Interner,
    pub sources: Sources,
    pub heap: Heap,
    pub warnings: Vec<Warning>,
    pub namespaces: Vec<Namespace>,
    pub types: Vec<Type>,
    /// The same by type; behind `types` until the next `add_type`.
    pub type_ids: Map<Type, TypeId>,
    pub typedefs: Vec<Typedef>,
    pub entities: Vec<Entity>,
    pub attributes: Vec<Attribute>,
    pub implementations: Vec<Implementation>,
    pub implements: Vec<Implement>,
    pub blocks: Vec<Block>,
    pub stmts: Vec<Stmt>,
    pub exprs: Vec<Expr>,
    pub constructs: Vec<Construct>,
    pub calls: Vec<Call>,
    pub queries: Vec<Query>,
    pub comprehensions: Vec<Comprehension>,
    pub plugins: Vec<PluginDef>,
    pub annotations: Vec<Annotation>,
    /// Attributes that take part in precedence rules, in policy order.
    pub policy: Vec<AttrId>,
    /// What may be meant where a variable is not found.
    pub similar_variables: Map<(Symbol, Loc), String>,
    /// Why a name with a namespace means nothing, where that counts only when it is read.
    pub unresolved: Map<(Symbol, Loc), String>,
    /// Entities of which something is not understood.
    pub broken: Set<EntityId>,
    /// Entities of which an `implement` or an `index` is not understood.
    pub half_defined: Set<EntityId>,
    pub n_tables: u32,
    pub precedence: Vec<PrecedenceRule>,
    /// Root directory of each loaded module.
    pub module_roots: std::collections::BTreeMap<String, String>,
    /// `@resource` classes of Python modules.
    pub resource_classes: Vec<ResourceClassInfo>,
}

pub struct Namespace {
    pub name: Symbol,
    pub parent: Option<NamespaceId>,
    /// Visible namespaces by the name under which they are.
    pub visible: Map<Symbol, NamespaceId>,
    pub defs: Map<Symbol, Def>,
    pub file: FileId,
    /// The file's statements.
    pub root: BlockId,
    pub is_std: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Def {
    Entity(EntityId),
    Typedef(TypedefId),
    Implementation(ImplementationId),
    Plugin(PluginId),
}

pub struct Typedef {
    pub name: Symbol,
    pub loc: Loc,
    pub base: TypeId,
    pub condition: Option<ExprId>,
    /// The condition as violations print it.
    pub text: String,
}

pub struct Entity {
    /// The full name.
    pub name: Symbol,
    pub short: Symbol,
    pub loc: Loc,
    /// Its documentation, with the quotes.
    pub doc: Option<Span>,
    pub parents: Vec<EntityId>,
    /// All ancestors, nearest first.
    pub ancestors: Vec<EntityId>,
    pub children: Vec<EntityId>,
    /// Own attributes: plain ones, then relation ends in order of registration.
    pub own: Vec<AttrId>,
    /// The own attributes by name; of several with one name the first.
    pub own_of: Map<Symbol, AttrId>,
    /// The variables of an instance, in order. Source: docs/reference/language.md § 8.3.
    pub slots: Vec<AttrId>,
    pub slot_of: Map<Symbol, u32>,
    /// Own declarations of defaults.
    pub own_defaults: Vec<OwnDefault>,
    /// Effective defaults by slot, in the order in which constructors assign them.
    pub defaults: Vec<(u32, ExprId)>,
    pub implements: Vec<ImplementId>,
    /// Some `implement` says `parents`.
    pub implement_parents: bool,
    /// Effective `implement` entries.
    pub entries: Vec<ImplementId>,
    pub own_indexes: Vec<Index>,
    /// Own and inherited indexes.
    pub indexes: Vec<EntityIndex>,
    pub is_dataclass: bool,
    /// The types of the dataclass's fields, by name: what references to them stand for.
    pub field_types: Vec<(Symbol, TypeId)>,
}

pub struct OwnDefault {
    pub name: Symbol,
    /// `None`: an inherited default is removed.
    pub value: Option<ExprId>,
}

#[derive(Clone)]
pub struct Index {
    /// The attributes, sorted by name.
    pub names: Vec<Symbol>,
    /// The attributes, as the statement names them.
    pub written: Vec<Symbol>,
    /// How many indexes were defined before.
    pub order: u32,
}

pub struct EntityIndex {
    pub names: Vec<Symbol>,
    pub slots: Vec<u32>,
    /// Where instances of this very entity are looked up.
    pub table: TableId,
    /// Tables of the ancestors that have this index, too.
    pub ancestor_tables: Vec<TableId>,
    /// An attribute that the statement names twice, so that nothing can be constructed.
    pub repeated: Option<Symbol>,
}

pub struct Attribute {
    pub name: Symbol,
    pub entity: EntityId,
    pub loc: Loc,
    pub kind: AttributeKind,
    /// Place in the precedence policy.
    pub policy: Option<u32>,
    /// First side of a precedence rule.
    pub before_others: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttributeKind {
    Plain(TypeId),
    Relation {
        target: EntityId,
        low: u32,
        high: Option<u32>,
        inverse: Option<AttrId>,
    },
}

impl Attribute {
    #[inline]
    pub fn is_multi(&self) -> bool {
        matches!(self.kind, AttributeKind::Relation { high, .. } if high != Some(1))
    }

    pub fn is_optional(&self) -> bool {
        matches!(
            self.kind,
            AttributeKind::Relation {
                low: 0,
                high: Some(1),
                ..
            }
        )
    }

    #[inline]
    pub fn is_relation(&self) -> bool {
        matches!(self.kind, AttributeKind::Relation { .. })
    }
}

pub struct Implementation {
    pub entity: EntityId,
    pub namespace: NamespaceId,
    pub loc: Loc,
    pub block: BlockId,
}

pub struct Implement {
    pub entity: EntityId,
    pub namespace: NamespaceId,
    /// `None`: always.
    pub condition: Option<ExprId>,
    pub using: Vec<ImplementationId>,
    pub loc: Loc,
}

pub struct Annotation {
    pub namespace: NamespaceId,
    pub expr: ExprId,
    pub entity: EntityId,
    /// The end of the relation that is written first.
    pub attribute: AttrId,
    pub loc: Loc,
}

/// Statements with variables of their own.
#[derive(Default)]
pub struct Block {
    pub variables: Vec<Symbol>,
    /// The statements in order of emission: nested blocks are reversed. Source:
    /// docs/reference/language.md § 2.4.
    pub stmts: Vec<StmtId>,
}

pub struct Stmt {
    pub kind: StmtKind,
    pub loc: Loc,
}

pub enum StmtKind {
    Expr(ExprId),
    Assign {
        target: Ref,
        value: ExprId,
    },
    AttrAssign {
        object: ExprId,
        attribute: Symbol,
        value: ExprId,
        append: bool,
    },
    For {
        iterable: ExprId,
        body: BlockId,
        promises: Vec<Promise>,
    },
    If {
        condition: ExprId,
        then: BlockId,
        otherwise: BlockId,
        promises: Vec<Promise>,
    },
}

/// An attribute that is assigned somewhere inside a statement. Source: docs/reference/language.md § 8.6.
#[derive(Clone, Copy)]
pub struct Promise {
    pub object: ExprId,
    pub attribute: Symbol,
    pub loc: Loc,
}

/// What a variable name means where it stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ref {
    /// A variable of the block `up` levels out.
    Local {
        up: u32,
        index: u32,
    },
    /// An attribute of the instance of the implementation, else a root variable.
    Member {
        name: Symbol,
        root: Option<(NamespaceId, u32)>,
    },
    /// `self` of an implementation.
    This,
    Root {
        namespace: NamespaceId,
        index: u32,
    },
    Missing(Symbol),
}

pub struct Expr {
    pub kind: ExprKind,
    pub loc: Loc,
}

pub enum ExprKind {
    Const(Value),
    Var(Ref),
    Attr(ExprId, Symbol),
    Binary(Operator, ExprId, ExprId),
    And(ExprId, ExprId),
    Or(ExprId, ExprId),
    Not(ExprId),
    Ternary(ExprId, ExprId, ExprId),
    Defined(ExprId),
    List(Vec<ExprId>),
    Dict(Vec<(crate::types::StrId, ExprId)>),
    Lookup(ExprId, ExprId),
    Format(Vec<FormatPart>),
    Regex(crate::pattern::Pattern),
    Construct(ConstructId),
    Call(CallId),
    Cast(CallId),
    Query(QueryId),
    Comprehension(ComprehensionId),
}

pub enum FormatPart {
    Text(Box<str>),
    /// `{{ }}`: index into the expression's needs is by order.
    Value(ExprId),
    Field {
        value: Option<ExprId>,
        conversion: Option<char>,
        spec: Vec<FormatPart>,
    },
}

pub struct Construct {
    pub entity: EntityId,
    /// Needed before the instance exists: slot and value, in order.
    pub direct: Vec<(u32, ExprId)>,
    /// Arguments that are assigned when the instance exists.
    pub indirect: Vec<Argument>,
    pub spreads: Vec<ExprId>,
    /// Names that were given explicitly.
    pub explicit: Vec<Symbol>,
    /// Index attributes that only an implicit inverse or a `**` can give.
    pub missing: Vec<Symbol>,
    pub loc: Loc,
}

pub struct Argument {
    pub slot: u32,
    pub value: ExprId,
    /// A constant for a plain attribute.
    pub constant: bool,
}

pub struct Call {
    pub callee: Callee,
    pub positional: Vec<ExprId>,
    pub named: Vec<(Symbol, ExprId)>,
    pub spreads: Vec<ExprId>,
    /// Why a cast fails as soon as it runs.
    pub wrong: Option<Box<str>>,
    pub namespace: NamespaceId,
    pub loc: Loc,
    /// What the call site can see, for templates.
    pub scope: Option<Box<Visible>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Callee {
    Plugin(PluginId),
    Cast(TypeId),
}

/// The names of a call site, innermost first.
#[derive(Default)]
pub struct Visible {
    pub refs: Map<Symbol, Ref>,
}

pub struct Query {
    pub kind: QueryKind,
    pub args: Vec<(Symbol, ExprId)>,
    pub spreads: Vec<ExprId>,
    pub loc: Loc,
}

pub enum QueryKind {
    Entity(EntityId),
    /// `object.relation[…]`
    Relation(ExprId, Symbol),
}

pub struct Comprehension {
    pub iterable: ExprId,
    /// The value with the guard: a conditional expression that yields [`Value::Skip`].
    pub value: ExprId,
    /// What an Unknown element gives: itself, unless the guard drops it.
    pub unknown: ExprId,
    pub loc: Loc,
}

impl Program {
    #[inline]
    pub fn text(&self, symbol: Symbol) -> &str {
        self.names.text(symbol)
    }

    #[inline]
    pub fn expr(&self, id: ExprId) -> &Expr {
        &self.exprs[id.index()]
    }

    #[inline]
    pub fn entity(&self, id: EntityId) -> &Entity {
        &self.entities[id.index()]
    }

    #[inline]
    pub fn attribute(&self, id: AttrId) -> &Attribute {
        &self.attributes[id.index()]
    }

    pub fn entity_name(&self, id: EntityId) -> &str {
        self.text(self.entity(id).name)
    }

    pub fn is_subtype(&self, entity: EntityId, of: EntityId) -> bool {
        entity == of || self.entity(entity).ancestors.contains(&of)
    }

    pub fn add_type(&mut self, ty: Type) -> TypeId {
        if self.type_ids.len() != self.types.len() {
            let ids = (0..).map(TypeId);
            self.type_ids = self.types.iter().cloned().zip(ids).collect();
        }
        if let Some(id) = self.type_ids.get(&ty) {
            return *id;
        }
        let id = TypeId(self.types.len() as u32);
        self.type_ids.insert(ty.clone(), id);
        self.types.push(ty);
        id
    }

    /// The attribute of that name on the entity or, else, on the nearest ancestor.
    pub fn find_attribute(&self, entity: EntityId, name: Symbol) -> Option<AttrId> {
        let own = |entity: EntityId| self.entity(entity).own_of.get(&name).copied();
        own(entity).or_else(|| {
            self.entity(entity)
                .ancestors
                .iter()
                .find_map(|ancestor| own(*ancestor))
        })
    }

    /// The attribute that may be meant by a name that none of the entity has.
    pub fn similar_attribute(&self, entity: EntityId, name: Symbol) -> Option<&str> {
        let slots = &self.entity(entity).slots;
        let names = slots.iter().map(|attr| self.attribute(*attr).name);
        crate::diagnostics::closest(self.text(name), names.map(|name| self.text(name)))
    }

    /// A type as messages write it.
    pub fn type_text(&self, id: TypeId) -> String {
        match &self.types[id.index()] {
            Type::Any => "any".to_owned(),
            Type::Null => "null".to_owned(),
            Type::String => "string".to_owned(),
            Type::Int => "int".to_owned(),
            Type::Float => "float".to_owned(),
            Type::Number => "number".to_owned(),
            Type::Bool => "bool".to_owned(),
            Type::List | Type::AnyList => "list".to_owned(),
            Type::Dict | Type::AnyDict => "dict".to_owned(),
            Type::ListOf(item) => match &self.types[item.index()] {
                Type::Any => "list".to_owned(),
                _ => match self.type_text(*item) {
                    text if text.contains(" | ") => format!("({text})[]"),
                    text => format!("{text}[]"),
                },
            },
            Type::DictOf(item) => format!("dict[string, {}]", self.type_text(*item)),
            Type::Nullable(inner) => match self.type_text(*inner) {
                text if text.contains(" | ") => format!("({text})?"),
                text => format!("{text}?"),
            },
            Type::Typedef(id) => self.text(self.typedefs[id.index()].name).to_owned(),
            Type::Entity(id) => self.entity_name(*id).to_owned(),
            Type::Reference(inner) => format!("Reference[{}]", self.type_text(*inner)),
            Type::Union(types) => {
                if let [plain, reference] = types.as_slice()
                    && self.types[reference.index()] == Type::Reference(*plain)
                {
                    let text = self.type_text(*plain);
                    return format!("Reference[{text}] | {text}");
                }
                let texts: Vec<String> = types.iter().map(|ty| self.type_text(*ty)).collect();
                format!("Union[{}]", texts.join(","))
            }
            Type::Literal(values) => {
                let texts: Vec<String> = values
                    .iter()
                    .map(|value| match value {
                        crate::types::LiteralValue::Str(text) => {
                            crate::types::text::quoted(self.text(*text))
                        }
                        crate::types::LiteralValue::Int(value) => value.to_string(),
                        crate::types::LiteralValue::Bool(true) => "True".to_owned(),
                        crate::types::LiteralValue::Bool(false) => "False".to_owned(),
                    })
                    .collect();
                format!("Literal[{}]", texts.join(", "))
            }
        }
    }
}
