//! Holds answers against the text, in builds with debug assertions.

use serde_json::{Map, Value};

use super::{AnswerBody, CONTRACT, Endpoint, Field, Shape};
use crate::api::Answer;
use crate::api::http::error::ApiError;
use crate::api::routes::{Route, Working};

/// The answer of a handler.
///
/// # Panics
/// In builds with debug assertions, if the text knows no such answer.
pub(in crate::api) async fn checked(
    route: &'static Route,
    handler: Working,
) -> Result<Answer, ApiError> {
    let answer = handler.await?;
    if cfg!(debug_assertions)
        && let Some(wrong) = wrong(route, &answer)
    {
        panic!(
            "{} {}: src/api/contract/endpoints.txt knows no such answer: {wrong}",
            route.verb.as_str(),
            route.path
        );
    }
    Ok(answer)
}

/// Why an answer is none that the text knows.
fn wrong(route: &Route, answer: &Answer) -> Option<String> {
    let Some(endpoint) = Endpoint::of(route) else {
        return Some("there is no such endpoint".to_owned());
    };
    let mut found = Some("another kind of answer".to_owned());
    for known in &endpoint.answers {
        found = match (&known.body, answer) {
            (AnswerBody::Nothing, Answer::Empty)
            | (AnswerBody::Document(_), Answer::Document(_)) => None,
            (AnswerBody::Data(shape), Answer::Data(value))
            | (AnswerBody::Whole(shape), Answer::Body(value)) => mismatch(shape, value, ""),
            (AnswerBody::Whole(shape), Answer::Written(text)) => {
                let value = serde_json::from_slice(text).unwrap_or_default();
                mismatch(shape, &value, "")
            }
            (AnswerBody::Data(shape), Answer::Written(text)) => {
                let value: Value = serde_json::from_slice(text).unwrap_or_default();
                mismatch(shape, &value["data"], "")
            }
            (AnswerBody::Page(row), Answer::Body(value)) => mismatch(&page_of(row), value, ""),
            _ => found,
        };
        if found.is_none() {
            break;
        }
    }
    found
}

/// The shape of a page with rows of this one.
pub(super) fn page_of(row: &Shape) -> Shape {
    let field = |name: &str, shape| Field {
        name: name.to_owned(),
        is_required: true,
        shape,
    };
    Shape::Fields(vec![
        field("data", Shape::List(Box::new(row.clone()))),
        field("links", Shape::Named("Links".to_owned())),
        field("metadata", Shape::Named("Metadata".to_owned())),
    ])
}

/// Why a value is not of a shape; `at`: where it is.
fn mismatch(shape: &Shape, value: &Value, at: &str) -> Option<String> {
    let is_of_kind = match shape {
        Shape::Any => true,
        Shape::Null => value.is_null(),
        Shape::Text | Shape::Moment | Shape::Range => value.is_string(),
        Shape::Whole => value.is_i64() || value.is_u64(),
        Shape::Flag => value.is_boolean(),
        Shape::Id => value.as_str().is_some_and(is_id),
        Shape::Object => value.is_object(),
        Shape::Words(words) => words.iter().any(|word| value == word.as_str()),
        Shape::Named(name) => {
            return match CONTRACT.shapes.get(name) {
                Some(shape) => mismatch(shape, value, at),
                None => Some(format!("{at} has no shape `{name}`")),
            };
        }
        Shape::Maybe(_) if value.is_null() => true,
        Shape::Maybe(inner) => return mismatch(inner, value, at),
        Shape::List(inner) => match value {
            Value::Array(values) => {
                let mut values = values.iter().enumerate();
                return values.find_map(|(n, one)| mismatch(inner, one, &format!("{at}[{n}]")));
            }
            _ => false,
        },
        Shape::Map(inner) => match value {
            Value::Object(object) => {
                let mut fields = object.iter();
                return fields
                    .find_map(|(name, one)| mismatch(inner, one, &format!("{at}.{name}")));
            }
            _ => false,
        },
        Shape::Fields(_) | Shape::All(_) => match value {
            Value::Object(object) => return wrong_fields(&fields_of(shape), object, at),
            _ => false,
        },
    };
    (!is_of_kind).then(|| format!("{at} is {value} and not {shape:?}"))
}

fn is_id(text: &str) -> bool {
    uuid::Uuid::parse_str(text).is_ok()
}

fn wrong_fields(fields: &[&Field], object: &Map<String, Value>, at: &str) -> Option<String> {
    let known = |name: &str| fields.iter().find(|field| field.name == name);
    if let Some(lacking) = fields
        .iter()
        .find(|field| field.is_required && !object.contains_key(&field.name))
    {
        return Some(format!("{at} lacks the field `{}`", lacking.name));
    }
    object.iter().find_map(|(name, value)| match known(name) {
        Some(field) => mismatch(&field.shape, value, &format!("{at}.{name}")),
        None => Some(format!("{at} has a field `{name}`")),
    })
}

/// The fields of an object, those of its parts together.
fn fields_of(shape: &Shape) -> Vec<&Field> {
    match shape {
        Shape::Fields(fields) => fields.iter().collect(),
        Shape::All(parts) => parts.iter().flat_map(fields_of).collect(),
        Shape::Named(name) => CONTRACT.shapes.get(name).map_or_else(Vec::new, fields_of),
        _ => Vec::new(),
    }
}
