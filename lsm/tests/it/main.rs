//! The rules of services, at their boundary: records and triggers to decisions.

mod attributes;
mod definitions;
mod dict_paths;
mod drawing;
mod lifecycles;
mod model;
mod order;
mod people;
mod schemas;
mod support;
mod traces;
mod transfers;
