//! Calls of plugins and casts.

use super::build::Builder;
use super::expressions::{Expected, Scope};
use super::{Call, CallId, Callee, Def, ExprId, ExprKind, Ref, Visible};
use crate::diagnostics::{Fail, runtime};
use crate::syntax::ast::{self, Arg, Name};
use crate::types::Type;

impl Builder<'_> {
    pub fn call(
        &mut self,
        scope: &mut Scope,
        ast: &ast::Ast,
        function: Name,
        args: &[Arg],
    ) -> Result<ExprId, Fail> {
        let loc = self.loc(function.span);
        let text = self.text(function.symbol).to_owned();
        let not_callable = || {
            runtime(
                loc,
                format!("Can not call '{text}', can only call plugin or primitive type cast"),
            )
        };
        let (mut positional, mut named, mut spreads) = (Vec::new(), Vec::new(), Vec::new());
        // As they are kept in the syntax tree: `**` after the others.
        let (last, first): (Vec<&Arg>, Vec<&Arg>) =
            args.iter().partition(|arg| matches!(arg, Arg::Spread(_)));
        for arg in first.into_iter().chain(last) {
            let value = self.expr(scope, ast, arg.value(), Expected::Anything);
            match arg {
                Arg::Positional(_) => positional.push(value),
                Arg::Named(name, _) => named.push((name.symbol, value)),
                Arg::Spread(_) => spreads.push(value),
            }
        }
        let callee = match Type::primitive(&text) {
            Some(Type::List | Type::Dict) => return Err(not_callable()),
            Some(_) => Callee::Cast(self.find_type(scope.namespace, function.symbol, loc)?),
            None => match self.find_callee(scope.namespace, function.symbol, loc)? {
                Def::Plugin(plugin) => Callee::Plugin(plugin),
                _ => return Err(not_callable()),
            },
        };
        let mut call = Call {
            callee,
            positional,
            named,
            spreads,
            wrong: None,
            namespace: scope.namespace,
            loc,
            scope: None,
        };
        let is_cast = matches!(callee, Callee::Cast(_));
        if is_cast {
            if !call.named.is_empty() || !call.spreads.is_empty() {
                call.wrong = Some("Only positional arguments allowed in type cast".into());
            } else if call.positional.len() != 1 {
                let shown: Vec<String> = args
                    .iter()
                    .map(|arg| self.expr_text(ast, arg.value()))
                    .collect();
                let message = format!(
                    "Illegal arguments {}: type cast expects exactly 1 argument",
                    shown.join(",")
                );
                call.wrong = Some(message.into());
            }
        }
        if let Callee::Plugin(plugin) = callee
            && self.program.plugins[plugin.index()].context
        {
            call.scope = Some(Box::new(visible(scope)));
        }
        self.program.calls.push(call);
        let id = CallId(self.program.calls.len() as u32 - 1);
        Ok(self.add_expr(
            if is_cast {
                ExprKind::Cast(id)
            } else {
                ExprKind::Call(id)
            },
            loc,
        ))
    }
}

fn visible(scope: &Scope) -> Visible {
    let mut visible = Visible::default();
    for (up, frame) in scope.frames.iter().rev().enumerate() {
        if scope.at_root && up + 1 == scope.frames.len() {
            break;
        }
        for (name, index) in &frame.variables {
            visible.refs.entry(*name).or_insert(Ref::Local {
                up: up as u32,
                index: *index,
            });
        }
    }
    visible
}
