//! The syntax tree of one file. Expressions lie in an arena; children come before parents.

use crate::intern::Symbol;
use crate::span::Span;
use crate::syntax::token::Cmp;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExprId(pub u32);

/// An identifier, or a qualified one as one text `a::b::C`.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    pub symbol: Symbol,
    pub span: Span,
}

#[derive(Default, Debug)]
pub struct Ast {
    pub exprs: Vec<Expr>,
    pub items: Vec<Item>,
    /// The documentation of the file, with its quotes. Source: docs/reference/language.md § 1.7.
    pub doc: Option<Span>,
}

impl Ast {
    pub fn expr(&self, id: ExprId) -> &Expr {
        &self.exprs[id.0 as usize]
    }
}

#[derive(Debug)]
pub struct Expr {
    pub kind: ExprKind,
    /// The place that diagnostics name.
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    BigInt(num_bigint::BigInt),
    Float(f64),
    Str(Box<str>),
}

#[derive(Debug)]
pub enum ExprKind {
    Literal(Literal),
    /// A string with `{{ }}` placeholders.
    Interpolated(Vec<Part>),
    FString(Vec<FPart>),
    Regex(crate::pattern::Pattern),
    Var(Name),
    Attr(ExprId, Name),
    Call {
        function: Name,
        args: Vec<Arg>,
    },
    Construct {
        entity: Name,
        args: Vec<Arg>,
    },
    List(Vec<ExprId>),
    Dict(Vec<(Box<str>, ExprId)>),
    Lookup(ExprId, ExprId),
    IndexLookup {
        entity: Name,
        args: Vec<Arg>,
    },
    ShortLookup {
        object: ExprId,
        relation: Name,
        args: Vec<Arg>,
    },
    Binary(Operator, ExprId, ExprId),
    Not(ExprId),
    Ternary(ExprId, ExprId, ExprId),
    Defined(ExprId),
    Comprehension {
        value: ExprId,
        variable: Name,
        iterable: ExprId,
        guard: Option<ExprId>,
    },
}

#[derive(Debug)]
pub enum Part {
    Text(Box<str>),
    /// A variable or attribute access.
    Placeholder(ExprId),
}

#[derive(Debug)]
pub enum FPart {
    Text(Box<str>),
    Field {
        value: FValue,
        conversion: Option<char>,
        spec: Vec<FPart>,
    },
}

