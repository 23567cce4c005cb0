//! Any bytes as frames of executors and compile workers.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| steward::fuzzing::frames(bytes));
