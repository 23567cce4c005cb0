//! Tokens to a syntax tree, by recursive descent over the grammar of docs/reference/language.md § 2.
//!
//! The parser always returns a tree. After a mistake it goes on where something new begins (see `recover`), so that one
//! run finds all independent mistakes and tools see the rest of the file.

mod definitions;
mod expressions;
mod recover;
mod statements;

use super::ast::{Ast, Expr, ExprId, ExprKind, Item, Literal, Name};
use super::token::{Keyword, Kind, Token};
use super::{strings, tokens};
use crate::intern::{Interner, Symbol};
use crate::span::{FileId, Span};

/// Deeper nesting is a mistake; a tree must not be able to exhaust the stack.
const MAX_NESTING: u32 = 400;
/// The same for chains such as `1 + 1 + 1`, whose trees are deep without nesting in the text.
const MAX_DEPTH: u32 = 8_000;

pub struct Parsed {
    pub ast: Ast,
    /// In order of the text; the first is the one that counts.
    pub errors: Vec<SyntaxError>,
    pub warnings: Vec<(String, Span)>,
}

#[derive(Debug)]
pub struct SyntaxError {
    pub kind: &'static str,
    pub message: String,
    /// `None`: without a place, as the language has it.
    pub span: Option<Span>,
    /// For repeated definitions: the first one.
    pub first: Option<Span>,
}

impl SyntaxError {
    /// What is to be done, where the text does not show what is wrong with it.
    pub fn help(&self) -> Option<&'static str> {
        self.message.ends_with("'\u{feff}'").then_some(
            "that is a byte order mark (U+FEFF), which editors do not show: save the file as UTF-8 without one",
        )
    }
}

type Parse<T> = Result<T, Box<SyntaxError>>;

/// What a token is for, where its kind does not tell: for the formatter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenRole {
    /// First of an item, a statement or an attribute.
    Start,
    /// The colon before a block.
    Colon,
    /// `end`, `else`, `elif`.
    Close,
    /// The question mark of a type.
    Nullable,
    /// The bracket of a multiplicity.
    Multiplicity,
    /// A bracket whose elements may be followed by one more comma.
    Elements,
}

/// Marks by the offset of their token.
pub type TokenRoles = crate::hash::Map<u32, TokenRole>;

/// A file and what its tokens are for.
pub fn parse_marked(file: FileId, text: &str, names: &mut Interner) -> (Parsed, TokenRoles) {
    let mut marks = TokenRoles::default();
    let parsed = parse_with(file, text, names, Some(&mut marks), false);
    (parsed, marks)
}

pub fn parse(file: FileId, text: &str, names: &mut Interner) -> Parsed {
    parse_with(file, text, names, None, false)
}

/// A file of ours: what takes time to check is known to be right.
pub fn parse_builtin(file: FileId, text: &str, names: &mut Interner) -> Parsed {
    parse_with(file, text, names, None, true)
}

fn parse_with<'a>(
    file: FileId,
    text: &'a str,
    names: &'a mut Interner,
    marks: Option<&'a mut TokenRoles>,
    is_builtin: bool,
) -> Parsed {
    let tokens = tokens(text)
        .into_iter()
        .filter(|token| !matches!(token.kind, Kind::Blank | Kind::Comment))
        .collect();
    let mut parser = Parser {
        file,
        text,
        tokens,
        at: 0,
        names,
        ast: Ast::default(),
        depths: Vec::new(),
        nesting: 0,
        marks,
        is_builtin,
        errors: Vec::new(),
        warnings: Vec::new(),
    };
    parser.ast.doc = parser.take_doc();
    while parser.kind() != Kind::End {
        if !parser.errors.is_empty() && parser.at_left_over() {
            parser.skip_left_over();
            continue;
        }
        let start = parser.at;
        parser.mark(TokenRole::Start);
        match parser.item() {
            Ok(item) => parser.ast.items.push(item),
            Err(error) => parser.recover(start, *error),
        }
    }
    Parsed {
        ast: parser.ast,
        errors: parser.errors,
        warnings: parser.warnings,
    }
}

struct Parser<'a> {
    file: FileId,
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    names: &'a mut Interner,
    ast: Ast,
    /// Depth of each expression's tree.
    depths: Vec<u32>,
    nesting: u32,
    marks: Option<&'a mut TokenRoles>,
    is_builtin: bool,
    errors: Vec<SyntaxError>,
    warnings: Vec<(String, Span)>,
}

