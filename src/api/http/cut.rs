//! Pages that the store cuts out of a long list. Source: docs/reference/rest.md § 0.6.
//!
//! [`page`](super::page) has all rows and takes some; here the store is asked for the rows of one page, by their key. How
//! many rows there are before the page is what nobody can say without counting them, so links carry it along: `before=N`
//! behind the boundary is the number of rows before it. A client that comes with a boundary of its own makes the store
//! count, up to [`COUNTED`](crate::store::COUNTED) rows on either side.

use serde_json::{Value, json};

use crate::api::Answer;
use crate::api::http::args::Args;
use crate::api::http::error::ApiError;
use crate::api::http::page;
use crate::store::{COUNTED, Span};

/// Rows of an unlimited page. What does not fit an answer is on the next page, and more rows than this never fit.
const MAX_ROWS: usize = 20_000;

/// What a request asks of a list in ascending order of resource ids.
pub(in crate::api) struct Cut {
    /// `None`: as many rows as fit.
    limit: Option<usize>,
    start: Option<String>,
    end: Option<String>,
    /// Rows before the boundary, if the link has their number.
    before: Option<i64>,
    is_descending: bool,
}

/// How many rows a list has.
pub(in crate::api) struct Counts {
    pub(in crate::api) total: i64,
    /// Whether `total` is all of them; else there are at least so many.
    pub(in crate::api) is_exact: bool,
    /// Rows before the boundary; [`COUNTED`] stands for more, too.
    pub(in crate::api) before: i64,
}

impl Cut {
    pub(in crate::api) fn of(args: &Args, is_descending: bool) -> Result<Self, ApiError> {
        let limit = page::limit(args)?;
        page::one_boundary(args)?;
        let (start, end) = (args.text("start")?, args.text("end")?);
        Ok(Self {
            limit,
            start,
            end,
            before: args.parsed::<u32>("before")?.map(i64::from),
            is_descending,
        })
    }

    /// Whether the page ends at the boundary, instead of beginning there.
    fn is_backwards(&self) -> bool {
        let bound = if self.is_descending {
            &self.start
        } else {
            &self.end
        };
        bound.is_some()
    }

    fn n_rows(&self) -> usize {
        self.limit.unwrap_or(MAX_ROWS)
    }

    /// The rows of the page, and one more if there is one: so it is known whether another page follows.
    pub(in crate::api) fn span(&self) -> Span {
        Span {
            after: self.start.clone(),
            before: self.end.clone(),
            // The store gives rows in ascending order: descending, a page that goes on is the last of the rows below its bound.
            is_last: self.is_backwards() != self.is_descending,
            limit: self.n_rows() as i64 + 1,
        }
    }

    /// The rows before the boundary, to be counted; or how many they are, if that is known.
    pub(in crate::api) fn to_count(&self) -> Result<i64, Span> {
        if self.is_descending {
            return match (&self.start, &self.end, self.before) {
                (None, None, _) => Ok(0),
                (_, _, Some(before)) => Ok(before),
                (Some(bound), _, None) => Err(Self::above(bound)),
                // What is not smaller than the end: all that is greater, and itself.
                (None, Some(bound), None) => Err(Self::above(&below(bound))),
            };
        }
        let (before, limit) = match (&self.start, &self.end, self.before) {
            (None, None, _) => return Ok(0),
            (_, _, Some(before)) => return Ok(before),
            // What is not greater than the start: all that is smaller, and itself, whether or not it is there.
            (Some(start), _, None) => (format!("{start}\u{1}"), COUNTED),
            (None, Some(end), None) => (end.clone(), COUNTED),
        };
        Err(Span {
            before: Some(before),
            limit,
            ..Span::default()
        })
    }

    fn above(bound: &str) -> Span {
        Span {
            after: Some(bound.to_owned()),
            limit: COUNTED,
            ..Span::default()
        }
    }

