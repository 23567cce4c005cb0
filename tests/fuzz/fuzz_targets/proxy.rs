//! What a compile sends to the proxy of its environment.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| steward::fuzzing::proxy(bytes));
