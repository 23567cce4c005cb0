//! Any headers and body as a delivery of each forge.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| steward::fuzzing::webhook(bytes));
