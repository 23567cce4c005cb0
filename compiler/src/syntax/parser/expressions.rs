//! Expressions. Precedences are those of docs/reference/language.md § 2.2, surprises included.

use super::super::ast::{Arg, ExprId, ExprKind, FPart, FValue, Literal, Name, Operator, Part};
use super::super::strings::{self, FormatPiece, Piece, Unescaped};
use super::super::token::{Keyword, Kind, Token};
use super::{Parse, Parser, SyntaxError, TokenRole};
use crate::span::Span;

/// Longer integers take long to read: the time grows with the square of their length.
const MAX_DIGITS: usize = 200_000;

/// A string whose text names variables.
struct StringText {
    decoded: Unescaped,
    /// From where its body begins.
    body: Span,
    whole: Span,
}

/// Binding powers: a larger one binds tighter.
fn binary(kind: Kind) -> Option<(u8, Operator)> {
    Some(match kind {
        Kind::Keyword(Keyword::Or) => (2, Operator::Or),
        Kind::Keyword(Keyword::And) => (3, Operator::And),
        Kind::Cmp(cmp) => (4, Operator::Cmp(cmp)),
        Kind::Punct(b'+') => (5, Operator::Add),
        Kind::Punct(b'-') => (5, Operator::Sub),
        Kind::Punct(b'*') => (6, Operator::Mul),
        Kind::Punct(b'/') => (6, Operator::Div),
        Kind::Punct(b'%') => (6, Operator::Mod),
        Kind::StarStar => (7, Operator::Pow),
        Kind::Keyword(Keyword::In) => (9, Operator::In),
        _ => return None,
    })
}

