use serde_json::{Map, Value, json};
use steward_compiler::protocol::{Discovered, Fact};

use super::*;
use crate::domain::{HandlerStatus, LogLevel, ResourceId, Timestamp};

fn line(level: LogLevel, msg: impl Into<String>) -> LogLine {
    LogLine {
        level,
        msg: msg.into(),
        kwargs: Map::new(),
        timestamp_us: 1,
    }
}

fn bounded(outcome: TaskOutcome) -> TaskOutcome {
    let mut once = outcome;
    bound(&mut once, &RUN);
    let mut twice = once.clone();
    bound(&mut twice, &RUN);
    assert_eq!(once, twice, "what was cut is not cut again");
    once
}

fn json_of(outcome: &TaskOutcome) -> usize {
    crate::executor::bounds::messages_json(&outcome.logs).len()
        + serde_json::to_string(&outcome.changes).unwrap().len()
}

/// Input: 200 000 log lines of one run (docs/reference/security.md § 4.8). Answer: 1000 are kept, errors among them, with a mark.
#[test]
fn of_too_many_lines_the_first_and_the_errors_are_kept_and_a_mark_says_how_many_were_cut() {
    let mut logs: Vec<LogLine> = (0..200_000)
        .map(|n| {
            line(
                if n % 2 == 0 {
                    LogLevel::Debug
                } else {
                    LogLevel::Info
                },
                format!("line {n}"),
            )
        })
        .collect();
    logs[150_000] = line(LogLevel::Error, "broken");
    let outcome = bounded(TaskOutcome {
        logs,
        ..TaskOutcome::of(HandlerStatus::Deployed)
    });
    assert_eq!(outcome.logs.len(), RUN_LINES);
    let kept = |text: &str| outcome.logs.iter().any(|line| line.msg == text);
    assert!(
        kept("broken") && kept("line 1") && !kept("line 0"),
        "DEBUG goes first"
    );
    let mark = &outcome.logs[0];
    assert_eq!(
        mark.msg,
        "… 199001 more lines were cut; the limit is 1000 lines and 1 MiB a run"
    );
}

/// Input: a log line of 50 MB, an argument of 50 MB (docs/reference/security.md § 4.8). Answer: 16 KiB of the line are kept, with a mark.
#[test]
fn a_long_line_is_cut_with_its_arguments_and_small_arguments_stay_whole() {
    let mut long = line(LogLevel::Error, "ä".repeat(25 << 20));
    long.kwargs
        .insert("exception".into(), json!("x".repeat(50 << 20)));
    long.kwargs.insert("name".into(), json!("web"));
    long.kwargs.insert("list".into(), json!(vec![0; 1 << 20]));
    let outcome = bounded(TaskOutcome {
        logs: vec![long, line(LogLevel::Info, "y".repeat(LINE_BYTES + 1))],
        ..TaskOutcome::of(HandlerStatus::Deployed)
    });
    let [long, plain] = &outcome.logs[..] else {
        panic!("{}", outcome.logs.len())
    };
    assert!(
        long.msg.len()
            + long
                .kwargs
                .values()
                .map(|value| value.to_string().len())
                .sum::<usize>()
            <= LINE_BYTES
    );
    assert!(
        long.msg.ends_with("bytes were cut, the limit is 8192)"),
        "{}",
        long.msg
    );
    assert_eq!(long.kwargs["name"], "web");
    assert!(
        long.kwargs["exception"]
            .as_str()
            .unwrap()
            .contains("were cut")
    );
    assert!(long.kwargs["list"].as_str().unwrap().starts_with("[0,0,"));
    assert!(plain.msg.len() <= LINE_BYTES);
}

