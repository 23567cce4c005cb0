//! Pages of lists. Source: docs/reference/rest.md § 0.6.
//!
//! Lists have one fixed order by a unique key; a boundary is a key, whether or not it is still in the list.

use std::collections::VecDeque;
use std::fmt::Display;
use std::ops::Range;
use std::str::FromStr;

use serde_json::{Value, json};

use crate::api::Answer;
use crate::api::http::args::Args;
use crate::api::http::error::ApiError;

/// Bytes of the rows of a page. They are in memory as values and as text, for each client that
/// asks.
const MAX_PAGE_BYTES: usize = 8 << 20;

/// Rows of a page, unless a list gives all when it is asked for none.
pub(in crate::api) const MAX_ROWS: usize = 1000;

/// Rows of a page as the request asks for them; `None`: all. Clients ask for all by 0, and by what is below.
pub(in crate::api) fn limit(args: &Args) -> Result<Option<usize>, ApiError> {
    let limit = args.parsed::<i64>("limit")?.unwrap_or(MAX_ROWS as i64);
    let limit = usize::try_from(limit).unwrap_or_default();
    if limit > MAX_ROWS {
        return Err(ApiError::bad_request(format!(
            "limit may be at most {MAX_ROWS}"
        )));
    }
    Ok(Some(limit).filter(|limit| *limit > 0))
}

/// A page begins at one boundary, or ends at one. The ids that clients know beside them are of the same two sides.
pub(in crate::api) fn one_boundary(args: &Args) -> Result<(), ApiError> {
    let is_given = |names: [&str; 2]| names.iter().any(|name| args.value(name).is_some());
    if is_given(["start", "first_id"]) && is_given(["end", "last_id"]) {
        return Err(ApiError::bad_request("start and end exclude each other"));
    }
    Ok(())
}

