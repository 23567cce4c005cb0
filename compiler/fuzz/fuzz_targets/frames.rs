//! Any bytes as frames between our processes and Python.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| steward_compiler::fuzzing::frames(bytes));
