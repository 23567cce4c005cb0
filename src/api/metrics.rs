//! Metrics of an environment over time. Source: docs/reference/deployment.md § 7.2, docs/reference/rest.md § 1.12.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, SecondsFormat};
use serde_json::{Value, json};

use crate::api::Answer;
use crate::api::environments::scope;
use crate::api::http::args::Args;
use crate::api::http::error::ApiError;
use crate::api::routes::routes;
use crate::app::App;
use crate::domain::Timestamp;
use crate::metrics::{
    AGENT_COUNT, COMPILE_RATE, COMPILE_TIME, COMPILE_WAITING_TIME, RESOURCE_COUNT, SERVICE_COUNT,
    SERVICE_INSTANCE_COUNT,
};
use crate::store::Measurement;

routes! {
    Get "/api/v2/metrics" Environment "what was measured over time" => Query metrics();
}

const MINUTE_US: i64 = 60_000_000;
const HOUR_US: i64 = 60 * MINUTE_US;
/// Points of one answer: a year of hours has fewer.
const MAX_POINTS: i64 = 10_000;

/// How the values of a metric become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The average of each category.
    Gauge,
    /// The average of the only category.
    Count,
    /// Seconds, the average of what was timed.
    Timer,
    /// How many there were an hour.
    Rate,
}

/// The metrics that there are: how they are asked for, how they are stored, and what becomes of the values.
const KNOWN: [(&str, &str, Kind); 7] = [
    (COMPILE_TIME, COMPILE_TIME, Kind::Timer),
    (COMPILE_WAITING_TIME, COMPILE_WAITING_TIME, Kind::Timer),
    (COMPILE_RATE, COMPILE_TIME, Kind::Rate),
    (AGENT_COUNT, AGENT_COUNT, Kind::Gauge),
    (RESOURCE_COUNT, RESOURCE_COUNT, Kind::Gauge),
    (SERVICE_COUNT, SERVICE_COUNT, Kind::Count),
    (SERVICE_INSTANCE_COUNT, SERVICE_INSTANCE_COUNT, Kind::Gauge),
];

/// The span that is asked for: its points are windows of equal length, each stamped with its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Windows {
    start_us: i64,
    end_us: i64,
    n_points: i64,
}

impl Windows {
    /// # Errors
    /// A span without minutes enough for its points.
    fn new(
        start: Timestamp,
        end: Timestamp,
        n_points: i64,
        is_rounded: bool,
    ) -> Result<Self, ApiError> {
        let refuse = |message: &str| Err(ApiError::bad_request(message));
        if start >= end {
            return refuse("start_interval must be earlier than end_interval");
        }
        if !(1..=MAX_POINTS).contains(&n_points) {
            return refuse("nb_datapoints must be from 1 to 10000");
        }
        let asked = Self {
            start_us: start.0,
            end_us: end.0,
            n_points,
        };
        if asked.end_us - asked.start_us < n_points.saturating_mul(MINUTE_US) {
            return refuse("there must be at least a minute for each data point");
        }
        if !is_rounded {
            return Ok(asked);
        }
        if asked.end_us - asked.start_us < n_points.saturating_mul(HOUR_US) {
            return refuse(
                "with round_timestamps there must be at least an hour for each data point",
            );
        }
        Ok(asked.widened())
    }

    /// To full hours, each window a whole number of them: the number of points changes when they do not fit.
    fn widened(self) -> Self {
        let start_us = self.start_us.div_euclid(HOUR_US) * HOUR_US;
        let end_us = self.end_us + (-self.end_us).rem_euclid(HOUR_US);
        let n_hours = (end_us - start_us) / HOUR_US;
        let hours_of_one = (n_hours / self.n_points).max(1);
        let n_points = (n_hours + hours_of_one - 1) / hours_of_one;
        Self {
            start_us: end_us - n_points * hours_of_one * HOUR_US,
            end_us,
            n_points,
        }
    }

    /// The end of a window.
    fn end_of(&self, window: i64) -> i64 {
        let length = i128::from(self.end_us - self.start_us);
        let part = length * i128::from(window + 1) / i128::from(self.n_points);
        self.start_us + i64::try_from(part).unwrap_or_default()
    }

    fn hours_of_one(&self) -> f64 {
        (self.end_us - self.start_us) as f64 / self.n_points as f64 / HOUR_US as f64
    }
}

/// What of one window is shown.
fn point(kind: Kind, measured: &[&Measurement], hours: f64) -> Value {
    let n_values: i64 = measured.iter().map(|one| one.n_values).sum();
    match kind {
        Kind::Rate => json!(n_values as f64 / hours),
        _ if measured.is_empty() || n_values == 0 => Value::Null,
        Kind::Timer => {
            let total_us: i64 = measured.iter().map(|one| one.total).sum();
            json!(total_us as f64 / 1e6 / n_values as f64)
        }
        Kind::Count => {
            let total: i64 = measured.iter().map(|one| one.total).sum();
            json!(total as f64 / n_values as f64)
        }
        Kind::Gauge => {
            let minutes: BTreeSet<Timestamp> = measured.iter().map(|one| one.minute).collect();
            let mut totals: BTreeMap<&str, i64> = BTreeMap::new();
            for one in measured {
                *totals.entry(&one.category).or_default() += one.total;
            }
            let average = |total: i64| total as f64 / minutes.len() as f64;
            let totals = totals.into_iter();
            json!(
                totals
                    .map(|(category, total)| (category, average(total)))
                    .collect::<BTreeMap<_, _>>()
            )
        }
    }
}

