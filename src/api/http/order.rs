//! The order and the range filters of lists. Source: docs/reference/rest.md § 0.6, § 0.7.

use crate::api::http::args::Args;
use crate::api::http::error::ApiError;
use crate::domain::Timestamp;

/// By what a list is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::api) struct Sort {
    pub(in crate::api) column: &'static str,
    pub(in crate::api) is_descending: bool,
}

impl Sort {
    /// From the argument `sort`, `<column>.<asc|desc>` in letters of any case; without it the default.
    ///
    /// # Errors
    /// Another column than `columns`, or another direction.
    pub(in crate::api) fn of(
        args: &Args,
        columns: &[&'static str],
        default: Self,
    ) -> Result<Self, ApiError> {
        let Some(text) = args.text("sort")? else {
            return Ok(default);
        };
        let lower = text.to_lowercase();
        let (column, direction) = lower.rsplit_once('.').unwrap_or((lower.as_str(), ""));
        let column = columns.iter().find(|known| **known == column);
        let is_descending = match direction {
            "asc" => Some(false),
            "desc" => Some(true),
            _ => None,
        };
        match (column, is_descending) {
            (Some(column), Some(is_descending)) => Ok(Self {
                column,
                is_descending,
            }),
            _ => Err(ApiError::bad_request(format!(
                "sort cannot be `{text}`: it is a column and a direction, as in `{}.asc`; the columns are {}",
                default.column,
                columns.join(", ")
            ))),
        }
    }

    /// Ascending by a column.
    pub(in crate::api) const fn ascending(column: &'static str) -> Self {
        Self {
            column,
            is_descending: false,
        }
    }

    /// Descending by a column.
    pub(in crate::api) const fn descending(column: &'static str) -> Self {
        Self {
            column,
            is_descending: true,
        }
    }
}

/// How a value is compared with a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Operator {
    fn sql(self) -> &'static str {
        match self {
            Self::Less => " < ",
            Self::LessOrEqual => " <= ",
            Self::Greater => " > ",
            Self::GreaterOrEqual => " >= ",
        }
    }
}

fn no_range(name: &str) -> ApiError {
    ApiError::bad_request(format!(
        "filter.{name} is `lt`, `le`, `gt` or `ge`, a colon, and a value, as in `ge:1` or `lt:2026-11-22T10:00:00`"
    ))
}

/// The bounds of a range filter, all of which must hold; none: any value passes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::api) struct Ranges(Vec<(Operator, i64)>);

impl Ranges {
    /// Of whole numbers: `filter.version=ge:3`.
    pub(in crate::api) fn of_numbers(args: &Args, name: &str) -> Result<Self, ApiError> {
        Self::of(args, name, |text| text.parse().ok())
    }

    /// Of moments, in microseconds: `filter.date=lt:2026-11-22T10:00:00`.
    pub(in crate::api) fn of_moments(args: &Args, name: &str) -> Result<Self, ApiError> {
        Self::of(args, name, |text| {
            Timestamp::parse(text).map(|moment| moment.0)
        })
    }

    fn of(args: &Args, name: &str, read: fn(&str) -> Option<i64>) -> Result<Self, ApiError> {
        let bound = |text: String| {
            let (operator, value) = text.split_once(':').ok_or_else(|| no_range(name))?;
            let operator = match operator.to_lowercase().as_str() {
                "lt" => Operator::Less,
                "le" => Operator::LessOrEqual,
                "gt" => Operator::Greater,
                "ge" => Operator::GreaterOrEqual,
                _ => return Err(no_range(name)),
            };
            let value = read(value).ok_or_else(|| {
                ApiError::bad_request(format!(
                    "`{value}` is nothing that filter.{name} can be compared with"
                ))
            })?;
            Ok((operator, value))
        };
        let bounds: Result<Vec<_>, ApiError> = args.filter(name)?.into_iter().map(bound).collect();
        bounds.map(Self)
    }

    /// As the store takes them: SQL's comparison, and the number.
    pub(in crate::api) fn bounds(&self) -> Vec<(&'static str, i64)> {
        let bounds = self.0.iter();
        bounds
            .map(|(operator, bound)| (operator.sql(), *bound))
            .collect()
    }

    /// Whether nothing is asked for.
    pub(in crate::api) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a value passes.
    pub(in crate::api) fn hold(&self, value: i64) -> bool {
        self.0.iter().all(|(operator, bound)| match operator {
            Operator::Less => value < *bound,
            Operator::LessOrEqual => value <= *bound,
            Operator::Greater => value > *bound,
            Operator::GreaterOrEqual => value >= *bound,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Ranges, Sort};
    use crate::api::http::args::Args;

    #[test]
    fn a_list_is_sorted_by_known_columns_in_letters_of_any_case() {
        let sort = |query: &str| {
            let args = Args::from_query(query);
            Sort::of(&args, &["name", "date"], Sort::descending("date")).ok()
        };
        assert_eq!(sort(""), Some(Sort::descending("date")));
        assert_eq!(sort("sort=NAME.Asc"), Some(Sort::ascending("name")));
        for bad in ["sort=name", "sort=name.up", "sort=other.asc", "sort=.asc"] {
            assert_eq!(sort(bad), None, "{bad}");
        }
    }

    #[test]
    fn bounds_of_a_range_are_joined_by_and() {
        let ranges = |query: &str| Ranges::of_numbers(&Args::from_query(query), "n");
        let passing = |query: &str| -> Vec<i64> {
            let ranges = ranges(query).unwrap();
            (0..6).filter(|n| ranges.hold(*n)).collect()
        };
        assert_eq!(passing("filter.n=ge:2&filter.n=lt:4"), [2, 3]);
        assert_eq!(passing("filter.n=GT:4"), [5]);
        assert_eq!(passing("filter.n=le:1"), [0, 1]);
        assert_eq!(passing(""), [0, 1, 2, 3, 4, 5]);
        for bad in ["filter.n=3", "filter.n=eq:3", "filter.n=lt:x"] {
            assert!(ranges(bad).is_err(), "{bad}");
        }
        let refused = |query: &str| format!("{:?}", ranges(query).unwrap_err());
        assert!(refused("filter.n=eq:3").contains("`lt`, `le`"));
        let too_large = refused("filter.n=ge:99999999999999999999");
        assert!(
            too_large.contains("`99999999999999999999` is nothing that filter.n"),
            "{too_large}"
        );
        let moment = Args::from_query("filter.date=ge:2026-11-21+02:56:06");
        let moment = Ranges::of_moments(&moment, "date").unwrap();
        assert!(moment.hold(i64::MAX) && !moment.hold(0));
    }
}
