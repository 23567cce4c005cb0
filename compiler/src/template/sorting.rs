//! Filters that compare values: as Python does, so values of different kinds have no order.
//! Source: docs/reference/std.md § 7.6.

use std::cmp::Ordering;

use minijinja::value::{Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value as Jinja};

use crate::template::arguments::{add_filter, defined, items_of};
use crate::template::filters::{Given, dotted, invalid, pairs};
use crate::template::objects::containers::Sequence;
use crate::template::objects::model_objects::is_nothing;

pub(in crate::template) fn register(engine: &mut Environment<'static>) {
    add_filter(engine, "sort", &[], sort);
    add_filter(engine, "max", &[], |values: &Jinja, args: Rest<Jinja>| {
        extreme(values, &args, Ordering::Greater)
    });
    add_filter(engine, "min", &[], |values: &Jinja, args: Rest<Jinja>| {
        extreme(values, &args, Ordering::Less)
    });
    add_filter(engine, "dictsort", &[], dictsort);
    add_filter(engine, "groupby", &[], groupby);
    add_filter(engine, "unique", &[], unique);
}

/// Python's `<` and `>`; an error where it has none.
pub(in crate::template) fn compare(left: &Jinja, right: &Jinja) -> Result<Ordering, Error> {
    use ValueKind::{Bool, Iterable, Number, Seq, String};
    // Attributes that an instance does not have are undefined, too.
    if is_nothing(left) || is_nothing(right) {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    match (left.kind(), right.kind()) {
        (Number | Bool, Number | Bool) => {
            let whole = |value: &Jinja| match value.kind() {
                Bool => Jinja::from(i64::from(value.is_true())),
                _ => value.clone(),
            };
            Ok(whole(left).cmp(&whole(right)))
        }
        (String, String) => Ok(left.cmp(right)),
        (Seq | Iterable, Seq | Iterable) => {
            let (mut left, mut right) = (left.try_iter()?, right.try_iter()?);
            loop {
                match (left.next(), right.next()) {
                    (None, None) => return Ok(Ordering::Equal),
                    (None, Some(_)) => return Ok(Ordering::Less),
                    (Some(_), None) => return Ok(Ordering::Greater),
                    (Some(left), Some(right)) if left == right => {}
                    (Some(left), Some(right)) => return compare(&left, &right),
                }
            }
        }
        (left, right) => Err(invalid(format!(
            "'<' not supported between instances of {left} and {right}"
        ))),
    }
}

/// Sorts by keys; what is equal keeps its order, also in the reverse one.
fn sort_by<T>(
    items: &mut [T],
    reverse: bool,
    mut order: impl FnMut(&T, &T) -> Result<Ordering, Error>,
) -> Result<(), Error> {
    let mut failure = None;
    items.sort_by(|left, right| {
        let order = order(left, right).unwrap_or_else(|error| {
            failure.get_or_insert(error);
            Ordering::Equal
        });
        if reverse { order.reverse() } else { order }
    });
    failure.map_or(Ok(()), Err)
}

/// The elements as the method `sort` puts them.
pub(in crate::template) fn sorted(
    mut items: Vec<Jinja>,
    args: &[Jinja],
) -> Result<Vec<Jinja>, Error> {
    let given = Given::new(args)?;
    let reverse = given.named.get::<Option<bool>>("reverse")?;
    given.named.assert_all_used()?;
    sort_by(&mut items, reverse == Some(true), compare)?;
    Ok(items)
}

/// Texts are compared without case, unless it is asked for.
fn folded(value: Jinja, case_sensitive: bool) -> Jinja {
    match value.as_str() {
        Some(text) if !case_sensitive => Jinja::from(text.to_lowercase()),
        _ => value,
    }
}

/// What a value is compared by.
fn key(value: &Jinja, attribute: Option<&Jinja>, case_sensitive: bool) -> Result<Jinja, Error> {
    let found = match attribute {
        Some(attribute) => dotted(value, attribute)?,
        None => value.clone(),
    };
    Ok(folded(found, case_sensitive))
}

fn sort(values: &Jinja, args: Rest<Jinja>) -> Result<Vec<Jinja>, Error> {
    let given = Given::new(&args)?;
    let reverse = given.get(0, "reverse", false)?;
    let case_sensitive = given.get(1, "case_sensitive", false)?;
    let attribute = given.value(2, "attribute")?;
    given.named.assert_all_used()?;
    let attributes: Vec<Option<Jinja>> = match attribute.as_ref().and_then(|name| name.as_str()) {
        Some(names) => names
            .split(',')
            .map(|name| Some(Jinja::from(name)))
            .collect(),
        None => vec![attribute],
    };
    let mut keyed = Vec::new();
    for value in items_of(values)? {
        let of = |attribute: &Option<Jinja>| key(&value, attribute.as_ref(), case_sensitive);
        let keys: Vec<Jinja> = attributes.iter().map(of).collect::<Result<_, Error>>()?;
        if keys.iter().any(Jinja::is_undefined) {
            return Err(Error::from(ErrorKind::UndefinedError));
        }
        keyed.push((keys, value));
    }
    sort_by(&mut keyed, reverse, |(left, _), (right, _)| {
        let differs = left.iter().zip(right).find(|(left, right)| left != right);
        differs.map_or(Ok(Ordering::Equal), |(left, right)| compare(left, right))
    })?;
    Ok(keyed.into_iter().map(|(_, value)| value).collect())
}

fn extreme(values: &Jinja, args: &[Jinja], wanted: Ordering) -> Result<Jinja, Error> {
    let given = Given::new(args)?;
    let case_sensitive = given.get(0, "case_sensitive", false)?;
    let attribute = given.value(1, "attribute")?;
    given.named.assert_all_used()?;
    let mut best: Option<(Jinja, Jinja)> = None;
    for value in items_of(values)? {
        let key = key(&value, attribute.as_ref(), case_sensitive)?;
        let is_better = match &best {
            Some((known, _)) => compare(&key, known)? == wanted,
            None => true,
        };
        if is_better {
            best = Some((key, value));
        }
    }
    Ok(best.map_or(Jinja::UNDEFINED, |(_, value)| value))
}

fn dictsort(value: &Jinja, args: Rest<Jinja>) -> Result<Vec<Jinja>, Error> {
    let given = Given::new(&args)?;
    let case_sensitive = given.get(0, "case_sensitive", false)?;
    let by_value = match given.text(1, "by", "key")?.as_str() {
        "key" => false,
        "value" => true,
        _ => return Err(invalid("You can only sort by either \"key\" or \"value\"")),
    };
    let reverse = given.get(2, "reverse", false)?;
    given.named.assert_all_used()?;
    let mut pairs = pairs(value)?;
    sort_by(&mut pairs, reverse, |left, right| {
        let of = |(key, value): &(Jinja, Jinja)| {
            let part = if by_value { value } else { key };
            folded(part.clone(), case_sensitive)
        };
        compare(&of(left), &of(right))
    })?;
    Ok(pairs
        .into_iter()
        .map(|(key, value)| Sequence::tuple(vec![key, value]))
        .collect())
}

/// Tuples of what the values have in common and of the values, sorted.
fn groupby(values: &Jinja, args: Rest<Jinja>) -> Result<Vec<Jinja>, Error> {
    let given = Given::new(&args)?;
    let attribute = given
        .value(0, "attribute")?
        .ok_or_else(|| Error::from(ErrorKind::MissingArgument))?;
    let default = given.value(1, "default")?;
    let case_sensitive = given.get(2, "case_sensitive", false)?;
    given.named.assert_all_used()?;
    let mut keyed = Vec::new();
    for value in items_of(values)? {
        let found = dotted(&value, &attribute)?;
        let found = match &default {
            Some(default) if found.is_undefined() => default.clone(),
            _ => found,
        };
        keyed.push((folded(found.clone(), case_sensitive), found, value));
    }
    sort_by(&mut keyed, false, |(left, ..), (right, ..)| {
        compare(left, right)
    })?;
    let groups = keyed.chunk_by(|(left, ..), (right, ..)| left == right);
    let group = |group: &[(Jinja, Jinja, Jinja)]| {
        let values: Vec<Jinja> = group.iter().map(|(.., value)| value.clone()).collect();
        let items = vec![group[0].1.clone(), Jinja::from(values)];
        Sequence::named(items, &["grouper", "list"])
    };
    Ok(groups.map(group).collect())
}

/// The first of each group of equal values.
fn unique(values: &Jinja, args: Rest<Jinja>) -> Result<Vec<Jinja>, Error> {
    let given = Given::new(&args)?;
    let case_sensitive = given.get(0, "case_sensitive", false)?;
    let attribute = given.value(1, "attribute")?;
    given.named.assert_all_used()?;
    let mut seen = std::collections::BTreeSet::new();
    let mut kept = Vec::new();
    for value in items_of(values)? {
        let key = key(&value, attribute.as_ref(), case_sensitive)?;
        defined(&key)?;
        if seen.insert(key) {
            kept.push(value);
        }
    }
    Ok(kept)
}