/// A moment of the answer, in milliseconds.
fn shown(moment_us: i64) -> Value {
    let moment = DateTime::from_timestamp_micros(moment_us).unwrap_or_default();
    json!(moment.to_rfc3339_opts(SecondsFormat::Millis, true))
}

async fn metrics(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let moment = |name: &str| {
        let text = args.required(name)?;
        let read = Timestamp::parse(&text);
        read.ok_or_else(|| ApiError::bad_request(format!("Field '{name}' is no moment: `{text}`")))
    };
    let n_points = args.parsed::<i64>("nb_datapoints")?;
    let n_points =
        n_points.ok_or_else(|| ApiError::bad_request("Field 'nb_datapoints' is required"))?;
    let windows = Windows::new(
        moment("start_interval")?,
        moment("end_interval")?,
        n_points,
        args.flag("round_timestamps", false)?,
    )?;
    let names: BTreeSet<String> = args
        .list("metrics")?
        .unwrap_or_default()
        .into_iter()
        .collect();
    if names.is_empty() {
        return Err(ApiError::bad_request(
            "Field 'metrics' must name at least one metric",
        ));
    }
    let mut found = BTreeMap::new();
    for name in names {
        let known = KNOWN.iter().find(|(known, ..)| *known == name);
        let Some((_, stored, kind)) = known else {
            let all: Vec<&str> = KNOWN.iter().map(|(name, ..)| *name).collect();
            return Err(ApiError::bad_request(format!(
                "there is no metric `{name}`; there are {}",
                all.join(", ")
            )));
        };
        let (from, to) = (Timestamp(windows.start_us), Timestamp(windows.end_us));
        let measured = app.store.metrics_of(environment, stored, from, to).await?;
        let mut rest = measured.as_slice();
        let points = (0..windows.n_points).map(|window| {
            let end = windows.end_of(window);
            let (own, later) = rest.split_at(rest.partition_point(|one| one.minute.0 < end));
            rest = later;
            point(
                *kind,
                &own.iter().collect::<Vec<_>>(),
                windows.hours_of_one(),
            )
        });
        found.insert(name, Value::Array(points.collect()));
    }
    let ends = (0..windows.n_points).map(|window| shown(windows.end_of(window)));
    Ok(Answer::Data(json!({
        "start": shown(windows.start_us),
        "end": shown(windows.end_us),
        "timestamps": ends.collect::<Vec<_>>(),
        "metrics": found,
    })))
}

#[cfg(test)]
mod tests {
    use super::{HOUR_US, Kind, MINUTE_US, Windows, point};
    use crate::domain::Timestamp;
    use crate::store::Measurement;
    use serde_json::json;

    fn measured(category: &str, minute: i64, n_values: i64, total: i64) -> Measurement {
        Measurement {
            name: "m".to_owned(),
            category: category.to_owned(),
            minute: Timestamp(minute * MINUTE_US),
            n_values,
            total,
        }
    }

    #[test]
    fn values_of_a_window_become_one_by_their_kind() {
        let gauge = [
            measured("up", 1, 1, 4),
            measured("up", 2, 1, 2),
            measured("down", 2, 1, 1),
        ];
        let gauge: Vec<_> = gauge.iter().collect();
        assert_eq!(
            point(Kind::Gauge, &gauge, 1.0),
            json!({"up": 3.0, "down": 0.5})
        );
        let timers = [measured("", 1, 2, 3_000_000), measured("", 2, 1, 6_000_000)];
        let timers: Vec<_> = timers.iter().collect();
        assert_eq!(point(Kind::Timer, &timers, 0.5), json!(3.0));
        assert_eq!(point(Kind::Rate, &timers, 0.5), json!(6.0));
        let counts = [measured("", 1, 1, 3), measured("", 2, 1, 4)];
        let counts: Vec<_> = counts.iter().collect();
        assert_eq!(point(Kind::Count, &counts, 0.5), json!(3.5));
        for (kind, expected) in [
            (Kind::Gauge, json!(null)),
            (Kind::Count, json!(null)),
            (Kind::Timer, json!(null)),
            (Kind::Rate, json!(0.0)),
        ] {
            assert_eq!(point(kind, &[], 1.0), expected);
        }
    }

    #[test]
    fn windows_have_the_same_length_and_full_hours_if_they_are_rounded() {
        let at = |minute: i64| Timestamp(minute * MINUTE_US);
        let windows = Windows::new(at(0), at(10), 4, false).unwrap();
        let ends: Vec<i64> = (0..4)
            .map(|window| windows.end_of(window) * 2 / MINUTE_US)
            .collect();
        assert_eq!(ends, [5, 10, 15, 20]);
        for (from, to, n_points, is_rounded) in [
            (10, 10, 1, false),
            (10, 0, 1, false),
            (0, 10, 0, false),
            (0, 10, 11, false),
            (0, 100, 2, true),
        ] {
            assert!(Windows::new(at(from), at(to), n_points, is_rounded).is_err());
        }
        let rounded = Windows::new(at(30), at(330), 2, true).unwrap();
        assert_eq!(
            (
                rounded.start_us / HOUR_US,
                rounded.end_us / HOUR_US,
                rounded.n_points
            ),
            (0, 6, 2)
        );
    }
}
