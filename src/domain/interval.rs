//! How often: seconds, or a cron expression. Source: docs/reference/deployment.md § 1.5 "Integer or cron".

use std::str::FromStr;
use std::time::Duration;

use super::Timestamp;

/// When something is due again.
#[derive(Debug, Clone)]
pub enum Interval {
    Never,
    /// Per resource, from the end of its last run.
    Every(Duration),
    /// It is due for the whole environment at once, at these times in UTC.
    Cron(Box<cron::Schedule>),
}

#[derive(Debug, thiserror::Error)]
#[error("`{text}` is neither a number of seconds nor a cron expression of 5 to 7 fields: {reason}")]
pub struct IntervalError {
    text: String,
    reason: String,
}

/// A century: what is longer never comes, and would overflow sums.
const LONGEST_SECONDS: u64 = 100 * 366 * 24 * 3600;

impl Interval {
    pub fn parse(text: &str) -> Result<Self, IntervalError> {
        let text = text.trim();
        let refuse = |reason: &str| IntervalError {
            text: text.to_owned(),
            reason: reason.to_owned(),
        };
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return match text.parse::<u64>() {
                Ok(0) => Ok(Self::Never),
                Ok(seconds) if seconds <= LONGEST_SECONDS => {
                    Ok(Self::Every(Duration::from_secs(seconds)))
                }
                _ => Err(refuse("more than a hundred years")),
            };
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        // 5: minute to weekday; 6: a year behind; 7: a second in front and a year behind.
        let (second, body, year) = match fields.as_slice() {
            body if body.len() == 5 => ("0", body, "*"),
            [body @ .., year] if body.len() == 5 => ("0", body, *year),
            [second, body @ .., year] if body.len() == 5 => (*second, body, *year),
            _ => return Err(refuse("wrong number of fields")),
        };
        let weekday = posix_weekdays(body[4])
            .ok_or_else(|| refuse("weekdays go from 0 (Sunday) to 7 (Sunday)"))?;
        let expression = format!("{second} {} {weekday} {year}", body[..4].join(" "));
        let schedule =
            cron::Schedule::from_str(&expression).map_err(|error| refuse(&error.to_string()))?;
        let interval = Self::Cron(Box::new(schedule));
        match interval.next_cron(Timestamp::now()) {
            Some(_) => Ok(interval),
            None => Err(refuse("it never comes")),
        }
    }

    /// The length between two runs of one resource, if this is one.
    pub fn every(&self) -> Option<Duration> {
        match self {
            Self::Every(duration) => Some(*duration),
            Self::Never | Self::Cron(_) => None,
        }
    }

    /// The cron expression with all its fields, if this is one.
    pub fn cron_expression(&self) -> Option<&str> {
        match self {
            Self::Cron(schedule) => Some(schedule.source()),
            Self::Never | Self::Every(_) => None,
        }
    }

    /// The next moment of a cron expression after `now`.
    pub fn next_cron(&self, now: Timestamp) -> Option<Timestamp> {
        let Self::Cron(schedule) = self else {
            return None;
        };
        let after = chrono::DateTime::from_timestamp_micros(now.0)?;
        schedule
            .after(&after)
            .next()
            .map(|next| Timestamp(next.timestamp_micros()))
    }
}

/// The cron crate counts weekdays from 1 = Sunday; people and POSIX from 0 or 7 = Sunday.
fn posix_weekdays(field: &str) -> Option<String> {
    const NAMES: [&str; 8] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"];
    let mut out = String::new();
    let mut digits = String::new();
    let mut after_slash = false;
    for character in field.chars().chain(std::iter::once(' ')) {
        if character.is_ascii_digit() {
            digits.push(character);
            continue;
        }
        if !digits.is_empty() {
            if after_slash {
                out.push_str(&digits);
            } else {
                out.push_str(NAMES.get(digits.parse::<usize>().ok()?)?);
            }
            digits.clear();
        }
        after_slash = character == '/';
        if character != ' ' {
            out.push(character);
        }
    }
    // `MON-SUN` is empty for the crate, whose week begins on Sunday.
    Some(if out == "MON-SUN" || out == "SUN-SUN" {
        "*".to_owned()
    } else {
        out
    })
}

#[cfg(test)]
mod tests {
    use super::{Interval, Timestamp};
    use std::time::Duration;

    fn next(text: &str, now: &str) -> String {
        let interval = Interval::parse(text).expect(text);
        interval
            .next_cron(Timestamp::parse(now).expect(now))
            .expect("a next run")
            .to_string()
    }

    #[test]
    fn seconds_and_zero() {
        assert!(matches!(Interval::parse("0"), Ok(Interval::Never)));
        assert_eq!(
            Interval::parse(" 300 ").expect("seconds").every(),
            Some(Duration::from_secs(300))
        );
    }

    #[test]
    fn five_fields_mean_what_posix_says() {
        // 2026-11-21 is a Saturday.
        assert_eq!(
            next("30 4 * * 1-5", "2026-11-21T00:00:00Z"),
            "2026-11-23T04:30:00.000000+00:00"
        );
        assert_eq!(
            next("0 0 * * 0", "2026-11-21T00:00:00Z"),
            "2026-11-22T00:00:00.000000+00:00"
        );
        assert_eq!(
            next("0 0 * * 7", "2026-11-21T00:00:00Z"),
            "2026-11-22T00:00:00.000000+00:00"
        );
    }

    #[test]
    fn seven_fields_have_seconds_and_a_year() {
        assert_eq!(
            next("*/3 * * * * * *", "2026-11-21T00:00:01Z"),
            "2026-11-21T00:00:03.000000+00:00"
        );
        assert_eq!(
            next("0 0 1 1 * 2030", "2026-11-21T00:00:01Z"),
            "2030-01-01T00:00:00.000000+00:00"
        );
    }

    //: deploy 5
    /// Input: cron expressions that never come, or have too few, too many or impossible fields (docs/reference/security.md § 3.32). Answer: they are refused with a reason.
    #[test]
    fn nonsense_is_refused_with_a_reason() {
        for text in [
            "",
            "soon",
            "-1",
            "1.5",
            "* * * *",
            "0 0 31 2 *",
            "0 0 * * 9",
            "99999999999999999999",
            "0 0 * * * * * *",
        ] {
            assert!(Interval::parse(text).is_err(), "{text}");
        }
    }
}
