//! Filters that take or change the elements of a list one by one. Source: docs/reference/std.md § 7.6.

use minijinja::value::{Kwargs, Rest, ValueKind, from_args};
use minijinja::{Environment, Error, ErrorKind, State, Value as Jinja};

use crate::template::arguments::{add_filter, defined, items_of};
use crate::template::filters::dotted;
use crate::template::objects::model_objects::is_nothing;

pub(in crate::template) fn register(engine: &mut Environment<'static>) {
    add_filter(engine, "map", &[], map);
    for (name, wanted) in [("select", true), ("reject", false)] {
        add_filter(
            engine,
            name,
            &[],
            move |state: &State, values: Jinja, args: Rest<Jinja>| {
                chosen(state, &values, None, &args, wanted)
            },
        );
    }
    for (name, wanted) in [("selectattr", true), ("rejectattr", false)] {
        let filter = move |state: &State, values: Jinja, attribute: Jinja, args: Rest<Jinja>| {
            chosen(state, &values, Some(&attribute), &args, wanted)
        };
        add_filter(engine, name, &[], filter);
    }
}

/// Whether there is nothing to go through: Jinja2 takes whatever is false for an empty list here.
fn is_none_of_any(values: &Jinja) -> bool {
    let is_simple = matches!(
        values.kind(),
        ValueKind::None | ValueKind::Bool | ValueKind::Number
    );
    is_simple && !values.is_true()
}

/// The values that pass a test, or do not; without one those that are true.
fn chosen(
    state: &State,
    values: &Jinja,
    attribute: Option<&Jinja>,
    test: &[Jinja],
    wanted: bool,
) -> Result<Vec<Jinja>, Error> {
    if is_none_of_any(values) {
        return Ok(Vec::new());
    }
    let mut kept = Vec::new();
    for value in items_of(values)? {
        let tested = match attribute {
            Some(attribute) => dotted(&value, attribute)?,
            None => value.clone(),
        };
        let passes = match test.split_first() {
            Some((name, args)) => {
                let args: Vec<Jinja> = std::iter::once(tested)
                    .chain(args.iter().cloned())
                    .collect();
                perform(state, name, &args)?
            }
            None => {
                defined(&tested)?;
                tested.is_true()
            }
        };
        if passes == wanted {
            kept.push(value);
        }
    }
    Ok(kept)
}

fn perform(state: &State, name: &Jinja, args: &[Jinja]) -> Result<bool, Error> {
    let text = name.as_str().unwrap_or("");
    state
        .perform_test(text, args)
        .map_err(|error| match error.kind() {
            // The engine does not say which.
            ErrorKind::UnknownTest if error.detail().is_none() => {
                Error::new(ErrorKind::UnknownTest, format!("test {name} is unknown"))
            }
            _ => error,
        })
}

/// The engine's own, whose `default` stands for what instances of the model do not have, too.
fn map(state: &State, value: Jinja, args: Rest<Jinja>) -> Result<Vec<Jinja>, Error> {
    if is_none_of_any(&value) {
        return Ok(Vec::new());
    }
    let (_, named): (&[Jinja], Kwargs) = from_args(&args)?;
    let default = named.get::<Option<Jinja>>("default")?;
    let mapped = minijinja::filters::map(state, value, Rest(args.to_vec()));
    let mut mapped = mapped.map_err(|error| match (error.kind(), args.first()) {
        // The engine does not say which.
        (ErrorKind::UnknownFilter, Some(name)) if error.detail().is_none() => Error::new(
            ErrorKind::UnknownFilter,
            format!("filter {name} is unknown"),
        ),
        _ => error,
    })?;
    if let Some(default) = default.filter(|_| named.has("attribute")) {
        let missing = mapped.iter_mut().filter(|found| is_nothing(found));
        missing.for_each(|found| *found = default.clone());
    }
    Ok(mapped)
}
