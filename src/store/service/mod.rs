//! The catalog and the inventory of services. Source: docs/reference/lsm.md § 1, § 3.10 to § 3.12.
//!
//! What may happen to an instance is decided by `steward_lsm`, a function of the definition, the instance and what happened.
//! Here that function is called inside the transaction that stores what it decides ([`Store::service_change`]): instance, log,
//! events and requests for compiles are written together, or not at all. Each is found by its key or by an index, so the time
//! of a transfer does not depend on how many instances there are.

mod callback;
mod catalog;
mod change;
mod count;
mod event;
mod instance;
mod list;
mod order;
mod past;
mod reference;
mod remembered;
mod snapshot;
mod used;
mod words;

pub use callback::Callback;
pub(super) use catalog::Catalogs;
pub use catalog::{Catalog, CatalogChange, Definition};
pub use change::{Cause, Changed, Rules};
pub use event::{EventSearch, EventSpan, StoredEvent};
pub use list::{Column, InstanceSearch, InstanceSpan, Place};
pub use order::{ItemOutcome, Order, OrderItem, OrderSpan};
pub(super) use remembered::Remembered;

/// Adds ` AND ..` for the rows that are beyond a row in a list sorted by `column`, and by `id` where that is equal. The two are
/// compared as a pair: there a database begins to read, whereas with an `OR` it reads all rows from the beginning of the list.
macro_rules! push_beyond {
    ($query:expr, $column:expr, $comparison:expr, $bind_value:expr, $id:expr) => {
        $query.push(" AND (").push($column).push(", id)");
        $query.push($comparison).push("(");
        $bind_value;
        $query
            .push(", ")
            .push_bind(crate::store::storable($id).into_owned())
            .push(")");
    };
}
use push_beyond;

/// `$2, $3, …`: so many parameters of a statement.
fn parameters(first: usize, n_parameters: usize) -> String {
    let all = (first..first + n_parameters).map(|number| format!("${number}"));
    all.collect::<Vec<_>>().join(", ")
}
