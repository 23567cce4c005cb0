use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::*;

/// Texts of about `size` bytes that cost a careless reader more than linear time or memory.
#[expect(clippy::too_many_lines, reason = "one line for each text")]
fn hostile(size: usize) -> Vec<(&'static str, String)> {
    let fill = |head: &str, part: &str| format!("{head}{}", part.repeat(size / part.len()));
    let numbered = |head: &str, line: &dyn Fn(usize) -> String| {
        let mut text = head.to_owned();
        for number in 0.. {
            text.push_str(&line(number));
            if text.len() >= size {
                break;
            }
        }
        text
    };
    let mut indented = String::new();
    let mut deepest = 0;
    while indented.len() < size {
        let _ = writeln!(indented, "{:1$}a:", "", deepest);
        deepest += 1;
    }
    let mut doubling = "a0: &a0 [x, x]\n".to_owned();
    for number in 1..64 {
        let _ = writeln!(doubling, "a{number}: &a{number} [*a{0}, *a{0}]", number - 1);
    }
    let half = size / 2;
    let wide = format!(
        "a: &a [{}]\nb: [{}]\n",
        "x,".repeat(half / 2),
        "*a,".repeat(5000)
    );
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(half), "*a,".repeat(5000));
    let keys_of_keys = format!(
        "{}{}\n",
        "? ".repeat(99),
        format_args!("[{}]", "x,".repeat(half / 2))
    );
    vec![
        ("lists", fill("name: ", "[")),
        ("lists on lines", fill("name: ", "[\n")),
        ("maps", fill("name: ", "{")),
        ("maps of lists", fill("name: ", "{a: [")),
        ("closers in comments", fill("name: ", "[ # ]\n")),
        ("closers in single quotes", fill("name: ", "[ ']', ")),
        ("closers in double quotes", fill("name: ", "[ \"]\", ")),
        ("closers in long quotes", fill("name: ", "[ \"\n]\n\",")),
        ("closers in plain texts", fill("name:\n", " a]\n b[\n")),
        ("closed lists", fill("name: [", "[],")),
        ("lists of block lists", fill("", "- ")),
        ("keys that are maps", fill("", "? ")),
        ("values that are maps", fill("", "?\n: ")),
        ("deeper and deeper", indented),
        ("keys in keys", keys_of_keys),
        ("anchors", numbered("", &|n| format!("- &a{n} x\n"))),
        ("one anchor", fill("", "- &a x\n")),
        ("aliases", fill("- &a x\n", "- *a\n")),
        ("unknown aliases", fill("", "- *a\n")),
        ("an alias in itself", fill("a: &a [*a, ", "*a, ")),
        ("an alias bomb", doubling),
        ("a long list named often", wide),
        ("a long text named often", long),
        ("a long text", fill("name: ", "x")),
        ("a long number", fill("name: 1", "0")),
        ("a long number behind a point", fill("name: 0.", "1")),
        ("words", fill("name: ", "a b ")),
        ("a text on lines", fill("name:\n", " a\n")),
        ("a text with empty lines", fill("name:\n a", "\n")),
        ("a quoted text on lines", fill("name: \"", "a\n\n")),
        ("a quote without end", fill("name: '", "''")),
        ("escapes", fill("name: \"", "\\x41")),
        ("a block text", fill("name: |\n", "  a\n\n")),
        ("a block text of breaks", fill("name: >+\n", "\n")),
        (
            "a block text that moves in",
            numbered("name: |\n", &|n| format!("{:1$}\n", "", n % 4000)),
        ),
        ("documents", fill("", "---\n")),
        ("documents with something", fill("", "--- a\n")),
        ("ends of documents", fill("", "...\n")),
        ("keys", numbered("", &|n| format!("a{n}: b\n"))),
        ("keys in brackets", numbered("{", &|n| format!("a{n}: b, "))),
        ("a key again", fill("", "a: b\n")),
        ("a long key", fill("? ", "x") + "\n: b\n"),
        ("a long quoted key", fill("? \"", "x") + "\"\n: [}"),
        (
            "merges",
            numbered("a: &a {x: y}\n", &|n| format!("b{n}: {{<<: *a, z: {n}}}\n")),
        ),
        ("merges in merges", "<<: {".repeat(90) + &fill("", "a: b, ")),
        ("tags", fill("", "- !a b\n")),
        ("tags on tags", fill("a: ", "!a ")),
        ("a long tag", fill("a: !", "x")),
        (
            "directives of tags",
            numbered("", &|n| format!("%TAG !a{n}! b\n")) + "---\na: b\n",
        ),
        ("directives", fill("", "%YAML 1.1\n")),
        ("comments", fill("", "# a\n")),
        ("a comment", fill("#", "a")),
        ("blanks", fill("", " ")),
        ("tabs", fill("a: b\n", "\t")),
        ("breaks", fill("", "\n")),
        ("other breaks", fill("", "\u{2028}\u{85}\r")),
        ("marks of byte order", fill("", "\u{feff}")),
        ("colons", fill("", ":")),
        ("colons and blanks", fill("", ": ")),
        ("commas", fill("[", ",")),
        ("questions in brackets", fill("[", "? ")),
        ("colons in brackets", fill("[", ": ")),
        ("pairs in brackets", fill("[", "a: b, ")),
        ("empty maps in lists", fill("[", "{},")),
        ("an unclosed list of texts", fill("[", "a ")),
        ("control characters", fill("a: ", "\u{1}")),
    ]
}