impl<'a> Parser<'a> {
    /// Says what the current token is for.
    fn mark(&mut self, mark: TokenRole) {
        let start = self.token().start;
        if let Some(marks) = &mut self.marks {
            marks.insert(start, mark);
        }
    }

    /// Where something lies that the next token, an `=` or a `[`, makes what it is: the line of that token counts.
    fn place_at(&self, start: Span) -> Span {
        let here = self.span(self.token());
        let between = self.text.get(start.start as usize..here.start as usize);
        match between.is_some_and(|text| text.contains('\n')) {
            true => here,
            false => start,
        }
    }

    fn block_colon(&mut self) -> Parse<()> {
        self.mark(TokenRole::Colon);
        self.expect_punct(b':').map(|_| ())
    }

    fn block_end(&mut self) -> Parse<()> {
        self.mark(TokenRole::Close);
        self.expect_keyword(Keyword::End).map(|_| ())
    }

    fn token(&self) -> Token {
        self.tokens[self.at]
    }

    fn kind(&self) -> Kind {
        self.tokens[self.at].kind
    }

    fn kind_after(&self, ahead: usize) -> Kind {
        self.tokens
            .get(self.at + ahead)
            .map_or(Kind::End, |token| token.kind)
    }

    fn bump(&mut self) -> Token {
        let token = self.tokens[self.at];
        if token.kind != Kind::End {
            self.at += 1;
        }
        token
    }

    fn bump_span(&mut self) -> Span {
        let token = self.bump();
        self.span(token)
    }

    fn punct_span(&mut self, byte: u8) -> Parse<Span> {
        let token = self.expect_punct(byte)?;
        Ok(self.span(token))
    }

    fn is(&self, kind: Kind) -> bool {
        self.kind() == kind
    }

    fn is_punct(&self, byte: u8) -> bool {
        self.kind() == Kind::Punct(byte)
    }

    fn accept(&mut self, kind: Kind) -> bool {
        let found = self.kind() == kind;
        if found {
            self.bump();
        }
        found
    }

    fn accept_punct(&mut self, byte: u8) -> bool {
        self.accept(Kind::Punct(byte))
    }

    fn accept_keyword(&mut self, keyword: Keyword) -> bool {
        self.accept(Kind::Keyword(keyword))
    }

    fn expect(&mut self, kind: Kind) -> Parse<Token> {
        if self.kind() == kind {
            Ok(self.bump())
        } else {
            Err(self.unexpected())
        }
    }

    fn expect_punct(&mut self, byte: u8) -> Parse<Token> {
        self.expect(Kind::Punct(byte))
    }

    fn expect_keyword(&mut self, keyword: Keyword) -> Parse<Token> {
        self.expect(Kind::Keyword(keyword))
    }

