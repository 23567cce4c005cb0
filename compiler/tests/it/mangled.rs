//! Sources that make no sense: the compiler answers with diagnostics, whatever it is given.

use std::path::Path;

use steward_compiler::{MemWorld, Options, compile};

/// A small generator of numbers, the same ones every time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % below.max(1)
    }
}

fn check(text: &str, what: &str) {
    let world = MemWorld::default()
        .file("project.yml", "name: case")
        .file("main.cf", text);
    let options = Options {
        export: true,
        dump_model: true,
        ..Options::default()
    };
    let compiled = compile(&world, &options);
    let broken = compiled
        .diagnostics
        .iter()
        .find(|diagnostic| diagnostic.kind == "InvalidCompilerState");
    assert!(broken.is_none(), "{what}: {broken:?}\n{text}");
}

fn mangle(text: &str, numbers: &mut Numbers) -> String {
    const PIECES: &[&str] = &[
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ":",
        "=",
        ".",
        "::",
        "end",
        "for",
        "in",
        "if",
        "\"",
        "'",
        "\"\"\"",
        "f\"{",
        "{{x}}",
        "1",
        "x",
        "A",
        "null",
        "not",
        "is defined",
        "#",
        "\\",
        "é",
        "\u{0}",
        "**",
        "--",
        "?",
        ",",
        "matching /(/",
        "\n",
    ];
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..=numbers.next(3) {
        let at = numbers.next(chars.len() + 1);
        match numbers.next(3) {
            0 => {
                let end = (at + numbers.next(8)).min(chars.len());
                chars.drain(at.min(end)..end);
            }
            1 => {
                let piece = PIECES[numbers.next(PIECES.len())];
                chars.splice(at..at, piece.chars());
            }
            _ => {
                let other = numbers.next(chars.len() + 1);
                let (from, to) = (at.min(other), at.max(other));
                let copied: Vec<char> = chars[from..to.min(from + 30)].to_vec();
                let place = numbers.next(chars.len() + 1);
                chars.splice(place..place, copied);
            }
        }
    }
    chars.into_iter().collect()
}

#[test]
fn mangled_sources_never_break_the_compiler() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/lang");
    let mut numbers = Numbers(7);
    for path in super::lang::files(&root) {
        // A case that never ends by itself takes its time.
        if path.extension().is_none_or(|extension| extension != "cf")
            || path.ends_with("an_endless_chain_of_instances_is_an_error.cf")
        {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a case is readable");
        for _ in 0..4 {
            check(&mangle(&text, &mut numbers), &path.display().to_string());
        }
    }
}

#[test]
fn nesting_and_chains_are_bounded() {
    for depth in [100, 1_000, 100_000] {
        check(
            &format!("x = {}1{}", "(".repeat(depth), ")".repeat(depth)),
            "brackets",
        );
        check(
            &format!("x = {}1{}", "[".repeat(depth), "]".repeat(depth)),
            "lists",
        );
        check(&format!("x = {}true", "not ".repeat(depth)), "not");
        check(&format!("x = 1{}", " + 1".repeat(depth)), "a sum");
        check(&format!("x = a{}", ".b".repeat(depth)), "attributes");
        check(&"if true:\n".repeat(depth), "blocks");
        check(
            &format!("x = true{}", " ? true : true".repeat(depth)),
            "conditions",
        );
        check(
            &format!("x = \"{{{{a{}}}}}\"", ".b".repeat(depth)),
            "a placeholder",
        );
    }
}