    /// The answer with `rows`, which [`span`](Self::span) asked for.
    pub(in crate::api) fn answer<T>(
        &self,
        args: &Args,
        path: &str,
        mut rows: Vec<T>,
        counts: &Counts,
        key: impl Fn(&T) -> String,
        to_json: impl Fn(&T) -> Value,
    ) -> Answer {
        let is_backwards = self.is_backwards();
        if self.is_descending {
            rows.reverse();
        }
        let has_more = rows.len() > self.n_rows();
        if has_more && is_backwards {
            rows.remove(0);
        } else {
            rows.truncate(self.n_rows());
        }
        let n_rows = rows.len();
        let (shown, data) = page::fitting(&rows, 0..n_rows, is_backwards, to_json);
        let has_more = has_more || shown.len() < n_rows;
        let (before, after) = self.around(counts, shown.len() as i64, has_more);
        let total = counts.total.max(before + shown.len() as i64 + after);
        let size = self.limit.unwrap_or(0);
        let base = format!("{path}?limit={size}{}", args.of_the_list());
        let mut links = json!({"self": base});
        let rows = &rows[shown];
        let link = |name: &str, row: &T, n_before: i64| {
            let boundary = page::encode(&key(row));
            json!(format!("{base}&{name}={boundary}&before={n_before}"))
        };
        if after > 0
            && let Some(row) = rows.last()
        {
            let name = if self.is_descending { "end" } else { "start" };
            links["next"] = link(name, row, before + rows.len() as i64);
        }
        if before > 0 {
            links["first"] = json!(base);
            if let Some(row) = rows.first() {
                let name = if self.is_descending { "start" } else { "end" };
                links["prev"] = link(name, row, before);
            }
        }
        Answer::Body(json!({
            "data": data,
            "links": links,
            "metadata": {"total": total, "before": before, "after": after, "page_size": size},
        }))
    }

    /// How many rows are before the page and behind it. Whether there are any is certain; how many is what was counted, or
    /// what the total leaves.
    fn around(&self, counts: &Counts, n_shown: i64, has_more: bool) -> (i64, i64) {
        let rest = |known: i64| (counts.total - n_shown - known).max(0);
        if self.is_backwards() {
            let before = if has_more {
                (counts.before - n_shown).max(1)
            } else {
                0
            };
            return (before, rest(before));
        }
        if has_more {
            return (counts.before, rest(counts.before).max(1));
        }
        let is_first = self.start.is_none() && self.end.is_none();
        match (is_first, counts.is_exact) {
            (true, _) => (0, 0),
            (false, true) => (rest(0), 0),
            (false, false) => (counts.before, 0),
        }
    }
}

