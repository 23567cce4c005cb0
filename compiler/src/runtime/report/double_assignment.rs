//! What is said of a variable that is set twice. Source: docs/reference/language.md § 8.10.

use crate::diagnostics::{Fail, fail};
use crate::runtime::{Machine, VarId};
use crate::span::Loc;
use crate::types::Value;

impl Machine<'_> {
    /// The error at `loc`, of an old and a new value and where each is written.
    pub(in crate::runtime) fn double_set(
        &self,
        (old, new): (Value, Value),
        places: (Loc, Loc),
        loc: Loc,
    ) -> Fail {
        let texts = (self.heap.to_text(old, self), self.heap.to_text(new, self));
        self.double_set_of(texts, places, loc)
    }

    /// The same, of an old and a new value as they are shown, and where each is written.
    pub(crate) fn double_set_of(
        &self,
        (old, new): (String, String),
        (set_at, set_again): (Loc, Loc),
        loc: Loc,
    ) -> Fail {
        let sources = &self.program.sources;
        let (was, is) = (sources.brief(set_at), sources.brief(set_again));
        let message = format!(
            "value set twice:\n\told value: {old}\n\t\tset at {was}\n\tnew value: {new}\n\t\tset at {is}\n"
        );
        let first = format!("it was set to `{old}` here");
        let mut error = fail("DoubleSetException", loc, message).note(first, set_at);
        if set_at == loc {
            error = error.help("the same statement ran twice with different values");
        }
        error
    }

    /// Where a value is written that a constructor gave to a variable: a default, in the entity.
    pub(in crate::runtime) fn written_at(&self, id: VarId, loc: Loc) -> Loc {
        if !self.var(id).is_slot() {
            return loc;
        }
        let program = self.program;
        let made_at = program.constructs.iter().find(|made| made.loc == loc);
        // What `**` gives is known only while it runs.
        let Some(made) = made_at.filter(|made| made.spreads.is_empty()) else {
            return loc;
        };
        let slot = id.0 - self.instance(self.owner(id)).slots.0;
        let direct = made.direct.iter().copied();
        let indirect = made.indirect.iter().map(|given| (given.slot, given.value));
        let given = direct.chain(indirect).find(|(at, _)| *at == slot);
        let name = program.attribute(self.attr(id)).name;
        match given {
            Some((_, value)) if !made.explicit.contains(&name) => program.expr(value).loc,
            _ => loc,
        }
    }
}
