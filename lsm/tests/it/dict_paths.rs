//! Paths, held to the table that Python's tests use, too. What it expects is what the reference does.

use serde_json::{Value, json};
use steward_lsm::dict_path::{Path, PathError, WildPath};

use crate::support::fixture;

fn kind(error: &PathError) -> &'static str {
    match error {
        PathError::Invalid(_) => "invalid",
        PathError::Structure(_) => "structure",
        PathError::Missing(_) => "key",
        PathError::NullContainer => "index",
        PathError::Unsupported(_) => "unsupported",
    }
}

/// What a case gives and what it leaves.
fn run(case: &Value, container: &mut Value) -> Result<Value, PathError> {
    let text = case["path"].as_str().unwrap();
    let value = case["value"].clone();
    match case["do"].as_str().unwrap() {
        "get" => Path::parse(text)?.get(container).cloned(),
        "elements" => WildPath::parse(text)?
            .get_elements(container)
            .map(|found| json!(found)),
        "resolve" => {
            let found = WildPath::parse(text)?.resolve(container)?;
            Ok(found.iter().map(ToString::to_string).collect())
        }
        "set" => Path::parse(text)?
            .set(container, value, true)
            .map(|()| Value::Null),
        "set_existing" => Path::parse(text)?
            .set(container, value, false)
            .map(|()| Value::Null),
        "remove" => Path::parse(text)?.remove(container).map(|()| Value::Null),
        "construct" => Path::parse(text)?.get_or_construct(container).cloned(),
        "text" => Path::parse(text).map(|path| json!(path.to_string())),
        "wild_text" => WildPath::parse(text).map(|path| json!(path.to_string())),
        other => panic!("no operation {other}"),
    }
}

//: lsm 106, 107, 108, 109, 110, 111
#[test]
fn paths_do_what_the_table_says() {
    let table = fixture("dict_paths.json");
    let mut wrong = Vec::new();
    for case in table["cases"].as_array().unwrap() {
        let given = case.get("in").unwrap_or(&table["container"]);
        let mut container = given.clone();
        let is_right = match run(case, &mut container) {
            Err(error) => case["error"] == kind(&error),
            Ok(gives) => {
                case.get("error").is_none()
                    && case.get("gives").is_none_or(|wanted| *wanted == gives)
                    && container == *case.get("leaves").unwrap_or(given)
            }
        };
        if !is_right {
            let found = run(case, &mut given.clone());
            wrong.push(format!("{case}\n  gives {found:?}\n  leaves {container}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} cases\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

//: lsm 106
/// Given: texts that are no paths. Answer: an error that repeats the text and says what is wrong.
#[test]
fn a_text_that_is_no_path_says_why() {
    let cases = [
        ("", "has no section"),
        ("a[b]", "has a selector that is not `[key=value]`"),
        ("a[b=1][b=2]", "has the same key twice"),
        ("a]", "has `]` without a backslash before it"),
        (r"a\x", "has a backslash before a character that needs none"),
        ("a[=1]", "has an empty key"),
        ("*[a=1]", "has a wildcard before a selector"),
        (
            "a[b=*]",
            "has a wildcard (`*`), but has to mean one element",
        ),
    ];
    for (text, reason) in cases {
        let error = Path::parse(text).unwrap_err().to_string();
        assert!(
            error.contains(reason) && error.contains(&format!("`{text}`")),
            "{error}"
        );
    }
}

//: lsm 107, 111
#[test]
fn bools_are_found_as_json_writes_them_and_null_is_resolved_as_null() {
    let container = json!({"l": [{"on": true, "x": null}, {"on": false, "x": 2}]});
    for (text, expected) in [("l[on=true].x", json!(null)), ("l[on=false].x", json!(2))] {
        assert_eq!(Path::parse(text).unwrap().get(&container), Ok(&expected));
    }
    let paths = WildPath::parse("l[x=*]")
        .unwrap()
        .resolve(&container)
        .unwrap();
    let texts: Vec<String> = paths.iter().map(ToString::to_string).collect();
    assert_eq!(texts, [r"l[x=\0]", "l[x=2]"]);
    for (path, text) in paths.iter().zip(&texts) {
        assert_eq!(Path::parse(text).as_ref(), Ok(path));
        assert!(path.get(&container).is_ok());
    }
}

#[test]
fn paths_have_an_end() {
    let path = |n: usize| format!("a{}", ".a".repeat(n - 1));
    assert!(Path::parse(&path(100)).is_ok());
    let error = Path::parse(&path(20_000)).unwrap_err().to_string();
    assert!(
        error.contains("more than 100 sections") && error.len() < 400,
        "{error}"
    );
    let selectors = |n: usize| (0..n).map(|n| format!("[s{n}=1]")).collect::<String>();
    assert!(Path::parse(&format!("a{}", selectors(100))).is_ok());
    let error = Path::parse(&format!("a{}", selectors(20_000))).unwrap_err();
    assert!(
        error.to_string().contains("more than 100 selectors"),
        "{error}"
    );
}
