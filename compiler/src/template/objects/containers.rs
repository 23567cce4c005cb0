//! Values of templates that Python has and the engine has not: tuples, lists and dicts that can be changed, ranges, macros
//! with extra arguments. Source: docs/reference/std.md § 7.6, § 7.7.

use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::value::{DynObject, Enumerator, Kwargs, Object, ObjectRepr, Rest, from_args};
use minijinja::{Environment, Error, ErrorKind, State, Value as Jinja};

use crate::template::arguments::{all_defined, defined};
use crate::template::filters::bounded;
use crate::template::methods::place_of;
use crate::template::repr::repr;
use crate::template::source::macros;

/// Elements of a range, at most.
const MAX_RANGE: usize = 100_000;

pub(in crate::template) fn register(engine: &mut Environment<'static>) {
    engine.add_function("__tuple__", |items: Rest<Jinja>| Sequence::tuple(items.0));
    engine.add_function("__list__", |items: Rest<Jinja>| Sequence::list(items.0));
    engine.add_function("__dict__", |entries: Jinja| Dict::copy_of(&entries));
    engine.add_function("__entries__", |items: Rest<Jinja>| {
        let mut entries = Vec::new();
        for pair in items.chunks_exact(2) {
            defined(&pair[0])?;
            Dict::set(&mut entries, pair[0].clone(), pair[1].clone());
        }
        Ok(Dict::of(entries))
    });
    engine.add_function("__plus__", plus);
    engine.add_function("__macro__", Macro::around);
    engine.add_function("dict", |args: Rest<Jinja>| dict(&args));
    engine.add_function("namespace", |args: Rest<Jinja>| {
        minijinja::functions::namespace(Some(dict(&args)?))
    });
    engine.add_function("range", |args: Rest<Jinja>| {
        all_defined(&args)?;
        let (first, stop, step) = from_args(&args)?;
        range(first, stop, step)
    });
    engine.add_function("cycler", |items: Rest<Jinja>| {
        Jinja::from_object(Cycler {
            items: items.0,
            at: Mutex::new(0),
        })
    });
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// A list, or a sequence that is written as Python's tuples are.
#[derive(Debug)]
pub(in crate::template) struct Sequence {
    items: Mutex<Vec<Jinja>>,
    is_tuple: bool,
    /// Names of the items, if they have some.
    names: &'static [&'static str],
}

impl Sequence {
    pub fn tuple(items: Vec<Jinja>) -> Jinja {
        Sequence::named(items, &[])
    }