#[test]
fn a_run_of_the_largest_lines_stays_below_its_limit() {
    let logs = (0..500)
        .map(|_| line(LogLevel::Error, "\u{1}".repeat(LINE_BYTES)))
        .collect();
    let changes = (0..500).map(|n| {
        (
            format!("a{n}"),
            json!({"current": "x".repeat(1 << 20), "desired": n}),
        )
    });
    let outcome = bounded(TaskOutcome {
        logs,
        changes: changes.collect(),
        ..TaskOutcome::of(HandlerStatus::Deployed)
    });
    assert!(
        json_of(&outcome) <= 2 * RUN_BYTES + (64 << 10),
        "{}",
        json_of(&outcome)
    );
    let says = |text: &str| outcome.logs.iter().any(|line| line.msg.contains(text));
    assert!(says("more lines were cut") || says("more differences were cut"));
    assert!(
        outcome.changes["a0"]["current"]
            .as_str()
            .unwrap()
            .contains("were cut")
    );
}

/// Given: texts and dicts that are longer than what is kept of them, and differ near their end only. Expected: what is kept shows the
/// difference, and says how much is missing before and behind it.
#[test]
fn long_values_are_kept_from_where_they_differ() {
    let lines = |last: &str| {
        let same: String = (0..200_000).map(|n| format!("line {n}\n")).collect();
        format!("{same}{last}\n{same}")
    };
    let keys = |last: u32| {
        let key = |n: u32| (format!("key{n:05}"), json!(n));
        let mut keys: Map<_, _> = (0..20_000).map(key).collect();
        keys.insert("key19990".to_owned(), json!(last));
        Value::Object(keys)
    };
    let changes = [
        ("content", json!(lines("old")), json!(lines("new"))),
        ("data", keys(1), keys(2)),
        (
            "grown",
            json!("x".repeat(1 << 20)),
            json!("x".repeat(1 << 21)),
        ),
        (
            "first",
            json!(lines("old")),
            json!(format!("0{}", lines("new"))),
        ),
    ];
    let changes = changes.into_iter().map(|(name, current, desired)| {
        let change = json!({"current": current, "desired": desired});
        (name.to_owned(), change)
    });
    let outcome = bounded(TaskOutcome {
        changes: changes.collect(),
        ..TaskOutcome::of(HandlerStatus::Deployed)
    });
    let side = |name: &str, side: &str| outcome.changes[name][side].as_str().unwrap().to_owned();
    for (name, old, new) in [
        (
            "content",
            "line 199999\nold\nline 0\n",
            "line 199999\nnew\nline 0\n",
        ),
        ("data", "\"key19990\":1,", "\"key19990\":2,"),
    ] {
        let (current, desired) = (side(name, "current"), side(name, "desired"));
        assert!(current.starts_with("… (") && desired.starts_with("… ("));
        assert!(current.contains("bytes before this are the same)\n"));
        assert!(current.contains(old), "{name}: {current:.400}");
        assert!(desired.contains(new), "{name}: {desired:.400}");
    }
    let missing = lines("old").len() - (RUN.value_bytes / 2);
    assert!(side("first", "current").starts_with("line 0\n"));
    let mark = side("first", "current");
    let mark = mark.rsplit("… (").next().unwrap();
    let n_cut: usize = mark.split(' ').next().unwrap().parse().unwrap();
    assert!(n_cut >= missing, "{mark}");
    assert_ne!(side("grown", "current"), side("grown", "desired"));
    for value_bytes in [0, 80, 300, 1000, 4000] {
        let share = Share { value_bytes, ..RUN };
        let mut once = outcome.clone();
        bound(&mut once, &share);
        let mut twice = once.clone();
        bound(&mut twice, &share);
        assert_eq!(once, twice, "{value_bytes}");
    }
}

/// Input: values of a handler nested 1000 deep (docs/reference/security.md § 4.8). Answer: they are kept as a text, so the history stays readable.
#[test]
fn values_that_are_too_deep_to_be_read_back_become_texts() {
    let deep = (0..1000).fold(Value::Null, |inner, _| json!([inner]));
    let mut nested = line(LogLevel::Info, "deep");
    nested.kwargs.insert("deep".into(), deep.clone());
    let outcome = bounded(TaskOutcome {
        logs: vec![nested],
        changes: Map::from_iter([("a".to_owned(), json!({"current": deep, "desired": null}))]),
        ..TaskOutcome::of(HandlerStatus::Deployed)
    });
    let text = crate::executor::bounds::messages_json(&outcome.logs);
    assert!(serde_json::from_str::<Value>(&text).is_ok());
    let changes = serde_json::to_string(&outcome.changes).unwrap();
    assert!(serde_json::from_str::<Value>(&changes).is_ok());
}

