//! Any text is parsed, with mistakes at places within it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for (from, to) in steward_compiler::fuzzing::mistakes(text) {
        assert!(from <= to && to <= text.len() + 1, "{from}..{to}");
    }
});
