//! Pages of lists that are sorted by a value and an id. Source: docs/reference/lsm.md § 5.1.
//!
//! `start` keeps what is greater than a value and `end` what is smaller, whichever way the list goes; `first_id` and `last_id`
//! are the ids that belong to them, since values may repeat.

use serde_json::{Value, json};

use crate::api::Answer;
use crate::api::http::args::Args;
use crate::api::http::error::ApiError;
use crate::api::http::page;

/// Rows of a page of which nobody says how many there shall be.
const DEFAULT_LIMIT: usize = 20;

/// A value, and the id of the row that has it, if the client named one.
pub(super) type Bound<P> = Option<(P, Option<String>)>;

/// What a request asks of a list.
#[derive(Debug)]
pub(super) struct Keyset {
    pub(super) is_descending: bool,
    limit: usize,
    start: Bound<String>,
    end: Bound<String>,
    /// Rows before the boundary, if the link has their number.
    before: Option<i64>,
}

/// How many rows a list has, and how many are before the first row of the page.
#[derive(Debug, Default)]
pub(super) struct Around {
    pub(super) total: i64,
    pub(super) before: i64,
}

impl Keyset {
    pub(super) fn of(args: &Args, is_descending: bool) -> Result<Self, ApiError> {
        let limit = args.parsed::<usize>("limit")?.unwrap_or(DEFAULT_LIMIT);
        if !(1..=1000).contains(&limit) {
            return Err(ApiError::bad_request("limit must be from 1 to 1000"));
        }
        let bound = |value: &str, id: &str| -> Result<Bound<String>, ApiError> {
            let (value, id) = (args.text(value)?, args.text(id)?);
            let value = value.filter(|value| !value.is_empty());
            Ok(value.map(|value| (value, id.filter(|id| !id.is_empty()))))
        };
        let (start, end) = (bound("start", "first_id")?, bound("end", "last_id")?);
        if start.is_some() && end.is_some() {
            return Err(ApiError::bad_request("start and end exclude each other"));
        }
        Ok(Self {
            is_descending,
            limit,
            start,
            end,
            before: args.parsed::<u32>("before")?.map(i64::from),
        })
    }

    /// What rows have to be greater than, and smaller than.
    pub(super) fn bounds<P>(
        &self,
        parse: impl Fn(&str) -> Option<P>,
    ) -> Result<[Bound<P>; 2], ApiError> {
        let bound = |bound: &Bound<String>| -> Result<Bound<P>, ApiError> {
            let Some((value, id)) = bound else {
                return Ok(None);
            };
            let place = parse(value).ok_or_else(|| {
                ApiError::bad_request(format!("`{value}` is no value of the column of the order"))
            })?;
            Ok(Some((place, id.clone())))
        };
        Ok([bound(&self.start)?, bound(&self.end)?])
    }

    /// Whether the page is the first one.
    pub(super) fn has_no_boundary(&self) -> bool {
        self.start.is_none() && self.end.is_none()
    }

    /// Whether the page is the one before a row, so that rows are read towards the begin of the list.
    pub(super) fn is_backwards(&self) -> bool {
        if self.is_descending {
            self.start.is_some()
        } else {
            self.end.is_some()
        }
    }

    /// In which direction rows are to be read.
    pub(super) fn reads_descending(&self) -> bool {
        self.is_descending != self.is_backwards()
    }

    /// Rows to be read: as many as are shown.
    pub(super) fn n_read(&self) -> i64 {
        i64::try_from(self.limit).unwrap_or(i64::MAX)
    }

    /// How many rows are before the first one of the page, of which so many were read, if nobody has to count them: before the
    /// first page there is none, and links have the number before their boundary.
    pub(super) fn known_before(&self, n_rows: usize) -> Option<i64> {
        if self.has_no_boundary() {
            return Some(0);
        }
        let before = self.before?;
        let n_rows = i64::try_from(n_rows).unwrap_or(i64::MAX);
        Some(match (self.is_backwards(), n_rows < self.n_read()) {
            (false, _) => before,
            // There were no more of them.
            (true, true) => 0,
            (true, false) => (before - n_rows).max(0),
        })
    }

    /// Rows that were read, in the order of the list.
    pub(super) fn in_order<T>(&self, mut rows: Vec<T>) -> Vec<T> {
        if self.is_backwards() {
            rows.reverse();
        }
        rows
    }

    /// The answer with these rows, in the order of the list.
    pub(super) fn answer<T>(
        &self,
        args: &Args,
        path: &str,
        (rows, around): (&[T], &Around),
        key: impl Fn(&T) -> (String, String),
        to_json: impl Fn(&T) -> Value,
    ) -> Answer {
        let (shown, data) = page::fitting(rows, 0..rows.len(), self.is_backwards(), to_json);
        let before = around.before + shown.start as i64;
        let after = (around.total - before - shown.len() as i64).max(0);
        let rows = &rows[shown];
        let base = format!("{path}?limit={}{}", self.limit, args.of_the_list());
        let mut links = json!({"self": base});
        let link = |row: &T, is_greater: bool, n_before: i64| {
            let (value, id) = key(row);
            let (bound, name) = if is_greater {
                ("start", "first_id")
            } else {
                ("end", "last_id")
            };
            let (value, id) = (page::encode(&value), page::encode(&id));
            // What a client glues to its own arguments begins with the boundary.
            json!(format!(
                "{base}&{bound}={value}&{name}={id}&before={n_before}"
            ))
        };
        if let Some(last) = rows.last().filter(|_| after > 0) {
            let n_before = before + rows.len() as i64;
            links["next"] = link(last, !self.is_descending, n_before);
        }
        if before > 0 {
            links["first"] = json!(base);
            if let Some(first) = rows.first() {
                links["prev"] = link(first, self.is_descending, before);
            }
        }
        Answer::Body(json!({
            "data": data,
            "links": links,
            "metadata": {"total": around.total, "before": before, "after": after, "page_size": self.limit},
        }))
    }
}
