//! What every request and connection passes, whatever it is about: who may connect, how large and slow a body may be, pages, errors.

pub(in crate::api) mod args;
pub(in crate::api) mod body;
pub(in crate::api) mod connection;
pub(in crate::api) mod cut;
pub(in crate::api) mod error;
pub(in crate::api) mod guard;
pub(in crate::api) mod listen;
pub(in crate::api) mod middleware;
pub(in crate::api) mod order;
pub(in crate::api) mod page;
pub(in crate::api) mod places;
pub(in crate::api) mod principal;
pub(in crate::api) mod throttle;
pub(in crate::api) mod token;
pub(in crate::api) mod upload;