/// A key as it stands in a link.
pub(in crate::api) fn encode(key: &str) -> String {
    percent_encoding::utf8_percent_encode(key, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// Cuts a page out of `rows`. `key` gives a row's place in the list, its own and no other's.
pub(in crate::api) fn page<T, K: Ord + Display + FromStr>(
    args: &Args,
    path: &str,
    rows: Vec<T>,
    key: impl Fn(&T) -> K,
    is_descending: bool,
    to_json: impl Fn(&T) -> Value,
) -> Result<Answer, ApiError> {
    let cut = Cut::of(args, rows, &key, is_descending)?;
    Ok(cut.answer(args, path, key, to_json))
}

/// A list, and which of its rows a page shows.
#[derive(Debug)]
pub(in crate::api) struct Cut<T> {
    rows: Vec<T>,
    asked: Range<usize>,
    /// The page ends where the next one begins.
    is_backwards: bool,
    is_descending: bool,
    /// `None`: all rows.
    limit: Option<usize>,
}

impl<T> Cut<T> {
    /// As [`page`] does it.
    pub(in crate::api) fn of<K: Ord + FromStr>(
        args: &Args,
        rows: Vec<T>,
        key: impl Fn(&T) -> K,
        is_descending: bool,
    ) -> Result<Self, ApiError> {
        let limit = limit(args)?;
        let mut cut = Self {
            rows,
            asked: 0..0,
            is_backwards: false,
            is_descending,
            limit,
        };
        cut.choose(args, key)?;
        Ok(cut)
    }

    fn choose<K: Ord + FromStr>(
        &mut self,
        args: &Args,
        key: impl Fn(&T) -> K,
    ) -> Result<(), ApiError> {
        let (rows, is_descending) = (&mut self.rows, self.is_descending);
        let limit = self.limit.unwrap_or(usize::MAX);
        // Not the order of the store: databases do not agree on that of texts.
        rows.sort_by(|a, b| {
            let order = key(a).cmp(&key(b));
            if is_descending {
                order.reverse()
            } else {
                order
            }
        });
        let total = rows.len();
        let from = |at: usize| at..at.saturating_add(limit).min(total);
        let up_to = |at: usize| at.saturating_sub(limit)..at;
        // `start` keeps what is greater, `end` what is smaller, whatever the order of the page. The boundary itself may be
        // gone by now.
        one_boundary(args)?;
        let (start, end) = (args.parsed::<K>("start")?, args.parsed::<K>("end")?);
        self.is_backwards = if is_descending { &start } else { &end }.is_some();
        self.asked = match (start, end) {
            (None, None) | (Some(_), Some(_)) => from(0),
            (Some(start), None) if is_descending => {
                up_to(rows.partition_point(|row| key(row) > start))
            }
            (Some(start), None) => from(rows.partition_point(|row| key(row) <= start)),
            (None, Some(end)) if is_descending => from(rows.partition_point(|row| key(row) >= end)),
            (None, Some(end)) => up_to(rows.partition_point(|row| key(row) < end)),
        };
        Ok(())
    }

    /// The rows of the page, from the side where the last page ended: as many as fit an answer, at least one, by
    /// what `n_bytes` says of each. The page has no others.
    pub(in crate::api) fn narrow(&mut self, n_bytes: impl Fn(&T) -> usize) -> &[T] {
        let asked = self.rows.get(self.asked.clone()).unwrap_or_default();
        let mut sum = 0_usize;
        let fits = |row: &&T| {
            let is_first = sum == 0;
            sum = sum.saturating_add(n_bytes(row).max(1));
            is_first || sum <= MAX_PAGE_BYTES
        };
        if self.is_backwards {
            let n_rows = asked.iter().rev().take_while(fits).count();
            self.asked.start = self.asked.end - n_rows;
        } else {
            let n_rows = asked.iter().take_while(fits).count();
            self.asked.end = self.asked.start + n_rows;
        }
        self.rows.get(self.asked.clone()).unwrap_or_default()
    }

    /// Takes rows out of the page, and of the list.
    pub(in crate::api) fn retain(&mut self, is_there: impl Fn(&T) -> bool) {
        let asked = self.asked.clone();
        let mut page: Vec<T> = self.rows.splice(asked.clone(), []).collect();
        page.retain(is_there);
        self.asked.end = asked.start + page.len();
        self.rows.splice(asked.start..asked.start, page);
    }

    /// The page. `key` is what it was cut by.
    pub(in crate::api) fn answer<K: Display>(
        self,
        args: &Args,
        path: &str,
        key: impl Fn(&T) -> K,
        to_json: impl Fn(&T) -> Value,
    ) -> Answer {
        let Self {
            rows,
            asked,
            is_backwards,
            is_descending,
            limit,
        } = self;
        let total = rows.len();
        let (shown, data) = fitting(&rows, asked, is_backwards, to_json);
        let (before, after) = (shown.start, total - shown.end);
        let rows_of_page = &rows[shown];
        let size = limit.unwrap_or(0);
        let base = format!("{path}?limit={size}{}", args.of_the_list());
        let mut links = json!({"self": base});
        if after > 0
            && let Some(row) = rows_of_page.last()
        {
            let name = if is_descending { "end" } else { "start" };
            links["next"] = json!(format!("{base}&{name}={}", encode(&key(row).to_string())));
        }
        if before > 0 {
            links["first"] = json!(base);
            if let Some(row) = rows_of_page.first() {
                let name = if is_descending { "start" } else { "end" };
                links["prev"] = json!(format!("{base}&{name}={}", encode(&key(row).to_string())));
            }
        }
        Answer::Body(json!({
            "data": data,
            "links": links,
            "metadata": {"total": total, "before": before, "after": after, "page_size": size},
        }))
    }
}

/// As many of the rows that are asked for as fit an answer, at least one, from the side where the last page ended: a page
/// may have less rows than its limit, and its links lead to the others.
pub(in crate::api) fn fitting<T>(
    rows: &[T],
    asked: Range<usize>,
    is_backwards: bool,
    to_json: impl Fn(&T) -> Value,
) -> (Range<usize>, Vec<Value>) {
    let mut places: Box<dyn Iterator<Item = usize>> = if is_backwards {
        Box::new(asked.clone().rev())
    } else {
        Box::new(asked.clone())
    };
    let (mut data, mut n_bytes) = (VecDeque::new(), 0);
    while let Some(row) = places.next().and_then(|place| rows.get(place)) {
        let value = to_json(row);
        n_bytes += n_bytes_of(&value);
        if n_bytes > MAX_PAGE_BYTES && !data.is_empty() {
            break;
        }
        if is_backwards {
            data.push_front(value);
        } else {
            data.push_back(value);
        }
    }
    let shown = if is_backwards {
        asked.end - data.len()..asked.end
    } else {
        asked.start..asked.start + data.len()
    };
    (shown, data.into())
}

/// About as many bytes as a value has as JSON.
fn n_bytes_of(value: &Value) -> usize {
    /// Bytes that a number, a word, quotes or brackets take with what is between values.
    const OTHER: usize = 8;
    OTHER
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(values) => values.iter().map(n_bytes_of).sum(),
            Value::Object(fields) => fields
                .iter()
                .map(|(name, value)| name.len() + n_bytes_of(value))
                .sum(),
        }
}

#[cfg(test)]
mod tests {
    use crate::api::Answer;
    use crate::api::http::args::Args;
    use crate::api::http::page::page;
    use serde_json::{Value, json};

    fn pages(n_rows: i64, limit: usize, is_descending: bool) -> (Vec<Value>, Vec<Value>) {
        let mut rows: Vec<i64> = (0..n_rows).collect();
        if is_descending {
            rows.reverse();
        }
        let ask = |link: &str| {
            let args = Args::from_query(link.split_once('?').unwrap().1);
            match page(
                &args,
                "/p",
                rows.clone(),
                |n: &i64| *n,
                is_descending,
                |n| json!(n),
            )
            .unwrap()
            {
                Answer::Body(body) => body,
                _ => unreachable!(),
            }
        };
        let (mut forwards, mut link) = (vec![], format!("/p?limit={limit}"));
        let mut last = Value::Null;
        for _ in 0..100 {
            last = ask(&link);
            forwards.push(last["data"].clone());
            match last["links"]["next"].as_str() {
                Some(next) => link = next.to_owned(),
                None => break,
            }
        }
        let mut backwards = vec![last["data"].clone()];
        while let Some(prev) = last["links"]["prev"].as_str() {
            last = ask(prev);
            backwards.insert(0, last["data"].clone());
        }
        (forwards, backwards)
    }

    #[test]
    fn links_keep_what_the_list_was_filtered_by() {
        let query = "filter.agent=a%20b&limit=1&filter.status=x&filter.status=y&start=0";
        let args = Args::from_query(query);
        let key = |n: &i64| *n;
        let Ok(Answer::Body(page)) = page(&args, "/p", vec![1, 2, 3], key, false, |n| json!(n))
        else {
            unreachable!()
        };
        let kept = "/p?limit=1&filter.agent=a%20b&filter.status=x&filter.status=y";
        assert_eq!(page["links"]["self"], kept);
        assert_eq!(page["links"]["next"], format!("{kept}&start=1"));
    }

    #[test]
    fn following_next_sees_every_row_once_in_order() {
        for is_descending in [true, false] {
            for (n_rows, limit) in [(0, 5), (1, 1), (10, 5), (11, 5), (7, 100)] {
                let (forwards, backwards) = pages(n_rows, limit, is_descending);
                let mut expected: Vec<i64> = (0..n_rows).collect();
                if is_descending {
                    expected.reverse();
                }
                let all = |pages: Vec<Value>| -> Vec<i64> {
                    pages
                        .iter()
                        .flat_map(|page| page.as_array().unwrap())
                        .map(|n| n.as_i64().unwrap())
                        .collect()
                };
                assert_eq!(all(forwards), expected);
                assert_eq!(all(backwards), expected);
            }
        }
    }

    /// Input: a list whose rows have 3 MB each (docs/reference/security.md § 4.20). Answer: pages of some MB, with less rows than asked for; the links lead to all of them, forwards and back.
    #[test]
    fn a_page_of_large_rows_has_less_of_them() {
        let big = "x".repeat(3 << 20);
        let rows: Vec<i64> = (0..7).collect();
        for (is_descending, limit) in [(false, 0), (true, 0), (false, 1000), (true, 5)] {
            let ask = |link: &str| {
                let args = Args::from_query(link.split_once('?').unwrap().1);
                let row = |n: &i64| json!([n, big]);
                let key = |n: &i64| *n;
                match page(&args, "/p", rows.clone(), key, is_descending, row).unwrap() {
                    Answer::Body(body) => body,
                    _ => unreachable!(),
                }
            };
            let numbers = |page: &Value| -> Vec<i64> {
                let rows = page["data"].as_array().unwrap();
                assert!(rows.len() <= 2 && !rows.is_empty());
                rows.iter().map(|row| row[0].as_i64().unwrap()).collect()
            };
            let mut last = ask(&format!("/p?limit={limit}"));
            let mut forwards = numbers(&last);
            while let Some(next) = last["links"]["next"].as_str() {
                last = ask(next);
                forwards.extend(numbers(&last));
            }
            let mut backwards = numbers(&last);
            while let Some(prev) = last["links"]["prev"].as_str() {
                last = ask(prev);
                backwards.splice(0..0, numbers(&last));
            }
            let mut expected = rows.clone();
            if is_descending {
                expected.reverse();
            }
            assert_eq!((forwards, backwards), (expected.clone(), expected));
        }
    }

    fn ask(query: &str, rows: Vec<(&'static str, u32)>, is_descending: bool) -> Value {
        let args = Args::from_query(query);
        let key = |(moment, index): &(&str, u32)| format!("{moment} {index:06}");
        match page(&args, "/p", rows, key, is_descending, |row| json!(row.1)) {
            Ok(Answer::Body(body)) => body,
            _ => unreachable!(),
        }
    }

    #[test]
    fn rows_of_one_moment_are_all_seen() {
        for is_descending in [true, false] {
            let rows: Vec<_> = (0..5).map(|n| ("2026", n)).collect();
            let (mut seen, mut query) = (vec![], "limit=1".to_owned());
            for _ in 0..10 {
                let page = ask(&query, rows.clone(), is_descending);
                seen.push(page["data"][0].as_u64().unwrap());
                match page["links"]["next"].as_str() {
                    Some(next) => query = next.split_once('?').unwrap().1.to_owned(),
                    None => break,
                }
            }
            if is_descending {
                seen.reverse();
            }
            assert_eq!(seen, [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn a_boundary_that_is_gone_still_divides() {
        let rows = vec![("a", 1), ("c", 3)];
        for (query, is_descending, expected) in [
            ("start=b", false, json!([3])),
            ("end=b", false, json!([1])),
            ("start=b", true, json!([3])),
            ("end=b", true, json!([1])),
            ("start=z", false, json!([])),
        ] {
            assert_eq!(
                ask(query, rows.clone(), is_descending)["data"],
                expected,
                "{query}"
            );
        }
    }
}
