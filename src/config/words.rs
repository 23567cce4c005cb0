//! What serde says of a file that does not fit, in words for whoever wrote the file.

use steward_compiler::closest;

/// Rewrites what serde says: the line comes first, then the path as it was. What is not known stays as it is.
pub fn in_words(message: &str) -> String {
    const BEGINNINGS: [&str; 5] = [
        "unknown field ",
        "unknown variant ",
        "missing field ",
        "invalid type: ",
        "invalid value: ",
    ];
    let found = BEGINNINGS
        .iter()
        .filter_map(|beginning| Some((message.find(beginning)?, *beginning)))
        .min();
    let Some((at, beginning)) = found else {
        return message.to_owned();
    };
    let (path, rest) = message.split_at(at);
    let rest = &rest[beginning.len()..];
    let (rest, place) = rest
        .rfind(" at line ")
        .map_or((rest, ""), |at| rest.split_at(at));
    let reworded = match beginning {
        "missing field " => Some(format!("{rest} is missing")),
        "unknown field " => one_of(rest, "is no key here"),
        "unknown variant " => one_of(rest, "is not possible here"),
        _ => rest.rsplit_once(", expected ").map(|(given, expected)| {
            let verb = match expected.starts_with("keys ") {
                true => "are",
                false => "is",
            };
            format!("{} {verb} needed, not {}", needed(expected), shown(given))
        }),
    };
    match reworded {
        Some(text) => {
            // The library leaves out the place that is the beginning of the file: it is where the first key is.
            let first = (beginning == "unknown field ").then_some("1");
            let line = place.split_whitespace().nth(2).or(first);
            let line = line.map(|line| format!("line {line}: "));
            format!("{}{path}{text}", line.unwrap_or_default())
        }
        None => message.to_owned(),
    }
}

/// Of ``X`, expected one of `A`, `B``: the one that is meant, or all.
fn one_of(rest: &str, what: &str) -> Option<String> {
    let (given, expected) = rest.rsplit_once(", expected ")?;
    let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    let name = given.trim_matches('`');
    let hint = match closest(name, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("there are {}", known.join(", ")),
    };
    Some(format!("{given} {what}; {hint}"))
}

fn needed(expected: &str) -> &str {
    match expected {
        "a sequence" => "a list",
        "a string" => "a text",
        "a boolean" => "true or false",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more,",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        struct_name if struct_name.starts_with("struct ") => "a map",
        other => other,
    }
}

/// ``integer `3```, `string "many"`, `map`: what was written.
fn shown(given: &str) -> String {
    match given {
        "map" => "a map".to_owned(),
        "sequence" => "a list".to_owned(),
        "unit value" | "null" => "nothing".to_owned(),
        other => match (other.split_once('`'), other.split_once('"')) {
            (Some((_, value)), _) => format!("`{value}"),
            (None, Some((_, value))) => format!("`{}`", value.trim_end_matches('"')),
            (None, None) => other.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::in_words;

    #[test]
    fn messages_of_serde_are_for_whoever_wrote_the_file() {
        for (given, wanted) in [
            (
                "unknown field `databse`, expected one of `listen`, `data`, `database` at line 3 column 1",
                "line 3: `databse` is no key here; did you mean `database`?",
            ),
            (
                "unknown field `lisen`, expected `listen` or `data`",
                "line 1: `lisen` is no key here; did you mean `listen`?",
            ),
            (
                "environments[0]: unknown field `colour`, expected `project` or `name` at line 4 column 82",
                "line 4: environments[0]: `colour` is no key here; there are project, name",
            ),
            (
                "environments[0]: missing field `repository` at line 4 column 5",
                "line 4: environments[0]: `repository` is missing",
            ),
            (
                "environments: invalid type: integer `3`, expected a sequence at line 3 column 15",
                "line 3: environments: a list is needed, not `3`",
            ),
            (
                "compile.memory_mib: invalid type: string \"many\", expected u64 at line 3 column 23",
                "line 3: compile.memory_mib: a whole number, 0 or more, is needed, not `many`",
            ),
            (
                "compile.memory_mib: invalid value: integer `-1`, expected u64 at line 3 column 23",
                "line 3: compile.memory_mib: a whole number, 0 or more, is needed, not `-1`",
            ),
            (
                "compile: invalid type: sequence, expected struct Compile at line 1 column 1",
                "line 1: compile: a map is needed, not a list",
            ),
            ("something else at line 3", "something else at line 3"),
        ] {
            assert_eq!(in_words(given), wanted);
        }
    }
}
