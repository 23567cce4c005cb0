//! End-to-end tests: they drive the real binary on real repositories, databases, processes and files.

mod api;
mod builds;
mod code;
mod commits;
mod compile;
mod confine;
mod crash;
mod driven;
mod exec;
mod executor;
mod facts;
mod failure;
mod harness;
mod hosts;
mod lsp;
mod mistakes;
mod modules;
mod packages;
mod python;
mod quickstart;
mod repair;
mod serve;
mod systemd;
mod tidy;
mod tools;
mod webhook;
