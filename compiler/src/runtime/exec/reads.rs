//! How many dependencies of a task the value of an expression reads, without reading them.
//!
//! A constructor evaluates its `**` dicts before the arguments that come before them in the list of
//! dependencies, because what an index misses must be known first. So it has to know where in the
//! list they begin. This goes with [`dependencies`](crate::runtime::exec::dependencies) and
//! [`eval`](crate::runtime::exec::eval): the three must agree.

use crate::hir::{ExprId, ExprKind, FormatPart, Program};

/// The number of variables that `dependencies` lists for an expression without a listener.
pub(in crate::runtime) fn n_reads(program: &Program, expr: ExprId) -> usize {
    let of = |expr: &ExprId| n_reads(program, *expr);
    match &program.expr(expr).kind {
        ExprKind::Const(_) | ExprKind::Regex(_) => 0,
        ExprKind::Var(_)
        | ExprKind::Attr(..)
        | ExprKind::And(..)
        | ExprKind::Or(..)
        | ExprKind::Ternary(..)
        | ExprKind::Defined(_)
        | ExprKind::Call(_)
        | ExprKind::Cast(_)
        | ExprKind::Query(_)
        | ExprKind::Comprehension(_) => 1,
        ExprKind::Binary(_, left, right) | ExprKind::Lookup(left, right) => of(left) + of(right),
        ExprKind::Not(operand) => of(operand),
        ExprKind::List(items) => items.iter().map(of).sum(),
        ExprKind::Dict(entries) => entries.iter().map(|(_, value)| of(value)).sum(),
        ExprKind::Format(parts) => of_text(program, parts),
        ExprKind::Construct(id) => {
            let construct = &program.constructs[id.index()];
            let direct = construct.direct.iter().map(|(_, value)| value);
            direct.chain(&construct.spreads).map(of).sum()
        }
    }
}

/// The same for the parts of a format string.
fn of_text(program: &Program, parts: &[FormatPart]) -> usize {
    let of = |part: &FormatPart| match part {
        FormatPart::Text(_) => 0,
        FormatPart::Value(value) => n_reads(program, *value),
        FormatPart::Field { value, spec, .. } => {
            let value = value.map_or(0, |value| n_reads(program, value));
            value + of_text(program, spec)
        }
    };
    parts.iter().map(of).sum()
}
