//! Whether a value has a type, and the conditions of typedefs. Source: docs/reference/language.md §
//! 4.2, § 4.6.
//!
//! The condition of a typedef is evaluated at once, on a value and not on the model: it can not
//! wait for anything, so it has an evaluation of its own here (`direct`) beside that of `eval`.

use crate::diagnostics::{Fail, fail, runtime, typing};
use crate::hir::{AttributeKind, Callee, ComprehensionId, ErrorOrder, ExprId, ExprKind, Ref};
use crate::pattern::Pattern;
use crate::runtime::Machine;
use crate::span::Loc;
use crate::types::{EntityId, LiteralValue, Type, TypeId, TypedefId, Value};

impl Machine<'_> {
    /// An error unless the value has the type. Unknown has every type.
    pub fn validate(&mut self, ty: TypeId, value: Value, loc: Loc) -> Result<(), Fail> {
        // A cast in a typedef's condition has no place of its own.
        if self.accepts(ty, value).map_err(|error| error.at(loc))? {
            return Ok(());
        }
        Err(self.type_error(ty, value, loc))
    }

    /// An error unless the value is one of the typedef.
    pub(in crate::runtime) fn validate_typedef(
        &mut self,
        id: TypedefId,
        value: Value,
    ) -> Result<(), Fail> {
        if self.accepts_typedef(id, value)? {
            return Ok(());
        }
        Err(self.typedef_error(id, value, Loc::NONE))
    }

    /// Defaults have the types of their attributes.
    pub fn check_defaults(&mut self) -> Vec<(ErrorOrder, Fail)> {
        let program = self.program;
        let mut errors = Vec::new();
        for (id, entity) in (0..).map(EntityId).zip(&program.entities) {
            for default in &entity.own_defaults {
                let attr = entity.own_of.get(&default.name);
                let (Some(value), Some(attr)) = (default.value, attr) else {
                    continue;
                };
                let attribute = program.attribute(*attr);
                if let (ExprKind::Const(value), AttributeKind::Plain(ty)) =
                    (&program.expr(value).kind, attribute.kind)
                    && let Err(mut error) = self.validate(ty, *value, attribute.loc)
                {
                    // What goes wrong inside of a condition has its place there.
                    let mut typedefs = program.typedefs.iter();
                    if error.kind == "PluginTypeException"
                        || typedefs.any(|typedef| typedef.loc == error.loc)
                    {
                        error.loc = attribute.loc;
                    }
                    errors.push((ErrorOrder::default_of(id, *attr), error));
                }
            }
        }
        errors
    }

    /// The error of a value that does not have a type.
    pub(in crate::runtime) fn type_error(&mut self, ty: TypeId, value: Value, loc: Loc) -> Fail {
        let program = self.program;
        match &program.types[ty.index()] {
            Type::Typedef(id) => self.typedef_error(*id, value, loc),
            Type::Nullable(inner) => self.type_error(*inner, value, loc),
            Type::Entity(entity) => match value {
                Value::Instance(instance) => {
                    let text = self.state.describe_instance(instance);
                    runtime(
                        loc,
                        format!(
                            "Invalid class type for {text}, should be {}",
                            program.entity_name(*entity)
                        ),
                    )
                }
                value => {
                    let text = self.state.heap.to_text(value, &self.state);
                    runtime(
                        loc,
                        format!(
                            "Invalid type for value '{text}', should be type {}",
                            program.entity_name(*entity)
                        ),
                    )
                }
            },
            Type::ListOf(item) => {
                if let Value::List(list) = value {
                    for at in 0..self.state.heap.list(list).len() {
                        let element = self.state.heap.list(list)[at];
                        if !matches!(self.accepts(*item, element), Ok(true)) {
                            return self.type_error(*item, element, loc);
                        }
                    }
                }
                self.invalid(ty, value, loc)
            }
            Type::DictOf(item) => {
                if let Value::Dict(dict) = value {
                    for at in 0..self.state.heap.dict(dict).entries.len() {
                        let element = self.state.heap.dict(dict).entries[at].1;
                        if !matches!(self.accepts(*item, element), Ok(true)) {
                            return self.type_error(*item, element, loc);
                        }
                    }
                }
                self.invalid(ty, value, loc)
            }
            // A value, or a reference to one.
            Type::Union(types)
                if let [plain, reference] = types.as_slice()
                    && program.types[reference.index()] == Type::Reference(*plain) =>
            {
                self.type_error(*plain, value, loc)
            }
            _ => self.invalid(ty, value, loc),
        }
    }

    /// The error of a value that is not of a basic type, a list or a dict.
    fn invalid(&self, ty: TypeId, value: Value, loc: Loc) -> Fail {
        let expected = &self.program.types[ty.index()];
        let is_list = matches!(expected, Type::List | Type::AnyList | Type::ListOf(_));
        // What is no list at all is another kind of error than a wrong element.
        let kind = match value {
            _ if self.is_plain_union(expected) => "TypingException",
            Value::List(_) => "RuntimeException",
            _ if is_list => "TypingException",
            _ => "RuntimeException",
        };
        let wanted = match expected {
            Type::DictOf(_) => "dict".to_owned(),
            _ => self.program.type_text(ty),
        };
        let text = self.state.heap.to_text(value, &self.state);
        fail(
            kind,
            loc,
            format!("Invalid value '{text}', expected {wanted}"),
        )
    }

    /// A union of an annotation, without references.
    fn is_plain_union(&self, ty: &Type) -> bool {
        let types = &self.program.types;
        let Type::Union(members) = ty else {
            return false;
        };
        let mut members = members.iter().map(|member| &types[member.index()]);
        members.all(|member| !matches!(member, Type::Reference(_)))
    }

    /// The error of a value that is not one of a typedef.
    fn typedef_error(&mut self, id: TypedefId, value: Value, loc: Loc) -> Fail {
        let typedef = &self.program.typedefs[id.index()];
        match self.accepts(typedef.base, value) {
            Ok(false) => return self.type_error(typedef.base, value, loc),
            Err(error) => return error,
            Ok(true) => {}
        }
        let text = self.state.heap.repr(value, &self.state);
        let message = format!(
            "Invalid value {text}, does not match constraint `{}`",
            typedef.text
        );
        runtime(typedef.loc, message)
    }

    /// Whether a value is of the base type of a typedef and its condition holds.
    fn accepts_typedef(&mut self, id: TypedefId, value: Value) -> Result<bool, Fail> {
        let typedef = &self.program.typedefs[id.index()];
        if !self.accepts(typedef.base, value)? {
            return Ok(false);
        }
        let Some(condition) = typedef.condition else {
            return Ok(true);
        };
        let result = self.direct(condition, &mut vec![value])?;
        // What is null counts as true here, as every object of Python does that says nothing else of itself.
        Ok(matches!(result, Value::Null) || self.state.heap.truthy(result))
    }

    /// Whether a value has a type. The error is that of a condition that can not be evaluated.
    pub fn accepts(&mut self, ty: TypeId, value: Value) -> Result<bool, Fail> {
        if matches!(value, Value::Unknown(_)) {
            return Ok(true);
        }
        if let Value::Reference(id) = value {
            return Ok(self.accepts_reference(ty, id));
        }
        let program = self.program;
        Ok(match &program.types[ty.index()] {
            Type::Reference(inner) => match value {
                Value::Instance(id) if self.python.is_dataclass_reference(id) => {
                    self.accepts(*inner, value)?
                }
                _ => false,
            },
            Type::Any => true,
            Type::Null => matches!(value, Value::Null),
            Type::String => matches!(value, Value::Str(_)),
            Type::Int => matches!(value, Value::Int(_) | Value::Big(_) | Value::Bool(_)),
            Type::Float => matches!(value, Value::Float(_)),
            Type::Number => matches!(
                value,
                Value::Int(_) | Value::Big(_) | Value::Bool(_) | Value::Float(_)
            ),
            Type::Bool => matches!(value, Value::Bool(_)),
            Type::List => matches!(value, Value::List(_)) && self.is_literal(value),
            Type::Dict => matches!(value, Value::Dict(_)) && self.is_literal(value),
            Type::AnyList => matches!(value, Value::List(_)),
            Type::AnyDict => match value {
                Value::Dict(dict) => !self
                    .state
                    .heap
                    .dict(dict)
                    .entries
                    .iter()
                    .any(|(_, item)| matches!(item, Value::Reference(_))),
                _ => false,
            },
            Type::ListOf(item) => {
                let Value::List(list) = value else {
                    return Ok(false);
                };
                for at in 0..self.state.heap.list(list).len() {
                    let element = self.state.heap.list(list)[at];
                    if !self.accepts(*item, element)? {
                        return Ok(false);
                    }
                }
                true
            }
            Type::DictOf(item) => {
                let Value::Dict(dict) = value else {
                    return Ok(false);
                };
                for at in 0..self.state.heap.dict(dict).entries.len() {
                    let element = self.state.heap.dict(dict).entries[at].1;
                    if !self.accepts(*item, element)? {
                        return Ok(false);
                    }
                }
                true
            }
            Type::Nullable(inner) => matches!(value, Value::Null) || self.accepts(*inner, value)?,
            Type::Typedef(id) => self.accepts_typedef(*id, value)?,
            Type::Entity(entity) => match value {
                Value::Instance(instance) => {
                    program.is_subtype(self.state.instance(instance).entity, *entity)
                }
                _ => false,
            },
            Type::Union(types) => {
                for ty in types {
                    if self.accepts(*ty, value)? {
                        return Ok(true);
                    }
                }
                false
            }
            Type::Literal(values) => values.iter().any(|literal| match (literal, value) {
                (LiteralValue::Str(text), Value::Str(id)) => {
                    program.text(*text) == self.state.heap.str(id)
                }
                (LiteralValue::Int(a), Value::Int(b)) => *a == b,
                (LiteralValue::Bool(a), Value::Bool(b)) => *a == b,
                _ => false,
            }),
        })
    }

    /// Null, numbers, bools, strings and lists and dicts of them.
    fn is_literal(&self, value: Value) -> bool {
        match value {
            Value::List(list) => self
                .state
                .heap
                .list(list)
                .iter()
                .all(|item| self.is_literal(*item)),
            Value::Dict(dict) => self
                .state
                .heap
                .dict(dict)
                .entries
                .iter()
                .all(|(_, item)| self.is_literal(*item)),
            Value::Instance(_) | Value::Opaque(_) | Value::Skip => false,
            _ => true,
        }
    }

    /// Evaluates a typedef's condition at once; `bound` are `self` and the variables of comprehensions, outermost first.
    fn direct(&mut self, expr: ExprId, bound: &mut Vec<Value>) -> Result<Value, Fail> {
        let program = self.program;
        let node = program.expr(expr);
        let loc = node.loc;
        match &node.kind {
            ExprKind::Const(value) => Ok(*value),
            ExprKind::Regex(pattern) => self.direct_match(pattern, bound[0], loc),
            ExprKind::Var(Ref::Local { up, .. }) => {
                let at = bound.len().checked_sub(1 + *up as usize);
                at.and_then(|at| bound.get(at).copied())
                    .ok_or_else(|| runtime(loc, "unbound variable in a typedef"))
            }
            ExprKind::Var(_) | ExprKind::Attr(..) => {
                let message = format!(
                    "Unable to resolve `{}`: a type constraint can not reference variables.",
                    self.expr_name(expr)
                );
                Err(fail("NotFoundException", loc, message))
            }
            ExprKind::Binary(operator, left, right) => {
                let left = self.direct(*left, bound)?;
                let right = self.direct(*right, bound)?;
                self.state.binary(*operator, left, right, loc)
            }
            ExprKind::Not(operand) => {
                let value = self.direct(*operand, bound)?;
                self.state.negate(value, loc)
            }
            ExprKind::And(left, right) => self.direct_logic(true, (*left, *right), loc, bound),
            ExprKind::Or(left, right) => self.direct_logic(false, (*left, *right), loc, bound),
            ExprKind::Ternary(condition, then, otherwise) => {
                match self.direct(*condition, bound)? {
                    Value::Bool(true) => self.direct(*then, bound),
                    Value::Bool(false) => self.direct(*otherwise, bound),
                    value if self.is_skip(*otherwise) => {
                        let text = self.state.heap.to_text(value, &self.state);
                        let message = format!(
                            "Invalid value `{text}`: the guard condition for a list comprehension must be a boolean expression"
                        );
                        Err(typing(loc, message))
                    }
                    value => {
                        let text = self.state.heap.to_text(value, &self.state);
                        let message = format!(
                            "Invalid value `{text}`: the condition for a conditional expression must be a boolean expression"
                        );
                        Err(runtime(loc, message))
                    }
                }
            }
            ExprKind::List(items) => {
                let mut values = Vec::with_capacity(items.len());
                for item in items {
                    let value = self.direct(*item, bound)?;
                    self.state.heap.flatten_into(value, &mut values);
                }
                Ok(self.state.heap.new_list(&values))
            }
            ExprKind::Dict(entries) => {
                let mut values = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    values.push((*key, self.direct(*value, bound)?));
                }
                Ok(self.state.heap.new_dict(values))
            }
            ExprKind::Comprehension(id) => self.direct_comprehension(*id, loc, bound),
            ExprKind::Call(id) | ExprKind::Cast(id) => self.direct_call(*id, bound),
            ExprKind::Format(_)
            | ExprKind::Construct(_)
            | ExprKind::Defined(_)
            | ExprKind::Query(_)
            | ExprKind::Lookup(..) => Err(fail(
                "DirectExecuteException",
                loc,
                "The statement can not be executed in this context",
            )),
        }
    }

    /// Whether the value that a typedef is asked about matches.
    fn direct_match(&self, pattern: &Pattern, value: Value, loc: Loc) -> Result<Value, Fail> {
        let Value::Str(id) = value else {
            let text = self.state.heap.to_text(value, &self.state);
            return Err(typing(
                loc,
                format!("Regex pattern can only be applied to strings, not to '{text}'"),
            ));
        };
        match pattern.is_match(self.state.heap.str(id)) {
            Some(matches) => Ok(Value::Bool(matches)),
            None => Err(runtime(
                loc,
                "matching the regular expression takes too long",
            )),
        }
    }

    /// `and`, or else `or`.
    fn direct_logic(
        &mut self,
        is_and: bool,
        (left, right): (ExprId, ExprId),
        loc: Loc,
        bound: &mut Vec<Value>,
    ) -> Result<Value, Fail> {
        let mut found = is_and;
        for (side, operand) in [("left", left), ("right", right)] {
            let value = self.direct(operand, bound)?;
            let Value::Bool(operand) = value else {
                let text = self.state.heap.to_text(value, &self.state);
                let name = if is_and { "and" } else { "or" };
                let message =
                    format!("Invalid {side} hand value `{text}`: `{name}` expects a boolean");
                return Err(runtime(loc, message));
            };
            found = operand;
            if found != is_and {
                break;
            }
        }
        Ok(Value::Bool(found))
    }

    fn direct_comprehension(
        &mut self,
        id: ComprehensionId,
        loc: Loc,
        bound: &mut Vec<Value>,
    ) -> Result<Value, Fail> {
        let comprehension = &self.program.comprehensions[id.index()];
        let Value::List(list) = self.direct(comprehension.iterable, bound)? else {
            return Err(typing(
                loc,
                "A list comprehension in a direct execute context can only be applied to lists",
            ));
        };
        let mut values = Vec::new();
        for at in 0..self.state.heap.list(list).len() {
            let item = self.state.heap.list(list)[at];
            bound.push(item);
            let value = self.direct(comprehension.value, bound);
            bound.pop();
            match value? {
                Value::Skip => {}
                // Here, and only here, a list within the list stays one.
                value => values.push(value),
            }
        }
        Ok(self.state.heap.new_list(&values))
    }

    /// Whether an expression leaves an element of a comprehension out, as its guard does.
    fn is_skip(&self, expr: ExprId) -> bool {
        matches!(self.program.expr(expr).kind, ExprKind::Const(Value::Skip))
    }

    /// A call in the condition of a typedef.
    fn direct_call(
        &mut self,
        id: crate::hir::CallId,
        bound: &mut Vec<Value>,
    ) -> Result<Value, Fail> {
        let call = &self.program.calls[id.index()];
        let mut positional = Vec::with_capacity(call.positional.len());
        for value in &call.positional {
            positional.push(self.direct(*value, bound)?);
        }
        let mut named = Vec::with_capacity(call.named.len());
        for (name, value) in &call.named {
            named.push((
                self.program.text(*name).to_owned(),
                self.direct(*value, bound)?,
            ));
        }
        if let Some(message) = &call.wrong {
            return Err(runtime(call.loc, message.as_ref()));
        }
        match call.callee {
            Callee::Cast(ty) => self.state.cast(ty, positional[0], Loc::NONE),
            Callee::Plugin(plugin) => self.call_directly(plugin, positional, named, call.loc),
        }
    }
}
