//! Tests of Jinja2 that the engine lacks or has with other semantics. Source: docs/reference/std.md § 7.6.

use minijinja::value::ValueKind;
use minijinja::{Environment, State, Value as Jinja};

use crate::hir::Program;
use crate::template::arguments::add_tests;
use crate::template::filters::{invalid, number};
use crate::template::objects::model_objects::{is_instance, is_no_mapping, is_nothing};
use crate::template::objects::views::View;
use crate::template::repr::shown;

pub(in crate::template) fn register(engine: &mut Environment<'static>, program: &Program) {
    engine.add_test("mapping", |value: &Jinja| {
        value.kind() == ValueKind::Map && !is_no_mapping(value)
    });
    engine.add_test("callable", |value: &Jinja| {
        // An undefined value can be called, to say that it is undefined.
        is_nothing(value) || value.kind() == ValueKind::Plain && !is_instance(value)
    });
    engine.add_test("number", |value: &Jinja| {
        matches!(value.kind(), ValueKind::Number | ValueKind::Bool)
    });
    // Whatever has a length and items.
    engine.add_test("sequence", |value: &Jinja| {
        let has_items = matches!(
            value.kind(),
            ValueKind::Seq | ValueKind::Map | ValueKind::String
        );
        has_items && value.downcast_object_ref::<View>().is_none()
    });
    add_tests(engine, &["lower"], |value: &Jinja| {
        has_case(&shown(value), char::is_lowercase, char::is_uppercase)
    });
    add_tests(engine, &["upper"], |value: &Jinja| {
        has_case(&shown(value), char::is_uppercase, char::is_lowercase)
    });
    of_the_engine(engine);
    let plugins = program.plugins.iter();
    let dotted: Vec<String> = plugins
        .map(|plugin| program.text(plugin.name).replace("::", "."))
        .collect();
    add_tests(engine, &["filter"], move |state: &State, name: Jinja| {
        let name = name.as_str().unwrap_or_default();
        dotted.iter().any(|known| known == name) || minijinja::tests::is_filter(state, name)
    });
    add_tests(engine, &["test"], |state: &State, name: Jinja| {
        minijinja::tests::is_test(state, name.as_str().unwrap_or_default())
    });
    // Each undefined value is one of its own.
    engine.add_test("sameas", |value: &Jinja, other: &Jinja| {
        !value.is_undefined() && minijinja::tests::is_sameas(value, other)
    });
}

/// Tests that do what the engine's do.
fn of_the_engine(engine: &mut Environment<'static>) {
    use minijinja::tests;

    add_tests(engine, &["eq", "equalto", "=="], tests::is_eq);
    add_tests(engine, &["ne", "!="], tests::is_ne);
    add_tests(engine, &["lt", "lessthan", "<"], tests::is_lt);
    add_tests(engine, &["le", "<="], tests::is_le);
    add_tests(engine, &["gt", "greaterthan", ">"], tests::is_gt);
    add_tests(engine, &["ge", ">="], tests::is_ge);
    add_tests(engine, &["in"], tests::is_in);
    add_tests(engine, &["odd"], tests::is_odd);
    add_tests(engine, &["even"], tests::is_even);
    add_tests(
        engine,
        &["divisibleby"],
        |value: &Jinja, divisor: &Jinja| match number(divisor) {
            Ok(0.0) => Err(invalid("division by zero")),
            _ => Ok(tests::is_divisibleby(value, divisor)),
        },
    );
    add_tests(engine, &["iterable"], tests::is_iterable);
}

/// There are letters with a case, all of them of this one.
fn has_case(text: &str, wanted: fn(char) -> bool, other: fn(char) -> bool) -> bool {
    text.chars().any(wanted) && !text.chars().any(other)
}
