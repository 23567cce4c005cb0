//! What must hold when nothing is left to do. Source: docs/reference/language.md § 8.11.
//!
//! The main loop ends when no step is ready and no relation can be declared complete. If everything
//! is well, each lookup has found its instance, each instance has an implementation and a value in
//! each slot, and no task is left. Whatever does not hold is an error, and says why as far as one
//! can tell (`report/blocked_on.rs`). Tasks that are left count only if nothing else is wrong,
//! since they mostly wait for what was reported.

use crate::diagnostics::{Fail, MAX_ERRORS, fail, not_found, runtime};
use crate::hir::AttributeKind;
use crate::runtime::speed::tiling::Ran;
use crate::runtime::{Action, InstId, Machine, Tiling, Var, VarId, VarKind};
use crate::span::Loc;
use crate::types::EntityId;

/// How many errors get an explanation at most; each is a walk over the tasks that are left.
const MAX_EXPLAINED: usize = 50;

/// An error, and the variable without a value that it is about, if it is about one.
type Unexplained = (Fail, Option<VarId>);

impl Machine<'_> {
    /// Runs the whole model, one step after the other.
    ///
    /// # Errors
    /// All mistakes that were found, the most important first, then by place.
    pub fn complete(&mut self) -> Result<(), Vec<Fail>> {
        let mistakes = match self.run(None) {
            Err(first) => self.rest(first),
            Ok(_) => self.mistakes(),
        };
        match mistakes {
            none if none.is_empty() => Ok(()),
            mistakes => Err(mistakes),
        }
    }

    /// The same with tiles. `None`: something went wrong in them, or the order would have shown;
    /// this machine must be thrown away, and only a run without tiles tells what is wrong with the
    /// model.
    pub fn complete_in_tiles(&mut self, tiling: Tiling) -> Option<Result<(), Vec<Fail>>> {
        let mistakes = match self.run(Some(tiling)) {
            Ok(Ran::OutOfOrder) => return None,
            Err(_) if self.tiles.has_tiles => return None,
            Err(first) => self.rest(first),
            Ok(Ran::InOrder) => self.mistakes(),
        };
        if self.tiles.runs_in_tiles && self.tiles.was_observed {
            return None;
        }
        self.tiles.runs_in_tiles = false;
        match mistakes {
            none if none.is_empty() => Some(Ok(())),
            _ if self.tiles.has_tiles => None,
            mistakes => Some(Err(mistakes)),
        }
    }

    /// What does not hold after a run that came to its end, sorted by importance and place.
    fn mistakes(&mut self) -> Vec<Fail> {
        let mut errors = Vec::new();
        self.pending_lookups(&mut errors);
        self.incomplete_instances(&mut errors);
        self.explain(&mut errors);
        let mut errors: Vec<Fail> = errors.into_iter().map(|(error, _)| error).collect();
        if errors.is_empty() && self.scheduler.has_live_tasks() {
            errors.push(self.stuck());
        }
        errors.sort_by_key(|error| {
            let span = self.program.sources.span(error.loc);
            let line = span.map(|span| {
                let file = &self.program.sources.files[span.file.0 as usize];
                (file.name.clone(), file.line(span.start))
            });
            (error.importance(), line)
        });
        errors.truncate(MAX_ERRORS);
        errors
    }

    /// Adds to each error about a variable without a value why it has none.
    fn explain(&self, errors: &mut [Unexplained]) {
        if errors.iter().all(|(_, var)| var.is_none()) {
            return;
        }
        let producers = self.producers();
        for (error, var) in errors.iter_mut().take(MAX_EXPLAINED) {
            let Some(var) = *var else {
                continue;
            };
            let bare = std::mem::replace(error, runtime(Loc::NONE, ""));
            let (explained, found) = self.explain_wait(bare, var, &producers);
            *error = if found || producers.contains_key(&var) {
                explained
            } else {
                explained.or_help(if self.program.attribute(self.state.attr(var)).is_relation() {
                    "assign it where the object is created, in an implementation, or from the other side"
                } else {
                    "assign it where the object is created or in an implementation, or give the attribute a default"
                })
            };
        }
    }

    /// Lookups that never found their instance, and relation annotations that failed.
    fn pending_lookups(&mut self, errors: &mut Vec<Unexplained>) {
        let mut pending = self.state.take_waiting_lookups();
        pending.sort_by_key(|lookup| (lookup.entity, lookup.order));
        for lookup in pending {
            let message = format!(
                "No match in index on type {} with key {}",
                self.program.entity_name(lookup.entity),
                self.state.lookup_text(&lookup)
            );
            errors.push((not_found(lookup.loc, message), None));
        }
        let mut annotations = std::mem::take(&mut self.exec.annotation_errors);
        annotations.sort_by_key(|(entity, _)| *entity);
        errors.extend(annotations.into_iter().map(|(_, error)| (error, None)));
    }

    /// Instances that lack an implementation or a value.
    fn incomplete_instances(&mut self, errors: &mut Vec<Unexplained>) {
        // In the order of the arena first: nearly always there is nothing to say.
        let is_complete = self.state.instances.iter().all(|instance| {
            let start = instance.slots.index();
            let end = start + self.program.entity(instance.entity).slots.len();
            instance.ran != 0
                && self
                    .state
                    .vars
                    .range(start..end)
                    .iter()
                    .all(crate::runtime::Var::is_ready)
        });
        if is_complete && self.exec.wanting.is_empty() {
            return;
        }
        for entity in (0..self.program.entities.len() as u32).map(EntityId) {
            for at in 0..self.state.instances_of(entity).len() {
                if errors.len() > MAX_ERRORS {
                    return;
                }
                let id = self.state.instances_of(entity)[at];
                self.check_instance(entity, id, errors);
            }
        }
    }

    /// What one instance lacks. A relation that is complete as it is gets frozen here: it is no
    /// error.
    fn check_instance(&mut self, entity: EntityId, id: InstId, errors: &mut Vec<Unexplained>) {
        let instance = self.state.instance(id);
        let (slots, loc) = (instance.slots, self.state.last_place(id));
        if instance.ran == 0 {
            let short = self.program.text(self.program.entity(entity).short);
            let error = runtime(
                loc,
                format!("Unable to select implementation for entity {short}"),
            )
            .help(format!(
                "add `implement {short} using std::none`, or an implementation of its own"
            ));
            errors.push((error, None));
        }
        let attributes = &self.program.entity(entity).slots;
        let start = slots.index();
        let all = self.state.vars.range(start..start + attributes.len());
        if self.exec.wanting.is_empty() && all.iter().all(Var::is_ready) {
            return;
        }
        for (offset, attr) in attributes.iter().enumerate() {
            let var = VarId(slots.0 + offset as u32);
            let is_ready = self.state.var(var).is_ready();
            if is_ready && !self.exec.wanting.contains(&var) {
                continue;
            }
            if !is_ready && self.state.is_delayed(var) && self.state.can_freeze(var) {
                if let Err(error) = self.freeze(var) {
                    errors.push((error, None));
                }
                continue;
            }
            let attribute = self.program.attribute(*attr);
            let name = self.program.text(attribute.name);
            let place = self.program.sources.exact(attribute.loc);
            let object = self.state.describe_instance(id);
            let message = match attribute.kind {
                AttributeKind::Relation { low, .. }
                    if self.state.var(var).kind() == VarKind::List =>
                {
                    let n_elements = if is_ready {
                        0
                    } else {
                        self.state.elements(var).len()
                    };
                    format!(
                        "The object {object} is not complete: attribute {name} ({place}) requires {low} values but only {n_elements} are set"
                    )
                }
                _ => format!(
                    "The object {object} is not complete: attribute {name} ({place}) is not set"
                ),
            };
            let error =
                fail("UnsetException", Loc::NONE, message).note("the object was created here", loc);
            errors.push((error, Some(var)));
        }
    }

    /// The error of a model whose tasks wait for one another: it shows the oldest of them.
    fn stuck(&self) -> Fail {
        let mut places = Vec::new();
        for task in self.scheduler.live_tasks() {
            let loc = self.action_loc(self.scheduler.task(task).action);
            if loc != Loc::NONE {
                places.push(loc);
            }
            if places.len() == 20 {
                break;
            }
        }
        places.dedup();
        let first = places.first().copied().unwrap_or(Loc::NONE);
        let texts: Vec<&str> = places
            .iter()
            .map(|loc| self.program.sources.snippet(*loc))
            .collect();
        let mut error = runtime(
            first,
            format!("not all statements executed: [{}]", texts.join(", ")),
        );
        for loc in places.into_iter().skip(1) {
            error = error.note("this waits, too", loc);
        }
        error
            .help("these statements wait for one another, or for a variable that is never assigned")
    }

    /// The place of a statement as the reference shows it: of an assignment, that of its value.
    fn stmt_loc(&self, stmt: crate::hir::StmtId) -> Loc {
        match self.program.stmts[stmt.index()].kind {
            crate::hir::StmtKind::Assign { value, .. } => self.program.expr(value).loc,
            _ => self.program.stmts[stmt.index()].loc,
        }
    }

    /// The place in the source of what an action does; `NONE` for what the author did not write.
    pub(in crate::runtime) fn action_loc(&self, action: Action) -> Loc {
        let expr = |id: crate::hir::ExprId| self.program.expr(id).loc;
        match action {
            Action::Stmt { stmt, .. } | Action::If { stmt, .. } => self.stmt_loc(stmt),
            Action::Attr { expr: id, .. }
            | Action::Logic { expr: id, .. }
            | Action::LogicRight { expr: id, .. }
            | Action::Ternary { expr: id, .. }
            | Action::DefinedAttr { expr: id, .. }
            | Action::Call { expr: id, .. }
            | Action::Query { expr: id, .. }
            | Action::Item { expr: id, .. } => expr(id),
            Action::Branch { ternary, then, .. } => expr(self.branch(ternary, then)),
            Action::Store { loc, .. } | Action::Implement { loc, .. } => loc,
            Action::For { run } => self.program.stmts[self.exec.for_loop(run).stmt.index()].loc,
            Action::Iterable { run } | Action::Element { run, .. } | Action::Collect { run } => {
                self.program.comprehensions[self.exec.comprehension(run).comprehension.index()].loc
            }
            Action::Annotation { which, .. } => self.program.annotations[which as usize].loc,
            Action::PromisedAttr { .. } => Loc::NONE,
            Action::Idle | Action::Cancelled | Action::Defined { .. } | Action::Promise { .. } => {
                Loc::NONE
            }
        }
    }
}
