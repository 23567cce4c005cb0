//! The template engine made to speak Python: objects, printing, tests and filters.

use std::sync::Arc;

use minijinja::value::{Kwargs, Rest, ValueKind, from_args};
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value as Jinja,
};

use crate::template::arguments::{add_filter, defined};
use crate::template::format::percent;
use crate::template::model::{SharedModel, TemplateRequest, lock, serve};
use crate::template::objects::containers::Sequence;
use crate::template::objects::model_objects::is_nothing;
use crate::template::repr::shown;
use crate::template::source::compiled::compiled;

/// Steps of one rendering.
const FUEL: u64 = 100_000_000;

/// The value of a parameter that is not given, where its default reads other parameters.
const UNSET: &str = "\u{0}unset";

/// An engine whose templates read this model.
pub(crate) fn environment(shared: &SharedModel) -> Environment<'static> {
    let mut engine = Environment::new();
    // Errors then say where they are, which is what names the variable that is not there.
    engine.set_debug(true);
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    engine.set_auto_escape_callback(|_| AutoEscape::None);
    engine.set_fuel(Some(FUEL));
    engine.set_formatter(print);
    engine.set_unknown_method_callback(crate::template::methods::call);
    engine.add_test("defined", |value: &Jinja| !is_nothing(value));
    engine.add_test("undefined", is_nothing);
    engine.add_test("__unset__", |value: &Jinja| value.as_str() == Some(UNSET));
    engine.add_global("__unset__", UNSET);
    engine.add_test("none", |value: &Jinja| value.is_none());
    engine.add_filter("default", default_filter);
    engine.add_filter("d", default_filter);
    add_filter(&mut engine, "string", &[], |value: &Jinja| shown(value));
    add_filter(
        &mut engine,
        "format",
        &[],
        |template: String, args: Rest<Jinja>| {
            let (positional, named): (&[Jinja], Kwargs) = from_args(&args)?;
            let has_names = named.args().next().is_some();
            let named = has_names.then(|| Jinja::from(named));
            percent(&template, positional, named.as_ref())
        },
    );
    engine.add_filter("__percent__", |template: String, value: Jinja| {
        let named = (value.kind() == ValueKind::Map).then_some(&value);
        percent(&template, &Sequence::operands(value.clone()), named)
    });
    crate::template::filters::register(&mut engine);
    crate::template::choosing::register(&mut engine);
    crate::template::markup::register(&mut engine);
    crate::template::sorting::register(&mut engine);
    crate::template::objects::containers::register(&mut engine);
    let program = Arc::clone(lock(shared).program());
    crate::template::conditions::register(&mut engine, &program);
    crate::template::plugin_filters::register(&mut engine, shared);
    let loader = Arc::clone(shared);
    let names = engine.clone();
    engine.set_loader(move |name| {
        let known = lock(&loader).source(name);
        let source = match known {
            Some(source) => source,
            None => {
                serve(&loader, TemplateRequest::Source(name.to_owned()))?;
                lock(&loader).source(name).flatten()
            }
        };
        Ok(source.map(|source| compiled(&names, source)))
    });
    engine
}

/// The error of a rendering that is abandoned: the request that is left behind says why.
pub(in crate::template) fn aborted() -> Error {
    Error::new(ErrorKind::InvalidOperation, "the rendering is interrupted")
}

fn default_filter(value: Jinja, args: Rest<Jinja>) -> Result<Jinja, Error> {
    let (given, kwargs): (&[Jinja], Kwargs) = from_args(&args)?;
    let lenient = match given.get(1) {
        Some(lenient) if !is_nothing(&value) => {
            defined(lenient)?;
            Some(lenient.is_true())
        }
        Some(_) => None,
        None => kwargs.get::<Option<bool>>("boolean")?,
    };
    let default = match given.first() {
        Some(default) => default.clone(),
        None if kwargs.has("default_value") => kwargs.get("default_value")?,
        None => Jinja::from(""),
    };
    kwargs.assert_all_used()?;
    let absent = is_nothing(&value) || (lenient == Some(true) && !value.is_true());
    Ok(if absent { default } else { value })
}

fn print(out: &mut Output, state: &State, value: &Jinja) -> Result<(), Error> {
    if value.is_undefined() {
        // `x if y` without `else` is nothing; other undefined values are errors.
        return minijinja::escape_formatter(out, state, value);
    }
    let escape = !value.is_safe() && state.auto_escape() != AutoEscape::None;
    if let Some(text) = value.as_str().filter(|_| !escape) {
        return out.write_str(text).map_err(Error::from);
    }
    // An interrupted lookup is an invalid value, whose error comes out here.
    valid(value)?;
    let mut text = shown(value);
    if escape {
        text = crate::template::text::escaped(&text);
    }
    out.write_str(&text).map_err(Error::from)
}

pub(in crate::template) fn valid(value: &Jinja) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Invalid => Err(Error::new(ErrorKind::UndefinedError, value.to_string())),
        _ => Ok(()),
    }
}
