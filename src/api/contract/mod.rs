//! What each endpoint takes and answers: `endpoints.txt`, read once.
//!
//! The OpenAPI document is made of it ([`schema`]). Builds with debug assertions hold requests and answers against it: a handler
//! that asks for an argument, or answers with a field, that the text does not name is a mistake that panics ([`check`]), so every
//! test that asks an endpoint compares the text with the code. Start with [`Endpoint::of`].

mod check;
mod read;
pub(super) mod schema;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::api::routes::{Route, Verb};

pub(super) use check::checked;

static CONTRACT: LazyLock<Contract> =
    LazyLock::new(|| read::contract(include_str!("endpoints.txt")).expect("a test reads it"));

/// The whole text.
#[derive(Debug, Default)]
struct Contract {
    shapes: BTreeMap<String, Shape>,
    groups: BTreeMap<String, Vec<Argument>>,
    /// By method and path.
    endpoints: BTreeMap<(String, String), Endpoint>,
}

/// What one endpoint takes and answers.
#[derive(Debug, Default)]
pub(in crate::api) struct Endpoint {
    arguments: Vec<Argument>,
    answers: Vec<Answered>,
}

/// Something that a request says.
#[derive(Debug, Clone)]
struct Argument {
    name: String,
    is_required: bool,
    shape: Shape,
    default: Option<Value>,
    /// For people.
    what: String,
}

/// One kind of answer.
#[derive(Debug)]
struct Answered {
    status: u16,
    body: AnswerBody,
}

#[derive(Debug)]
enum AnswerBody {
    Nothing,
    /// In the envelope, `{"data": …}`.
    Data(Shape),
    /// A page of rows of this shape.
    Page(Shape),
    /// As it is.
    Whole(Shape),
    /// A text of this media type.
    Document(String),
}

/// What a JSON value may be.
#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Any,
    Null,
    Text,
    Whole,
    Flag,
    Moment,
    Id,
    Range,
    /// An object with whatever fields.
    Object,
    /// One of these words.
    Words(Vec<String>),
    /// That of `shapes`.
    Named(String),
    Maybe(Box<Shape>),
    List(Box<Shape>),
    /// An object with any names.
    Map(Box<Shape>),
    Fields(Vec<Field>),
    /// The fields of all of these.
    All(Vec<Shape>),
}

#[derive(Debug, Clone, PartialEq)]
struct Field {
    name: String,
    is_required: bool,
    shape: Shape,
}

impl Endpoint {
    /// What a route takes and answers.
    pub(in crate::api) fn of(route: &Route) -> Option<&'static Self> {
        let key = (route.verb.as_str().to_owned(), route.path.to_owned());
        CONTRACT.endpoints.get(&key)
    }

    /// What requests of a route are held against; `None`: nothing, as in builds for use, which do not read the text for it.
    pub(in crate::api) fn held_against(route: &Route) -> Option<&'static Self> {
        match cfg!(debug_assertions) {
            true => Self::of(route),
            false => None,
        }
    }

    /// Whether a request may have this argument.
    pub(in crate::api) fn takes(&self, name: &str) -> bool {
        self.arguments.iter().any(|argument| argument.name == name)
    }

    /// The names of the arguments, each that may be left out with a `?`.
    pub(in crate::api) fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.arguments.iter().map(|argument| {
            let mark = if argument.is_required { "" } else { "?" };
            format!("{}{mark}", argument.name)
        })
    }
}

/// Whether the arguments of a request with this method are in its query string, even if a body would do.
fn is_of_query(verb: Verb) -> bool {
    matches!(verb, Verb::Get | Verb::Head | Verb::Delete)
}

#[cfg(test)]
mod tests {
    use super::CONTRACT;
    use crate::api::routes::TABLE;

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let mut described: Vec<_> = CONTRACT.endpoints.keys().cloned().collect();
        let routes = TABLE.iter().copied().flatten();
        let mut routes: Vec<_> = routes
            .map(|route| (route.verb.as_str().to_owned(), route.path.to_owned()))
            .collect();
        described.sort();
        routes.sort();
        for route in &routes {
            assert!(described.contains(route), "endpoints.txt lacks {route:?}");
        }
        for endpoint in &described {
            assert!(routes.contains(endpoint), "there is no {endpoint:?}");
        }
    }

    #[test]
    fn every_endpoint_says_what_it_answers() {
        for (route, endpoint) in &CONTRACT.endpoints {
            assert!(!endpoint.answers.is_empty(), "{route:?}");
        }
    }
}
