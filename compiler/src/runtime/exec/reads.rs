//! How many of the needs of a unit the value of an expression reads, for what is evaluated before something that is
//! needed earlier. It goes with [`dependencies`](crate::runtime::exec::dependencies) and [`eval`](crate::runtime::exec::eval).

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
