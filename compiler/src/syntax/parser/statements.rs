//! Statements of blocks.

use super::super::ast::{ExprKind, Stmt};
use super::super::token::{Keyword, Kind};
use super::{Parse, Parser, TokenRole};
use crate::span::Span;

impl Parser<'_> {
    /// Statements up to one of `ends`, which is left.
    pub(super) fn block(&mut self, ends: &[Keyword]) -> Parse<Vec<Stmt>> {
        self.enter()?;
        let mut statements = Vec::new();
        let first = self.at;
        let nesting = self.nesting;
        loop {
            if let Kind::Keyword(keyword) = self.kind()
                && ends.contains(&keyword)
            {
                break;
            }
            let start = self.at;
            self.mark(TokenRole::Start);
            match self.statement() {
                Ok(statement) => statements.push(statement),
                Err(error) => {
                    self.recover_in_block(first, start, error)?;
                    self.nesting = nesting;
                }
            }
        }
        self.leave();
        Ok(statements)
    }

    pub(super) fn statement(&mut self) -> Parse<Stmt> {
        match self.kind() {
            Kind::Keyword(Keyword::For) => self.for_statement(),
            Kind::Keyword(Keyword::If) => {
                let start = self.bump_span();
                let statement = self.if_body(start)?;
                self.block_end()?;
                Ok(statement)
            }
            _ => self.assignment_or_expression(),
        }
    }

    fn for_statement(&mut self) -> Parse<Stmt> {
        let start = self.bump_span();
        let variable = self.new_id()?;
        self.expect_keyword(Keyword::In)?;
        let iterable = self.expression()?;
        let span = start.to(self.last_span());
        self.block_colon()?;
        let body = self.block(&[Keyword::End])?;
        self.block_end()?;
        Ok(Stmt::For {
            variable,
            iterable,
            body,
            span,
            extent: start.to(self.last_span()),
        })
    }

    fn if_body(&mut self, start: Span) -> Parse<Stmt> {
        self.enter()?;
        let condition = self.expression()?;
        let span = start.to(self.last_span());
        self.block_colon()?;
        let then = self.block(&[Keyword::End, Keyword::Else, Keyword::Elif])?;
        let then_extent = start.to(self.here());
        let begin = self.here();
        let mut otherwise = Vec::new();
        if self.is(Kind::Keyword(Keyword::Elif)) {
            self.mark(TokenRole::Close);
            let start = self.bump_span();
            otherwise.push(self.if_body(start)?);
        } else if self.is(Kind::Keyword(Keyword::Else)) {
            self.mark(TokenRole::Close);
            self.bump();
            self.block_colon()?;
            otherwise = self.block(&[Keyword::End])?;
        }
        self.leave();
        Ok(Stmt::If {
            condition,
            then,
            otherwise,
            span,
            then_extent,
            otherwise_extent: begin.to(self.here()),
        })
    }

    fn assignment_or_expression(&mut self) -> Parse<Stmt> {
        let start = self.at;
        let expression = self.expression()?;
        let plain = matches!(
            self.ast.expr(expression).kind,
            ExprKind::Var(_) | ExprKind::Attr(..)
        );
        // `(a) = 1` is no assignment.
        if !plain || self.tokens[start].kind == Kind::Punct(b'(') {
            return Ok(Stmt::Expr(expression));
        }
        let append = match self.kind() {
            Kind::Punct(b'=') => false,
            Kind::PlusEquals => true,
            _ => return Ok(Stmt::Expr(expression)),
        };
        let begin = self.place_at(self.span(self.tokens[start]));
        self.bump();
        let value = self.expression()?;
        let span = begin.to(self.last_span());
        match self.ast.expr(expression).kind {
            ExprKind::Var(target) => {
                // What is wrong with the name counts once the statement has its end.
                let goes_on = match self.kind() {
                    Kind::Punct(mark) => !b"([{".contains(&mark),
                    kind => matches!(kind, Kind::PlusEquals | Kind::Rel),
                };
                if goes_on {
                    return Err(self.unexpected());
                }
                if append {
                    let text = self.names.text(target.symbol);
                    return self.error(
                        target.span,
                        format!("Can not perform += on variable {text}"),
                    );
                }
                self.no_hyphen(target)?;
                Ok(Stmt::Assign {
                    target,
                    value,
                    span,
                })
            }
            ExprKind::Attr(object, attribute) => Ok(Stmt::AttrAssign {
                object,
                attribute,
                value,
                append,
                span,
            }),
            _ => Ok(Stmt::Expr(expression)),
        }
    }
}
