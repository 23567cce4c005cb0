//! Any bytes as `main.cf` give an answer: the compiler's own mistakes are none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use steward_compiler::{Limits, MemWorld, Options, compile};

fuzz_target!(|bytes: &[u8]| {
    let world = MemWorld::default()
        .file("project.yml", "name: fuzz\n")
        .file("main.cf", &String::from_utf8_lossy(bytes));
    let options = Options {
        export: true,
        dump_model: true,
        limits: Limits {
            steps: 100_000,
            instances: 10_000,
            chain: 1_000,
            text_bytes: 16 << 20,
            ..Limits::default()
        },
        ..Options::default()
    };
    let compiled = compile(&world, &options);
    for diagnostic in &compiled.diagnostics {
        assert_ne!(diagnostic.kind, "InvalidCompilerState", "{diagnostic:?}");
        let _ = steward_compiler::render(diagnostic, &world, true);
    }
});
