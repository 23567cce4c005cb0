//! Tests of Jinja2 that the engine lacks or has with other semantics. Source: docs/reference/std.md § 7.6.

use minijinja::value::ValueKind;
use minijinja::{Environment, Value as Jinja};

use crate::hir::Program;
use crate::template::objects::model_objects::{is_instance, is_no_mapping};
use crate::template::objects::views::View;
use crate::template::repr::shown;

pub(in crate::template) fn register(engine: &mut Environment<'static>, program: &Program) {
    engine.add_test("mapping", |value: &Jinja| {
        value.kind() == ValueKind::Map && !is_no_mapping(value)
    });
    engine.add_test("callable", |value: &Jinja| {
        value.kind() == ValueKind::Plain && !is_instance(value)
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
    engine.add_test("lower", |value: &Jinja| {
        has_case(&shown(value), char::is_lowercase, char::is_uppercase)
    });
    engine.add_test("upper", |value: &Jinja| {
        has_case(&shown(value), char::is_uppercase, char::is_lowercase)
    });
    let plugins = program.plugins.iter();
    let dotted: Vec<String> = plugins
        .map(|plugin| program.text(plugin.name).replace("::", "."))
        .collect();
    engine.add_test("filter", move |state: &minijinja::State, name: String| {
        dotted.contains(&name) || minijinja::tests::is_filter(state, &name)
    });
}

/// There are letters with a case, all of them of this one.
fn has_case(text: &str, wanted: fn(char) -> bool, other: fn(char) -> bool) -> bool {
    text.chars().any(wanted) && !text.chars().any(other)
}
