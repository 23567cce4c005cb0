//! Any text is cut into tokens that cover it, in order.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut end = 0;
    for (from, to) in steward_compiler::fuzzing::tokens(text) {
        assert!(from == end && to >= from, "a gap at {end}");
        end = to;
    }
    assert_eq!(end, text.len());
});
