//! Instances as text.

use crate::hir::{ExprId, ExprKind, Ref};
use crate::runtime::{InstId, Machine};
use crate::span::Loc;
use crate::types::Heap;
use crate::types::text::Instances;

impl Machine<'_> {
    /// Where an instance was constructed, the last time.
    pub(in crate::runtime) fn last_place(&self, id: InstId) -> Loc {
        let again = self.again.get(&id).and_then(|places| places.last());
        again.copied().unwrap_or(self.instance(id).loc)
    }

    /// `m::E (instantiated at FILE:LINE)`
    pub fn describe_instance(&self, id: InstId) -> String {
        let instance = self.instance(id);
        let sources = &self.program.sources;
        let mut places = sources.brief(instance.loc);
        for loc in self.again.get(&id).into_iter().flatten() {
            places.push(',');
            places.push_str(&sources.brief(*loc));
        }
        format!(
            "{} (instantiated at {places})",
            self.program.entity_name(instance.entity)
        )
    }

    /// A reference as it was written.
    pub(in crate::runtime) fn expr_name(&self, expr: ExprId) -> String {
        match self.program.expr(expr).kind {
            ExprKind::Attr(object, name) => {
                format!("{}.{}", self.expr_name(object), self.program.text(name))
            }
            ExprKind::Var(Ref::Member { name, .. } | Ref::Missing(name)) => {
                self.program.text(name).to_owned()
            }
            ExprKind::Var(Ref::This) => "self".to_owned(),
            _ => {
                let span = self.program.sources.span(self.program.expr(expr).loc);
                let text = span.and_then(|span| {
                    let file = &self.program.sources.files[span.file.0 as usize];
                    file.text.get(span.start as usize..span.end as usize)
                });
                text.unwrap_or("value").to_owned()
            }
        }
    }

    /// Lets the heap make new values while the machine names instances.
    pub(in crate::runtime) fn with_heap<R>(
        &mut self,
        work: impl FnOnce(&mut Heap, &Self) -> R,
    ) -> R {
        let mut heap = std::mem::take(&mut self.heap);
        let result = work(&mut heap, self);
        self.heap = heap;
        result
    }
}

impl Instances for Machine<'_> {
    fn instance_text(&self, id: InstId) -> String {
        self.describe_instance(id)
    }

    fn instance_handle(&self, id: InstId) -> String {
        format!(
            "{} 7f{:010x}",
            self.program.entity_name(self.instance(id).entity),
            u64::from(id.0) * 16
        )
    }
}
