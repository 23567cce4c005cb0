//! How much a text says, with every alias counted as what it stands for.

use std::cell::Cell;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};

use super::{Error, Limits};

/// Makes the error of a limit, with the line where it was met.
type Exceeded = fn(&Limits, Option<usize>) -> Error;

/// What is counted, and the limit that was met.
struct Count<'a> {
    limits: &'a Limits,
    nodes: Cell<usize>,
    text_bytes: Cell<usize>,
    exceeded: Cell<Option<Exceeded>>,
}

/// A value that is read, counted and dropped. `depth`: of what is around it.
#[derive(Clone, Copy)]
struct Measure<'a> {
    count: &'a Count<'a>,
    depth: usize,
}

/// Whether a text is within the limits on what it says. The text is one that [`super::scan`] let through.
///
/// # Errors
/// A limit that it exceeds, or what the library says of its syntax.
pub fn check(text: &str, limits: &Limits) -> Result<(), Error> {
    let count = Count {
        limits,
        nodes: Cell::new(0),
        text_bytes: Cell::new(0),
        exceeded: Cell::new(None),
    };
    let measure = Measure {
        count: &count,
        depth: 0,
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the bounded reader that all others use"
    )]
    let library = serde_yaml::Deserializer::from_str(text);
    match (measure.deserialize(library), count.exceeded.get()) {
        (Ok(()), _) => Ok(()),
        (Err(error), Some(exceeded)) => {
            Err(exceeded(limits, error.location().map(|place| place.line())))
        }
        (Err(error), None) => Err(Error::Syntax(error)),
    }
}

impl<'a> Measure<'a> {
    fn node<E: serde::de::Error>(self, text_bytes: usize) -> Result<(), E> {
        let count = self.count;
        count.nodes.set(count.nodes.get() + 1);
        count.text_bytes.set(count.text_bytes.get() + text_bytes);
        if count.nodes.get() > count.limits.nodes {
            return self.exceed(|limits, line| Error::TooManyNodes {
                limit: limits.nodes,
                line,
            });
        }
        if count.text_bytes.get() > count.limits.text_bytes {
            return self.exceed(|limits, line| Error::TooMuchText {
                limit: limits.text_bytes,
                line,
            });
        }
        Ok(())
    }

    fn exceed<E: serde::de::Error>(self, error: Exceeded) -> Result<(), E> {
        self.count.exceeded.set(Some(error));
        Err(E::custom("a limit"))
    }

    fn inner<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth >= self.count.limits.depth {
            self.exceed(|limits, line| Error::TooDeep {
                limit: limits.depth,
                line,
            })?;
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }
}

impl<'de> DeserializeSeed<'de> for Measure<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Measure<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<(), E> {
        self.node(0)
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<(), E> {
        self.node(0)
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<(), E> {
        self.node(0)
    }

    fn visit_i128<E: serde::de::Error>(self, _: i128) -> Result<(), E> {
        self.node(0)
    }

    fn visit_u128<E: serde::de::Error>(self, _: u128) -> Result<(), E> {
        self.node(0)
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<(), E> {
        self.node(0)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        self.node(text.len())
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.node(0)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<(), E> {
        self.node(0)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.node(0)?;
        let inner = self.inner()?;
        while items.next_element_seed(inner)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        self.node(0)?;
        let inner = self.inner()?;
        while entries.next_key_seed(inner)?.is_some() {
            entries.next_value_seed(inner)?;
        }
        Ok(())
    }

    /// A tag and what it stands before.
    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<(), A::Error> {
        let (tag, value) = tagged.variant::<TagLength>()?;
        self.node(tag.0)?;
        value.newtype_variant_seed(self.inner()?)
    }
}

/// The name of a tag may be long.
struct TagLength(usize);

impl<'de> Deserialize<'de> for TagLength {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Length;
        impl Visitor<'_> for Length {
            type Value = TagLength;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a YAML tag")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<TagLength, E> {
                Ok(TagLength(text.len()))
            }
        }
        deserializer.deserialize_identifier(Length)
    }
}
