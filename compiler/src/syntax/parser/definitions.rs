//! Definitions: imports, entities, implementations, relations, typedefs, indexes.

use super::super::ast::{
    Attribute, Default, End, Entity, ExprId, ExprKind, Implement, Implementation, Item, Literal,
    Name, Relation, Typedef,
};
use super::super::token::{Keyword, Kind};
use super::{Parse, Parser, SyntaxError, TokenRole};
use crate::pattern::Pattern;
use crate::span::Span;

impl Parser<'_> {
    pub(super) fn import(&mut self) -> Parse<Item> {
        let start = self.bump_span();
        let module = self.ns_ref()?;
        let alias = if self.accept_keyword(Keyword::As) {
            Some(self.new_id()?)
        } else {
            None
        };
        if self.names.text(module.symbol).contains('-') {
            let text = self.names.text(module.symbol);
            return Err(Box::new(SyntaxError {
                kind: "CompilerException",
                message: format!(
                    "{text} is not a valid module name: hyphens are not allowed, please use underscores instead."
                ),
                span: None,
                first: None,
            }));
        }
        Ok(Item::Import {
            module,
            alias,
            span: start.to(self.last_span()),
        })
    }

    pub(super) fn entity(&mut self) -> Parse<Item> {
        let start = self.bump_span();
        if self.is(Kind::Id) {
            return self.error(
                self.here(),
                "Invalid identifier: Entity names must start with a capital",
            );
        }
        let token = self.expect(Kind::Cid)?;
        let name = self.name(token);
        let mut parents = Vec::new();
        if self.accept_keyword(Keyword::Extends) {
            parents.push(self.class_ref()?);
            while self.accept_punct(b',') {
                parents.push(self.class_ref()?);
            }
        }
        self.block_colon()?;
        let doc = self.take_doc();
        let mut attributes = Vec::new();
        let first = self.at;
        while !self.is(Kind::Keyword(Keyword::End)) {
            let start = self.at;
            self.mark(TokenRole::Start);
            match self.attribute() {
                Ok(attribute) => attributes.push(attribute),
                Err(error) => self.recover_in_block(first, start, error)?,
            }
        }
        self.block_end()?;
        self.no_hyphen(name)?;
        Ok(Item::Entity(Entity {
            name,
            parents,
            attributes,
            doc,
            extent: start.to(self.last_span()),
        }))
    }

    fn attribute(&mut self) -> Parse<Attribute> {
        if self.is(Kind::Keyword(Keyword::Dict)) {
            return self.dict_attribute();
        }
        let base = self.ns_ref()?;
        let mut list = false;
        if self.accept_punct(b'[') {
            self.expect_punct(b']')?;
            list = true;
        }
        self.mark_nullable();
        let nullable = self.accept_punct(b'?');
        let name = self.attribute_name()?;
        let mut default = Default::Absent;
        if self.accept_punct(b'=') {
            default = if self.accept_keyword(Keyword::Undef) {
                Default::Undef
            } else if self.is_punct(b'[') {
                Default::Value(self.constant_list()?)
            } else {
                Default::Value(self.constant()?)
            };
        }
        self.no_hyphen(name)?;
        Ok(Attribute {
            name,
            base,
            list,
            nullable,
            default,
        })
    }

    fn dict_attribute(&mut self) -> Parse<Attribute> {
        let token = self.bump();
        let base = self.name(token);
        self.mark_nullable();
        let nullable = self.accept_punct(b'?');
        let name = self.attribute_name()?;
        let mut default = Default::Absent;
        if self.accept_punct(b'=') {
            if self.is(Kind::Keyword(Keyword::Null)) {
                if !nullable {
                    let text = self.names.text(name.symbol);
                    let message = format!(
                        "null can not be assigned to dict, did you mean \"dict? {text} = null\""
                    );
                    return self.error(name.span, message);
                }
                default = Default::Value(self.constant()?);
            } else {
                if !self.is_punct(b'{') {
                    return Err(self.unexpected());
                }
                default = Default::Value(self.dict_literal()?);
            }
        }
        self.no_hyphen(name)?;
        Ok(Attribute {
            name,
            base,
            list: false,
            nullable,
            default,
        })
    }

    fn mark_nullable(&mut self) {
        if self.is_punct(b'?') {
            self.mark(TokenRole::Nullable);
        }
    }

    fn attribute_name(&mut self) -> Parse<Name> {
        if self.is(Kind::Cid) {
            return self.error(
                self.here(),
                "Invalid identifier: attribute names must start with a lower case character",
            );
        }
        let token = self.expect(Kind::Id)?;
        Ok(self.name(token))
    }

    fn constant(&mut self) -> Parse<ExprId> {
        match self.kind() {
            Kind::Int
            | Kind::Float
            | Kind::Str
            | Kind::Format
            | Kind::Raw
            | Kind::MultiLine
            | Kind::Regex => self.atom(),
            Kind::Keyword(Keyword::Null | Keyword::True | Keyword::False) => self.atom(),
            _ => Err(self.unexpected()),
        }
    }

    fn constant_list(&mut self) -> Parse<ExprId> {
        self.mark(TokenRole::Elements);
        let start = self.punct_span(b'[')?;
        let mut items = Vec::new();
        while !self.is_punct(b']') {
            items.push(self.constant()?);
            if !self.accept_punct(b',') {
                break;
            }
        }
        self.expect_punct(b']')?;
        self.add(ExprKind::List(items), start.to(self.last_span()))
    }

    pub(super) fn implement(&mut self) -> Parse<Item> {
        let start = self.bump_span();
        let entity = self.class_ref()?;
        self.expect_keyword(Keyword::Using)?;
        let mut using = Vec::new();
        let mut parents = false;
        loop {
            if self.accept_keyword(Keyword::Parents) {
                parents = true;
            } else {
                using.push(self.ns_ref()?);
            }
            if !self.accept_punct(b',') {
                break;
            }
        }
        let when = if self.accept_keyword(Keyword::When) {
            Some(self.expression()?)
        } else {
            None
        };
        let span = start.to(self.last_span());
        self.take_doc();
        let unconditional = when.is_none_or(|when| {
            matches!(
                self.ast.expr(when).kind,
                ExprKind::Literal(Literal::Bool(true))
            )
        });
        if parents && !unconditional {
            return Err(Box::new(SyntaxError {
                kind: "RuntimeException",
                message: "Conditional implementation with parents not allowed".to_owned(),
                span: Some(entity.span),
                first: None,
            }));
        }
        Ok(Item::Implement(Implement {
            entity,
            using,
            parents,
            when,
            span,
        }))
    }

    pub(super) fn implementation(&mut self) -> Parse<Item> {
        let start = self.bump_span();
        let token = self.expect(Kind::Id)?;
        let name = self.name(token);
        self.expect_keyword(Keyword::For)?;
        let entity = self.class_ref()?;
        self.block_colon()?;
        let doc = self.take_doc();
        let body = self.block(&[Keyword::End])?;
        self.block_end()?;
        self.no_hyphen(name)?;
        Ok(Item::Implementation(Implementation {
            name,
            entity,
            body,
            doc,
            extent: start.to(self.last_span()),
        }))
    }

    pub(super) fn relation(&mut self) -> Parse<Item> {
        let left = self.relation_end()?;
        let mut annotations = Vec::new();
        if !self.accept(Kind::Rel) {
            annotations.push(self.expression()?);
            while self.accept_punct(b',') {
                annotations.push(self.expression()?);
            }
        }
        let right = self.class_ref()?;
        let mut right_end = None;
        if self.accept_punct(b'.') {
            let attribute = self.new_relation_attribute()?;
            let (low, high) = self.multiplicity()?;
            right_end = Some(End {
                entity: right,
                attribute,
                low,
                high,
            });
        }
        let span = left.attribute.span;
        let extent = left.entity.span.to(self.last_span());
        let doc = self.take_doc();
        Ok(Item::Relation(Relation {
            left,
            right,
            right_end,
            annotations,
            span,
            doc,
            extent,
        }))
    }

    fn relation_end(&mut self) -> Parse<End> {
        let entity = self.class_ref()?;
        self.expect_punct(b'.')?;
        let attribute = self.new_relation_attribute()?;
        let (low, high) = self.multiplicity()?;
        Ok(End {
            entity,
            attribute,
            low,
            high,
        })
    }

    fn new_relation_attribute(&mut self) -> Parse<Name> {
        self.new_id()
    }

    fn multiplicity(&mut self) -> Parse<(u32, Option<u32>)> {
        self.mark(TokenRole::Multiplicity);
        self.expect_punct(b'[')?;
        let mut low = 0;
        let high;
        if self.is(Kind::Int) {
            low = self.bound()?;
            if self.accept_punct(b':') {
                high = if self.is(Kind::Int) {
                    Some(self.bound()?)
                } else {
                    None
                };
            } else {
                high = Some(low);
            }
        } else {
            self.expect_punct(b':')?;
            high = Some(self.bound()?);
        }
        self.expect_punct(b']')?;
        Ok((low, high))
    }

    fn bound(&mut self) -> Parse<u32> {
        let token = self.expect(Kind::Int)?;
        match self.slice(token).parse::<i64>() {
            Ok(bound) => Ok(u32::try_from(bound.max(0)).unwrap_or(u32::MAX)),
            Err(_) => Ok(u32::MAX),
        }
    }

    pub(super) fn typedef(&mut self) -> Parse<Item> {
        let start = self.bump_span();
        if self.is(Kind::Cid) {
            let span = self.here();
            let text = self.slice(self.token()).to_owned();
            self.bump();
            if self.accept_keyword(Keyword::As) && self.class_ref().is_ok() && self.is_punct(b'(') {
                return self.error(
                    span,
                    format!("The use of default constructors is no longer supported: {text}"),
                );
            }
            return Err(self.unexpected());
        }
        let token = self.expect(Kind::Id)?;
        let name = self.name(token);
        self.expect_keyword(Keyword::As)?;
        let base = self.ns_ref()?;
        let condition = if self.is(Kind::Regex) {
            self.regex()?
        } else {
            self.expect_keyword(Keyword::Matching)?;
            self.expression()?
        };
        let span = start.to(self.last_span());
        let doc = self.take_doc();
        self.no_hyphen(name)?;
        if !self.mentions(condition, name) {
            // The typedef is read when what follows it may follow one.
            if self.begins_nothing() {
                return Err(self.unexpected());
            }
            return Err(Box::new(SyntaxError {
                kind: "TypingException",
                message: "typedef expressions should reference the self variable".to_owned(),
                span: Some(name.span),
                first: None,
            }));
        }
        Ok(Item::Typedef(Typedef {
            name,
            base,
            condition,
            span,
            doc,
        }))
    }

    /// Whether no item begins with the current token.
    fn begins_nothing(&self) -> bool {
        use Keyword::{As, Elif, Else, End, Extends, In, Matching, Using, When};
        matches!(
            self.kind(),
            Kind::Punct(b')' | b']' | b'}' | b',' | b':' | b'=' | b'.' | b'?')
                | Kind::PlusEquals
                | Kind::Sep
                | Kind::Rel
                | Kind::Illegal
                | Kind::Keyword(As | Elif | Else | End | Extends | In | Matching | Using | When)
        )
    }

    /// Whether an expression needs `self`, or the typedef's own name. A guard, and what is asked whether it is defined, are
    /// not needed beforehand.
    fn mentions(&mut self, condition: ExprId, name: Name) -> bool {
        let wanted = vec![self.intern("self"), name.symbol];
        let mut pending = vec![(condition, wanted)];
        while let Some((id, wanted)) = pending.pop() {
            match &self.ast.expr(id).kind {
                ExprKind::Regex(_) => return true,
                ExprKind::Var(variable) if wanted.contains(&variable.symbol) => return true,
                ExprKind::Defined(operand) => {
                    if let ExprKind::Attr(object, _) = self.ast.expr(*operand).kind {
                        pending.push((object, wanted));
                    }
                }
                ExprKind::Comprehension {
                    value,
                    variable,
                    iterable,
                    ..
                } => {
                    let mut others = wanted.clone();
                    others.retain(|name| *name != variable.symbol);
                    pending.extend([(*value, others), (*iterable, wanted)]);
                }
                kind => kind.children(&mut |child| pending.push((child, wanted.clone()))),
            }
        }
        false
    }

    pub(super) fn index(&mut self) -> Parse<Item> {
        let start = self.bump_span();
        let entity = self.class_ref()?;
        self.expect_punct(b'(')?;
        let mut attributes = Vec::new();
        loop {
            let token = self.expect(Kind::Id)?;
            attributes.push(self.name(token));
            if !self.accept_punct(b',') {
                break;
            }
        }
        self.expect_punct(b')')?;
        Ok(Item::Index {
            entity,
            attributes,
            span: start.to(self.last_span()),
        })
    }

    /// `matching /…/`; the pattern is checked when its type is resolved.
    pub(super) fn regex(&mut self) -> Parse<ExprId> {
        let token = self.expect(Kind::Regex)?;
        let text = self.slice(token);
        let slash = text.find('/').unwrap_or(0);
        let span = Span {
            start: token.start + slash as u32,
            ..self.span(token)
        };
        let literal = &text[slash..];
        let pattern = &literal[1..literal.len().max(2) - 1];
        let pattern = if self.is_builtin {
            Pattern::builtin(pattern)
        } else {
            match Pattern::checked(pattern) {
                Ok(pattern) => pattern,
                Err(reason) => {
                    return self.error(span, format!("Regex error in {literal}: '{reason}'"));
                }
            }
        };
        self.add(ExprKind::Regex(pattern), span)
    }
}
