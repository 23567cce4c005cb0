mod intent;
mod schedule;
pub use intent::Intent;
