//! Blocks and statements, and the promises that `if` and `for` hold for what they assign inside.

use super::build::{Builder, ErrorOrder, PendingAnnotation};
use super::define::Items;
use super::expressions::{Expected, Frame, Scope};
use super::{Annotation, BlockId, NamespaceId, Promise, Stmt, StmtId, StmtKind};
use crate::diagnostics::{Fail, Warning};
use crate::intern::Symbol;
use crate::span::Loc;
use crate::syntax::ast::{self, Item};

impl Builder<'_> {
    /// Root variables must be known before any body is lowered.
    pub fn declare_roots(&mut self) {
        let loaded = self.loaded;
        for (at, source) in loaded.sources.iter().enumerate() {
            let root = self.program.namespaces[at].root;
            let stmts = source.ast.items.iter().filter_map(|item| match item {
                Item::Stmt(stmt) => Some(stmt),
                _ => None,
            });
            for name in assigned(stmts, |name| !self.program.names.text(name).contains("::")) {
                let variables = &mut self.program.blocks[root.index()].variables;
                let index = variables.len() as u32;
                if let std::collections::hash_map::Entry::Vacant(entry) =
                    self.root_variables.entry((root, name))
                {
                    entry.insert(index);
                    variables.push(name);
                }
            }
        }
    }

    fn root_frame(&mut self, namespace: NamespaceId) -> Frame {
        let loaded = self.loaded;
        let root = self.program.namespaces[namespace.index()].root;
        let mut frame = Frame::default();
        for (index, name) in self.program.blocks[root.index()]
            .variables
            .iter()
            .enumerate()
        {
            frame.variables.insert(*name, index as u32);
        }
        for item in &loaded.sources[namespace.index()].ast.items {
            if let Item::Stmt(ast::Stmt::Assign { target, span, .. }) = item {
                let loc = self.program.sources.loc(*span);
                frame.locs.entry(target.symbol).or_default().push(loc);
            }
        }
        frame
    }

    pub fn lower_implementations(&mut self, items: &Items) {
        let loaded = self.loaded;
        for (namespace, id, implementation) in &items.implementations {
            let entity = self.program.implementations[id.index()].entity;
            let outer = self.root_frame(*namespace);
            let mut scope = Scope {
                namespace: *namespace,
                frames: Vec::new(),
                entity: Some(entity),
                at_root: false,
                in_typedef: false,
                outer: Some(outer),
            };
            let ast = &loaded.sources[namespace.index()].ast;
            let block = self.block(&mut scope, ast, &implementation.body, None);
            self.program.implementations[id.index()].block = block;
        }
    }

    /// Conditions of `implement` statements, entity by entity.
    pub fn lower_conditions(&mut self) {
        let loaded = self.loaded;
        let mut pending = std::mem::take(&mut self.pending_conditions);
        pending.sort_by_key(|(id, _)| (self.program.implements[id.index()].entity, *id));
        let before = std::mem::take(&mut self.errors);
        for (id, when) in pending {
            let (namespace, entity) = {
                let implement = &self.program.implements[id.index()];
                (implement.namespace, implement.entity)
            };
            let ast = &loaded.sources[namespace.index()].ast;
            if matches!(
                ast.expr(when).kind,
                ast::ExprKind::Literal(ast::Literal::Bool(true))
            ) {
                continue;
            }
            let mut scope = Scope {
                namespace,
                frames: Vec::new(),
                entity: Some(entity),
                at_root: false,
                in_typedef: false,
                outer: None,
            };
            let condition = self.expr(&mut scope, ast, when, Expected::Anything);
            self.program.implements[id.index()].condition = Some(condition);
            let at = ErrorOrder::after_defaults(entity);
            let found = self.errors.drain(..).map(|error| (at, error));
            self.entity_errors.extend(found);
        }
        self.errors = before;
    }

    pub fn lower_roots(&mut self) {
        let loaded = self.loaded;
        for (at, source) in loaded.sources.iter().enumerate() {
            let namespace = NamespaceId(at as u32);
            let frame = self.root_frame(namespace);
            let mut scope = Scope {
                namespace,
                frames: vec![frame],
                entity: None,
                at_root: true,
                in_typedef: false,
                outer: None,
            };
            let root = self.program.namespaces[at].root;
            for item in &source.ast.items {
                match item {
                    Item::Stmt(stmt) => {
                        let id = self.stmt(&mut scope, &source.ast, stmt);
                        if let Some(id) = self.keep(id) {
                            self.program.blocks[root.index()].stmts.push(id);
                        }
                    }
                    Item::Relation(relation) => {
                        for annotation in &relation.annotations {
                            let pending = self
                                .pending_annotations
                                .iter()
                                .find(|one| one.namespace == namespace && one.value == *annotation);
                            let Some(&PendingAnnotation {
                                entity,
                                attribute,
                                loc,
                                ..
                            }) = pending
                            else {
                                continue;
                            };
                            let expr =
                                self.expr(&mut scope, &source.ast, *annotation, Expected::Anything);
                            self.program.annotations.push(Annotation {
                                namespace,
                                expr,
                                entity,
                                attribute,
                                loc,
                            });
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// A nested block. `first` is the variable of a `for`.
    fn block(
        &mut self,
        scope: &mut Scope,
        ast: &ast::Ast,
        body: &[ast::Stmt],
        first: Option<(Symbol, Loc)>,
    ) -> BlockId {
        let mut frame = Frame::default();
        let mut variables: Vec<Symbol> = Vec::new();
        if let Some((name, loc)) = first {
            frame.variables.insert(name, 0);
            frame.locs.entry(name).or_default().push(loc);
            variables.push(name);
        }
        for stmt in body {
            if let ast::Stmt::Assign { target, span, .. } = stmt {
                if self.text(target.symbol).contains("::") {
                    continue;
                }
                let loc = self.loc(*span);
                frame.locs.entry(target.symbol).or_default().push(loc);
                if let std::collections::hash_map::Entry::Vacant(entry) =
                    frame.variables.entry(target.symbol)
                {
                    entry.insert(variables.len() as u32);
                    variables.push(target.symbol);
                }
            }
        }
        for name in &variables {
            self.warn_shadow(scope, &frame, *name);
        }
        let id = self.add_block();
        self.program.blocks[id.index()].variables = variables;
        scope.frames.push(frame);
        let mut stmts = Vec::with_capacity(body.len());
        for stmt in body.iter().rev() {
            let stmt = self.stmt(scope, ast, stmt);
            stmts.extend(self.keep(stmt));
        }
        scope.frames.pop();
        self.program.blocks[id.index()].stmts = stmts;
        id
    }

    fn warn_shadow(&mut self, scope: &Scope, frame: &Frame, name: Symbol) {
        let Some(own) = frame.locs.get(&name) else {
            return;
        };
        let original = scope
            .frames
            .iter()
            .rev()
            .chain(&scope.outer)
            .find_map(|frame| frame.locs.get(&name).cloned());
        let Some(original) = original else {
            return;
        };
        let places = |locs: &[Loc]| {
            locs.iter()
                .map(|loc| self.program.sources.brief(*loc))
                .collect::<Vec<_>>()
                .join(",")
        };
        let message = format!(
            "Variable `{}` shadowed: originally declared at {}, shadowed at {}",
            self.text(name),
            places(&original),
            places(own)
        );
        let loc = own[0];
        self.program.warnings.push(Warning {
            kind: "VariableShadowWarning",
            message,
            loc,
            notes: original
                .iter()
                .map(|loc| ("it was declared here".to_owned(), *loc))
                .collect(),
        });
    }

    fn add_stmt(&mut self, kind: StmtKind, loc: Loc) -> StmtId {
        self.program.stmts.push(Stmt { kind, loc });
        StmtId(self.program.stmts.len() as u32 - 1)
    }

    fn stmt(
        &mut self,
        scope: &mut Scope,
        ast: &ast::Ast,
        stmt: &ast::Stmt,
    ) -> Result<StmtId, Fail> {
        match stmt {
            ast::Stmt::Expr(expr) => {
                let loc = self.loc(ast.expr(*expr).span);
                let expr = self.expr(scope, ast, *expr, Expected::Anything);
                Ok(self.add_stmt(StmtKind::Expr(expr), loc))
            }
            ast::Stmt::Assign {
                target,
                value,
                span,
            } => {
                let loc = self.loc(*span);
                let value = self.expr(scope, ast, *value, Expected::Anything);
                let target = self.owner(scope, target.symbol, loc)?;
                Ok(self.add_stmt(StmtKind::Assign { target, value }, loc))
            }
            ast::Stmt::AttrAssign {
                object,
                attribute,
                value,
                append,
                span,
            } => {
                let loc = self.loc(*span);
                let object = self.expr(scope, ast, *object, Expected::Owner);
                let value = self.expr(scope, ast, *value, Expected::Assigned);
                let kind = StmtKind::AttrAssign {
                    object,
                    attribute: attribute.symbol,
                    value,
                    append: *append,
                };
                Ok(self.add_stmt(kind, loc))
            }
            ast::Stmt::For {
                variable,
                iterable,
                body,
                span,
                ..
            } => {
                let loc = self.loc(*span);
                let iterable = self.expr(scope, ast, *iterable, Expected::Anything);
                let mut promises = Vec::new();
                let mut crossed = Vec::new();
                self.promises(
                    scope,
                    ast,
                    body,
                    Some(variable.symbol),
                    &mut crossed,
                    &mut promises,
                );
                let declared = Some((variable.symbol, loc));
                let body = self.block(scope, ast, body, declared);
                Ok(self.add_stmt(
                    StmtKind::For {
                        iterable,
                        body,
                        promises,
                    },
                    loc,
                ))
            }
            ast::Stmt::If {
                condition,
                then,
                otherwise,
                span,
                ..
            } => {
                let loc = self.loc(*span);
                let condition = self.expr(scope, ast, *condition, Expected::Anything);
                let mut promises = Vec::new();
                let mut crossed = Vec::new();
                self.promises(scope, ast, then, None, &mut crossed, &mut promises);
                self.promises(scope, ast, otherwise, None, &mut crossed, &mut promises);
                let then = self.block(scope, ast, then, None);
                let otherwise = self.block(scope, ast, otherwise, None);
                Ok(self.add_stmt(
                    StmtKind::If {
                        condition,
                        then,
                        otherwise,
                        promises,
                    },
                    loc,
                ))
            }
        }
    }

    /// Attribute assignments inside a body whose root variable lives outside of all `crossed` blocks.
    fn promises(
        &mut self,
        scope: &mut Scope,
        ast: &ast::Ast,
        body: &[ast::Stmt],
        loop_variable: Option<Symbol>,
        crossed: &mut Vec<Vec<Symbol>>,
        promises: &mut Vec<Promise>,
    ) {
        let mut declared = assigned(body.iter(), |name| {
            !self.program.names.text(name).contains("::")
        });
        declared.extend(loop_variable);
        crossed.push(declared);
        for stmt in body.iter().rev() {
            match stmt {
                ast::Stmt::AttrAssign {
                    object,
                    attribute,
                    span,
                    ..
                } => {
                    let root = root_variable(ast, *object);
                    if root.is_some_and(|root| !crossed.iter().any(|block| block.contains(&root))) {
                        let loc = self.loc(*span);
                        let object = self.expr(scope, ast, *object, Expected::Owner);
                        promises.push(Promise {
                            object,
                            attribute: attribute.symbol,
                            loc,
                        });
                    }
                }
                ast::Stmt::For { variable, body, .. } => {
                    self.promises(scope, ast, body, Some(variable.symbol), crossed, promises);
                }
                ast::Stmt::If {
                    then, otherwise, ..
                } => {
                    self.promises(scope, ast, then, None, crossed, promises);
                    self.promises(scope, ast, otherwise, None, crossed, promises);
                }
                ast::Stmt::Expr(_) | ast::Stmt::Assign { .. } => {}
            }
        }
        crossed.pop();
    }
}

fn root_variable(ast: &ast::Ast, mut id: ast::ExprId) -> Option<Symbol> {
    loop {
        match &ast.expr(id).kind {
            ast::ExprKind::Var(name) => return Some(name.symbol),
            ast::ExprKind::Attr(object, _) => id = *object,
            _ => return None,
        }
    }
}

/// Variables that are assigned directly among statements, each once.
fn assigned<'a>(
    stmts: impl Iterator<Item = &'a ast::Stmt>,
    local: impl Fn(Symbol) -> bool,
) -> Vec<Symbol> {
    let mut seen = crate::hash::Set::default();
    let mut names = Vec::new();
    for stmt in stmts {
        if let ast::Stmt::Assign { target, .. } = stmt
            && local(target.symbol)
            && seen.insert(target.symbol)
        {
            names.push(target.symbol);
        }
    }
    names
}
