//! Any text as `project.yml` and as a requirements file.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| steward::fuzzing::requirements(bytes));
