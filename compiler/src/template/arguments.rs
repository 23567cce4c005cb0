//! What all filters and tests have in common: what is undefined is an error, parameters can be given by name, and what is no
//! text is taken for the text that Python writes.

use minijinja::functions::Function;
use minijinja::value::{FunctionArgs, FunctionResult, Kwargs, Rest, ValueIter, from_args};
use minijinja::{Environment, Error, ErrorKind, State, Value as Jinja};

use crate::template::objects::containers::Sequence;
use crate::template::objects::model_objects::is_nothing;
use crate::template::repr::shown;

/// How many lists, or how long ones, a filter may be asked for.
const MAX_COUNT: i64 = 1_000_000;

/// Makes a function a filter that takes nothing undefined. `parameters`: the names of those behind the value, if the function
/// does not know them itself.
pub(in crate::template) fn add_filter<F, Rv, Args>(
    engine: &mut Environment<'static>,
    name: &'static str,
    parameters: &'static [&'static str],
    filter: F,
) where
    F: Function<Rv, Args>,
    Rv: FunctionResult,
    Args: for<'a> FunctionArgs<'a>,
{
    let filter = Jinja::from_function(filter);
    engine.add_filter(name, move |state: &State, args: Rest<Jinja>| {
        all_defined(&args)?;
        let result = match parameters {
            [] => filter.call(state, &args)?,
            parameters => filter.call(state, &in_order(name, parameters, &args)?)?,
        };
        // The engine writes lists of its own in a way of its own.
        Ok(match result.downcast_object_ref::<Vec<Jinja>>() {
            Some(items) => Sequence::list(items.clone()),
            None => result,
        })
    });
}

/// The same for one of the engine's that takes a text: the engine writes what is none in a way of its own.
pub(in crate::template) fn add_text_filter<F, Rv, Args>(
    engine: &mut Environment<'static>,
    name: &'static str,
    parameters: &'static [&'static str],
    filter: F,
) where
    F: Function<Rv, Args>,
    Rv: FunctionResult,
    Args: for<'a> FunctionArgs<'a>,
{
    let filter = Jinja::from_function(filter);
    add_filter(
        engine,
        name,
        &[],
        move |state: &State, args: Rest<Jinja>| {
            let mut args = in_order(name, parameters, &args)?;
            if let Some(value) = args.first_mut()
                && value.as_str().is_none()
            {
                *value = Jinja::from(shown(value));
            }
            filter.call(state, &args)
        },
    );
}

/// The same for one of the engine's that goes through items: to the engine, null has none.
pub(in crate::template) fn add_items_filter<F, Rv, Args>(
    engine: &mut Environment<'static>,
    name: &'static str,
    parameters: &'static [&'static str],
    filter: F,
) where
    F: Function<Rv, Args>,
    Rv: FunctionResult,
    Args: for<'a> FunctionArgs<'a>,
{
    let filter = Jinja::from_function(filter);
    add_filter(
        engine,
        name,
        &[],
        move |state: &State, args: Rest<Jinja>| {
            let args = in_order(name, parameters, &args)?;
            args.first().map(items_of).transpose()?;
            let count = args.get(1).map(|count| i64::try_from(count.clone()));
            if count.is_some_and(|count| count.is_ok_and(|count| count > MAX_COUNT)) {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!("{name}() makes too long a list"),
                ));
            }
            filter.call(state, &args)
        },
    );
}

/// The text that a filter of Jinja2 takes apart: it does not take anything else for the text that Python writes.
pub(in crate::template) fn text_of(value: &Jinja) -> Result<&str, Error> {
    match value.as_str() {
        Some(text) => Ok(text),
        None if is_nothing(value) => Err(Error::from(ErrorKind::UndefinedError)),
        None => Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("a text is wanted, not {}", shown(value)),
        )),
    }
}

/// Makes a function a test under these names, for what is not undefined.
pub(in crate::template) fn add_tests<F, Rv, Args>(
    engine: &mut Environment<'static>,
    names: &[&'static str],
    test: F,
) where
    F: Function<Rv, Args>,
    Rv: FunctionResult,
    Args: for<'a> FunctionArgs<'a>,
{
    let test = Jinja::from_function(test);
    for name in names {
        let test = test.clone();
        engine.add_test(*name, move |state: &State, args: Rest<Jinja>| {
            all_defined(&args)?;
            Ok(test.call(state, &args)?.is_true())
        });
    }
}

/// Whether none of the arguments is undefined, those by name included.
pub(in crate::template) fn all_defined(args: &[Jinja]) -> Result<(), Error> {
    args.iter().try_for_each(defined)?;
    let named = args.last().filter(|last| last.is_kwargs());
    let Some(named) = named else { return Ok(()) };
    let named = Kwargs::try_from(named.clone())?;
    named
        .args()
        .try_for_each(|name| defined(&named.peek::<Jinja>(name)?))
}

/// What a filter goes through; to the engine, null is an empty list.
pub(in crate::template) fn items_of(values: &Jinja) -> Result<ValueIter, Error> {
    if values.is_none() {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "'NoneType' object is not iterable",
        ));
    }
    values.try_iter()
}

/// Python's undefined values raise as soon as somebody looks at them.
pub(in crate::template) fn defined(value: &Jinja) -> Result<(), Error> {
    match value.is_undefined() {
        true => Err(Error::from(ErrorKind::UndefinedError)),
        false => Ok(()),
    }
}

/// Arguments by position, of which some were given by name. What is left out in between is undefined.
pub(in crate::template) fn in_order(
    function: &str,
    parameters: &[&str],
    args: &[Jinja],
) -> Result<Vec<Jinja>, Error> {
    let (positional, named): (&[Jinja], Kwargs) = from_args(args)?;
    let mut placed = positional.to_vec();
    for (at, parameter) in parameters.iter().enumerate() {
        if !named.has(parameter) {
            continue;
        }
        // The value is before the parameters.
        if placed.len() > at + 1 {
            return Err(Error::new(
                ErrorKind::TooManyArguments,
                format!("{function}() got multiple values for argument '{parameter}'"),
            ));
        }
        placed.resize(at + 1, Jinja::UNDEFINED);
        placed.push(named.get(parameter)?);
    }
    named.assert_all_used()?;
    Ok(placed)
}
