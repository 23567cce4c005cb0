//! Python of this machine, and our own package for it.
//!
//! `interpreter` finds the Pythons of this machine and chooses one that fits what modules ask for; `known` keeps who they are; `sources` has our package,
//! which the binary carries; `distribution` makes it a package that pip and uv install in the place of `inmanta-core`.

mod distribution;
mod interpreter;
mod known;
mod sources;
mod wheel;

pub use distribution::{
    Distribution, NAME as DISTRIBUTION, REFERENCE_VERSION, imported_light, is_distribution, is_own,
};
pub use interpreter::{ANOTHER, Interpreter, Named, Need, Pythons};
pub use sources::{carried, precompile, runtime, unpack};
