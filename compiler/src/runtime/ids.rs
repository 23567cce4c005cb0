//! What the parts of the machine call one another by: everything that a run makes lies in an arena, and its number is its
//! name.

use crate::hir::AttrId;
use crate::types::{InstId, index};

index! { VarId, TaskId, ScopeId, ListenerId, LoopId, RunId, PromiseGroupId }

macro_rules! none {
    ($($name:ident),*) => {$(
        impl $name {
            pub const NONE: $name = $name(u32::MAX);

            /// Whether there is one.
            pub fn is_some(self) -> bool {
                self.0 != u32::MAX
            }
        }
    )*};
}
none! { VarId, TaskId, ScopeId, ListenerId, PromiseGroupId, InstId }

/// No attribute.
pub(in crate::runtime) const NO_ATTR: AttrId = AttrId(u32::MAX);

/// The variables that one task waits for, in the order in which its evaluation will read them. Most
/// expressions read at most four.
pub(in crate::runtime) type Dependencies = smallvec::SmallVec<[VarId; 4]>;
