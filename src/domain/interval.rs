//! How often: seconds, or a cron expression. Source: docs/reference/deployment.md § 1.5 "Integer or cron".

use std::time::Duration;

use super::Timestamp;
use super::cron::Cron;

/// When something is due again.
#[derive(Debug, Clone)]
pub enum Interval {
    Never,
    /// Per resource, from the end of its last run.
    Every(Duration),
    /// It is due for the whole environment at once, at these times in UTC.
    Cron(Box<Cron>),
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
        let cron = Cron::parse(text).map_err(|reason| refuse(&reason))?;
        // One that is past is no mistake: it was right when it was written, and is due no more.
        match cron.next(Timestamp(0)) {
            Some(_) => Ok(Self::Cron(Box::new(cron))),
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

    /// The cron expression as it was written, if this is one.
    pub fn cron_expression(&self) -> Option<&str> {
        match self {
            Self::Cron(cron) => Some(cron.source()),
            Self::Never | Self::Every(_) => None,
        }
    }

    /// The next moment of a cron expression after `now`; `None`: it is none, or never comes again.
    pub fn next_cron(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Cron(cron) => cron.next(now),
            Self::Never | Self::Every(_) => None,
        }
    }
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