const NOT: u8 = 8;
const IN: u8 = 9;

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Parse<ExprId> {
        self.binding(1)
    }

    fn binding(&mut self, least: u8) -> Parse<ExprId> {
        self.operands(least, false)
    }

    /// `of_not`: what `not` stands before, which `not in` may not follow.
    fn operands(&mut self, least: u8, of_not: bool) -> Parse<ExprId> {
        self.enter()?;
        let mut left = if self.is(Kind::Keyword(Keyword::Not)) {
            let span = self.bump_span();
            let operand = self.operands(NOT, true)?;
            self.add(ExprKind::Not(operand), span)?
        } else {
            self.postfix()?
        };
        loop {
            if self.is(Kind::Keyword(Keyword::Not))
                && self.kind_after(1) == Kind::Keyword(Keyword::In)
                && least <= IN
            {
                if of_not {
                    return Err(self.unexpected());
                }
                let span = self.bump_span();
                self.bump();
                let right = self.binding(IN + 1)?;
                left = self.add(ExprKind::Binary(Operator::NotIn, left, right), span)?;
                continue;
            }
            // After an operand it can only be the first half of `not in`.
            if self.is(Kind::Keyword(Keyword::Not))
                && self.kind_after(1) != Kind::Keyword(Keyword::In)
            {
                self.bump();
                return Err(self.unexpected());
            }
            if self.is_punct(b'?') && least <= 1 {
                let span = self.ast.expr(left).span;
                self.bump();
                let then = self.binding(1)?;
                self.expect_punct(b':')?;
                let otherwise = self.binding(1)?;
                left = self.add(ExprKind::Ternary(left, then, otherwise), span)?;
                continue;
            }
            let Some((power, operator)) = binary(self.kind()) else {
                break;
            };
            if power < least {
                break;
            }
            let span = self.bump_span();
            let right = self.binding(power + 1)?;
            left = self.add(ExprKind::Binary(operator, left, right), span)?;
        }
        self.leave();
        Ok(left)
    }

    /// An operand with what may follow it directly.
    fn postfix(&mut self) -> Parse<ExprId> {
        match self.kind() {
            Kind::Punct(b'(') => {
                self.bump();
                let inner = self.expression()?;
                self.expect_punct(b')')?;
                Ok(inner)
            }
            Kind::Punct(b'[') => self.list_or_comprehension(),
            Kind::Punct(b'{') => self.dict_literal(),
            Kind::Id | Kind::Cid => self.reference(),
            _ => self.atom(),
        }
    }

    pub(super) fn atom(&mut self) -> Parse<ExprId> {
        let token = self.token();
        let span = self.span(token);
        let literal = match token.kind {
            Kind::Keyword(Keyword::True) => Literal::Bool(true),
            Kind::Keyword(Keyword::False) => Literal::Bool(false),
            Kind::Keyword(Keyword::Null) => Literal::Null,
            Kind::Int => {
                let text = self.slice(token);
                if text.len() > MAX_DIGITS {
                    let message = format!("a number of more than {MAX_DIGITS} digits");
                    return self.error(span, message);
                }
                match text.parse() {
                    Ok(value) => Literal::Int(value),
                    Err(_) => match text.parse() {
                        Ok(value) => Literal::BigInt(value),
                        Err(_) => return Err(self.unexpected()),
                    },
                }
            }
            Kind::Float => match self.slice(token).parse() {
                Ok(value) => Literal::Float(value),
                Err(_) => return Err(self.unexpected()),
            },
            Kind::Raw => Literal::Str(self.string_body(token).into()),
            Kind::Str | Kind::MultiLine => {
                self.bump();
                return self.string(token);
            }
            Kind::Format => {
                self.bump();
                return self.fstring(token);
            }
            Kind::Regex => return self.regex(),
            _ => return Err(self.unexpected()),
        };
        self.bump();
        self.literal(literal, span)
    }

    fn decoded(&mut self, token: Token, place: &str) -> Parse<Unescaped> {
        let span = self.span(token);
        match strings::unescape(self.string_body(token)) {
            Ok(decoded) => {
                if decoded.invalid_escape {
                    self.warnings
                        .push((format!("Invalid escape sequence in {place}."), span));
                }
                Ok(decoded)
            }
            Err(reason) => self.error(span, reason),
        }
    }

    fn text_with_places(&mut self, token: Token, place: &str) -> Parse<StringText> {
        Ok(StringText {
            decoded: self.decoded(token, place)?,
            body: self.body_start(token),
            whole: self.span(token),
        })
    }

    fn string(&mut self, token: Token) -> Parse<ExprId> {
        let span = self.span(token);
        let place = if token.kind == Kind::MultiLine {
            "multi-line string"
        } else {
            "string"
        };
        let string = self.text_with_places(token, place)?;
        let text = &string.decoded.text;
        if !text.as_bytes().contains(&b'{') {
            return self.literal(Literal::Str(string.decoded.text.into()), span);
        }
        let pieces = strings::placeholders(text);
        if pieces.iter().all(|piece| matches!(piece, Piece::Text(_))) {
            return self.literal(Literal::Str(string.decoded.text.into()), span);
        }
        let mut parts = Vec::with_capacity(pieces.len());
        for piece in pieces {
            parts.push(match piece {
                Piece::Text(text) => Part::Text(text.into()),
                Piece::Placeholder(path) => {
                    let at = path.as_ptr() as usize - text.as_ptr() as usize;
                    Part::Placeholder(self.dotted(path, at, &string)?)
                }
            });
        }
        self.add(ExprKind::Interpolated(parts), span)
    }

    /// `a.b.c` inside a string: at an offset of its text. A variable is read where the string is, an attribute at its own
    /// place, which is said with it.
    fn dotted(&mut self, path: &str, mut at: usize, string: &StringText) -> Parse<ExprId> {
        let body = string.body;
        let mut expr = None;
        for part in path.split('.') {
            let name = part.trim();
            let start = at + part.len() - part.trim_start().len();
            at += part.len() + 1;
            let offset = |at: usize| body.start + string.decoded.source_offset(at) as u32;
            let span = Span {
                start: offset(start),
                end: offset(start + name.len()),
                ..body
            };
            let name = Name {
                symbol: self.intern(name),
                span,
            };
            expr = Some(match expr {
                None => self.add(ExprKind::Var(name), string.whole)?,
                Some(object) => self.add(ExprKind::Attr(object, name), span)?,
            });
        }
        Ok(expr.expect("a text has a first part"))
    }

    fn fstring(&mut self, token: Token) -> Parse<ExprId> {
        let span = self.span(token);
        let string = self.text_with_places(token, "f-string")?;
        let pieces = match strings::format_pieces(&string.decoded.text, 2) {
            Ok(pieces) => pieces,
            Err(reason) => return self.error(span, format!("Invalid f-string: {reason}")),
        };
        let parts = self.format_parts(pieces, &string)?;
        self.add(ExprKind::FString(parts), span)
    }

    fn format_parts(&mut self, pieces: Vec<FormatPiece>, string: &StringText) -> Parse<Vec<FPart>> {
        let mut parts = Vec::with_capacity(pieces.len());
        for piece in pieces {
            parts.push(match piece {
                FormatPiece::Text(text) => FPart::Text(text.into()),
                FormatPiece::Field {
                    name,
                    at,
                    conversion,
                    spec,
                } => {
                    let value = if name.is_empty() {
                        FValue::Positional
                    } else {
                        FValue::Expr(self.dotted(&name, at, string)?)
                    };
                    FPart::Field {
                        value,
                        conversion,
                        spec: self.format_parts(spec, string)?,
                    }
                }
            });
        }
        Ok(parts)
    }

    fn reference(&mut self) -> Parse<ExprId> {
        let (name, kind) = self.qualified()?;
        if kind == Kind::Cid {
            return self.class_expression(name);
        }
        if self.is_punct(b'(') {
            return self.call(name);
        }
        let mut expr = self.add(ExprKind::Var(name), name.span)?;
        while self.is_punct(b'.') {
            if self.kind_after(1) == Kind::Cid {
                return Err(self.namespace_access(name.span));
            }
            if self.kind_after(1) == Kind::Id && self.kind_after(2) == Kind::Punct(b'(') {
                let error = self.namespace_access(name.span);
                self.bump();
                // Mistakes among the arguments come first.
                self.arguments(b')', true)?;
                let follows_no_call = matches!(
                    self.kind(),
                    Kind::Punct(b'=' | b'.') | Kind::PlusEquals | Kind::Sep | Kind::Rel
                );
                return Err(match follows_no_call {
                    true => self.unexpected(),
                    false => error,
                });
            }
            self.bump();
            let token = self.expect(Kind::Id)?;
            let attribute = self.name(token);
            if self.is_punct(b'[') && self.is_query(1) {
                return self.short_lookup(expr, attribute);
            }
            expr = self.add(ExprKind::Attr(expr, attribute), attribute.span)?;
        }
        if self.is_punct(b'[') {
            while self.is_punct(b'[') {
                // On the line of what is looked into.
                let object = self.ast.expr(expr).span;
                let is_apart = self.place_at(object) != object;
                let bracket = self.bump_span();
                let key = self.expression()?;
                self.expect_punct(b']')?;
                let span = if is_apart { object } else { bracket };
                expr = self.add(ExprKind::Lookup(expr, key), span)?;
            }
        }
        let may_be_defined = || {
            let qualified = self.names.text(name.symbol).contains("::");
            !qualified || !matches!(self.ast.expr(expr).kind, ExprKind::Var(_))
        };
        if self.is(Kind::Keyword(Keyword::Is)) && may_be_defined() {
            let span = self.bump_span();
            self.expect_keyword(Keyword::Defined)?;
            return self.defined(expr, span);
        }
        Ok(expr)
    }

    /// `d[k] is defined` means `(k in d and d[k] != null) and d[k] != []`.
    fn defined(&mut self, expr: ExprId, span: Span) -> Parse<ExprId> {
        use super::super::token::Cmp;
        let ExprKind::Lookup(dict, key) = self.ast.expr(expr).kind else {
            return self.add(ExprKind::Defined(expr), span);
        };
        let null = self.literal(Literal::Null, span)?;
        let empty = self.add(ExprKind::List(Vec::new()), span)?;
        let present = self.add(ExprKind::Binary(Operator::In, key, dict), span)?;
        let not_null = self.add(ExprKind::Binary(Operator::Cmp(Cmp::Ne), expr, null), span)?;
        let not_empty = self.add(ExprKind::Binary(Operator::Cmp(Cmp::Ne), expr, empty), span)?;
        let both = self.add(ExprKind::Binary(Operator::And, present, not_null), span)?;
        self.add(ExprKind::Binary(Operator::And, both, not_empty), span)
    }

    /// Whether the brackets at `ahead - 1` hold `name = …`, `**…` or nothing.
    fn is_query(&self, ahead: usize) -> bool {
        match self.kind_after(ahead) {
            Kind::StarStar | Kind::Punct(b']') => true,
            Kind::Id => self.kind_after(ahead + 1) == Kind::Punct(b'='),
            _ => false,
        }
    }

    fn class_expression(&mut self, entity: Name) -> Parse<ExprId> {
        match self.kind() {
            Kind::Punct(b'(') => {
                self.mark(TokenRole::Elements);
                self.bump();
                let args = self.arguments(b')', false)?;
                let mut seen: Vec<Name> = Vec::new();
                for arg in &args {
                    if let Arg::Named(name, _) = arg {
                        if seen.iter().any(|other| other.symbol == name.symbol) {
                            let message = format!(
                                "The attribute {} in the constructor call of {} is already set.",
                                self.names.text(name.symbol),
                                self.names.text(entity.symbol)
                            );
                            return Err(Box::new(SyntaxError {
                                kind: "RuntimeException",
                                message,
                                span: Some(entity.span),
                                first: None,
                            }));
                        }
                        seen.push(*name);
                    }
                }
                let span = entity.span.to(self.last_span());
                self.add(ExprKind::Construct { entity, args }, span)
            }
            Kind::Punct(b'[') => {
                let start = self.place_at(entity.span);
                self.bump();
                let args = self.arguments(b']', false)?;
                let span = start.to(self.last_span());
                self.add(ExprKind::IndexLookup { entity, args }, span)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn short_lookup(&mut self, object: ExprId, relation: Name) -> Parse<ExprId> {
        let start = self.place_at(relation.span);
        self.bump();
        let args = self.arguments(b']', false)?;
        let span = start.to(self.last_span());
        self.add(
            ExprKind::ShortLookup {
                object,
                relation,
                args,
            },
            span,
        )
    }

    fn call(&mut self, function: Name) -> Parse<ExprId> {
        self.mark(TokenRole::Elements);
        self.bump();
        let args = self.arguments(b')', true)?;
        let mut seen: Vec<Name> = Vec::new();
        for arg in &args {
            if let Arg::Named(name, _) = arg {
                if seen.iter().any(|other| other.symbol == name.symbol) {
                    let message = format!(
                        "Keyword argument {} repeated in function call {}()",
                        self.names.text(name.symbol),
                        self.names.text(function.symbol)
                    );
                    return Err(Box::new(SyntaxError {
                        kind: "RuntimeException",
                        message,
                        span: Some(function.span),
                        first: None,
                    }));
                }
                seen.push(*name);
            }
        }
        self.add(ExprKind::Call { function, args }, function.span)
    }

    /// Arguments up to and with the closing bracket.
    fn arguments(&mut self, close: u8, positional: bool) -> Parse<Vec<Arg>> {
        let mut args = Vec::new();
        while !self.is_punct(close) {
            if self.accept(Kind::StarStar) {
                args.push(Arg::Spread(self.expression()?));
            } else if self.is(Kind::Id) && self.kind_after(1) == Kind::Punct(b'=') {
                let token = self.bump();
                let name = self.name(token);
                self.bump();
                args.push(Arg::Named(name, self.expression()?));
            } else if positional {
                args.push(Arg::Positional(self.expression()?));
            } else {
                if self.is(Kind::Id) {
                    self.bump();
                }
                return Err(self.unexpected());
            }
            if !self.accept_punct(b',') {
                break;
            }
        }
        self.expect_punct(close)?;
        Ok(args)
    }

    fn list_or_comprehension(&mut self) -> Parse<ExprId> {
        let open = self.token().start;
        let start = self.bump_span();
        if self.accept_punct(b']') {
            return self.add(ExprKind::List(Vec::new()), start.to(self.last_span()));
        }
        let first = self.expression()?;
        if self.is(Kind::Keyword(Keyword::For)) {
            return self.comprehension(start, first);
        }
        if let Some(marks) = &mut self.marks {
            marks.insert(open, TokenRole::Elements);
        }
        let mut items = vec![first];
        while self.accept_punct(b',') {
            if self.is_punct(b']') {
                break;
            }
            items.push(self.expression()?);
        }
        self.expect_punct(b']')?;
        self.add(ExprKind::List(items), start.to(self.last_span()))
    }

    fn comprehension(&mut self, start: Span, value: ExprId) -> Parse<ExprId> {
        let mut clauses = Vec::new();
        while self.accept_keyword(Keyword::For) {
            let token = self.expect(Kind::Id)?;
            let variable = self.name(token);
            self.expect_keyword(Keyword::In)?;
            clauses.push((variable, self.expression()?));
        }
        let mut guard = None;
        while self.is(Kind::Keyword(Keyword::If)) {
            let span = self.bump_span();
            let condition = self.expression()?;
            guard = Some(match guard {
                None => condition,
                Some(before) => {
                    self.add(ExprKind::Binary(Operator::And, before, condition), span)?
                }
            });
        }
        self.expect_punct(b']')?;
        let span = start.to(self.last_span());
        let mut expr = value;
        for (variable, iterable) in clauses.into_iter().rev() {
            let kind = ExprKind::Comprehension {
                value: expr,
                variable,
                iterable,
                guard: guard.take(),
            };
            expr = self.add(kind, span)?;
        }
        Ok(expr)
    }

    pub(super) fn dict_literal(&mut self) -> Parse<ExprId> {
        self.mark(TokenRole::Elements);
        let start = self.punct_span(b'{')?;
        let mut entries: Vec<(Box<str>, ExprId)> = Vec::new();
        let mut seen: std::collections::HashMap<Box<str>, Span> = std::collections::HashMap::new();
        while !self.is_punct(b'}') {
            let token = self.token();
            let key: Box<str> = match token.kind {
                Kind::Raw => {
                    self.bump();
                    self.string_body(token).into()
                }
                Kind::Str => {
                    self.bump();
                    let text = self.decoded(token, "string")?.text;
                    if strings::placeholders(&text)
                        .iter()
                        .any(|piece| matches!(piece, Piece::Placeholder(_)))
                    {
                        let message = "String interpolation is not supported in dictionary keys. Use raw string to use a key containing double curly brackets";
                        return self.error(self.span(token), message);
                    }
                    text.into()
                }
                _ => return Err(self.unexpected()),
            };
            self.expect_punct(b':')?;
            let value = self.expression()?;
            if let Some(first) = seen.insert(key.clone(), self.span(token)) {
                return Err(Box::new(SyntaxError {
                    kind: "DuplicateException",
                    message: format!("duplicate key in dict {key}"),
                    span: Some(self.ast.expr(value).span),
                    first: Some(first),
                }));
            }
            entries.push((key, value));
            if !self.accept_punct(b',') {
                break;
            }
        }
        self.expect_punct(b'}')?;
        self.add(ExprKind::Dict(entries), start.to(self.last_span()))
    }
}
