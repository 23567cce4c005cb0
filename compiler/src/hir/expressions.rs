//! Expressions to ids. What a name means is decided here; whether an unknown one matters is decided when its statement
//! is emitted.

use super::build::Builder;
use super::{
    Comprehension, ComprehensionId, Expr, ExprId, ExprKind, FormatPart, NamespaceId, Query,
    QueryId, QueryKind, Ref,
};
use crate::diagnostics::{Fail, closest, runtime, typing};
use crate::hash::Map;
use crate::intern::Symbol;
use crate::span::Loc;
use crate::syntax::ast::{self, Arg, FPart, FValue, Literal, Operator, Part};
use crate::types::{EntityId, Value};

/// What is visible where an expression stands.
pub(super) struct Scope {
    pub namespace: NamespaceId,
    pub frames: Vec<Frame>,
    /// Inside of an implementation or a `when`: the entity of `self`.
    pub entity: Option<EntityId>,
    /// The first frame is the file's root block.
    pub at_root: bool,
    pub in_typedef: bool,
    /// Inside of an implementation: the variables of its file, which those of its blocks may shadow.
    pub outer: Option<Frame>,
}

#[derive(Default)]
pub(super) struct Frame {
    pub variables: Map<Symbol, u32>,
    /// Where each is assigned, for the warning about shadowing.
    pub locs: Map<Symbol, Vec<Loc>>,
}

impl Frame {
    pub fn single(name: Symbol) -> Frame {
        Frame {
            variables: std::iter::once((name, 0)).collect(),
            locs: Map::default(),
        }
    }
}

/// Those with names, and those behind `**`.
type QueryArgs = (Vec<(Symbol, ExprId)>, Vec<ExprId>);

/// Where the value of an expression goes.
#[derive(Clone, Copy)]
pub(super) enum Expected {
    Anything,
    /// It is assigned to an attribute that is known at run time only.
    Assigned,
    /// Nowhere: an attribute of it is assigned to.
    Owner,
    /// To an attribute of a constructor that is not in an index: the owner can fill in the inverse.
    Argument {
        attr: super::AttrId,
    },
}

impl Scope {
    pub fn typedef(namespace: NamespaceId, this: Symbol) -> Scope {
        Scope {
            namespace,
            frames: vec![Frame::single(this)],
            entity: None,
            at_root: false,
            in_typedef: true,
            outer: None,
        }
    }
}

