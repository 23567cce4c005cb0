//! Which rows of a list a page has. Source: docs/reference/rest.md § 0.6.
//!
//! Lists have one order by a unique key; a boundary is a key, or the begin of one, whether or not its row is still in the list.
//! The store is asked for the rows of one page, by their keys. How many rows there are before the page is what nobody can say
//! without counting them, so links carry it along: `before=N` behind the boundary is the number of rows before it. A client that
//! comes with a boundary of its own makes the store count, up to [`COUNTED`](crate::store::COUNTED) rows on either side.

use serde_json::{Value, json};

use crate::api::Answer;
use crate::api::http::args::Args;
use crate::api::http::error::ApiError;
use crate::api::http::page;
use crate::domain::ResourceId;
use crate::store::{COUNTED, Edge, Key, Part, Span};

/// Rows of an unlimited page. What does not fit an answer is on the next page, and more rows than this never fit.
const MAX_ROWS: usize = 20_000;

/// What a request asks of a list.
pub(in crate::api) struct Cut {
    /// `None`: as many rows as fit.
    limit: Option<usize>,
    start: Option<Edge>,
    end: Option<Edge>,
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

impl Counts {
    /// Of a list that has no rows.
    pub(in crate::api) fn none() -> Self {
        Self {
            total: 0,
            is_exact: true,
            before: 0,
        }
    }
}

/// A boundary that a client made by itself, of a value of a row and the row's id: resources have their version in it.
fn with_id(mut key: Key, kind: &Key, id: Option<String>) -> Key {
    let Some(id) = id else { return key };
    let resource = ResourceId::parse(&id);
    if kind.0.len() == 1 {
        // The value is the begin of the id.
        return resource.map_or(key, |id| Key::of(id.as_str()));
    }
    if key.0.len() + 1 == kind.0.len() {
        key.0
            .push(Part::Text(resource.map_or(id, |id| id.to_string())));
    }
    key
}

impl Cut {
    /// Of a list whose keys are of this kind.
    pub(in crate::api) fn of(
        args: &Args,
        kind: &Key,
        is_descending: bool,
    ) -> Result<Self, ApiError> {
        let limit = page::limit(args)?;
        page::one_boundary(args)?;
        let edge = |name: &str, id_name: &str| -> Result<Option<Edge>, ApiError> {
            let Some(text) = args.text(name)?.filter(|text| !text.is_empty()) else {
                return Ok(None);
            };
            let key = kind.read(&text).map_err(|part| {
                ApiError::bad_request(format!(
                    "`{part}` of Field '{name}' is no value of the column that the list is sorted by"
                ))
            })?;
            let id = args.text(id_name)?.filter(|id| !id.is_empty());
            Ok(Some(Edge::at(with_id(key, kind, id))))
        };
        Ok(Self {
            limit,
            start: edge("start", "first_id")?,
            end: edge("end", "last_id")?,
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
        let (after, before) = match (self.start.clone(), self.end.clone()) {
            (None, None) => return Ok(0),
            _ if self.before.is_some() => return Ok(self.before.unwrap_or_default()),
            // The page is at the far side of its boundary: what is before it is on the other side.
            (start, end) if !self.is_backwards() => {
                let (start, end) = (start.as_ref(), end.as_ref());
                (end.map(Edge::other_side), start.map(Edge::other_side))
            }
            both => both,
        };
        Err(Span {
            after,
            before,
            limit: COUNTED,
            ..Span::default()
        })
    }

    /// What `count` counts of the rows of a span, up to its limit, and of all rows without edges. `n_read`: so many rows were
    /// found for the page. `is_narrow`: there is nothing but counting that says how many are searched for.
    pub(in crate::api) async fn counts<E, F: Future<Output = Result<i64, E>>>(
        &self,
        n_read: usize,
        is_narrow: bool,
        count: impl Fn(Span) -> F,
    ) -> Result<Counts, E> {
        if self.start.is_none() && self.end.is_none() && n_read <= self.n_rows() {
            // These are all.
            return Ok(Counts {
                total: n_read as i64,
                ..Counts::none()
            });
        }
        let total = count(Span::first(COUNTED)).await?;
        let before = match self.to_count() {
            Ok(before) => before,
            Err(span) => count(span).await?,
        };
        Ok(Counts {
            total,
            is_exact: !is_narrow || total < COUNTED,
            before,
        })
    }

    /// The page of `rows`, which [`span`](Self::span) asked for.
    pub(in crate::api) fn page<T>(&self, mut rows: Vec<T>) -> Page<'_, T> {
        if self.is_descending {
            rows.reverse();
        }
        let has_more = rows.len() > self.n_rows();
        if has_more && self.is_backwards() {
            rows.remove(0);
        } else {
            rows.truncate(self.n_rows());
        }
        Page {
            cut: self,
            rows,
            has_more,
        }
    }

    /// The answer with `rows`, which [`span`](Self::span) asked for.
    pub(in crate::api) fn answer<T>(
        &self,
        args: &Args,
        path: &str,
        rows: Vec<(Key, T)>,
        counts: &Counts,
        to_json: impl Fn(&T) -> Value,
    ) -> Answer {
        self.page(rows).answer(args, path, counts, to_json)
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

/// The rows of a page, in their order.
pub(in crate::api) struct Page<'c, T> {
    cut: &'c Cut,
    rows: Vec<T>,
    /// Whether there are rows on the side where the page ends.
    has_more: bool,
}

impl<T> Page<'_, T> {
    pub(in crate::api) fn rows(&self) -> &[T] {
        &self.rows
    }

    /// Leaves as many rows as fit an answer, at least one, by what `n_bytes` says of each.
    pub(in crate::api) fn narrow(&mut self, n_bytes: impl Fn(&T) -> usize) {
        let mut sum = 0_usize;
        let fits = |row: &&T| {
            let is_first = sum == 0;
            sum = sum.saturating_add(n_bytes(row).max(1));
            is_first || sum <= page::MAX_PAGE_BYTES
        };
        let n_rows = if self.cut.is_backwards() {
            self.rows.iter().rev().take_while(fits).count()
        } else {
            self.rows.iter().take_while(fits).count()
        };
        self.has_more |= n_rows < self.rows.len();
        if self.cut.is_backwards() {
            self.rows.drain(..self.rows.len() - n_rows);
        } else {
            self.rows.truncate(n_rows);
        }
    }

    /// Takes rows out that are no more.
    pub(in crate::api) fn retain(&mut self, is_there: impl FnMut(&T) -> bool) {
        self.rows.retain(is_there);
    }
}

impl<T> Page<'_, (Key, T)> {
    pub(in crate::api) fn answer(
        self,
        args: &Args,
        path: &str,
        counts: &Counts,
        to_json: impl Fn(&T) -> Value,
    ) -> Answer {
        let Self {
            cut,
            rows,
            has_more,
        } = self;
        let n_rows = rows.len();
        let (shown, data) = page::fitting(&rows, 0..n_rows, cut.is_backwards(), |(_, row)| {
            to_json(row)
        });
        let has_more = has_more || shown.len() < n_rows;
        let (before, after) = cut.around(counts, shown.len() as i64, has_more);
        let total = counts.total.max(before + shown.len() as i64 + after);
        let size = cut.limit.unwrap_or(0);
        let base = format!("{path}?limit={size}{}", args.of_the_list());
        let mut links = json!({"self": base});
        let rows = &rows[shown];
        let link = |name: &str, (key, _): &(Key, T), n_before: i64| {
            let boundary = page::encode(&key.to_string());
            json!(format!("{base}&{name}={boundary}&before={n_before}"))
        };
        if after > 0
            && let Some(row) = rows.last()
        {
            let name = if cut.is_descending { "end" } else { "start" };
            links["next"] = link(name, row, before + rows.len() as i64);
        }
        if before > 0 {
            links["first"] = json!(base);
            if let Some(row) = rows.first() {
                let name = if cut.is_descending { "start" } else { "end" };
                links["prev"] = link(name, row, before);
            }
        }
        Answer::Body(json!({
            "data": data,
            "links": links,
            "metadata": {"total": total, "before": before, "after": after, "page_size": size},
        }))
    }
}

/// Cuts a page out of rows that are all at hand. `key` gives a row's place in the list, its own and no other's.
pub(in crate::api) fn of_rows<T>(
    args: &Args,
    path: &str,
    rows: Vec<T>,
    (kind, key): (&Key, impl Fn(&T) -> Key),
    is_descending: bool,
    to_json: impl Fn(&T) -> Value,
) -> Result<Answer, ApiError> {
    let cut = Cut::of(args, kind, is_descending)?;
    let mut rows: Vec<(Key, T)> = rows.into_iter().map(|row| (key(&row), row)).collect();
    rows.sort_by(|(a, _), (b, _)| a.cmp(b));
    let before = match cut.to_count() {
        Ok(before) => before,
        Err(span) => rows.iter().filter(|(key, _)| span.has(key)).count() as i64,
    };
    let counts = Counts {
        total: rows.len() as i64,
        is_exact: true,
        before,
    };
    let span = cut.span();
    rows.retain(|(key, _)| span.has(key));
    span.cut(&mut rows);
    Ok(cut.answer(args, path, rows, &counts, to_json))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// What the store would answer, of rows in ascending order.
    fn rows_of(all: &[String], span: &Span) -> Vec<(Key, String)> {
        let keyed = all.iter().map(|row| (Key::of(row), row.clone()));
        let mut inside: Vec<_> = keyed.filter(|(key, _)| span.has(key)).collect();
        span.cut(&mut inside);
        inside
    }

    fn ask(all: &[String], link: &str) -> Value {
        let args = Args::from_query(link.split_once('?').unwrap().1);
        let cut = Cut::of(&args, &Key::texts(1), link.contains("sort=down")).unwrap();
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
        match cut.answer(&args, "/p", rows, &counts, |row| json!(row)) {
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

    /// Source: docs/reference/rest.md § 0.6: a client may make a boundary of the value of a row, and its id.
    #[test]
    fn a_boundary_may_be_a_value_and_an_id_that_stands_beside_it() {
        let key = |kind: &Key, query: &str| {
            let cut = Cut::of(&Args::from_query(query), kind, false).unwrap();
            cut.start.or(cut.end).map(|edge| edge.key)
        };
        let id = "t::A%5Bhost,name=x%5D";
        let two = Key(vec![Part::text("host"), Part::text("t::A[host,name=x]")]);
        for version in ["", ",v=3"] {
            let query = format!("start=host&first_id={id}{version}");
            assert_eq!(key(&Key::texts(2), &query), Some(two.clone()));
            let query = format!("end=host&last_id={id}{version}");
            assert_eq!(key(&Key::texts(2), &query), Some(two.clone()));
            // The list that is sorted by the type is in the order of the ids.
            let query = format!("start=t::A&first_id={id}{version}");
            let one = Key::of("t::A[host,name=x]");
            assert_eq!(key(&Key::texts(1), &query), Some(one));
        }
        assert_eq!(
            key(&Key::texts(1), "start=a&first_id=b"),
            Some(Key::of("a"))
        );
        let moment = "2026-11-21T02:56:06.000000%2B00:00";
        let of_a_moment = key(&Key::moment_and_id(), &format!("start={moment}&first_id=7"));
        assert_eq!(of_a_moment.unwrap().0[1], Part::text("7"));
        // A link's boundary has the id already.
        let query = "start=host%01y&first_id=x";
        let linked = Key(vec![Part::text("host"), Part::text("y")]);
        assert_eq!(key(&Key::texts(2), query), Some(linked));
    }

    #[test]
    fn a_list_is_not_cut_on_both_sides_nor_at_what_is_no_value() {
        let is_refused =
            |query: &str| Cut::of(&Args::from_query(query), &Key::texts(1), false).is_err();
        for both in ["start=a&end=b", "start=a&last_id=b", "first_id=a&end=b"] {
            assert!(is_refused(both), "{both}");
        }
        assert!(!is_refused("start=a&first_id=b") && is_refused("limit=1001"));
        let refused =
            |query: &str| Cut::of(&Args::from_query(query), &Key::moment_and_id(), false).is_err();
        assert!(refused("start=a") && !refused("start=2026-11-22T10:00:00"));
    }
}

#[cfg(test)]
mod tests_of_rows {
    use serde_json::{Value, json};

    use super::of_rows;
    use crate::api::Answer;
    use crate::api::http::args::Args;
    use crate::store::{Key, Part};

    fn page(
        args: &Args,
        rows: Vec<i64>,
        is_descending: bool,
        shape: impl Fn(&i64) -> Value,
    ) -> Value {
        let key = |n: &i64| Key(vec![Part::Number(*n)]);
        match of_rows(args, "/p", rows, (&key(&0), key), is_descending, shape) {
            Ok(Answer::Body(body)) => body,
            _ => unreachable!(),
        }
    }

    fn pages(n_rows: i64, limit: usize, is_descending: bool) -> (Vec<Value>, Vec<Value>) {
        let mut rows: Vec<i64> = (0..n_rows).collect();
        if is_descending {
            rows.reverse();
        }
        let ask = |link: &str| {
            let args = Args::from_query(link.split_once('?').unwrap().1);
            page(&args, rows.clone(), is_descending, |n| json!(n))
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
        let page = page(&args, vec![1, 2, 3], false, |n| json!(n));
        let kept = "/p?limit=1&filter.agent=a%20b&filter.status=x&filter.status=y";
        assert_eq!(page["links"]["self"], kept);
        assert_eq!(page["links"]["next"], format!("{kept}&start=1&before=1"));
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
                page(&args, rows.clone(), is_descending, |n| json!([n, big]))
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
        let key = |(text, index): &(&str, u32)| {
            Key(vec![Part::text(*text), Part::Number((*index).into())])
        };
        let kind = key(&("", 0));
        let answer = of_rows(&args, "/p", rows, (&kind, key), is_descending, |row| {
            json!(row.1)
        });
        match answer {
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