/// A text just below another one, with no id of a resource between the two: ids end in `]`, and have no control characters.
fn below(text: &str) -> String {
    let mut below = text.to_owned();
    if let Some(last) = below.pop()
        && let Some(smaller) = char::from_u32(u32::from(last).saturating_sub(1))
    {
        below.push(smaller);
        below.push(char::MAX);
    }
    below
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// What the store would answer, of rows in ascending order.
    fn rows_of(all: &[String], span: &Span) -> Vec<String> {
        let inside = all.iter().filter(|row| {
            span.after.as_ref().is_none_or(|after| *row > after)
                && span.before.as_ref().is_none_or(|before| *row < before)
        });
        let mut inside: Vec<String> = inside.cloned().collect();
        let limit = span.limit as usize;
        if span.is_last {
            inside.drain(..inside.len().saturating_sub(limit));
        } else {
            inside.truncate(limit);
        }
        inside
    }

    fn ask(all: &[String], link: &str) -> Value {
        let args = Args::from_query(link.split_once('?').unwrap().1);
        let cut = Cut::of(&args, link.contains("sort=down")).unwrap();
        let before = match cut.to_count() {
            Ok(before) => before,
            Err(span) => rows_of(all, &span).len() as i64,
        };
        let counts = Counts {
            total: all.len() as i64,
            is_exact: true,
            before,
        };
        let rows = rows_of(all, &cut.span());
        match cut.answer(&args, "/p", rows, &counts, String::clone, |row| json!(row)) {
            Answer::Body(page) => page,
            _ => unreachable!(),
        }
    }

    fn all(n_rows: usize) -> Vec<String> {
        (0..n_rows).map(|n| format!("r{n:03}")).collect()
    }

    #[test]
    fn links_lead_to_every_row_once_forwards_and_back_and_count_what_is_around() {
        for (n_rows, limit) in [(0, 5), (1, 1), (10, 5), (11, 5), (7, 100), (30, 1)] {
            let all = all(n_rows);
            let check = |page: &Value, n_before: usize| {
                let n_shown = page["data"].as_array().unwrap().len();
                let expected = json!({
                    "total": n_rows, "before": n_before, "after": n_rows - n_before - n_shown, "page_size": limit,
                });
                assert_eq!(page["metadata"], expected, "{n_rows} {limit}");
                n_shown
            };
            let (mut seen, mut page) = (Vec::new(), ask(&all, &format!("/p?limit={limit}")));
            loop {
                check(&page, seen.len());
                seen.extend(page["data"].as_array().unwrap().clone());
                match page["links"]["next"].as_str() {
                    Some(next) => page = ask(&all, next),
                    None => break,
                }
            }
            assert_eq!(json!(seen), json!(all));
            let mut n_left = n_rows - page["data"].as_array().unwrap().len();
            while let Some(prev) = page["links"]["prev"].as_str() {
                page = ask(&all, prev);
                n_left -= page["data"].as_array().unwrap().len();
                check(&page, n_left);
            }
            assert_eq!(n_left, 0);
        }
    }

    #[test]
    fn a_list_that_goes_down_is_the_same_list_from_its_other_end() {
        for (n_rows, limit) in [(0, 5), (1, 1), (10, 5), (11, 5), (7, 100), (9, 1)] {
            let all = all(n_rows);
            let (mut seen, mut page) = (
                Vec::new(),
                ask(&all, &format!("/p?limit={limit}&sort=down")),
            );
            loop {
                assert_eq!(page["metadata"]["before"], seen.len());
                seen.extend(page["data"].as_array().unwrap().clone());
                assert_eq!(page["metadata"]["after"], n_rows - seen.len());
                match page["links"]["next"].as_str() {
                    Some(next) => page = ask(&all, next),
                    None => break,
                }
            }
            let down: Vec<&String> = all.iter().rev().collect();
            assert_eq!(json!(seen), json!(down));
            let mut n_left = n_rows - page["data"].as_array().unwrap().len();
            while let Some(prev) = page["links"]["prev"].as_str() {
                page = ask(&all, prev);
                n_left -= page["data"].as_array().unwrap().len();
                assert_eq!(page["metadata"]["before"], n_left);
            }
            assert_eq!(n_left, 0);
        }
        let all = all(10);
        let page = ask(&all, "/p?limit=2&sort=down&end=r003");
        assert_eq!(
            (&page["data"], &page["metadata"]["before"]),
            (&json!(["r002", "r001"]), &json!(7))
        );
    }

    #[test]
    fn a_boundary_of_the_client_is_counted_though_its_row_is_gone() {
        let all = all(10);
        let metadata = |query: &str| ask(&all, &format!("/p?limit=2&{query}"))["metadata"].clone();
        let page = |before: i64| json!({"total": 10, "before": before, "after": 8 - before, "page_size": 2});
        assert_eq!(metadata("start=r003"), page(4));
        assert_eq!(metadata("start=r003x"), page(4));
        assert_eq!(metadata("end=r003"), page(1));
        assert_eq!(metadata("end=r002x"), page(1));
        assert_eq!(metadata("end=zzz"), page(8));
    }

    #[test]
    fn an_unlimited_page_of_large_rows_is_cut_and_goes_on() {
        let all: Vec<String> = (0..7)
            .map(|n| format!("{n}{}", "x".repeat(3 << 20)))
            .collect();
        let page = ask(&all, "/p?limit=0");
        assert_eq!(page["data"].as_array().unwrap().len(), 2);
        assert_eq!(page["metadata"]["after"], 5);
        assert!(
            page["links"]["next"]
                .as_str()
                .unwrap()
                .ends_with("&before=2")
        );
    }

    #[test]
    fn a_list_is_not_cut_on_both_sides() {
        for both in ["start=a&end=b", "start=a&last_id=b", "first_id=a&end=b"] {
            assert!(Cut::of(&Args::from_query(both), false).is_err(), "{both}");
        }
        assert!(Cut::of(&Args::from_query("start=a&first_id=b"), false).is_ok());
        assert!(Cut::of(&Args::from_query("limit=1001"), false).is_err());
    }
}
