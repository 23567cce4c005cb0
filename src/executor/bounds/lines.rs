//! Limits of log lines.

use crate::domain::LogLevel;
use crate::executor::protocol::LogLine;
use serde_json::{Map, Value};

use super::Share;
use super::values::{MAX_DEPTH, NAME_BYTES, bound_value, cut, is_deep, json_bytes, note};

/// What a line takes in the database beside its text and arguments: level, time, names.
const LINE_OVERHEAD: usize = 80;

/// Cuts each line, then leaves lines out: `DEBUG` first, errors last, of each kind the later ones first. The mark stands
/// where the first of them was.
pub(super) fn bound(lines: &mut Vec<LogLine>, share: &Share) {
    let sizes = lines.iter_mut();
    let sizes = sizes.map(|line| bound_line(line, share.line_bytes));
    let sizes: Vec<usize> = sizes.collect();
    if lines.len() <= share.lines && sizes.iter().sum::<usize>() <= share.bytes {
        return;
    }
    let last_error = lines.iter().rposition(|line| rank(line.level) == 0);
    let mut order: Vec<usize> = (0..lines.len()).collect();
    order.sort_by_key(|&index| match Some(index) == last_error {
        true => (0, index),
        false => (1 + rank(lines[index].level), index),
    });
    let mut is_kept = vec![false; lines.len()];
    // The mark takes a line, too.
    let (mut n_left, mut left) = (
        share.lines.saturating_sub(1),
        share.bytes - 2 * LINE_OVERHEAD,
    );
    for index in order {
        if n_left == 0 || sizes[index] > left {
            continue;
        }
        is_kept[index] = true;
        n_left -= 1;
        left -= sizes[index];
    }
    let n_cut = is_kept.iter().filter(|kept| !**kept).count();
    let place = is_kept.iter().take_while(|kept| **kept).count();
    let mut flags = is_kept.into_iter();
    lines.retain(|_| flags.next().unwrap_or(false));
    lines.shrink_to_fit();
    let mark = format!(
        "… {n_cut} more lines were cut; the limit is {}",
        share.limit
    );
    lines.insert(place.min(lines.len()), note(LogLevel::Info, mark));
}

/// 0: is kept for longest.
fn rank(level: LogLevel) -> u8 {
    match level {
        LogLevel::Critical | LogLevel::Error => 0,
        LogLevel::Warning => 1,
        LogLevel::Info => 2,
        LogLevel::Debug | LogLevel::Trace => 3,
    }
}

/// Cuts what is too long in a line, and gives what it takes in the database then. The text gets half of the line at least;
/// arguments share what is left, and the small ones stay whole.
fn bound_line(line: &mut LogLine, limit: usize) -> usize {
    let mut argument_bytes = json_bytes(&line.kwargs);
    let n_bytes = line.msg.len().saturating_add(argument_bytes);
    // Nearly all lines are so small that no share of theirs can be too small for any part.
    let is_small = n_bytes <= limit / 2 && !line.kwargs.iter().any(is_odd);
    if !is_small && line.kwargs.is_empty() {
        cut(&mut line.msg, limit);
    } else if !is_small {
        if n_bytes > limit {
            cut(&mut line.msg, limit / 2);
        }
        bound_arguments(&mut line.kwargs, limit.saturating_sub(line.msg.len()));
        argument_bytes = json_bytes(&line.kwargs);
    }
    json_bytes(&line.msg) + argument_bytes + LINE_OVERHEAD
}

/// Whether an argument has to be looked at, however small it is.
fn is_odd((name, value): (&String, &Value)) -> bool {
    name.len() > NAME_BYTES || is_deep(value, MAX_DEPTH)
}

fn bound_arguments(arguments: &mut Map<String, Value>, limit: usize) {
    let mut all: Vec<(String, Value)> = std::mem::take(arguments).into_iter().collect();
    let mut sizes: Vec<(usize, usize)> = all
        .iter()
        .map(|(name, value)| name.len().saturating_add(json_bytes(value)))
        .enumerate()
        .map(|(index, size)| (size, index))
        .collect();
    sizes.sort_unstable();
    let (mut left, mut n_left) = (limit, sizes.len());
    let mut is_kept = vec![false; all.len()];
    for (_, index) in sizes {
        let (name, value) = &mut all[index];
        let share = left / n_left;
        n_left -= 1;
        if name.len() > NAME_BYTES.min(share / 2) {
            continue;
        }
        let size = name.len() + bound_value(value, share - name.len());
        left = left.saturating_sub(size);
        is_kept[index] = true;
    }
    let n_cut = is_kept.iter().filter(|kept| !**kept).count();
    let kept = all.into_iter().zip(is_kept).filter(|(_, kept)| *kept);
    arguments.extend(kept.map(|(argument, _)| argument));
    if n_cut > 0 {
        let mark = format!("{n_cut} more arguments were cut");
        arguments.insert("…".to_owned(), Value::String(mark));
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng as _, SeedableRng as _};
    use serde_json::json;

    use super::*;

    fn text(random: &mut StdRng, longest: usize) -> String {
        let n = random.random_range(0..=longest);
        let letter = |_| ['a', 'b', '\n', '"', 'ä'][random.random_range(0..5)];
        (0..n).map(letter).collect()
    }

    fn value(random: &mut StdRng) -> Value {
        match random.random_range(0..4) {
            0 => json!(random.random::<i32>()),
            1 => json!(text(random, 40)),
            2 => json!([text(random, 9), text(random, 9), null]),
            _ => (0..random.random_range(0..70)).fold(json!(1), |inner, _| json!([inner])),
        }
    }

    /// Given: any lines and limits. Expected: what is small is left as it is, which is what looking at each argument gives.
    #[test]
    fn a_small_line_is_what_cutting_each_argument_makes_of_it() {
        let mut random = StdRng::seed_from_u64(14);
        for _ in 0..20_000 {
            let mut line = LogLine {
                level: LogLevel::Info,
                msg: text(&mut random, 60),
                kwargs: Map::new(),
                timestamp_us: 1,
            };
            for _ in 0..random.random_range(0..5) {
                let name = text(&mut random, 30);
                line.kwargs.insert(name, value(&mut random));
            }
            let limit = random.random_range(0..1000);
            let mut bounded = line.clone();
            let size = bound_line(&mut bounded, limit);
            let n_bytes = line.msg.len() + json_bytes(&line.kwargs);
            if line.kwargs.is_empty() {
                cut(&mut line.msg, limit);
            } else {
                if n_bytes > limit {
                    cut(&mut line.msg, limit / 2);
                }
                let left = limit.saturating_sub(line.msg.len());
                bound_arguments(&mut line.kwargs, left);
            }
            assert_eq!(bounded, line);
            assert_eq!(
                size,
                json_bytes(&line.msg) + json_bytes(&line.kwargs) + LINE_OVERHEAD
            );
        }
    }
}
