//! The resources of the module `steward`: what changes the system on machines of their own, deployed by the binary and
//! looked at by the programs of the system; the others by an executor, in folders of the test.

mod accounts;
mod archive;
mod checkout;
mod command;
mod files;
mod http;
mod packages;
mod services;
mod tasks;
