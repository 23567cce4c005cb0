//! Any bytes as `project.yml`, `module.yml`, `setup.cfg`, `requirements.txt`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| steward_compiler::fuzzing::metadata(bytes));
