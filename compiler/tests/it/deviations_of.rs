//! What the deviations of the differential test explain, and what they do not.

use crate::answer::{Answer, Found, Outcome};
use crate::deviations::{Seen, explained};

fn answer(outcome: Outcome, kinds: &[&str]) -> Answer {
    let found = |kind: &&str| Found {
        kind: (*kind).to_owned(),
        message: String::new(),
        file: Some("main.cf".to_owned()),
        line: Some(1),
        causes: Vec::new(),
    };
    Answer {
        outcome,
        output: String::new(),
        errors: kinds.iter().map(found).collect(),
        warnings: Vec::new(),
        model: None,
        resources: None,
    }
}

#[track_caller]
fn check(source: &str, reference: Answer, ours: Answer, expected: Option<&str>) {
    let seen = Seen {
        source,
        reference: &reference,
        ours: &ours,
    };
    assert_eq!(explained(&seen), expected, "{reference:?} {ours:?}");
}

/// Kinds of errors that the reference's compiler and its export report.
const OF_THE_COMPILER: &[&str] = &[
    "AttributeException",
    "CompilerException",
    "CycleException",
    "DependencyCycleException",
    "DoubleSetException",
    "DuplicateException",
    "ExplicitPluginException",
    "ExternalException",
    "IndexException",
    "InvalidMetadata",
    "KeyException",
    "ModifiedAfterFreezeException",
    "ModuleLoadingException",
    "NotFoundException",
    "OptionalValueException",
    "ParserException",
    "PluginTypeException",
    "ResourceException",
    "RuntimeException",
    "TypeNotFoundException",
    "TypingException",
    "UnsetException",
    "WrappingRuntimeException",
];

#[test]
fn an_error_of_the_compiler_is_never_taken_for_one_of_its_host() {
    for kind in OF_THE_COMPILER {
        for outcome in [Outcome::Rejected, Outcome::Crashed] {
            check(
                "x = 1",
                answer(outcome, &[kind]),
                answer(Outcome::Accepted, &[]),
                None,
            );
            check(
                "x = 1",
                answer(outcome, &[kind]),
                answer(Outcome::Rejected, &["SomeOtherException"]),
                None,
            );
        }
    }
}

#[test]
fn an_exception_of_python_explains_an_error_of_ours() {
    let kinds = ["ZeroDivisionError", "OverflowError", "AssertionError"];
    for kind in kinds {
        check(
            "x = 1",
            answer(Outcome::Crashed, &[kind]),
            answer(Outcome::Rejected, &["TypingException"]),
            Some("host-error"),
        );
    }
}

#[test]
fn a_value_that_there_is_not_explains_no_model_that_compiles() {
    let ours = || answer(Outcome::Accepted, &[]);
    check(
        "x = 1 / 0",
        answer(Outcome::Crashed, &["ZeroDivisionError"]),
        ours(),
        None,
    );
    check(
        "x = 1",
        answer(Outcome::Crashed, &["AttributeError"]),
        ours(),
        Some("host-error"),
    );
}

#[test]
fn a_compiler_that_stops_by_its_own_mistake_is_not_explained() {
    for ours in [Outcome::Crashed, Outcome::Timeout] {
        check(
            "x = 1",
            answer(Outcome::Crashed, &["ZeroDivisionError"]),
            answer(ours, &["InvalidCompilerState"]),
            None,
        );
    }
}

fn clash(line: u64) -> Answer {
    let mut answer = answer(Outcome::Rejected, &["DuplicateException"]);
    answer.errors[0].message = "Incompatible attributes".to_owned();
    answer.errors[0].line = Some(line);
    answer
}

#[test]
fn the_order_of_parents_explains_places_of_one_attribute_only() {
    let source = "entity A:\nint p\nend\nentity B:\nfloat p = 1.0\nint q\nend";
    check(source, clash(2), clash(5), Some("parents-order"));
    check(source, clash(2), clash(6), None);
}

#[test]
fn a_bug_that_the_reference_admits_explains_no_other_error() {
    let ours = || answer(Outcome::Accepted, &[]);
    check(
        "x = 1",
        answer(Outcome::Rejected, &["InvalidCompilerState"]),
        ours(),
        Some("invalid-state"),
    );
    check(
        "x = 1",
        answer(
            Outcome::Rejected,
            &["InvalidCompilerState", "TypingException"],
        ),
        ours(),
        None,
    );
}

#[test]
fn a_word_without_quotes_explains_a_value_that_is_no_text() {
    let refused = |message: &str| {
        let mut answer = answer(Outcome::Rejected, &["InvalidMetadata"]);
        answer.errors[0].message = message.to_owned();
        answer
    };
    let accepted = || answer(Outcome::Accepted, &[]);
    let no = "--- project.yml\nname: no\n--- end\nx = 1";
    let told = "name\n  Input should be a valid string [type=string_type, input_value=False, input_type=bool]";
    check(no, refused(told), accepted(), Some("unquoted-words"));
    let told_otherwise = "name\n  Field required";
    check(no, refused(told_otherwise), accepted(), None);
    let written_out = "--- project.yml\nname: false\n--- end\nx = 1";
    check(written_out, refused(told), accepted(), None);
    let in_a_model = "--- project.yml\nname: x\n--- end\nx = no";
    check(in_a_model, refused(told), accepted(), None);
}
