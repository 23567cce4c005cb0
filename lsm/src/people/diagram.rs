//! State diagrams as text for other programs: Mermaid and DOT. Source: docs/reference/lsm.md § 2.7.

use std::fmt::Write;

use crate::definition::{Label, Lifecycle, Operation, State, Transfer};

/// One arrow of a diagram.
pub(super) struct Arrow<'l> {
    pub(super) from: &'l str,
    pub(super) to: &'l str,
    /// `AV`, `R error`, `A promote`: the triggers as letters, then what happens.
    pub(super) text: String,
    pub(super) is_error: bool,
}

/// All arrows, in the order of the transfers; an error edge after its transfer's other one.
pub(super) fn arrows(lifecycle: &Lifecycle) -> Vec<Arrow<'_>> {
    let mut found = Vec::new();
    for transfer in &lifecycle.transfers {
        let code = code(transfer);
        found.push(Arrow {
            from: &transfer.source,
            to: &transfer.target,
            text: text(&code, "", transfer.target_operation),
            is_error: false,
        });
        if let Some(error) = &transfer.error {
            found.push(Arrow {
                from: &transfer.source,
                to: error,
                text: text(&code, " error", transfer.error_operation),
                is_error: true,
            });
        }
    }
    found
}

/// What triggers a transfer: a letter of its arrow, whether a transfer has it, and what it means.
type Letter = (char, fn(&Transfer) -> bool, &'static str);

#[rustfmt::skip]
const LETTERS: [Letter; 7] = [
    ('A', |transfer| transfer.auto, "by itself"),
    ('c', |transfer| transfer.config_name.is_some(), "unless its switch is off"),
    ('S', |transfer| transfer.api_set_state, "set by a client"),
    ('U', |transfer| transfer.on_update, "by an update"),
    ('D', |transfer| transfer.on_delete, "by a deletion"),
    ('R', |transfer| transfer.resource_based, "by the result of the deployment"),
    ('V', |transfer| transfer.validate, "if a compile finds it valid, else along the red arrow"),
];

/// The letters of a transfer.
fn code(transfer: &Transfer) -> String {
    let given = LETTERS.iter().filter(|(_, has, _)| has(transfer));
    given.map(|(letter, ..)| *letter).collect()
}

/// What the letters mean that arrows of this lifecycle have, a line each.
pub(super) fn legend(lifecycle: &Lifecycle) -> Vec<String> {
    let used = LETTERS
        .iter()
        .filter(|(_, has, _)| lifecycle.transfers.iter().any(has));
    used.map(|(letter, _, meaning)| format!("{letter}: {meaning}"))
        .collect()
}

fn text(code: &str, error: &str, operation: Option<Operation>) -> String {
    let operation = operation.map_or("", Operation::as_str);
    format!("{code}{error} {operation}").trim_end().to_owned()
}

/// The colours of a state: inside, and around.
pub(super) fn colours(state: &State) -> (&'static str, &'static str) {
    match state.label {
        Some(Label::Success) => ("#d9f2e0", "#2e7d4f"),
        Some(Label::Warning) => ("#fdf0cf", "#a8740a"),
        Some(Label::Danger) => ("#fbdcd9", "#b3362b"),
        Some(Label::Info) | None => ("#e8edf5", "#4a5d7a"),
    }
}

/// A state diagram for Mermaid, in which the state where an instance is stands out. States have numbers there, since their names
/// may hold anything.
#[must_use]
pub fn mermaid(lifecycle: &Lifecycle, current: Option<&str>) -> String {
    let id = |name: &str| {
        let mut states = lifecycle.states.iter();
        states
            .position(|state| state.name == name)
            .map_or_else(String::new, |at| format!("s{at}"))
    };
    // Writing to a text does not fail.
    let mut out = String::from("stateDiagram-v2\n");
    for (at, state) in lifecycle.states.iter().enumerate() {
        let _ = writeln!(out, "  state \"{}\" as s{at}", plain(&state.name));
    }
    let beginnings = std::iter::once(&lifecycle.initial_state);
    for name in beginnings.chain(&lifecycle.alternative_initial_states) {
        let _ = writeln!(out, "  [*] --> {}", id(name));
    }
    for arrow in arrows(lifecycle) {
        let _ = writeln!(
            out,
            "  {} --> {}: {}",
            id(arrow.from),
            id(arrow.to),
            plain(&arrow.text)
        );
    }
    for state in lifecycle.states.iter().filter(|state| state.deleted) {
        let _ = writeln!(out, "  {} --> [*]", id(&state.name));
    }
    for state in &lifecycle.states {
        let (inside, around) = colours(state);
        let _ = writeln!(
            out,
            "  style {} fill:{inside},stroke:{around}",
            id(&state.name)
        );
        if current == Some(&state.name) {
            let _ = writeln!(
                out,
                "  style {} stroke-width:4px,font-weight:bold",
                id(&state.name)
            );
        }
    }
    out
}

/// A text between quotes of Mermaid, which knows no escapes there.
fn plain(text: &str) -> String {
    text.replace('"', "'").replace(['\n', '\r', ';', ':'], " ")
}

/// A graph for Graphviz, in which the state where an instance is stands out.
#[must_use]
pub fn dot(lifecycle: &Lifecycle, current: Option<&str>) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""));
    let mut out = format!(
        "digraph {} {{\n  node [shape=box, style=\"rounded,filled\"];\n",
        quoted(&lifecycle.name)
    );
    for state in &lifecycle.states {
        let (inside, around) = colours(state);
        let peripheries = if state.deleted { ", peripheries=2" } else { "" };
        let width = if current == Some(&state.name) {
            ", penwidth=4"
        } else {
            ""
        };
        let name = quoted(&state.name);
        let _ = writeln!(
            out,
            "  {name} [fillcolor=\"{inside}\", color=\"{around}\"{peripheries}{width}];"
        );
    }
    for arrow in arrows(lifecycle) {
        let colour = if arrow.is_error { ", color=red" } else { "" };
        let (from, to, text) = (quoted(arrow.from), quoted(arrow.to), quoted(&arrow.text));
        let _ = writeln!(out, "  {from} -> {to} [label={text}{colour}];");
    }
    out.push_str("}\n");
    out
}
