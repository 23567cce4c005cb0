//! Values of expressions whose dependencies are ready. Source: docs/reference/language.md § 2.5, §
//! 8.12.
//!
//! The dependencies are consumed in the order in which
//! [`dependencies`](crate::runtime::exec::dependencies) listed them, through a [`Ready`]: the value
//! of `a.b + c` reads the first variable for `a.b`, and the second for `c`. A direct step has no
//! such list; it looks each variable up by its path when it is read. Evaluating changes nothing but
//! the heap, except for constructors, which are evaluated here as parts of expressions, and for
//! delivering to listeners.
//!
//! Unknown is a value that travels: what is computed with one is Unknown, mostly.

use crate::diagnostics::{Fail, READ_HERE, closest, fail, runtime, typing};
use crate::hir::{ExprId, ExprKind, FormatPart};
use crate::runtime::{Dependencies, ListenerId, Machine, ModelState, ScopeId, VarId, VarKind};
use crate::span::Loc;
use crate::syntax::ast::Operator;
use crate::types::{StrId, Value, format};

/// What the evaluation of one expression reads: the dependencies of its task, and how far they were
/// consumed; or, for a direct step, nothing, since it looks its variables up itself.
pub(in crate::runtime) struct Ready<'n> {
    /// The variables, in the order of reading. Empty in a direct step.
    pub dependencies: &'n [VarId],
    at: usize,
    direct: bool,
}

impl<'n> Ready<'n> {
    /// For a step without a task.
    pub fn direct() -> Ready<'n> {
        Ready {
            dependencies: &[],
            at: 0,
            direct: true,
        }
    }

    /// For a task whose dependencies are ready, from the first one on.
    pub fn new(dependencies: &'n Dependencies) -> Ready<'n> {
        Ready {
            dependencies,
            at: 0,
            direct: false,
        }
    }

    /// The same dependencies without the next `n_before`, for a part that is evaluated before its
    /// turn.
    pub fn ahead(&self, n_before: usize) -> Ready<'n> {
        let at = self.at + n_before;
        Ready { at, ..*self }
    }

    /// How many dependencies were consumed.
    pub fn read(&self) -> usize {
        self.at
    }

    /// Leaves out dependencies that were consumed before their turn.
    pub fn skip(&mut self, count: usize) {
        self.at += count;
    }

    /// The next dependency. There is one by construction; if the two walks over an expression did
    /// not agree, it would be `NONE`, and reading that fails.
    fn next(&mut self) -> VarId {
        let id = self
            .dependencies
            .get(self.at)
            .copied()
            .unwrap_or(VarId::NONE);
        self.at += 1;
        id
    }
}

/// One list has no more elements; all lists together may have some ten times as many.
const MAX_LIST: usize = 16_000_000;