    pub fn named(items: Vec<Jinja>, names: &'static [&'static str]) -> Jinja {
        Jinja::from_object(Sequence {
            items: Mutex::new(items),
            is_tuple: true,
            names,
        })
    }

    pub fn list(items: Vec<Jinja>) -> Jinja {
        Jinja::from_object(Sequence {
            items: Mutex::new(items),
            is_tuple: false,
            names: &[],
        })
    }

    fn items(&self) -> Vec<Jinja> {
        lock(&self.items).clone()
    }

    /// What stands right of `%`: the items of a tuple, or one value.
    pub fn operands(value: Jinja) -> Vec<Jinja> {
        match value.downcast_object_ref::<Sequence>() {
            Some(sequence) if sequence.is_tuple => sequence.items(),
            _ => vec![value],
        }
    }

    /// `None`: it has no such method, or it is one that changes nothing.
    fn change(&self, method: &str, args: &[Jinja]) -> Result<Option<Jinja>, Error> {
        if self.is_tuple {
            return Ok(None);
        }
        // Reading an argument may mean reading this list.
        let more: Vec<Jinja> = match (method, args) {
            ("extend", [values]) => {
                defined(values)?;
                values.try_iter()?.collect()
            }
            _ => Vec::new(),
        };
        if method == "sort" {
            let sorted = crate::template::sorting::sorted(self.items(), args)?;
            *lock(&self.items) = sorted;
            return Ok(Some(Jinja::from(())));
        }
        let mut items = lock(&self.items);
        let position = |at: &Jinja, length: usize| -> Result<usize, Error> {
            defined(at)?;
            let at = i64::try_from(at.clone())?;
            let from_end = if at < 0 { length as i64 } else { 0 };
            Ok(usize::try_from(at + from_end).unwrap_or(0))
        };
        match (method, args) {
            ("append", [value]) => items.push(value.clone()),
            ("extend", [_]) => items.extend(more),
            ("insert", [at, value]) => {
                let at = position(at, items.len())?.min(items.len());
                items.insert(at, value.clone());
            }
            ("pop", []) => {
                return items
                    .pop()
                    .map(Some)
                    .ok_or_else(|| invalid("pop from empty list"));
            }
            ("pop", [at]) => {
                let at = position(at, items.len())?;
                if at >= items.len() {
                    return Err(invalid("pop index out of range"));
                }
                return Ok(Some(items.remove(at)));
            }
            ("remove", [value]) => {
                let at = place_of(items.iter().cloned(), value)?;
                items.remove(at.ok_or_else(|| invalid("list.remove(x): x not in list"))?);
            }
            ("clear", []) => items.clear(),
            ("reverse", []) => items.reverse(),
            ("copy", []) => return Ok(Some(Sequence::list(items.clone()))),
            _ => return Ok(None),
        }
        Ok(Some(Jinja::from(())))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Object for Sequence {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        let at = match key.as_str() {
            Some(name) => self.names.iter().position(|known| *known == name)?,
            None => key.as_usize()?,
        };
        lock(&self.items).get(at).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(lock(&self.items).len())
    }

    /// A tuple is never equal to a list.
    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<Ordering> {
        let other = other.downcast_ref::<Sequence>()?;
        let kinds = self.is_tuple.cmp(&other.is_tuple);
        Some(kinds.then_with(|| self.items().cmp(&other.items())))
    }

    fn call_method(
        self: &Arc<Self>,
        _: &State<'_, '_>,
        method: &str,
        args: &[Jinja],
    ) -> Result<Jinja, Error> {
        self.change(method, args)?
            .ok_or_else(|| Error::from(ErrorKind::UnknownMethod))
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items: Vec<String> = self.items().iter().map(repr).collect();
        match (self.is_tuple, items.as_slice()) {
            (true, [only]) => write!(f, "({only},)"),
            (true, _) => write!(f, "({})", items.join(", ")),
            (false, _) => write!(f, "[{}]", items.join(", ")),
        }
    }
}

/// `+` after a tuple: two tuples are one. For everything else the engine's own meaning is asked for.
fn plus(left: Jinja, right: Jinja) -> Result<Jinja, Error> {
    let tuple = |value: &Jinja| {
        let sequence = value.downcast_object_ref::<Sequence>()?;
        sequence.is_tuple.then(|| sequence.items())
    };
    match (tuple(&left), tuple(&right)) {
        (Some(mut items), Some(more)) => {
            items.extend(more);
            Ok(Sequence::tuple(items))
        }
        _ => Err(invalid("can only concatenate tuple to tuple")),
    }
}

/// A dict that can be changed.
#[derive(Debug)]
pub(in crate::template) struct Dict {
    entries: Mutex<Vec<(Jinja, Jinja)>>,
}

impl Dict {
    pub fn of(entries: Vec<(Jinja, Jinja)>) -> Jinja {
        Jinja::from_object(Dict {
            entries: Mutex::new(entries),
        })
    }

    fn copy_of(dict: &Jinja) -> Result<Jinja, Error> {
        let mut entries = Vec::new();
        for key in dict.try_iter()? {
            defined(&key)?;
            let value = dict.get_item(&key)?;
            entries.push((key, value));
        }
        Ok(Dict::of(entries))
    }

    fn set(entries: &mut Vec<(Jinja, Jinja)>, key: Jinja, value: Jinja) {
        match entries.iter_mut().find(|(known, _)| *known == key) {
            Some(entry) => entry.1 = value,
            None => entries.push((key, value)),
        }
    }

