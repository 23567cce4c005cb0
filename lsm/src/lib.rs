//! The rules of services: what a definition may say, what an instance may hold, and how instances move through their states.
//!
//! Everything here is a function of its arguments. Time, new ids and the inventory come from outside, and what is to be stored,
//! logged and started goes back as values, so that every order of events can be a test. Whoever calls owns the transaction.
//! From the bottom up:
//!
//! - `problem`: what is wrong with something that was given, all of it, by path;
//! - `definition`: the records of the service catalog, their reading and their checks;
//! - `instance`: the record of the inventory;
//! - `dict_path`: paths into attributes, `sites[name=a].vlan`;
//! - `attributes`: what clients and compiles may write into an instance;
//! - `select`, `ownership`: which instances take part in a compile, and with which attributes;
//! - `change`: what a changed definition does to the instances that there are;
//! - `lifecycle`: the state machine. Start reading at [`lifecycle::decide`];
//! - `order`: changes to several instances in one call;
//! - `people`: diagrams, schemas and descriptions of the API.
//!
//! Source: docs/reference/lsm.md.

#![warn(missing_docs)]

pub mod attributes;
pub mod change;
pub mod definition;
pub mod dict_path;
pub mod instance;
pub mod lifecycle;
pub mod order;
pub mod ownership;
pub mod people;
pub mod problem;
pub mod select;

pub use definition::ServiceEntity;
pub use instance::{Instance, Moment};
pub use problem::{Problem, Problems};
/// A complete set of attributes.
pub use steward_compiler::Attributes;