#[derive(Debug)]
pub enum FValue {
    Expr(ExprId),
    /// `{}`, `{0}`: only positional arguments could fill it.
    Positional,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operator {
    Cmp(Cmp),
    In,
    NotIn,
    And,
    Or,
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
}

#[derive(Debug)]
pub enum Arg {
    Positional(ExprId),
    Named(Name, ExprId),
    Spread(ExprId),
}

impl Arg {
    pub fn value(&self) -> ExprId {
        match self {
            Arg::Positional(value) | Arg::Named(_, value) | Arg::Spread(value) => *value,
        }
    }
}

#[derive(Debug)]
pub enum Item {
    Import {
        module: Name,
        alias: Option<Name>,
        span: Span,
    },
    Entity(Entity),
    Implement(Implement),
    Implementation(Implementation),
    Relation(Relation),
    Typedef(Typedef),
    Index {
        entity: Name,
        attributes: Vec<Name>,
        span: Span,
    },
    Stmt(Stmt),
}

#[derive(Debug)]
pub struct Entity {
    pub name: Name,
    pub parents: Vec<Name>,
    pub attributes: Vec<Attribute>,
    pub doc: Option<Span>,
    /// The text from `entity` to `end`.
    pub extent: Span,
}

#[derive(Debug)]
pub struct Attribute {
    pub name: Name,
    pub base: Name,
    pub list: bool,
    pub nullable: bool,
    pub default: Default,
}

#[derive(Debug)]
pub enum Default {
    Absent,
    Undef,
    Value(ExprId),
}

#[derive(Debug)]
pub struct Implement {
    pub entity: Name,
    pub using: Vec<Name>,
    pub parents: bool,
    pub when: Option<ExprId>,
    pub span: Span,
}

#[derive(Debug)]
pub struct Implementation {
    pub name: Name,
    pub entity: Name,
    pub body: Vec<Stmt>,
    pub doc: Option<Span>,
    /// The text from `implementation` to `end`.
    pub extent: Span,
}

#[derive(Debug)]
pub struct Relation {
    pub left: End,
    pub right: Name,
    pub right_end: Option<End>,
    pub annotations: Vec<ExprId>,
    /// The first attribute, which diagnostics name.
    pub span: Span,
    pub doc: Option<Span>,
    pub extent: Span,
}

/// `Entity.attribute [multiplicity]`: the attribute lies on `entity`.
#[derive(Debug, Clone, Copy)]
pub struct End {
    pub entity: Name,
    pub attribute: Name,
    pub low: u32,
    pub high: Option<u32>,
}

#[derive(Debug)]
pub struct Typedef {
    pub name: Name,
    pub base: Name,
    pub condition: ExprId,
    pub span: Span,
    pub doc: Option<Span>,
}

#[derive(Debug)]
pub enum Stmt {
    Expr(ExprId),
    Assign {
        target: Name,
        value: ExprId,
        span: Span,
    },
    AttrAssign {
        object: ExprId,
        attribute: Name,
        value: ExprId,
        append: bool,
        span: Span,
    },
    For {
        variable: Name,
        iterable: ExprId,
        body: Vec<Stmt>,
        span: Span,
        /// The text from `for` to `end`.
        extent: Span,
    },
    If {
        condition: ExprId,
        then: Vec<Stmt>,
        otherwise: Vec<Stmt>,
        span: Span,
        /// The text from the condition to what ends the branch.
        then_extent: Span,
        otherwise_extent: Span,
    },
}

impl ExprKind {
    /// The direct children, in order of the text.
    pub fn children(&self, visit: &mut impl FnMut(ExprId)) {
        match self {
            ExprKind::Literal(_) | ExprKind::Regex(_) | ExprKind::Var(_) => {}
            ExprKind::Attr(object, _) | ExprKind::Not(object) | ExprKind::Defined(object) => {
                visit(*object)
            }
            ExprKind::Binary(_, left, right) | ExprKind::Lookup(left, right) => {
                visit(*left);
                visit(*right);
            }
            ExprKind::Ternary(condition, then, otherwise) => {
                visit(*condition);
                visit(*then);
                visit(*otherwise);
            }
            ExprKind::List(items) => items.iter().copied().for_each(visit),
            ExprKind::Dict(entries) => entries.iter().for_each(|(_, value)| visit(*value)),
            ExprKind::Call { args, .. }
            | ExprKind::Construct { args, .. }
            | ExprKind::IndexLookup { args, .. } => {
                args.iter().for_each(|arg| visit(arg.value()));
            }
            ExprKind::ShortLookup { object, args, .. } => {
                visit(*object);
                args.iter().for_each(|arg| visit(arg.value()));
            }
            ExprKind::Comprehension {
                value,
                iterable,
                guard,
                ..
            } => {
                visit(*value);
                visit(*iterable);
                if let Some(guard) = guard {
                    visit(*guard);
                }
            }
            ExprKind::Interpolated(parts) => {
                for part in parts {
                    if let Part::Placeholder(value) = part {
                        visit(*value);
                    }
                }
            }
            ExprKind::FString(parts) => fields(parts, visit),
        }
    }
}

fn fields(parts: &[FPart], visit: &mut impl FnMut(ExprId)) {
    for part in parts {
        if let FPart::Field { value, spec, .. } = part {
            if let FValue::Expr(value) = value {
                visit(*value);
            }
            for nested in spec {
                if let FPart::Field {
                    value: FValue::Expr(value),
                    ..
                } = nested
                {
                    visit(*value);
                }
            }
        }
    }
}
