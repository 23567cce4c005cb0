//! What a compile is given besides its project, and where it is stopped. Source: docs/reference/std.md § 5.6,
//! docs/reference/language.md § 8.7.

use steward_compiler::{Compiled, Inputs, Limits, MemWorld, Options, compile};

fn compiled(model: &str, options: &Options) -> (Compiled, String) {
    let world = MemWorld::default()
        .file("project.yml", "name: case")
        .file("main.cf", model);
    let compiled = compile(&world, options);
    (compiled, world.printed())
}

#[track_caller]
fn check_printed(model: &str, inputs: &str, wanted: &str) {
    let inputs: Inputs = serde_json::from_str(inputs).expect("the inputs are JSON");
    let (compiled, printed) = compiled(
        model,
        &Options {
            inputs,
            export: true,
            ..Options::default()
        },
    );
    assert!(compiled.succeeded(), "{:#?}", compiled.diagnostics);
    assert_eq!(printed, wanted);
}

const FACTS: &str = r#"
import std::testing
r = std::testing::NullResource(name="r")
std::print([
    std::getfact(r, "size"),
    std::is_unknown(std::getfact(r, "color")),
    std::getfact(r, "shape", "round"),
])
"#;

#[test]
fn facts_are_inputs_and_those_that_are_missing_are_unknown() {
    let given = r#"{"facts": {"std::testing::NullResource[internal,name=r]": {"size": "9"}}}"#;
    check_printed(FACTS, given, "@['9', True, 'round']\n");
}

#[test]
fn facts_of_a_test_can_be_any_value() {
    let given = r#"{"facts": {"std::testing::NullResource[internal,name=r]":
        {"size": 9, "color": null, "shape": [1, {"a": true}]}}}"#;
    check_printed(FACTS, given, "@[9, False, 1, {'a': True}]\n");
}