impl Builder<'_> {
    pub fn add_expr(&mut self, kind: ExprKind, loc: Loc) -> ExprId {
        self.program.exprs.push(Expr { kind, loc });
        ExprId(self.program.exprs.len() as u32 - 1)
    }

    /// What a variable name means. One that means nothing is a mistake only where it is read.
    pub fn variable(&mut self, scope: &Scope, name: Symbol, loc: Loc) -> Result<Ref, Fail> {
        let found = self.find_variable(scope, name, loc)?;
        let is_missing = match found {
            Ref::Missing(_) => true,
            Ref::Member { root: None, .. } => scope
                .entity
                .is_some_and(|entity| !self.program.entity(entity).slot_of.contains_key(&name)),
            _ => false,
        };
        if is_missing && let Some(similar) = self.similar_variable(scope, name) {
            self.program.similar_variables.insert((name, loc), similar);
        }
        Ok(found)
    }

    /// A variable that is assigned to, or whose attribute is: a namespace that is not there is a mistake when it runs.
    pub fn owner(&mut self, scope: &Scope, name: Symbol, loc: Loc) -> Result<Ref, Fail> {
        self.variable(scope, name, loc).or_else(|error| {
            if error.follows {
                return Err(error);
            }
            self.program.unresolved.insert((name, loc), error.message);
            Ok(Ref::Missing(name))
        })
    }

    fn similar_variable(&self, scope: &Scope, name: Symbol) -> Option<String> {
        let text = self.text(name);
        let variables_of = |namespace: NamespaceId| {
            let root = self.program.namespaces[namespace.index()].root;
            let variables = &self.program.blocks[root.index()].variables;
            variables.iter().map(|name| self.text(*name))
        };
        if let Some((qualifier, last)) = text.rsplit_once("::") {
            let target = self.visible(scope.namespace, self.program.names.find(qualifier)?)?;
            let found = closest(last, variables_of(target))?;
            return Some(format!("{qualifier}::{found}"));
        }
        let frames = scope.frames.iter();
        let mut names: Vec<&str> = frames
            .flat_map(|frame| frame.variables.keys().map(|name| self.text(*name)))
            .collect();
        names.extend(variables_of(scope.namespace));
        if let Some(entity) = scope.entity {
            let slots = &self.program.entity(entity).slots;
            names.extend(
                slots
                    .iter()
                    .map(|attr| self.text(self.program.attribute(*attr).name)),
            );
            names.push("self");
        }
        closest(text, names).map(str::to_owned)
    }

    fn find_variable(&mut self, scope: &Scope, name: Symbol, loc: Loc) -> Result<Ref, Fail> {
        if self.text(name).contains("::") {
            let found = self.find_qualified_variable(scope.namespace, name, loc)?;
            return Ok(
                found.map_or(Ref::Missing(name), |(namespace, index)| Ref::Root {
                    namespace,
                    index,
                }),
            );
        }
        for (up, frame) in scope.frames.iter().rev().enumerate() {
            if let Some(index) = frame.variables.get(&name) {
                if scope.at_root && up + 1 == scope.frames.len() {
                    return Ok(Ref::Root {
                        namespace: scope.namespace,
                        index: *index,
                    });
                }
                return Ok(Ref::Local {
                    up: up as u32,
                    index: *index,
                });
            }
        }
        if scope.in_typedef {
            return Ok(Ref::Missing(name));
        }
        let root = self
            .root_variable(scope.namespace, name)
            .map(|index| (scope.namespace, index));
        if scope.entity.is_some() {
            return Ok(if name == self.this {
                Ref::This
            } else {
                Ref::Member { name, root }
            });
        }
        Ok(
            root.map_or(Ref::Missing(name), |(namespace, index)| Ref::Root {
                namespace,
                index,
            }),
        )
    }

    /// Lowers an expression. A mistake in it is kept, and the rest goes on with an unknown value in its place.
    pub fn expr(
        &mut self,
        scope: &mut Scope,
        ast: &ast::Ast,
        id: ast::ExprId,
        expected: Expected,
    ) -> ExprId {
        match self.try_expr(scope, ast, id, expected) {
            Ok(id) => id,
            Err(error) => {
                self.errors.push(error);
                let unknown = self.program.heap.new_unknown();
                let loc = self.loc(ast.expr(id).span);
                self.add_expr(ExprKind::Const(unknown), loc)
            }
        }
    }

    fn try_expr(
        &mut self,
        scope: &mut Scope,
        ast: &ast::Ast,
        id: ast::ExprId,
        expected: Expected,
    ) -> Result<ExprId, Fail> {
        let node = ast.expr(id);
        let loc = self.loc(node.span);
        let kind = match &node.kind {
            ast::ExprKind::Literal(literal) => ExprKind::Const(self.literal(literal)),
            ast::ExprKind::Regex(pattern) => ExprKind::Regex(pattern.clone()),
            ast::ExprKind::Interpolated(parts) => {
                let mut lowered = Vec::with_capacity(parts.len());
                for part in parts {
                    lowered.push(match part {
                        Part::Text(text) => FormatPart::Text(text.clone()),
                        Part::Placeholder(value) => {
                            FormatPart::Value(self.expr(scope, ast, *value, Expected::Anything))
                        }
                    });
                }
                ExprKind::Format(lowered)
            }
            ast::ExprKind::FString(parts) => ExprKind::Format(self.format_parts(scope, ast, parts)),
            ast::ExprKind::Var(name) => ExprKind::Var(match expected {
                Expected::Owner => self.owner(scope, name.symbol, loc)?,
                _ => self.variable(scope, name.symbol, loc)?,
            }),
            ast::ExprKind::Attr(object, name) => {
                let expected = match expected {
                    Expected::Owner => Expected::Owner,
                    _ => Expected::Anything,
                };
                ExprKind::Attr(self.expr(scope, ast, *object, expected), name.symbol)
            }
            ast::ExprKind::Call { function, args } => {
                return self.call(scope, ast, *function, args);
            }
            ast::ExprKind::Construct { entity, args } => {
                return self.construct(scope, ast, *entity, args, loc, expected);
            }
            ast::ExprKind::List(items) => {
                let mut lowered = Vec::with_capacity(items.len());
                for item in items {
                    lowered.push(self.expr(scope, ast, *item, expected));
                }
                self.fold_list(lowered)
            }
            ast::ExprKind::Dict(entries) => {
                let mut lowered = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    let value = self.expr(scope, ast, *value, Expected::Anything);
                    lowered.push((self.program.heap.add_str(key), value));
                }
                self.fold_dict(lowered)
            }
            ast::ExprKind::Lookup(dict, key) => {
                let dict = self.expr(scope, ast, *dict, Expected::Anything);
                ExprKind::Lookup(dict, self.expr(scope, ast, *key, Expected::Anything))
            }
            ast::ExprKind::IndexLookup { entity, args } => {
                let args = self.query_args(scope, ast, args, loc);
                // What it is comes before what is wrong with its arguments.
                let entity = self.find_entity(scope.namespace, *entity)?;
                self.query(QueryKind::Entity(entity), args?, loc)
            }
            ast::ExprKind::ShortLookup {
                object,
                relation,
                args,
            } => {
                let args = self.query_args(scope, ast, args, loc)?;
                let object = self.expr(scope, ast, *object, Expected::Anything);
                self.query(QueryKind::Relation(object, relation.symbol), args, loc)
            }
            ast::ExprKind::Binary(operator, left, right) => {
                let left = self.expr(scope, ast, *left, Expected::Anything);
                let right = self.expr(scope, ast, *right, Expected::Anything);
                match operator {
                    Operator::And => ExprKind::And(left, right),
                    Operator::Or => ExprKind::Or(left, right),
                    operator => ExprKind::Binary(*operator, left, right),
                }
            }
            ast::ExprKind::Not(operand) => {
                ExprKind::Not(self.expr(scope, ast, *operand, Expected::Anything))
            }
            ast::ExprKind::Ternary(condition, then, otherwise) => {
                let condition = self.expr(scope, ast, *condition, Expected::Anything);
                let then = self.expr(scope, ast, *then, expected);
                ExprKind::Ternary(condition, then, self.expr(scope, ast, *otherwise, expected))
            }
            ast::ExprKind::Defined(operand) => {
                ExprKind::Defined(self.expr(scope, ast, *operand, Expected::Anything))
            }
            ast::ExprKind::Comprehension {
                value,
                variable,
                iterable,
                guard,
            } => {
                let parts = (*value, *iterable, *guard);
                self.comprehension(scope, ast, parts, variable.symbol, (expected, loc))?
            }
        };
        Ok(self.add_expr(kind, loc))
    }

    fn comprehension(
        &mut self,
        scope: &mut Scope,
        ast: &ast::Ast,
        (value, iterable, guard): (ast::ExprId, ast::ExprId, Option<ast::ExprId>),
        variable: Symbol,
        (expected, loc): (Expected, Loc),
    ) -> Result<ExprKind, Fail> {
        let element_frame = || Frame::single(variable);
        scope.frames.push(element_frame());
        let value = self.expr(scope, ast, value, expected);
        scope.frames.pop();
        let iterable = self.expr(scope, ast, iterable, Expected::Anything);
        scope.frames.push(element_frame());
        let value = self.guarded(scope, ast, value, guard, loc);
        let element = self.variable(scope, variable, loc);
        scope.frames.pop();
        let element = self.add_expr(ExprKind::Var(element?), loc);
        let unknown = match self.program.expr(value).kind {
            ExprKind::Ternary(condition, _, skip) if guard.is_some() => {
                self.add_expr(ExprKind::Ternary(condition, element, skip), loc)
            }
            _ => element,
        };
        self.program.comprehensions.push(Comprehension {
            iterable,
            value,
            unknown,
            loc,
        });
        let id = ComprehensionId(self.program.comprehensions.len() as u32 - 1);
        Ok(ExprKind::Comprehension(id))
    }

    /// The value of a comprehension, if its guard says so.
    fn guarded(
        &mut self,
        scope: &mut Scope,
        ast: &ast::Ast,
        value: ExprId,
        guard: Option<ast::ExprId>,
        loc: Loc,
    ) -> ExprId {
        let Some(guard) = guard else {
            return value;
        };
        let guard = self.expr(scope, ast, guard, Expected::Anything);
        let skip = self.add_expr(ExprKind::Const(Value::Skip), loc);
        self.add_expr(ExprKind::Ternary(guard, value, skip), loc)
    }

    pub fn literal(&mut self, literal: &Literal) -> Value {
        match literal {
            Literal::Null => Value::Null,
            Literal::Bool(value) => Value::Bool(*value),
            Literal::Int(value) => Value::Int(*value),
            Literal::BigInt(value) => self.program.heap.new_int(value.clone()),
            Literal::Float(value) => Value::Float(*value),
            Literal::Str(text) => self.program.heap.new_str(text),
        }
    }

    fn format_parts(
        &mut self,
        scope: &mut Scope,
        ast: &ast::Ast,
        parts: &[FPart],
    ) -> Vec<FormatPart> {
        let mut lowered = Vec::with_capacity(parts.len());
        for part in parts {
            lowered.push(match part {
                FPart::Text(text) => FormatPart::Text(text.clone()),
                FPart::Field {
                    value,
                    conversion,
                    spec,
                } => {
                    let value = match value {
                        FValue::Expr(value) => {
                            Some(self.expr(scope, ast, *value, Expected::Anything))
                        }
                        FValue::Positional => None,
                    };
                    let spec = self.format_parts(scope, ast, spec);
                    FormatPart::Field {
                        value,
                        conversion: *conversion,
                        spec,
                    }
                }
            });
        }
        lowered
    }

    fn query_args(
        &mut self,
        scope: &mut Scope,
        ast: &ast::Ast,
        args: &[Arg],
        loc: Loc,
    ) -> Result<QueryArgs, Fail> {
        let mut lowered: Vec<(Symbol, ExprId)> = Vec::new();
        let mut spreads = Vec::new();
        for arg in args {
            match arg {
                Arg::Named(name, value) => {
                    if lowered.iter().any(|(known, _)| *known == name.symbol) {
                        let message = format!(
                            "Attribute {} provided twice in index lookup",
                            self.text(name.symbol)
                        );
                        return Err(runtime(loc, message));
                    }
                    lowered.push((
                        name.symbol,
                        self.expr(scope, ast, *value, Expected::Anything),
                    ));
                }
                Arg::Spread(value) => {
                    spreads.push(self.expr(scope, ast, *value, Expected::Anything))
                }
                Arg::Positional(_) => {
                    return Err(typing(loc, "an index lookup has no positional arguments"));
                }
            }
        }
        Ok((lowered, spreads))
    }

    fn query(&mut self, kind: QueryKind, (args, spreads): QueryArgs, loc: Loc) -> ExprKind {
        self.program.queries.push(Query {
            kind,
            args,
            spreads,
            loc,
        });
        ExprKind::Query(QueryId(self.program.queries.len() as u32 - 1))
    }
}