/// Input: too many and too long facts and discovered resources (docs/reference/security.md § 4.8). Answer: these are left out, a warning says so.
#[test]
fn facts_and_found_resources_that_are_too_much_are_left_out_and_said() {
    let fact = |n: usize, size: usize| Fact {
        name: format!("f{n}"),
        value: "v".repeat(size),
        expires: true,
    };
    let found = |n: usize, size: usize| Discovered {
        resource_id: format!("a::B[c,d={n}]"),
        values: Map::from_iter([("x".to_owned(), json!("v".repeat(size)))]),
    };
    let mut facts: Vec<Fact> = (0..2000).map(|n| fact(n, 10)).collect();
    facts[0] = fact(0, 1 << 20);
    let mut discovered: Vec<Discovered> = (0..20_000).map(|n| found(n, 10)).collect();
    discovered[5] = found(5, 1 << 20);
    let outcome = bounded(TaskOutcome {
        facts,
        discovered,
        ..TaskOutcome::of(HandlerStatus::Deployed)
    });
    assert_eq!(
        (outcome.facts.len(), outcome.discovered.len()),
        (MAX_FACTS, MAX_DISCOVERED)
    );
    assert_eq!(outcome.facts[0].name, "f1");
    let lines: Vec<&str> = outcome.logs.iter().map(|line| line.msg.as_str()).collect();
    assert!(
        lines[0].starts_with(
            "1000 facts were not taken: the value of the fact or parameter `f0` has 1048576 bytes"
        ),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with("10000 discovered resources were not taken: the values of"),
        "{lines:?}"
    );
}

/// Input: a resource that fails with much to say every few seconds (docs/reference/security.md § 4.8). Answer: after 8 MiB of a day its runs keep their result, their first lines and a mark.
#[test]
fn a_resource_that_has_used_up_its_day_keeps_first_lines_and_a_mark_until_the_next() {
    let mut daily = Daily::default();
    let at = |hours: i64| Timestamp(hours * 3600 * 1_000_000);
    let talk = || TaskOutcome {
        logs: (0..900)
            .map(|n| line(LogLevel::Error, format!("{n} {}", "x".repeat(1000))))
            .collect(),
        ..TaskOutcome::of(HandlerStatus::Failed)
    };
    let (a, b) = (ResourceId::new("a"), ResourceId::new("b"));
    let mut sizes = Vec::new();
    for _ in 0..30 {
        let mut outcome = talk();
        bound(&mut outcome, &RUN);
        bound(&mut outcome, daily.share(&a, at(1)));
        assert_eq!(outcome.status, HandlerStatus::Failed);
        assert!(outcome.logs[0].msg.starts_with("0 "));
        let size = json_of(&outcome);
        daily.add(&a, size);
        sizes.push(size);
        if sizes.len() == 30 {
            assert!(
                outcome
                    .logs
                    .iter()
                    .any(|line| line.msg.contains("for the rest of this day"))
            );
            assert!(
                outcome.logs.last().unwrap().msg.starts_with("899 "),
                "the last error stays"
            );
        }
    }
    assert!(
        sizes.iter().sum::<usize>() < 16 << 20,
        "{}",
        sizes.iter().sum::<usize>()
    );
    let mut other = talk();
    bound(&mut other, daily.share(&b, at(2)));
    assert_eq!(other.logs.len(), 900);
    let mut tomorrow = talk();
    bound(&mut tomorrow, daily.share(&a, at(25)));
    assert_eq!(tomorrow.logs.len(), 900);
}
