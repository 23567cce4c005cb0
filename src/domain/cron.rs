//! Cron expressions as the reference takes them. Source: docs/reference/deployment.md § 1.5 "Seconds or cron".
//!
//! The crate `cron` finds the moments. What it does not know is made of what it knows here: weekdays that are counted from 0
//! (Sunday) to 7 (Sunday again), names such as `@daily`, and `L`, the last day of a month, or the last of its Fridays (`L5`).
//! Such an expression has several [`Part`]s, and is due whenever one of them is.

use std::str::FromStr;

use chrono::{DateTime, Datelike, Days, NaiveDate, NaiveTime, Utc};

use super::Timestamp;

/// A cron expression, in UTC.
#[derive(Debug, Clone)]
pub struct Cron {
    /// With blanks and names as they were written.
    source: String,
    parts: Vec<Part>,
}

/// Moments of a schedule, on some of its days.
#[derive(Debug, Clone)]
struct Part {
    schedule: cron::Schedule,
    /// Only the last day of a month.
    is_last_day: bool,
    /// Only the last seven days of a month: on one weekday, its last one.
    is_last_week: bool,
}

/// The names that the reference knows.
const NAMES: [(&str, &str); 6] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Weekdays from 0 on; the crate counts them from 1.
const WEEKDAYS: [[&str; 2]; 7] = [
    ["sun", "sunday"],
    ["mon", "monday"],
    ["tue", "tuesday"],
    ["wed", "wednesday"],
    ["thu", "thursday"],
    ["fri", "friday"],
    ["sat", "saturday"],
];

impl Cron {
    /// Reads an expression of 5 to 7 fields, or a name.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let lower = text.to_lowercase();
        let named = NAMES.iter().find(|(name, _)| *name == lower);
        let expression = named.map_or(lower.as_str(), |(_, expression)| *expression);
        let fields: Vec<&str> = expression.split_whitespace().collect();
        // 5: minute to weekday; 6: a year behind; 7: a second in front and a year behind.
        let (second, body, year) = match fields.as_slice() {
            body if body.len() == 5 => ("0", body, "*"),
            [body @ .., year] if body.len() == 5 => ("0", body, *year),
            [second, body @ .., year] if body.len() == 5 => (*second, body, *year),
            _ => return Err("wrong number of fields".to_owned()),
        };
        let &[minute, hour, day, month, weekday] = body else {
            return Err("wrong number of fields".to_owned());
        };
        let mut parts = Vec::new();
        for (days, is_last_day) in days(day) {
            for (weekdays, is_last_week) in weekdays(weekday)? {
                let expression =
                    format!("{second} {minute} {hour} {days} {month} {weekdays} {year}");
                let schedule = cron::Schedule::from_str(&expression);
                parts.push(Part {
                    schedule: schedule.map_err(|error| error.to_string())?,
                    is_last_day,
                    is_last_week,
                });
            }
        }
        let source = text.to_owned();
        Ok(Self { source, parts })
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    /// The next moment after `now`; `None`: it never comes again.
    pub fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let now = DateTime::from_timestamp_micros(now.0)?;
        let next = self.parts.iter().filter_map(|part| part.next(now)).min()?;
        Some(Timestamp(next.timestamp_micros()))
    }
}

impl Part {
    fn next(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let mut after = now;
        loop {
            let next = self.schedule.after(&after).next()?;
            let date = next.date_naive();
            if self.has(date) {
                return Some(next);
            }
            // Nothing of that day counts: on with the day behind it, from its first moment on.
            let midnight = date.checked_add_days(Days::new(1))?;
            let midnight = midnight.and_time(NaiveTime::MIN).and_utc();
            after = midnight - chrono::TimeDelta::microseconds(1);
        }
    }

    fn has(&self, date: NaiveDate) -> bool {
        let is_last_of = |n_days| {
            let later = date.checked_add_days(Days::new(n_days));
            later.is_none_or(|later| later.month() != date.month())
        };
        (!self.is_last_day || is_last_of(1)) && (!self.is_last_week || is_last_of(7))
    }
}

/// The field of days in what the crate reads, each with whether the last day of the month is meant.
fn days(field: &str) -> Vec<(String, bool)> {
    let (last, others): (Vec<&str>, Vec<&str>) = field.split(',').partition(|day| *day == "l");
    let mut all = Vec::new();
    if !others.is_empty() {
        all.push((others.join(","), false));
    }
    if !last.is_empty() {
        all.push(("28-31".to_owned(), true));
    }
    all
}

/// The field of weekdays in what the crate reads, each with whether the last of them in the month is meant.
fn weekdays(field: &str) -> Result<Vec<(String, bool)>, String> {
    if matches!(field, "*" | "?") {
        // As it was written, for whoever reads what is wrong with another field.
        return Ok(vec![(field.to_owned(), false)]);
    }
    let mut numbers: Vec<u32> = Vec::new();
    let mut all = Vec::new();
    for item in field.split(',') {
        match item.strip_prefix('l') {
            Some(last) => all.push(((weekday(last)? % 7 + 1).to_string(), true)),
            None => numbers.extend(weekdays_of(item)?),
        }
    }
    if !numbers.is_empty() {
        let numbers: Vec<String> = numbers
            .iter()
            .map(|day| (day % 7 + 1).to_string())
            .collect();
        all.push((numbers.join(","), false));
    }
    Ok(all)
}

