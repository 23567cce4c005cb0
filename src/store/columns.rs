//! Ids, names and numbers of the domain as columns: each is stored as the text or the number that it is made of.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::{Database, Decode, Encode, Type};

use crate::domain::{AgentName, ResourceId, VersionNumber};

/// `$name` is stored as a `$stored`, which `$write` makes of it, and read back by `$name::new`.
macro_rules! column {
    ($name:ident, $stored:ty, $write:expr) => {
        impl<D: Database> Type<D> for $name
        where
            $stored: Type<D>,
        {
            fn type_info() -> D::TypeInfo {
                <$stored as Type<D>>::type_info()
            }

            fn compatible(known: &D::TypeInfo) -> bool {
                <$stored as Type<D>>::compatible(known)
            }
        }

        impl<'q, D: Database> Encode<'q, D> for $name
        where
            $stored: Encode<'q, D>,
        {
            fn encode_by_ref(
                &self,
                buffer: &mut <D as Database>::ArgumentBuffer<'q>,
            ) -> Result<IsNull, BoxDynError> {
                let write: fn(&$name) -> $stored = $write;
                <$stored as Encode<'q, D>>::encode(write(self), buffer)
            }
        }

        impl<'r, D: Database> Decode<'r, D> for $name
        where
            $stored: Decode<'r, D>,
        {
            fn decode(value: <D as Database>::ValueRef<'r>) -> Result<Self, BoxDynError> {
                <$stored as Decode<'r, D>>::decode(value).map($name::new)
            }
        }
    };
}

column!(ResourceId, String, |id| id.as_str().to_owned());
column!(AgentName, String, |name| name.as_str().to_owned());
column!(VersionNumber, i64, |number| number.get());
