//! What can be ordered.

use std::process::ExitCode;

use serde_json::Value;
use steward_lsm::definition::{Fields, Modifier};
use steward_lsm::people::{self, Purpose};

use super::table::{Cell, plain, table};
use super::{
    Client, Common, DiagramFormat, FAILED, Failure, SchemaPurpose, ServiceArguments, style_of,
};
use crate::cli::terminal::{Paint, Style, printable, write_out};

pub(super) fn list(common: &Common) -> Result<ExitCode, Failure> {
    let client = Client::of(common)?;
    let mut answer = client.get("/lsm/v1/service_catalog?instance_summary=true")?;
    let services = answer["data"].take();
    Ok(client.write(&services, |paint| {
        let rows: Vec<Vec<Cell>> = services.as_array().into_iter().flatten().map(row).collect();
        if rows.is_empty() {
            return "The catalog is empty: a push of a model with service bindings fills it.\n"
                .to_owned();
        }
        table(
            &["service", "version", "instances", "description"],
            &rows,
            paint,
        )
    }))
}

fn row(service: &Value) -> Vec<Cell> {
    let summary = &service["instance_summary"];
    let labels = summary["by_label"].as_object().into_iter().flatten();
    let bad = labels.filter(|(label, n)| {
        ["danger", "warning"].contains(&label.as_str()) && n.as_i64() > Some(0)
    });
    let bad: Vec<String> = bad.map(|(label, n)| format!("{n} {label}")).collect();
    let total = summary["total"].to_string();
    let counts = if bad.is_empty() {
        (total, None)
    } else {
        (format!("{total} ({})", bad.join(", ")), Some(Style::Yellow))
    };
    let description = service["description"].as_str().unwrap_or_default();
    vec![
        plain(service["name"].as_str().unwrap_or_default()),
        plain(service["version"].to_string()),
        counts,
        plain(description.trim().lines().next().unwrap_or_default()),
    ]
}

pub(super) fn show(arguments: &ServiceArguments) -> Result<ExitCode, Failure> {
    let client = Client::of(&arguments.common)?;
    let service = client.service(&arguments.service)?;
    let entity = client.definition(&service, None)?;
    Ok(client.write(&service, |paint| {
        let name = paint.paint(&printable(&entity.name), Style::Bold);
        let mut text = format!("{name}, version {}\n", entity.version);
        if let Some(description) = entity.description.as_deref().map(str::trim)
            && !description.is_empty()
        {
            text.push_str(&format!("{}\n", printable(description)));
        }
        if let Some(identity) = &entity.service_identity {
            text.push_str(&format!(
                "Its instances are known by `{}`.\n",
                printable(identity)
            ));
        }
        let mut rows = Vec::new();
        add_fields(&mut rows, &entity.fields, "");
        text.push('\n');
        text.push_str(&table(
            &["attribute", "type", "set by", "meaning"],
            &rows,
            paint,
        ));
        text.push('\n');
        text.push_str(&states(&service, paint));
        text
    }))
}

/// Attributes and all that is inside of them.
fn add_fields(rows: &mut Vec<Vec<Cell>>, fields: &Fields, prefix: &str) {
    let row = |name: &str, kind: String, modifier: Modifier, text: Option<&str>| {
        let who = match modifier {
            Modifier::ReadOnly => "compiles",
            Modifier::AtCreation => "create",
            Modifier::Always => "create, update",
        };
        let text = text.unwrap_or_default().trim();
        let name = format!("{prefix}{name}");
        vec![plain(name), plain(kind), plain(who), plain(text)]
    };
    for one in &fields.attributes {
        let mut kind = one.value_type.clone();
        if one.default_value_set {
            kind = format!("{kind} = {}", one.default_value);
        }
        let text = one.description.as_deref();
        rows.push(row(&one.name, kind, one.modifier, text));
    }
    for one in &fields.inter_service_relations {
        let kind = format!(
            "{} {}",
            one.entity_type,
            arity(one.lower_limit, one.upper_limit)
        );
        let text = one.description.as_deref();
        rows.push(row(&one.name, kind, one.modifier, text));
    }
    for one in &fields.embedded_entities {
        let kind = format!("object {}", arity(one.lower_limit, one.upper_limit));
        let text = one.description.as_deref();
        rows.push(row(&one.name, kind, one.modifier, text));
        add_fields(rows, &one.fields, &format!("{prefix}{}.", one.name));
    }
}