/// The weekdays of `*`, `2`, `mon-fri`, `*/2` or `1-5/2`; 7 is a Sunday.
fn weekdays_of(item: &str) -> Result<Vec<u32>, String> {
    let (range, step) = match item.split_once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (item, None),
    };
    let (first, last) = match range.split_once('-') {
        Some((first, last)) => {
            let (first, last) = (weekday(first)?, weekday(last)?);
            // A week that is written to its end ends with a Sunday.
            let last = if last == 0 && first > 0 { 7 } else { last };
            (first, last)
        }
        None if matches!(range, "*" | "?") => (0, 6),
        // With a step it goes on to the end of the week.
        None if step.is_some() => (weekday(range)?, 6),
        None => (weekday(range)?, weekday(range)?),
    };
    if first > last {
        return Err(format!(
            "the range of weekdays {range} ends before it begins"
        ));
    }
    let step = match step.map(str::parse::<usize>) {
        None => 1,
        Some(Ok(step)) if (1..=7).contains(&step) => step,
        Some(_) => return Err(format!("the step of the weekdays {item} is none")),
    };
    Ok((first..=last).step_by(step).collect())
}

/// A weekday by its number or name.
fn weekday(text: &str) -> Result<u32, String> {
    let named = WEEKDAYS.iter().position(|names| names.contains(&text));
    let number = named.map_or_else(|| text.parse::<u32>().ok(), |day| Some(day as u32));
    number
        .filter(|day| *day <= 7)
        .ok_or_else(|| "weekdays go from 0 (Sunday) to 7 (Sunday)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Cron, Timestamp};

    /// The days, as `MM-DD`, and the time of the first moments after the beginning of 2026, a Thursday.
    fn moments(text: &str) -> String {
        let cron = Cron::parse(text).expect(text);
        let mut now = Timestamp::parse("2026-01-01T00:00:30Z").expect("a moment");
        let mut all = Vec::new();
        for _ in 0..4 {
            let Some(next) = cron.next(now) else { break };
            now = next;
            all.push(next.to_string()[5..19].replace('T', " "));
        }
        let times: Vec<&str> = all.iter().map(|moment| &moment[6..]).collect();
        match times.as_slice() {
            [first, others @ ..] if others.iter().all(|time| time == first) => {
                let days: Vec<&str> = all.iter().map(|moment| &moment[..5]).collect();
                format!("{} {first}", days.join(" "))
            }
            _ => all.join(", "),
        }
    }

    //: deploy 5
    /// Given: what the reference takes. Expected: the moments at which it is due there.
    #[test]
    fn expressions_are_due_when_they_are_in_the_reference() {
        for (text, expected) in [
            ("0 3 * * 6-7", "01-03 01-04 01-10 01-11 03:00:00"),
            ("0 3 * * 5-7", "01-02 01-03 01-04 01-09 03:00:00"),
            ("0 3 * * 0-2", "01-04 01-05 01-06 01-11 03:00:00"),
            ("0 3 * * 1-7/2", "01-02 01-04 01-05 01-07 03:00:00"),
            ("0 3 * * 1-5/2", "01-02 01-05 01-07 01-09 03:00:00"),
            ("0 3 * * 5/1", "01-02 01-03 01-09 01-10 03:00:00"),
            ("0 3 * * */2", "01-01 01-03 01-04 01-06 03:00:00"),
            ("0 3 * * 0-7", "01-01 01-02 01-03 01-04 03:00:00"),
            ("0 3 * * SUN-TUE", "01-04 01-05 01-06 01-11 03:00:00"),
            ("0 3 ? * mon", "01-05 01-12 01-19 01-26 03:00:00"),
            ("0 3 13 * 5", "02-13 03-13 11-13 08-13 03:00:00"),
            ("0 3 L * *", "01-31 02-28 03-31 04-30 03:00:00"),
            ("0 3 1,L * *", "01-01 01-31 02-01 02-28 03:00:00"),
            ("0 3 * * L5", "01-30 02-27 03-27 04-24 03:00:00"),
            ("0 3 * * 1,L5", "01-05 01-12 01-19 01-26 03:00:00"),
            ("0 3 1 * ?", "01-01 02-01 03-01 04-01 03:00:00"),
            (
                "@hourly",
                "01-01 01:00:00, 01-01 02:00:00, 01-01 03:00:00, 01-01 04:00:00",
            ),
            ("@daily", "01-02 01-03 01-04 01-05 00:00:00"),
            ("@Weekly", "01-04 01-11 01-18 01-25 00:00:00"),
            ("@monthly", "02-01 03-01 04-01 05-01 00:00:00"),
            ("@yearly", "01-01 01-01 01-01 01-01 00:00:00"),
            ("0 0 2 1 * 2026-2027", "01-02 01-02 00:00:00"),
            ("0 0 1 1 * 2026", ""),
        ] {
            assert_eq!(moments(text), expected, "{text}");
        }
    }

    #[test]
    fn weekdays_that_there_are_not_are_refused() {
        for text in [
            "0 3 * * 8",
            "0 3 * * 6-1",
            "0 3 * * fr",
            "0 3 * * 1/0",
            "0 3 * * 1/x",
            "0 3 * * L",
            "0 3 * * ,1",
            "0 3 15W * *",
            "@midnight",
        ] {
            assert!(Cron::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_last_day_is_found_at_once_also_where_every_second_counts() {
        let cron = Cron::parse("* * * L 2 * *").expect("every second of a day");
        let now = Timestamp::parse("2026-03-01T00:00:00Z").expect("a moment");
        let next = cron.next(now).expect("a moment").to_string();
        assert_eq!(next, "2027-02-28T00:00:00.000000+00:00");
    }
}