/// Answers each and shows how long it took, in release: `cargo test --release -p steward-compiler --lib yaml:: --
/// --nocapture`.
///
/// Input: YAML of 1, 2 and 4 MiB: nested brackets, blocks and keys, alias bombs, `%TAG` without end, and 60 more
/// (docs/reference/security.md § 3.23, § 4.2). Answer: read or refused with the line, in linear time and bounded memory.
#[test]
fn every_hostile_text_is_answered_in_linear_time() {
    let most = match cfg!(debug_assertions) {
        // The time without optimization, and beside other tests.
        true => Duration::from_secs(20),
        false => Duration::from_secs(1),
    };
    let sizes: &[usize] = match cfg!(debug_assertions) {
        true => &[1 << 20],
        false => &[1 << 20, 2 << 20, (4 << 20) - 4096],
    };
    for &size in sizes {
        for (name, text) in hostile(size) {
            let start = Instant::now();
            let answer = from_str::<Value>(&text, &LIMITS);
            let took = start.elapsed();
            println!(
                "{took:>12.3?} {size:>8} {name}: {}",
                match &answer {
                    Ok(_) => "read".to_owned(),
                    Err(error) => error.to_string().chars().take(100).collect(),
                }
            );
            assert!(took < most, "{name}: {took:?}");
            if let Err(error) = answer {
                assert!(error.to_string().len() < 3000, "{name}");
            }
        }
    }
}

/// Given: YAML behind a byte order mark, as editors on Windows write it. Expected: what it says without the mark; marks
/// anywhere else are read as the library reads them.
#[test]
fn a_byte_order_mark_in_front_is_no_part_of_the_text() {
    let without = [
        "name: a\nmodulepath: libs\n",
        "--- [[1]]\n",
        "- a\n- b\n",
        "%YAML 1.1\n---\na: b\n",
        "",
    ];
    for text in without {
        let expected = unbounded(text).unwrap();
        let read: Value = from_str(&format!("\u{feff}{text}"), &LIMITS).unwrap();
        assert_eq!(read, expected, "{text:?}");
    }
    for text in ["\u{feff}--- [[1]]b 1\n", "a: b\n\u{feff}c: d\n"] {
        let read = from_str::<Value>(&format!("\u{feff}{text}"), &LIMITS).ok();
        assert_eq!(read, unbounded(text).ok(), "{text:?}");
    }
}

/// Given: a map with a key twice. Expected: the lines with keys of that name, since the library names none of the outermost map.
#[test]
fn a_key_that_is_there_twice_is_told_with_its_lines() {
    let error = |text: &str| from_str::<Value>(text, &LIMITS).unwrap_err().to_string();
    assert_eq!(
        error("name: a\nsize: 1\n\"name\": b\n"),
        "duplicate entry with key \"name\": the key is in the lines 1 and 3"
    );
    assert_eq!(
        error("- a: 1\n- b: 1\n  a: 2\n  b: 3\n"),
        ".[1]: duplicate entry with key \"b\" at line 2 column 3"
    );
    // Where nobody can tell, nothing is told.
    let one_line = error("{a: 1, a: 2}");
    assert!(
        one_line.starts_with("duplicate entry with key \"a\""),
        "{one_line}"
    );
}
