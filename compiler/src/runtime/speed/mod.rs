//! What makes large models fast, and changes no answer.
//!
//! A model of a large network has tens of millions of variables and steps. Two things take the time
//! then: the number of steps, and waiting for memory that is not in the cache of the processor.
//!
//! - `direct_steps`: steps whose values are there take no task.
//! - `tiling`: steps that belong together run together, while what they use is in the cache. If
//!   that would show, the run is thrown away and made again without.
//! - `observers`: whether a model may call code that would notice tiles; then there are none from
//!   the start.
//! - `prefetch`: memory that the next steps will need is asked for together.
//! - `memory`: large vectors in large pages.
//!
//! Each of these can be left out without any change of what a compile says; the differential test
//! compares models with tiles, without, and with the reference.

pub(in crate::runtime) mod direct_steps;
pub(in crate::runtime) mod memory;
pub(in crate::runtime) mod observers;
pub(in crate::runtime) mod prefetch;
pub(in crate::runtime) mod tiling;
