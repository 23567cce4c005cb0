//! How the text of a file comes: line ends, the end of the file, what is no text at all.

use steward_compiler::{MemWorld, Options, compile};

use crate::lang::{self, cases};

fn run(text: &str) -> (String, Vec<String>) {
    let world = MemWorld::default()
        .file("project.yml", "name: case")
        .file("main.cf", text);
    let compiled = compile(&world, &Options::default());
    let diagnostics = compiled.diagnostics.iter();
    let texts = diagnostics.map(|diagnostic| {
        let place = diagnostic.location.as_ref();
        let place = place.map(|place| (place.line, place.column));
        format!("{} {place:?} {}", diagnostic.kind, diagnostic.message)
    });
    (world.printed(), texts.collect())
}

#[test]
//: lang 1
fn the_last_line_needs_no_line_end() {
    let (printed, diagnostics) = run("std::print(1) # one");
    assert_eq!((printed.as_str(), diagnostics.len()), ("1\n", 0));
    let (printed, diagnostics) = run("std::print(2)");
    assert_eq!((printed.as_str(), diagnostics.len()), ("2\n", 0));
    assert_eq!(run("").1, Vec::<String>::new());
}

#[test]
//: lang 2
fn all_line_ends_mean_the_same() {
    let mut n_cases = 0;
    for path in cases() {
        // With companions it is more than a text.
        if path.with_extension("").is_dir()
            || path.ends_with("an_endless_chain_of_instances_is_an_error.cf")
        {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a case is readable");
        let plain = run(&text);
        assert_eq!(
            plain,
            run(&text.replace('\n', "\r\n")),
            "{}",
            path.display()
        );
        assert_eq!(plain, run(&text.replace('\n', "\r")), "{}", path.display());
        n_cases += 1;
    }
    assert!(n_cases > 300, "{n_cases}");
}

#[test]
//: lang 3
fn what_starts_no_token_is_told_at_its_place() {
    for (text, place) in [
        ("x = 1 @", (1, 7)),
        ("x = 1\n  y = $", (2, 7)),
        ("\u{feff}x = 1", (1, 1)),
        ("x = 1\0", (1, 6)),
        ("x = \"é\" é", (1, 9)),
        ("x = 1 \u{a0}", (1, 7)),
    ] {
        let (_, diagnostics) = run(text);
        let wanted = format!(
            "ParserException Some(({}, Some({}))) Syntax error: Illegal character",
            place.0, place.1
        );
        assert!(
            diagnostics.len() == 1 && diagnostics[0].starts_with(&wanted),
            "{text:?}: {diagnostics:?}"
        );
    }
}

#[test]
fn a_case_is_the_same_from_memory_and_from_disk() {
    for path in cases() {
        // The text of one case holds an absolute path, and another one takes its time.
        if path.with_extension("").is_dir()
            || path.ends_with("an_endless_chain_of_instances_is_an_error.cf")
            || path.ends_with("source_of_a_file_missing_in_the_project_fails.cf")
        {
            continue;
        }
        let memory = lang::run(&path, &Options::default());
        let disk = lang::run_on_disk(&path, &Options::default());
        let texts = |outcome: &lang::Outcome| {
            let diagnostics = outcome.compiled.diagnostics.iter();
            diagnostics
                .map(|diagnostic| diagnostic.to_json().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(memory.printed, disk.printed, "{}", path.display());
        assert_eq!(texts(&memory), texts(&disk), "{}", path.display());
        assert_eq!(
            memory.compiled.export,
            disk.compiled.export,
            "{}",
            path.display()
        );
    }
}

#[test]
fn a_byte_order_mark_is_named_since_it_is_not_seen() {
    let world = MemWorld::default()
        .file("project.yml", "name: case\n")
        .file("main.cf", "\u{feff}x = 1\n");
    let compiled = compile(&world, &Options::default());
    let help = compiled.diagnostics[0].help.as_deref().unwrap_or_default();
    assert!(help.contains("byte order mark (U+FEFF)"), "{help}");
}

#[test]
fn what_differs_by_the_address_of_an_unknown_only_is_told_once() {
    let (_, diagnostics) = run(
        "entity A:\n    string name\nend\nindex A(name)\nimplement A using std::none\n\
         root = std::get_env(\"NOT_SET\")\nA(name=\"a\")\n\
         for i in std::sequence(3):\n    x = A[name=f\"{root}/a\"]\nend\n",
    );
    let errors = diagnostics
        .iter()
        .filter(|text| text.contains("No match in index"));
    assert_eq!(errors.count(), 1, "{diagnostics:#?}");
}
