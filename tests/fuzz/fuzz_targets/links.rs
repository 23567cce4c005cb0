//! Any calls of sandboxed code, as its supervisor hears of them, and any message on the link between the two.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| steward::fuzzing::links(bytes));
