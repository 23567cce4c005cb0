//! Lengths of time as texts: `P1DT2H` of ISO 8601, `1 day, 2:00:00` as Python writes them, `02:00`. Source:
//! docs/reference/std.md § 6.

const MOST_DAYS: f64 = 999_999_999.0;

/// Whether so many seconds are not too many.
pub(super) fn is_number(seconds: f64) -> bool {
    (seconds.abs() / 86_400.0).floor() <= MOST_DAYS
}

pub(super) fn is_duration(text: &str) -> bool {
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    if let Some(parts) = body.strip_prefix('P') {
        return is_iso(parts);
    }
    match text.contains(['d', 'D']) || text.len() < 5 {
        true => is_days_and_clock(body),
        false => is_clock(body),
    }
}

/// A number and a letter, several times, in any order; behind `T` those of hours, minutes and seconds. A fraction is the end of
/// its part.
fn is_iso(parts: &str) -> bool {
    let (dates, times) = match parts.split_once('T') {
        Some((dates, times)) => (dates, Some(times)),
        None => (parts, None),
    };
    let of_dates = |unit| match unit {
        'Y' => Some(365.0),
        'M' => Some(30.0),
        'W' => Some(7.0),
        'D' => Some(1.0),
        _ => None,
    };
    let of_times = |unit| match unit {
        'H' => Some(1.0 / 24.0),
        'M' => Some(1.0 / 1440.0),
        'S' => Some(1.0 / 86_400.0),
        _ => None,
    };
    if parts.is_empty() || dates.is_empty() && times.is_some_and(str::is_empty) {
        return false;
    }
    let Some((days, is_open)) = amounts(dates, of_dates) else {
        return false;
    };
    let Some((more, _)) = amounts(times.unwrap_or_default(), of_times) else {
        return false;
    };
    let has_times = times.is_some_and(|times| !times.is_empty());
    (is_open || !has_times) && (days + more).floor() <= MOST_DAYS
}

/// The days of `1Y2M`, and whether more may follow: nothing does behind a fraction.
fn amounts(mut text: &str, unit: impl Fn(char) -> Option<f64>) -> Option<(f64, bool)> {
    let mut days = 0.0;
    let mut is_open = true;
    while !text.is_empty() {
        if !is_open {
            return None;
        }
        let (whole, rest) = number(text)?;
        let (fraction, rest) = match rest.strip_prefix(['.', ',']) {
            Some(rest) => {
                is_open = false;
                let end = rest
                    .find(|c: char| !c.is_ascii_digit())
                    .unwrap_or(rest.len());
                let fraction = format!("0.{}", &rest[..end]).parse().unwrap_or(0.0);
                (fraction, &rest[end..])
            }
            None => (0.0, rest),
        };
        let letter = rest.chars().next()?;
        days += (whole + fraction) * unit(letter)?;
        text = &rest[letter.len_utf8()..];
    }
    Some((days, is_open))
}

/// The digits at the beginning, and what follows.
fn number(text: &str) -> Option<(f64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let digits = text[..end].parse::<u64>().ok()?;
    Some((digits as f64, &text[end..]))
}

/// `1 day, 02:00`: the word is `d`, `day` or `days`, and the clock may be missing.
fn is_days_and_clock(text: &str) -> bool {
    let Some((days, rest)) = number(text) else {
        return false;
    };
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    let Some(mut rest) = rest.strip_prefix(['d', 'D']) else {
        return false;
    };
    if rest.starts_with(['a', 'A']) {
        let Some(behind) = rest[1..].strip_prefix(['y', 'Y']) else {
            return false;
        };
        rest = behind.strip_prefix(['s', 'S']).unwrap_or(behind);
    }
    let rest = rest.strip_prefix(',').unwrap_or(rest);
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    days <= MOST_DAYS && (rest.is_empty() || is_clock_of_a_day(rest))
}

fn is_clock_of_a_day(text: &str) -> bool {
    let hours = text.split(':').next().and_then(|hours| hours.parse().ok());
    is_clock(text) && hours.is_some_and(|hours: u64| hours < 24)
}

/// Hours of any number of digits, minutes and perhaps seconds of two, perhaps a fraction of them. `1:00` is too short.
fn is_clock(text: &str) -> bool {
    const SHORTEST: usize = 5;
    const MOST_HOURS: f64 = 999_999_999.0;
    let mut parts = text.splitn(3, ':');
    let (Some(hours), Some(minutes)) = (parts.next(), parts.next()) else {
        return false;
    };
    let sixty = |text: &str| {
        text.len() == 2
            && text.bytes().all(|b| b.is_ascii_digit())
            && text.parse::<u8>().is_ok_and(|it| it < 60)
    };
    let seconds = parts.next();
    let are_seconds = seconds.is_none_or(|text| match text.split_once(['.', ',']) {
        Some((seconds, fraction)) => {
            sixty(seconds) && !fraction.is_empty() && fraction.bytes().all(|b| b.is_ascii_digit())
        }
        None => sixty(text),
    });
    let is_hour = number(hours).is_some_and(|(hours, rest)| rest.is_empty() && hours <= MOST_HOURS);
    text.len() >= SHORTEST && is_hour && sixty(minutes) && are_seconds
}