impl ModelState<'_> {
    /// The value of a variable that is ready; an error if it is an optional relation without one.
    pub(in crate::runtime) fn read(&self, id: VarId, loc: Loc) -> Result<Value, Fail> {
        let var = self.known(self.known_target(id));
        if var.kind() == VarKind::Optional && var.is_null() {
            return Err(self.optional_unset(id, loc));
        }
        Ok(var.value(&self.heap))
    }

    /// The error of reading an optional relation that was declared complete without a value.
    pub(in crate::runtime) fn optional_unset(&self, id: VarId, loc: Loc) -> Fail {
        let slot = self.target(id);
        let attribute = self.program.attribute(self.attr(slot));
        let message = format!(
            "Optional variable accessed that has no value (attribute `{}.{}` of `{}`)",
            self.program.entity_name(attribute.entity),
            self.program.text(attribute.name),
            self.describe_instance(self.owner(slot))
        );
        // The place is that of the statement that reads it, or of what else finds out.
        let error = fail("OptionalValueException", Loc::NONE, message)
            .help("check it with `is defined` first");
        if loc == Loc::NONE {
            error
        } else {
            error.note(READ_HERE, loc)
        }
    }

    /// The value of an operator. An Unknown operand makes it Unknown, but for what `in` looks
    /// through.
    pub(in crate::runtime) fn binary(
        &mut self,
        operator: Operator,
        left: Value,
        right: Value,
        loc: Loc,
    ) -> Result<Value, Fail> {
        let unknown = match operator {
            Operator::In | Operator::NotIn => matches!(left, Value::Unknown(_)),
            _ => matches!(left, Value::Unknown(_)) || matches!(right, Value::Unknown(_)),
        };
        if unknown {
            return Ok(self.heap.new_unknown());
        }
        let result = self.with_heap(|heap, machine| heap.binary(operator, left, right, machine));
        result.map_err(|message| typing(loc, message))
    }

    /// The value of `not`.
    pub(in crate::runtime) fn negate(&mut self, value: Value, loc: Loc) -> Result<Value, Fail> {
        match value {
            Value::Bool(value) => Ok(Value::Bool(!value)),
            Value::Unknown(_) => Ok(self.heap.new_unknown()),
            value => {
                let text = self.heap.to_text(value, self);
                let message = format!("Invalid value `{text}`: `not` expects a boolean");
                Err(crate::runtime::python_bridge::references::not_bool(
                    value, loc, message,
                ))
            }
        }
    }

    /// The value under a key of a dict; the error names the keys that there are.
    pub(in crate::runtime) fn lookup(
        &mut self,
        dict: Value,
        key: Value,
        loc: Loc,
    ) -> Result<Value, Fail> {
        if matches!(dict, Value::Unknown(_)) || matches!(key, Value::Unknown(_)) {
            return Ok(self.heap.new_unknown());
        }
        let Value::Dict(id) = dict else {
            let text = self.heap.to_text(dict, self);
            return Err(typing(
                loc,
                format!("dict lookup is only possible on dicts, {text} is not an object"),
            ));
        };
        let Value::Str(key) = key else {
            let text = self.heap.to_text(key, self);
            return Err(typing(
                loc,
                format!("dict keys must be string, {text} is not a string"),
            ));
        };
        let key = self.heap.str(key);
        if let Some(value) = self.heap.dict_get(id, key) {
            return Ok(value);
        }
        let options: Vec<&str> = self
            .heap
            .dict(id)
            .entries
            .iter()
            .map(|(name, _)| self.heap.str(*name))
            .collect();
        let message = format!(
            "key {key} not found in dict, options are [{}]",
            options.join(",")
        );
        let similar = closest(key, options);
        Err(fail("KeyException", loc, message).did_you_mean(similar))
    }
}