    fn slice(&self, token: Token) -> &'a str {
        &self.text[token.start as usize..token.end as usize]
    }

    fn span(&self, token: Token) -> Span {
        token.span(self.file)
    }

    fn here(&self) -> Span {
        self.span(self.token())
    }

    /// Span of the token before the current one.
    fn last_span(&self) -> Span {
        self.span(self.tokens[self.at.saturating_sub(1)])
    }

    fn intern(&mut self, text: &str) -> Symbol {
        self.names.intern(text)
    }

    fn name(&mut self, token: Token) -> Name {
        let text = self.slice(token);
        Name {
            symbol: self.intern(text),
            span: self.span(token),
        }
    }

    fn error<T>(&self, span: Span, message: impl std::fmt::Display) -> Parse<T> {
        Err(Box::new(SyntaxError {
            kind: "ParserException",
            message: format!("Syntax error: {message}"),
            span: Some(span),
            first: None,
        }))
    }

    /// The current token fits no rule.
    fn unexpected(&self) -> Box<SyntaxError> {
        let token = self.token();
        let span = self.span(token);
        let error = |message: String, span: Span| {
            Box::new(SyntaxError {
                kind: "ParserException",
                message,
                span: Some(span),
                first: None,
            })
        };
        if token.kind == Kind::End {
            return error(
                "Syntax error: Unexpected end of file".to_owned(),
                Span {
                    start: span.end,
                    ..span
                },
            );
        }
        if token.kind == Kind::Illegal {
            return error(
                format!("Syntax error: Illegal character '{}'", self.slice(token)),
                span,
            );
        }
        let before = self.at.checked_sub(1).map(|at| self.tokens[at]);
        for candidate in [Some(token), before].into_iter().flatten() {
            use Keyword::{Defined, False, Null, True};
            // A keyword that ends an operand is understood when a token comes that may follow an operand somewhere.
            let follows = !matches!(
                token.kind,
                Kind::Punct(b'=' | b'.') | Kind::PlusEquals | Kind::Sep | Kind::Rel
            );
            let complete = follows
                && matches!(candidate.kind, Kind::Keyword(Defined | False | Null | True))
                && !self.is_default_of_dict();
            if matches!(candidate.kind, Kind::Keyword(_))
                && (candidate.start == token.start || !complete)
            {
                let text = self.slice(candidate);
                let message =
                    format!("Syntax error: invalid identifier, {text} is a reserved keyword");
                return error(message, self.span(candidate));
            }
        }
        let text = match token.kind {
            Kind::Str | Kind::MultiLine | Kind::Raw | Kind::Format => self.string_text(token),
            _ => self.slice(token).to_owned(),
        };
        error(
            format!("Syntax error at token {text}"),
            Span {
                start: span.end,
                ..span
            },
        )
    }

    /// Whether the token before is the `null` of `dict? name = null`: only another attribute or `end` follows it.
    fn is_default_of_dict(&self) -> bool {
        let before = |back: usize| {
            let at = self.at.checked_sub(back);
            at.map_or(Kind::End, |at| self.tokens[at].kind)
        };
        let ends_dict = match before(4) {
            Kind::Punct(b'?') => before(5),
            kind => kind,
        };
        before(1) == Kind::Keyword(Keyword::Null)
            && before(2) == Kind::Punct(b'=')
            && matches!(before(3), Kind::Id | Kind::Cid)
            && ends_dict == Kind::Keyword(Keyword::Dict)
    }

    fn string_text(&self, token: Token) -> String {
        let body = self.string_body(token);
        strings::unescape(body).map_or_else(|_| body.to_owned(), |decoded| decoded.text)
    }

    fn string_body(&self, token: Token) -> &'a str {
        let text = self.slice(token);
        match token.kind {
            Kind::MultiLine => &text[3..text.len() - 3],
            Kind::Raw | Kind::Format => &text[2..text.len() - 1],
            _ => &text[1..text.len() - 1],
        }
    }

    /// Where the body of a string begins.
    fn body_start(&self, token: Token) -> Span {
        let at = self.string_body(token).as_ptr() as usize - self.slice(token).as_ptr() as usize;
        let span = self.span(token);
        Span {
            start: span.start + at as u32,
            ..span
        }
    }

    fn take_doc(&mut self) -> Option<Span> {
        self.is(Kind::MultiLine).then(|| self.bump_span())
    }

    fn enter(&mut self) -> Parse<()> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return self.error(
                self.here(),
                format!("nested more than {MAX_NESTING} levels deep"),
            );
        }
        Ok(())
    }

    fn leave(&mut self) {
        self.nesting -= 1;
    }

    fn add(&mut self, kind: ExprKind, span: Span) -> Parse<ExprId> {
        let depth = 1 + self.children_depth(&kind);
        if depth > MAX_DEPTH {
            return self.error(
                span,
                format!("an expression of more than {MAX_DEPTH} levels"),
            );
        }
        self.ast.exprs.push(Expr { kind, span });
        self.depths.push(depth);
        Ok(ExprId(self.ast.exprs.len() as u32 - 1))
    }

    fn children_depth(&self, kind: &ExprKind) -> u32 {
        let mut deepest = 0;
        kind.children(&mut |id| deepest = deepest.max(self.depths[id.0 as usize]));
        deepest
    }

    fn literal(&mut self, literal: Literal, span: Span) -> Parse<ExprId> {
        self.add(ExprKind::Literal(literal), span)
    }

    /// `ns_ref` or `class_ref`: `a::b::c`; the kind tells what the last part is.
    fn qualified(&mut self) -> Parse<(Name, Kind)> {
        let first = self.token();
        let mut last = first;
        match first.kind {
            Kind::Id | Kind::Cid => self.bump(),
            _ => return Err(self.unexpected()),
        };
        while last.kind == Kind::Id && self.is(Kind::Sep) {
            self.bump();
            last = self.token();
            match last.kind {
                Kind::Id | Kind::Cid => self.bump(),
                _ => return Err(self.unexpected()),
            };
        }
        if first.start == last.start {
            return Ok((self.name(first), first.kind));
        }
        let span = self.span(first).to(self.span(last));
        let text = &self.text[span.start as usize..span.end as usize];
        let is_blank = |byte: &u8| byte.is_ascii_whitespace() || !byte.is_ascii();
        let symbol = match text.as_bytes().iter().any(is_blank) {
            // Nearly always the name is written as it is meant.
            false => self.names.intern(text),
            true => {
                let parts: Vec<&str> = text.split("::").map(str::trim).collect();
                self.names.intern(&parts.join("::"))
            }
        };
        Ok((Name { symbol, span }, last.kind))
    }

    fn class_ref(&mut self) -> Parse<Name> {
        let (name, kind) = self.qualified()?;
        if kind == Kind::Cid {
            return Ok(name);
        }
        if self.is_punct(b'.') && matches!(self.kind_after(1), Kind::Cid) {
            return Err(self.namespace_access(name.span));
        }
        Err(self.unexpected())
    }

    fn ns_ref(&mut self) -> Parse<Name> {
        let (name, kind) = self.qualified()?;
        if kind == Kind::Id {
            return Ok(name);
        }
        self.at -= 1;
        Err(self.unexpected())
    }

    /// At the dot of `a.B`: a dot where `::` belongs.
    fn namespace_access(&mut self, start: Span) -> Box<SyntaxError> {
        use Keyword::{And, Elif, Else, End, In, Is, Or};
        // It is read as the name of a type, so what never follows one is the first mistake.
        let is_type = self.kind_after(1) == Kind::Cid;
        let follows_no_type = matches!(
            self.kind_after(2),
            Kind::Punct(b')' | b']' | b'}' | b'=' | b'+' | b'*' | b'/' | b'%' | b'?')
                | Kind::Cmp(_)
                | Kind::StarStar
                | Kind::PlusEquals
                | Kind::Keyword(And | Elif | Else | End | In | Is | Or)
        );
        if is_type && follows_no_type {
            self.at += 2;
            return self.unexpected();
        }
        let mut end = start;
        while self.is_punct(b'.') && matches!(self.kind_after(1), Kind::Id | Kind::Cid) {
            self.bump();
            end = self.bump_span();
        }
        let span = start.to(end);
        let text = &self.text[span.start as usize..span.end as usize];
        Box::new(SyntaxError {
            kind: "InvalidNamespaceAccess",
            message: format!(
                "Syntax error: invalid namespace access `{text}`. Namespaces should be accessed with '::' rather than '.'. The '.' separator is reserved for attribute and relation access. Did you mean: `{}`",
                text.replace('.', "::")
            ),
            span: Some(span),
            first: None,
        })
    }

    fn no_hyphen(&self, name: Name) -> Parse<()> {
        let text = &self.text[name.span.start as usize..name.span.end as usize];
        if text.contains('-') {
            return Err(Box::new(SyntaxError {
                kind: "HyphenException",
                message: format!(
                    "The use of '-' in identifiers is not allowed. please rename {text}."
                ),
                span: Some(name.span),
                first: None,
            }));
        }
        Ok(())
    }

    /// An ID where a name is defined.
    fn new_id(&mut self) -> Parse<Name> {
        let token = self.expect(Kind::Id)?;
        let name = self.name(token);
        self.no_hyphen(name)?;
        Ok(name)
    }

    fn item(&mut self) -> Parse<Item> {
        self.nesting = 0;
        match self.kind() {
            Kind::Keyword(Keyword::Import) => self.import(),
            Kind::Keyword(Keyword::Entity) => self.entity(),
            Kind::Keyword(Keyword::Implement) => self.implement(),
            Kind::Keyword(Keyword::Implementation) => self.implementation(),
            Kind::Keyword(Keyword::Typedef) => self.typedef(),
            Kind::Keyword(Keyword::Index) => self.index(),
            Kind::Cid | Kind::Id if self.is_relation() => self.relation(),
            _ => Ok(Item::Stmt(self.statement()?)),
        }
    }

    /// `a::B.c`: only relations begin so.
    fn is_relation(&self) -> bool {
        let mut ahead = 0;
        while self.kind_after(ahead) == Kind::Id && self.kind_after(ahead + 1) == Kind::Sep {
            ahead += 2;
        }
        self.kind_after(ahead) == Kind::Cid && self.kind_after(ahead + 1) == Kind::Punct(b'.')
    }
}
