//! What installers say, and what builds leave.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| steward::fuzzing::packages(bytes));
