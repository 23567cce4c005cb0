//! Any text as what a handler asks of the API.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| steward::fuzzing::handler_requests(bytes));
