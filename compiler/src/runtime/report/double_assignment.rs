//! The error of a variable that is set twice with different values. Source:
//! docs/reference/language.md § 8.10.
//!
//! There is no last assignment in a language where order means nothing, so the second, different
//! value is an error, and an equal one is nothing. The author has to see both places. For a
//! statement that is easy: each variable knows where it was set (`Var::set_at`).
//!
//! A default is harder. `Host(name="a")` sets every attribute that has a default, too, and all of
//! them at the place of the constructor: that is where the value came into being, and where the
//! reference says so. If now another statement sets such an attribute, the two places would be the
//! constructor and the statement, though no one sees the value in the constructor.
//!
//! ```text
//! entity Host: int port = 80 end
//! h = Host(name="a")              # sets port to 80, "here"
//! h.port = 443                    # the old value is written in line 1, not in line 2
//! ```
//!
//! So [`ModelState::written_at`] looks at which constructor has this place, and whether it names the
//! attribute; if not, the place that is told is that of the default. With `**` in the constructor
//! it can not know, and the place of the constructor stays.
//!
//! If both places are the same statement, it ran twice with different values, in a loop or in an
//! implementation of two instances; then the help says so.

use crate::diagnostics::{Fail, fail};
use crate::runtime::{ModelState, VarId};
use crate::span::Loc;
use crate::types::Value;

impl ModelState<'_> {
    /// The error of a double assignment: an old and a new value, where each is written, and the
    /// place that the error is at.
    pub(in crate::runtime) fn double_set(
        &self,
        (old, new): (Value, Value),
        places: (Loc, Loc),
        loc: Loc,
    ) -> Fail {
        let texts = (self.heap.to_text(old, self), self.heap.to_text(new, self));
        let mut error = self.double_set_of(texts, places, loc);
        let values = self.as_json(old).zip(self.as_json(new));
        error.values = values.map(|(old, new)| Box::new([old, new]));
        error
    }

    /// A value that is data; `None`: it is anything else, or holds it.
    fn as_json(&self, value: Value) -> Option<serde_json::Value> {
        Some(match value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => value.into(),
            Value::Int(value) => value.into(),
            Value::Float(value) => serde_json::Number::from_f64(value)?.into(),
            Value::Str(id) => self.heap.str(id).into(),
            Value::List(id) => {
                let items = self.heap.list(id).iter().map(|item| self.as_json(*item));
                items.collect::<Option<Vec<_>>>()?.into()
            }
            Value::Dict(id) => {
                let entries = self.heap.dict(id).entries.iter().map(|(key, value)| {
                    Some((self.heap.str(*key).to_owned(), self.as_json(*value)?))
                });
                serde_json::Value::Object(entries.collect::<Option<_>>()?)
            }
            Value::Big(_)
            | Value::Skip
            | Value::Instance(_)
            | Value::Unknown(_)
            | Value::Opaque(_)
            | Value::Reference(_) => return None,
        })
    }

    /// The same of values that are texts already, for what the analysis finds without a run.
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

    /// Where the value is written that was given to a variable at `loc`: for a default that a
    /// constructor has set, the place in the entity; else `loc`.
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
