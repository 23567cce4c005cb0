//! Types of `domain` as values of columns: each is stored as the text or number that it is made of.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::{Database, Decode, Encode, Type};

use crate::domain::{AgentName, ResourceId, VersionNumber};

/// Lets a type be bound to a statement and read from a row, as `$stored`: `$of` gives what is stored of it.
macro_rules! column {
    ($name:ident, $stored:ty, $of:expr) => {
        impl<D: Database> Type<D> for $name
        where
            $stored: Type<D>,
        {
            fn type_info() -> D::TypeInfo {
                <$stored as Type<D>>::type_info()
            }

            fn compatible(found: &D::TypeInfo) -> bool {
                <$stored as Type<D>>::compatible(found)
            }
        }

        impl<'q, D: Database> Encode<'q, D> for $name
        where
            $stored: Encode<'q, D>,
        {
            fn encode_by_ref(
                &self,
                buffer: &mut D::ArgumentBuffer<'q>,
            ) -> Result<IsNull, BoxDynError> {
                let stored: $stored = $of(self);
                stored.encode(buffer)
            }
        }

        impl<'r, D: Database> Decode<'r, D> for $name
        where
            $stored: Decode<'r, D>,
        {
            fn decode(value: D::ValueRef<'r>) -> Result<Self, BoxDynError> {
                <$stored as Decode<'r, D>>::decode(value).map(Self::new)
            }
        }
    };
}

column!(AgentName, String, |name: &AgentName| name
    .as_str()
    .to_owned());
column!(ResourceId, String, |id: &ResourceId| id.as_str().to_owned());
column!(VersionNumber, i64, |number: &VersionNumber| number.get());
