//! Pages of lists. Source: rest-api.md 0.6.
//!
//! Lists are cut from what the store gives in one fixed order by a unique key; a boundary is a key.

use serde_json::{Value, json};

use super::Answer;
use super::args::Args;
use super::error::ApiError;

/// Cuts a page out of `rows`, which are in the order of the page. `key` gives the text of a row's sort value.
pub(super) fn page<T>(
    args: &Args,
    path: &str,
    rows: Vec<T>,
    key: impl Fn(&T) -> String,
    is_descending: bool,
    to_json: impl Fn(&T) -> Value,
) -> Result<Answer, ApiError> {
    let limit = args.parsed::<usize>("limit")?.unwrap_or(1000);
    if limit > 1000 {
        return Err(ApiError::bad_request("limit may be at most 1000"));
    }
    let limit = if limit == 0 { usize::MAX } else { limit };
    let (start, end) = (args.text("start")?, args.text("end")?);
    let total = rows.len();
    let position = |boundary: &str| rows.iter().position(|row| key(row) == boundary);
    // `start` keeps what is greater, `end` what is smaller, whatever the order of the page.
    let (first, is_backwards) = match (start, end) {
        (Some(_), Some(_)) => {
            return Err(ApiError::bad_request("start and end exclude each other"));
        }
        (None, None) => (0, false),
        (Some(boundary), None) | (None, Some(boundary)) => {
            let is_start = args.text("start")?.is_some();
            let at = position(&boundary)
                .ok_or_else(|| ApiError::bad_request("the page boundary is not in the list"))?;
            if is_start == is_descending {
                (at.saturating_sub(limit), true)
            } else {
                (at + 1, false)
            }
        }
    };
    let last = if is_backwards {
        let boundary = args
            .text("start")?
            .or(args.text("end")?)
            .unwrap_or_default();
        position(&boundary).unwrap_or(first)
    } else {
        first.saturating_add(limit).min(total)
    };
    let rows_of_page = &rows[first.min(last)..last];
    let (before, after) = (first.min(total), total - last);
    let encode = |text: &str| {
        percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
    };
    let size = if limit == usize::MAX { 0 } else { limit };
    let base = format!("{path}?limit={size}");
    let mut links = json!({"self": base});
    if after > 0
        && let Some(row) = rows_of_page.last()
    {
        let name = if is_descending { "end" } else { "start" };
        links["next"] = json!(format!("{base}&{name}={}", encode(&key(row))));
    }
    if before > 0 {
        links["first"] = json!(base);
        if let Some(row) = rows_of_page.first() {
            let name = if is_descending { "start" } else { "end" };
            links["prev"] = json!(format!("{base}&{name}={}", encode(&key(row))));
        }
    }
    Ok(Answer::Whole(json!({
        "data": rows_of_page.iter().map(to_json).collect::<Vec<_>>(),
        "links": links,
        "metadata": {"total": total, "before": before, "after": after, "page_size": size},
    })))
}

#[cfg(test)]
mod tests {
    use super::super::Answer;
    use super::super::args::Args;
    use super::page;
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
                |n| n.to_string(),
                is_descending,
                |n| json!(n),
            )
            .unwrap()
            {
                Answer::Whole(whole) => whole,
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
}