/// As models write it: `[1]`, `[0:3]`, `[1:]`.
fn arity(lower: u64, upper: Option<u64>) -> String {
    match upper {
        Some(upper) if upper == lower => format!("[{lower}]"),
        Some(upper) => format!("[{lower}:{upper}]"),
        None => format!("[{lower}:]"),
    }
}

/// Each state with what leads out of it.
fn states(service: &Value, paint: Paint) -> String {
    let lifecycle = &service["lifecycle"];
    let transfers = lifecycle["transfers"].as_array();
    let mut rows = Vec::new();
    for state in lifecycle["states"].as_array().into_iter().flatten() {
        let name = state["name"].as_str().unwrap_or_default();
        let leaving = transfers.into_iter().flatten();
        let leaving = leaving.filter(|transfer| transfer["source"] == name);
        let mut ways = leaving.map(way);
        let mark = if lifecycle["initial_state"] == name {
            "*"
        } else {
            ""
        };
        rows.push(vec![
            (
                format!("{}{mark}", printable(name)),
                style_of(service, name),
            ),
            plain(ways.next().unwrap_or_default()),
        ]);
        // A line each, since a state may have many.
        rows.extend(ways.map(|way| vec![plain(""), plain(way)]));
    }
    table(&["state", "goes on to"], &rows, paint)
}

/// A transfer in words: `up on set-state`.
fn way(transfer: &Value) -> String {
    let words = [
        ("auto", "by itself"),
        ("api_set_state", "on set-state"),
        ("on_update", "on update"),
        ("on_delete", "on delete"),
        ("resource_based", "when deployed"),
    ];
    let set = words.iter().filter(|(field, _)| transfer[*field] == true);
    let mut why: Vec<&str> = set.map(|(_, word)| *word).collect();
    if transfer["validate"] == true {
        why.push("if valid");
    }
    let target = transfer["target"].as_str().unwrap_or_default();
    let error = transfer["error"].as_str();
    let error = error.map(|error| format!(", else {error}"));
    format!("{target} {}{}", why.join(" "), error.unwrap_or_default())
}

pub(super) fn diagram(
    arguments: &ServiceArguments,
    format: DiagramFormat,
    state: Option<&str>,
) -> Result<ExitCode, Failure> {
    let client = Client::of(&arguments.common)?;
    let service = client.service(&arguments.service)?;
    let lifecycle = client.definition(&service, None)?.lifecycle;
    if let Some(state) = state
        && !lifecycle.states.iter().any(|one| one.name == state)
    {
        let names: Vec<&str> = lifecycle
            .states
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        let message = format!(
            "the lifecycle has no state `{state}`; it has {}",
            names.join(", ")
        );
        return Err((message, FAILED));
    }
    let text = match format {
        DiagramFormat::Mermaid => people::mermaid(&lifecycle, state),
        DiagramFormat::Dot => people::dot(&lifecycle, state),
        DiagramFormat::Svg => people::svg(&lifecycle, state),
    };
    Ok(if client.is_json {
        write_out(&format!("{}\n", serde_json::json!({"diagram": text})))
    } else {
        write_out(&text)
    })
}

pub(super) fn schema(
    arguments: &ServiceArguments,
    purpose: SchemaPurpose,
) -> Result<ExitCode, Failure> {
    let client = Client::of(&arguments.common)?;
    let service = client.service(&arguments.service)?;
    let entity = client.definition(&service, None)?;
    let purpose = match purpose {
        SchemaPurpose::Create => Purpose::Create,
        SchemaPurpose::Update => Purpose::Update,
        SchemaPurpose::Read => Purpose::Read,
    };
    let schema = people::schema(&entity, purpose);
    let pretty = serde_json::to_string_pretty(&schema).unwrap_or_default();
    // It is JSON either way.
    Ok(client.write(&schema, |_| format!("{pretty}\n")))
}