impl Machine<'_> {
    /// The value of an expression. `context` is the slot that it is assigned to, if any; `listener`
    /// gets the elements one by one, of what did not stream them while it waited.
    pub(in crate::runtime) fn eval(
        &mut self,
        expr: ExprId,
        scope: ScopeId,
        ready: &mut Ready,
        context: VarId,
        listener: ListenerId,
    ) -> Result<Value, Fail> {
        let program = self.program;
        let node = program.expr(expr);
        match &node.kind {
            ExprKind::Var(_) | ExprKind::Attr(..) => {
                let id = if ready.direct {
                    self.variable_of(expr, scope)?
                } else {
                    ready.next()
                };
                let value = self.state.read(id, node.loc)?;
                if listener.is_some() {
                    let kind = self.state.known(self.state.known_target(id)).kind();
                    if !matches!(kind, VarKind::List | VarKind::Literal | VarKind::ForLoop) {
                        self.deliver_all(listener, value)?;
                    }
                }
                Ok(value)
            }
            ExprKind::Ternary(..) | ExprKind::Comprehension(_) => {
                self.state.read(ready.next(), node.loc)
            }
            ExprKind::List(_) if listener.is_some() => self.state.read(ready.next(), node.loc),
            _ => {
                let value = self.eval_whole(expr, scope, ready, context)?;
                if listener.is_some() {
                    self.deliver_all(listener, value)?;
                }
                Ok(value)
            }
        }
    }

    /// The value of an expression that is not assigned to a relation and has no listener.
    pub(in crate::runtime) fn eval_plain(
        &mut self,
        expr: ExprId,
        scope: ScopeId,
        ready: &mut Ready,
    ) -> Result<Value, Fail> {
        self.eval(expr, scope, ready, VarId::NONE, ListenerId::NONE)
    }

    /// The value of an expression that does not stream: its parts are evaluated, and combined.
    fn eval_whole(
        &mut self,
        expr: ExprId,
        scope: ScopeId,
        ready: &mut Ready,
        context: VarId,
    ) -> Result<Value, Fail> {
        let program = self.program;
        let node = program.expr(expr);
        match &node.kind {
            ExprKind::Const(value) => Ok(*value),
            ExprKind::Binary(operator, left, right) => {
                let left = self.eval_plain(*left, scope, ready)?;
                let right = self.eval_plain(*right, scope, ready)?;
                self.state.binary(*operator, left, right, node.loc)
            }
            ExprKind::Not(operand) => {
                let value = self.eval_plain(*operand, scope, ready)?;
                self.state.negate(value, node.loc)
            }
            ExprKind::And(..)
            | ExprKind::Or(..)
            | ExprKind::Defined(_)
            | ExprKind::Call(_)
            | ExprKind::Cast(_)
            | ExprKind::Query(_) => self.state.read(ready.next(), node.loc),
            ExprKind::List(items) => {
                self.report.leave_place(node.loc);
                let mut values = Vec::with_capacity(items.len());
                for item in items {
                    let value = self.eval(*item, scope, ready, context, ListenerId::NONE)?;
                    self.state.heap.flatten_into(value, &mut values);
                    if values.len() > MAX_LIST {
                        let message =
                            format!("the list is too long: more than {MAX_LIST} elements");
                        return Err(runtime(node.loc, message));
                    }
                }
                Ok(self.state.heap.new_list(&values))
            }
            ExprKind::Dict(entries) => {
                let mut values: Vec<(StrId, Value)> = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    values.push((*key, self.eval_plain(*value, scope, ready)?));
                }
                Ok(self.state.heap.new_dict(values))
            }
            ExprKind::Lookup(dict, key) => {
                let dict = self.eval_plain(*dict, scope, ready)?;
                let key = self.eval_plain(*key, scope, ready)?;
                self.state.lookup(dict, key, node.loc)
            }
            ExprKind::Format(parts) => self.format(parts, scope, ready, node.loc),
            ExprKind::Construct(id) => self.construct(*id, scope, ready, context),
            ExprKind::Regex(_) => Err(typing(
                node.loc,
                "a regular expression can only be matched with strings, `self` is an instance",
            )),
            ExprKind::Var(_)
            | ExprKind::Attr(..)
            | ExprKind::Ternary(..)
            | ExprKind::Comprehension(_) => self.eval_plain(expr, scope, ready),
        }
    }

    /// The text of a format string; Unknown if one of its values is.
    fn format(
        &mut self,
        parts: &[FormatPart],
        scope: ScopeId,
        ready: &mut Ready,
        loc: Loc,
    ) -> Result<Value, Fail> {
        self.report.leave_place(loc);
        let mut out = std::mem::take(&mut self.exec.scratch);
        out.clear();
        let unknown = self.format_into(parts, scope, ready, loc, &mut out)?;
        let value = if unknown {
            self.state.heap.new_unknown()
        } else {
            self.state.heap.new_str(&out)
        };
        self.exec.scratch = out;
        Ok(value)
    }

    /// An error for a value whose text alone is longer than all texts of a model may be, before the
    /// text is made.
    fn check_text(&self, value: Value, loc: Loc) -> Result<(), Fail> {
        let limit = self.options.limits.text_bytes;
        if self.state.heap.is_longer(value, limit) {
            let message = format!("the text is too long: more than {limit} bytes of text");
            return Err(runtime(loc, message));
        }
        Ok(())
    }

    /// Appends the text of parts of a format string. True: some value is Unknown, and so is the
    /// whole text.
    fn format_into(
        &mut self,
        parts: &[FormatPart],
        scope: ScopeId,
        ready: &mut Ready,
        loc: Loc,
        out: &mut String,
    ) -> Result<bool, Fail> {
        let mut unknown = false;
        for (at, part) in parts.iter().enumerate() {
            let limit = self.options.limits.text_bytes;
            if out.len() > limit {
                let message = format!("the text is too long: more than {limit} bytes of text");
                return Err(runtime(loc, message));
            }
            match part {
                FormatPart::Text(text) => out.push_str(text),
                FormatPart::Value(value) => {
                    let expr = *value;
                    let value = self.eval_plain(expr, scope, ready)?;
                    if matches!(value, Value::Reference(_)) {
                        let name = self.placeholder(expr, &parts[..at]);
                        return Err(crate::runtime::python_bridge::references::in_format(
                            &name, loc,
                        ));
                    }
                    unknown |= matches!(value, Value::Unknown(_));
                    if matches!(value, Value::List(_) | Value::Dict(_)) {
                        self.check_text(value, loc)?;
                    }
                    self.learn(value);
                    self.state.heap.write_interpolated(value, &self.state, out);
                }
                FormatPart::Field {
                    value,
                    conversion,
                    spec,
                } => {
                    let Some(value) = value else {
                        let message = "f-strings do not support positional substitutions via '{}', use variable or attribute keys instead";
                        return Err(runtime(loc, message));
                    };
                    let expr = *value;
                    let value = self.eval_plain(expr, scope, ready)?;
                    if matches!(value, Value::Reference(_)) {
                        let name = self.placeholder(expr, &parts[..at]);
                        return Err(crate::runtime::python_bridge::references::in_format(
                            &name, loc,
                        ));
                    }
                    let mut spec_text = String::new();
                    let spec_unknown = self.format_into(spec, scope, ready, loc, &mut spec_text)?;
                    if spec_unknown || matches!(value, Value::Unknown(_)) {
                        unknown = true;
                        continue;
                    }
                    out.push_str(&self.format_field(value, *conversion, &spec_text, loc)?);
                }
            }
        }
        Ok(unknown)
    }

    /// The text of `{value!conversion:spec}` in an f-string.
    fn format_field(
        &mut self,
        value: Value,
        conversion: Option<char>,
        spec: &str,
        loc: Loc,
    ) -> Result<String, Fail> {
        self.learn(value);
        let whole = match value {
            // Whole floats lose their fraction before anything else.
            Value::Float(float) if float.fract() == 0.0 && float.is_finite() => self
                .state
                .with_heap(|heap, machine| heap.cast(&crate::types::Type::Int, value, machine)),
            _ => None,
        };
        let value = whole.unwrap_or(value);
        let value = match conversion {
            None => value,
            Some('s') => {
                let text = self.state.heap.to_text(value, &self.state);
                self.state.heap.new_str(&text)
            }
            Some('r' | 'a') => {
                let text = self.state.heap.repr(value, &self.state);
                let text = if conversion == Some('a') {
                    ascii(&text)
                } else {
                    text
                };
                self.state.heap.new_str(&text)
            }
            Some(other) => {
                let message = format!("Invalid f-string: Unknown conversion specifier {other}");
                return Err(runtime(loc, message));
            }
        };
        let text = self.state.heap.to_text(value, &self.state);
        format::format(&self.state.heap, value, spec, &text)
            .map_err(|reason| runtime(loc, format!("Invalid f-string: {reason}")))
    }
}

/// A text with what is not ASCII as escapes of Python, for the conversion `!a`.
fn ascii(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c as u32 {
            code if code < 0x80 => out.push(c),
            code if code < 0x100 => out.push_str(&format!("\\x{code:02x}")),
            code if code < 0x10000 => out.push_str(&format!("\\u{code:04x}")),
            code => out.push_str(&format!("\\U{code:08x}")),
        }
    }
    out
}
