//! Time as the store and the wire write it.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime};

/// A moment: microseconds since 1970 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The one place that reads the clock; what decides takes a `now`.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that everyone else asks"
    )]
    pub fn now() -> Self {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Self(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    /// How long after `earlier` this is; zero when the clock went back.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    pub fn plus(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)),
        )
    }

    /// ISO 8601 in any of the forms of docs/reference/rest.md § 0.8: any single separator, naive is UTC, a day is its beginning.
    pub fn parse(text: &str) -> Option<Self> {
        let mut text = text.trim().to_owned();
        if text.is_ascii() && text.len() > 10 && !matches!(text.as_bytes()[10], b'T' | b't') {
            text.replace_range(10..11, "T");
        }
        let zoned = DateTime::parse_from_rfc3339(&text)
            .or_else(|_| DateTime::parse_from_rfc3339(&format!("{text}Z")))
            .or_else(|_| DateTime::parse_from_str(&text, "%Y-%m-%dT%H:%M:%S%.f%#z"))
            .or_else(|_| DateTime::parse_from_str(&text, "%Y-%m-%dT%H:%M%#z"));
        if let Ok(moment) = zoned {
            return Some(Self(moment.timestamp_micros()));
        }
        let naive = match text.len() {
            10 => {
                NaiveDate::parse_from_str(&text, "%Y-%m-%d").map(|day| day.and_time(NaiveTime::MIN))
            }
            _ => NaiveDateTime::parse_from_str(&text, "%Y-%m-%dT%H:%M"),
        };
        Some(Self(naive.ok()?.and_utc().timestamp_micros()))
    }
}

impl Timestamp {
    /// `2026-11-21 02:56:06 UTC`, in sentences.
    pub fn for_people(self) -> String {
        let moment =
            DateTime::from_timestamp_micros(self.0).unwrap_or(DateTime::<chrono::Utc>::MAX_UTC);
        moment.format("%Y-%m-%d %H:%M:%S UTC").to_string()
    }
}

impl fmt::Display for Timestamp {
    /// `2026-11-21T02:56:06.725280+00:00`, as docs/reference/rest.md § 0.8 wants it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment =
            DateTime::from_timestamp_micros(self.0).unwrap_or(DateTime::<chrono::Utc>::MAX_UTC);
        write!(f, "{}", moment.format("%Y-%m-%dT%H:%M:%S%.6f+00:00"))
    }
}

#[cfg(test)]
mod tests {
    use super::Timestamp;

    #[test]
    fn a_timestamp_is_read_back_in_every_form_that_clients_send() {
        let timestamp = Timestamp(1_763_693_766_725_280);
        assert_eq!(timestamp.to_string(), "2025-11-21T02:56:06.725280+00:00");
        assert_eq!(Timestamp::parse(&timestamp.to_string()), Some(timestamp));
        assert_eq!(
            Timestamp::parse("2025-11-21+02:56:06.725280"),
            Some(timestamp)
        );
        assert_eq!(
            Timestamp::parse("2025-11-21 02:56:06.725280Z"),
            Some(timestamp)
        );
        for (text, same) in [
            ("2025-11-21", "2025-11-21T00:00:00Z"),
            ("2025-11-21T02:56", "2025-11-21T02:56:00Z"),
            ("2025-11-21 02:56+0100", "2025-11-21T01:56:00Z"),
            ("2025-11-21T02:56:06.5+01", "2025-11-21T01:56:06.5Z"),
        ] {
            assert!(Timestamp::parse(same).is_some(), "{same}");
            assert_eq!(Timestamp::parse(text), Timestamp::parse(same), "{text}");
        }
        for bad in [
            "yesterday",
            "2025-11-21é02:56",
            "2025-13-01",
            "1-1-1",
            "2025",
            "",
            "99999999999999999999",
        ] {
            assert_eq!(Timestamp::parse(bad), None, "{bad}");
        }
    }
}