    /// `None`: it has no such method, or it is one that changes nothing.
    fn change(&self, method: &str, args: &[Jinja]) -> Result<Option<Jinja>, Error> {
        let more = match method {
            "update" => pairs_of(args)?,
            _ => Vec::new(),
        };
        if let ("pop" | "setdefault", [key, ..]) = (method, args) {
            defined(key)?;
        }
        let mut entries = lock(&self.entries);
        let find = |entries: &[(Jinja, Jinja)], key: &Jinja| {
            entries.iter().position(|(known, _)| known == key)
        };
        Ok(Some(match (method, args) {
            ("update", _) => {
                for (key, value) in more {
                    Dict::set(&mut entries, key, value);
                }
                Jinja::from(())
            }
            ("pop", [key, default @ ..]) => match (find(&entries, key), default) {
                (Some(at), _) => entries.remove(at).1,
                (None, [default]) => default.clone(),
                _ => return Err(invalid(repr(key))),
            },
            ("setdefault", [key, default @ ..]) => match find(&entries, key) {
                Some(at) => entries[at].1.clone(),
                None => {
                    let value = default.first().cloned().unwrap_or_else(|| Jinja::from(()));
                    entries.push((key.clone(), value.clone()));
                    value
                }
            },
            ("popitem", []) => match entries.pop() {
                Some((key, value)) => Sequence::tuple(vec![key, value]),
                None => return Err(invalid("popitem(): dictionary is empty")),
            },
            ("clear", []) => {
                entries.clear();
                Jinja::from(())
            }
            ("copy", []) => Dict::of(entries.clone()),
            _ => return Ok(None),
        }))
    }
}

impl Object for Dict {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        let entries = lock(&self.entries);
        let found = entries.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.clone())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let entries = lock(&self.entries);
        Enumerator::Values(entries.iter().map(|(key, _)| key.clone()).collect())
    }

    fn call_method(
        self: &Arc<Self>,
        state: &State<'_, '_>,
        method: &str,
        args: &[Jinja],
    ) -> Result<Jinja, Error> {
        if let Some(answer) = self.change(method, args)? {
            return Ok(answer);
        }
        match self.get_value(&Jinja::from(method)) {
            Some(value) => value.call(state, args),
            None => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = lock(&self.entries).clone();
        let entries: Vec<String> = entries
            .iter()
            .map(|(key, value)| format!("{}: {}", repr(key), repr(value)))
            .collect();
        write!(f, "{{{}}}", entries.join(", "))
    }
}

/// The pairs of the arguments of `dict(…)` and `update(…)`: a dict or pairs, then named ones.
fn pairs_of(args: &[Jinja]) -> Result<Vec<(Jinja, Jinja)>, Error> {
    if let Some(first) = args.first() {
        defined(first)?;
    }
    let (given, named): (Option<Jinja>, Kwargs) = from_args(args)?;
    let mut entries = Vec::new();
    if let Some(given) = given {
        let is_map = given.kind() == minijinja::value::ValueKind::Map;
        for item in given.try_iter()? {
            let (key, value) = match is_map {
                true => (item.clone(), given.get_item(&item)?),
                false => (item.get_item_by_index(0)?, item.get_item_by_index(1)?),
            };
            defined(&key)?;
            Dict::set(&mut entries, key, value);
        }
    }
    for name in named.args() {
        Dict::set(&mut entries, Jinja::from(name), named.get(name)?);
    }
    Ok(entries)
}

fn dict(args: &[Jinja]) -> Result<Jinja, Error> {
    pairs_of(args).map(Dict::of)
}

#[derive(Debug)]
pub(in crate::template) struct Range {
    start: i64,
    stop: i64,
    step: i64,
    length: usize,
}

fn range(first: i64, stop: Option<i64>, step: Option<i64>) -> Result<Jinja, Error> {
    let (start, stop) = stop.map_or((0, first), |stop| (first, stop));
    let step = step.unwrap_or(1);
    let reach = match step.signum() {
        0 => return Err(invalid("range() arg 3 must not be zero")),
        1 => i128::from(stop) - i128::from(start),
        _ => i128::from(start) - i128::from(stop),
    };
    let stride = i128::from(step.unsigned_abs());
    let length = usize::try_from((reach + stride - 1) / stride).unwrap_or(0);
    let length = if reach <= 0 { 0 } else { length };
    if length > MAX_RANGE {
        return Err(invalid(format!(
            "Range too big, at most {MAX_RANGE} elements"
        )));
    }
    Ok(Jinja::from_object(Range {
        start,
        stop,
        step,
        length,
    }))
}