#[test]
fn facts_are_asked_of_an_environment_or_of_the_inputs() {
    let check = |inputs: &str, is_known: bool| {
        let options = Options {
            inputs: serde_json::from_str(inputs).expect("the inputs are JSON"),
            ..Options::default()
        };
        let (compiled, _) = compiled(FACTS, &options);
        assert_eq!(compiled.succeeded(), is_known, "{inputs}");
        let mut causes = compiled.diagnostics.iter().flat_map(|one| &one.causes);
        let mut says = |text: &str| causes.any(|cause| cause.message.contains(text));
        assert_eq!(says("config>environment"), !is_known, "{inputs}");
    };
    check("{}", false);
    check(r#"{"facts": {}}"#, true);
    let environment = r#"{"environment": {"id": "c0f6f0a4-7b7c-4f0e-9d5e-4f6a7c1d2e3f"}}"#;
    check(environment, true);
}

#[test]
fn references_carry_the_facts_that_a_test_has_made_up() {
    let model = r#"
import std::testing
r = std::testing::NullResource(name="r")
s = std::testing::NullResource(name="s", value=std::create_fact_reference(r, "size"))
"#;
    let facts = r#"{"std::testing::NullResource[internal,name=r]": {"size": "9"}}"#;
    let carried = |kind: &str| {
        let options = Options {
            inputs: serde_json::from_str(&format!("{{\"{kind}\": {facts}}}")).expect("JSON"),
            export: true,
            ..Options::default()
        };
        let (compiled, _) = compiled(model, &options);
        assert!(compiled.succeeded(), "{:#?}", compiled.diagnostics);
        let export = compiled.export.expect("it compiles");
        let has_it = |attributes: &str| attributes.contains(r#""size": "9""#);
        export.resources.iter().any(|made| has_it(&made.attributes))
    };
    assert!(carried("mocked_facts"));
    assert!(!carried("facts"));
}

#[test]
fn facts_that_were_asked_for_and_are_missing_are_reported() {
    let (compiled, _) = compiled(
        FACTS,
        &Options {
            export: true,
            inputs: serde_json::from_str(r#"{"facts": {}}"#).expect("inputs"),
            ..Options::default()
        },
    );
    let export = compiled.export.expect("it compiles");
    let missing: Vec<&str> = export
        .unknowns
        .iter()
        .map(|unknown| unknown.parameter.as_str())
        .collect();
    assert_eq!(missing, ["size", "color", "shape"]);
}

#[test]
fn the_environment_and_the_server_are_inputs() {
    let model = r#"
        std::print([std::environment(), std::environment_name()])
        std::print(std::environment_server())
        std::print(std::server_port())
        std::print(std::server_ssl())
    "#;
    // Blocks of a file run in order.
    check_printed(
        model,
        r#"{"environment": {"id": "6d5c", "name": "lab"}, "server": {"host": "steward.lab", "port": 443, "ssl": true}}"#,
        "@['6d5c', 'lab']\nsteward.lab\n443\nTrue\n",
    );
}

#[test]
fn inputs_that_nobody_knows_are_refused() {
    let error = serde_json::from_str::<Inputs>(r#"{"fact": {}}"#).expect_err("it is a mistake");
    assert!(
        error.to_string().contains("unknown field `fact`"),
        "{error}"
    );
}

#[track_caller]
fn check_stopped(model: &str, limits: Limits, wanted: &str) {
    let (compiled, _) = compiled(
        model,
        &Options {
            limits,
            ..Options::default()
        },
    );
    let error = &compiled.diagnostics[0];
    let message = match error.causes.first() {
        Some(cause) => &cause.message,
        None => &error.message,
    };
    assert!(message.starts_with(wanted), "{error:#?}");
}

const GROWING: &str = r#"
entity Tree:
    string path
end
Tree.children [0:] -- Tree.parent [0:1]
implement Tree using std::none
root = Tree(path="")
root.children += Tree(path="a")
"#;

#[test]
fn a_loop_over_a_list_that_it_adds_to_is_stopped_and_the_chain_is_named() {
    let model = format!(
        "{GROWING}
        for child in root.children:
            root.children += Tree(path=\"a\")
        end"
    );
    let limits = Limits {
        chain: 50,
        ..Limits::default()
    };
    check_stopped(
        &model,
        limits,
        "implementations and loops construct one another in a chain of more than 50 instances: … → __config__::Tree → __config__::Tree",
    );
}

#[test]
fn a_comprehension_that_feeds_itself_is_stopped() {
    let model =
        format!("{GROWING}\nroot.children += [Tree(path=\"b\") for child in root.children]");
    let limits = Limits {
        chain: 50,
        ..Limits::default()
    };
    check_stopped(
        &model,
        limits,
        "implementations and loops construct one another in a chain of more than 50 instances",
    );
}

#[test]
fn texts_that_grow_without_end_are_stopped() {
    let model = format!(
        "{GROWING}
        for child in root.children:
            root.children += Tree(path=child.path + child.path)
        end"
    );
    let limits = Limits {
        text_bytes: 1 << 20,
        ..Limits::default()
    };
    check_stopped(
        &model,
        limits,
        "the model makes more than 1048576 bytes of text: … → ",
    );
}

#[test]
fn instances_are_counted() {
    let limits = Limits {
        instances: 100,
        ..Limits::default()
    };
    let model =
        format!("{GROWING}\nroot.children += [Tree(path=string(i)) for i in std::sequence(200)]");
    check_stopped(
        &model,
        limits,
        "the model has more than 100 instances: … → __config__::Tree",
    );
}

/// Given: a model that grows in breadth, so that no chain is long. Expected: it ends when it has taken what it may.
#[test]
fn memory_is_looked_at_while_instances_become_many() {
    let limits = Limits {
        memory_bytes: Some(1 << 20),
        ..Limits::default()
    };
    let model =
        format!("{GROWING}\nroot.children += [Tree(path=string(i)) for i in std::sequence(60000)]");
    check_stopped(
        &model,
        limits,
        "the model takes more than 1 MiB of memory: ",
    );
}

#[test]
fn steps_are_counted() {
    let limits = Limits {
        steps: 1_000,
        ..Limits::default()
    };
    check_stopped(
        "x = [i + j for i in std::sequence(500) for j in std::sequence(500)]",
        limits,
        "the model needs more than 1000 steps",
    );
}