impl Object for Range {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        let at = key.as_usize().filter(|at| *at < self.length)?;
        Some(Jinja::from(self.start + self.step * at as i64))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.length)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            1 => write!(f, "range({}, {})", self.start, self.stop),
            step => write!(f, "range({}, {}, {step})", self.start, self.stop),
        }
    }
}

#[derive(Debug)]
struct Cycler {
    items: Vec<Jinja>,
    at: Mutex<usize>,
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        match key.as_str()? {
            "current" => self.items.get(*lock(&self.at)).cloned(),
            _ => None,
        }
    }

    fn call_method(
        self: &Arc<Self>,
        _: &State<'_, '_>,
        method: &str,
        _: &[Jinja],
    ) -> Result<Jinja, Error> {
        let mut at = lock(&self.at);
        match method {
            "next" => {
                let current = self.items.get(*at).cloned();
                *at = (*at + 1) % self.items.len().max(1);
                current.ok_or_else(|| invalid("no items for cycling given"))
            }
            "reset" => {
                *at = 0;
                Ok(Jinja::from(()))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }

    /// As Python shows it, with an address that is none.
    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<jinja2.utils.Cycler object at 0x7f0000000000>")
    }
}

/// A macro of the engine that takes the arguments that its parameters leave over, too, where its body reads them.
#[derive(Debug)]
struct Macro {
    inner: Jinja,
    name: Jinja,
    /// The parameters without those that take what is left over.
    parameters: Vec<String>,
    takes_more: bool,
    takes_named: bool,
    takes_caller: bool,
}

impl Macro {
    fn around(inner: Jinja, takes_more: bool, takes_named: bool) -> Result<Jinja, Error> {
        let mut parameters = Vec::new();
        for parameter in inner.get_attr("arguments")?.try_iter()? {
            parameters.push(macros::written_name(&parameter.to_string()).to_owned());
        }
        let n_added = usize::from(takes_more) + usize::from(takes_named);
        parameters.truncate(parameters.len().saturating_sub(n_added));
        Ok(Jinja::from_object(Macro {
            name: inner.get_attr("name")?,
            takes_caller: inner.get_attr("caller")?.is_true(),
            inner,
            parameters,
            takes_more,
            takes_named,
        }))
    }
}

impl Object for Macro {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        Some(match key.as_str()? {
            "name" => self.name.clone(),
            "arguments" => {
                Sequence::tuple(self.parameters.iter().cloned().map(Jinja::from).collect())
            }
            "catch_varargs" => Jinja::from(self.takes_more),
            "catch_kwargs" => Jinja::from(self.takes_named),
            "caller" => Jinja::from(self.takes_caller),
            _ => return None,
        })
    }

    fn call(self: &Arc<Self>, state: &State<'_, '_>, args: &[Jinja]) -> Result<Jinja, Error> {
        let (positional, named): (&[Jinja], Kwargs) = from_args(args)?;
        let n_parameters = self.parameters.len();
        positional.iter().try_for_each(bounded)?;
        let (own, more) = positional.split_at(positional.len().min(n_parameters));
        if !more.is_empty() && !self.takes_more {
            let name = &self.name;
            let message = format!("macro '{name}' takes not more than {n_parameters} argument(s)");
            return Err(invalid(message));
        }
        let mut passed: Vec<(String, Jinja)> = Vec::new();
        let mut rest = Vec::new();
        for name in named.args() {
            let value: Jinja = named.get(name)?;
            bounded(&value)?;
            let is_own = self.parameters.iter().any(|known| known == name);
            if is_own || name == "caller" && self.takes_caller {
                passed.push((macros::engine_name(name).to_owned(), value));
            } else if self.takes_named {
                rest.push((Jinja::from(name), value));
            } else {
                let message = format!("macro '{}' takes no keyword argument '{name}'", self.name);
                return Err(invalid(message));
            }
        }
        if self.takes_more {
            passed.push(("varargs".to_owned(), Sequence::tuple(more.to_vec())));
        }
        if self.takes_named {
            passed.push(("kwargs".to_owned(), Dict::of(rest)));
        }
        let mut args = own.to_vec();
        args.push(passed.into_iter().collect::<Kwargs>().into());
        self.inner.call(state, &args)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<Macro {}>", repr(&self.name))
    }
}
