//! Differences on purpose. Each is described, with its reason, under its name in `docs/deviations.md`.

use crate::answer::{Answer, Found, Outcome};

/// What is known of a difference.
pub struct Seen<'a> {
    /// All sources of the case in one text.
    pub source: &'a str,
    pub reference: &'a Answer,
    pub ours: &'a Answer,
}

/// Its name, and whether it explains a difference.
type Deviation = (&'static str, fn(&Seen) -> bool);

/// The first that explains a difference counts.
pub const DEVIATIONS: &[Deviation] = &[
    ("host-error", host_error),
    ("resources-of-std", resources_of_std),
    ("runaway", runaway),
    ("missing-values", missing_values),
    ("told-once", told_once),
    ("more-errors", more_errors),
    ("empty-agent", empty_agent),
    ("wrong-case", wrong_case),
    ("a-place-more", a_place_more),
    ("non-ascii", non_ascii),
    ("f-string-braces", f_string_braces),
    ("parents-order", parents_order),
    ("module-requires", module_requires),
    ("invalid-state", invalid_state),
    ("dict-keys", dict_keys),
    ("unquoted-words", unquoted_words),
];

/// Exceptions of Python itself that a value in the model leads to.
const OF_VALUES: &[&str] = &[
    "ZeroDivisionError",
    "OverflowError",
    "RecursionError",
    "MemoryError",
    "UnicodeDecodeError",
    "UnicodeEncodeError",
    "IndexError",
    "TypeError",
    "InvalidRequirement",
];
/// Those of code of the reference that did not expect what it met.
const OF_ITS_CODE: &[&str] = &["AssertionError", "AttributeError", "ValueError", "KeyError"];

/// An exception of Python in the reference, none of its compiler. Ours is an error; or the model compiles, unless it is a
/// value that has none.
fn host_error(seen: &Seen) -> bool {
    let [error] = seen.reference.errors.as_slice() else {
        return false;
    };
    let kind = error.kind.as_str();
    seen.reference.outcome == Outcome::Crashed
        && match seen.ours.outcome {
            Outcome::Rejected => OF_VALUES.contains(&kind) || OF_ITS_CODE.contains(&kind),
            // A list is in no dictionary, and that is an answer, too.
            Outcome::Accepted => {
                OF_ITS_CODE.contains(&kind) || error.message.starts_with("unhashable type")
            }
            Outcome::Crashed | Outcome::Timeout => false,
        }
}

/// A model that the reference never finishes; ours stops it.
fn runaway(seen: &Seen) -> bool {
    seen.reference.outcome == Outcome::Timeout && seen.ours.outcome == Outcome::Rejected
}

/// Null for a relation that wants values: the reference forgets what is missing.
fn missing_values(seen: &Seen) -> bool {
    let is_extra =
        |error: &Found| {
            !seen.reference.errors.iter().any(|known| {
                known.place() == error.place() && is_same(&known.message, &error.message)
            })
        };
    let mut extra = seen
        .ours
        .errors
        .iter()
        .filter(|error| is_extra(error))
        .peekable();
    seen.source.contains("null")
        && extra.peek().is_some()
        && extra.all(|error| {
            error.kind == "UnsetException" && error.message.contains(" values but only ")
        })
}

/// But for where the project lies.
fn is_same(theirs: &str, ours: &str) -> bool {
    let start = |text: &str| text.split(" (instantiated").next().map(str::to_owned);
    let end = |text: &str| {
        text.rsplit("attribute ")
            .next()
            .and_then(|text| text.split(' ').next())
            .map(str::to_owned)
    };
    start(theirs) == start(ours) && end(theirs) == end(ours)
}

/// Without those that say nothing new: the same kind, place and text.
fn once(errors: &[Found]) -> Vec<&Found> {
    let mut kept: Vec<&Found> = Vec::new();
    for error in errors {
        if !kept
            .iter()
            .any(|known| known.place() == error.place() && known.message == error.message)
        {
            kept.push(error);
        }
    }
    kept
}

/// The reference repeats an error, word for word.
fn told_once(seen: &Seen) -> bool {
    let theirs = once(&seen.reference.errors);
    let places = |errors: &mut dyn Iterator<Item = &Found>| {
        let mut places: Vec<String> = errors.map(Found::place).collect();
        places.sort();
        places
    };
    theirs.len() < seen.reference.errors.len()
        && seen.ours.outcome == seen.reference.outcome
        && places(&mut theirs.into_iter()) == places(&mut seen.ours.errors.iter())
}

/// After the error that the reference stops at, we report those that do not follow from it.
fn more_errors(seen: &Seen) -> bool {
    let (theirs, ours) = (once(&seen.reference.errors), &seen.ours.errors);
    theirs.len() < ours.len()
        && theirs
            .first()
            .zip(ours.first())
            .is_some_and(|(theirs, ours)| is_placed(theirs, ours))
        && theirs
            .iter()
            .all(|error| ours.iter().any(|known| is_placed(error, known)))
}

/// At one place, or the reference does not say where.
fn is_placed(theirs: &Found, ours: &Found) -> bool {
    theirs.kind == ours.kind && (theirs.line.is_none() || theirs.place() == ours.place())
}

/// A resource without the name of an agent: its id can not be read back.
fn empty_agent(seen: &Seen) -> bool {
    let is_empty = |error: &Found| {
        error.kind == "ResourceException" && error.message.contains("the agent name is empty")
    };
    !seen.ours.errors.is_empty() && seen.ours.errors.iter().all(is_empty)
}

/// The reference does not say where, we do.
fn a_place_more(seen: &Seen) -> bool {
    let (theirs, ours) = (&seen.reference.errors, &seen.ours.errors);
    !theirs.is_empty()
        && theirs.len() == ours.len()
        && theirs
            .iter()
            .zip(ours)
            .all(|(theirs, ours)| is_placed(theirs, ours))
}

/// We say that a name has the wrong case as soon as it is read, the reference when the rest of the definition is right.
fn wrong_case(seen: &Seen) -> bool {
    let is_dedicated = |error: &Found| error.message.contains("must start with a ");
    seen.ours.errors.iter().any(is_dedicated)
        && !seen.reference.errors.iter().any(is_dedicated)
        && seen
            .reference
            .errors
            .iter()
            .all(|error| error.kind == "ParserException")
}

/// The reference mangles characters beyond ASCII in strings with escapes.
fn non_ascii(seen: &Seen) -> bool {
    !seen.source.is_ascii()
}

/// An escaped brace before a field.
fn f_string_braces(seen: &Seen) -> bool {
    let fields = seen.source.split("f\"").chain(seen.source.split("f'"));
    fields
        .skip(1)
        .any(|rest| rest.contains("{{") || rest.contains("}}"))
        && seen.reference.outcome == Outcome::Rejected
        && seen
            .reference
            .errors
            .iter()
            .any(|error| error.message.contains("f-string"))
}

/// Two parents have different types for one attribute: which of them the reference names depends on the order of a set.
fn parents_order(seen: &Seen) -> bool {
    let (Some(theirs), Some(ours)) = (seen.reference.errors.first(), seen.ours.errors.first())
    else {
        return false;
    };
    let is_about_parents = |error: &Found| {
        error.kind == "DuplicateException" && error.message.starts_with("Incompatible attributes")
    };
    // Both are places of an attribute with the same name.
    let attribute = |error: &Found| {
        let line = seen.source.lines().nth(error.line? as usize - 1)?;
        let declared = line.split('=').next()?.split_whitespace().last()?;
        Some(declared.to_owned())
    };
    is_about_parents(theirs)
        && is_about_parents(ours)
        && theirs.file == ours.file
        && (theirs.file.as_deref() != Some("main.cf") || attribute(theirs) == attribute(ours))
}

/// A constraint of `project.yml` that a module does not fulfil: the reference leaves it to the installation.
fn module_requires(seen: &Seen) -> bool {
    let is_constraint = |error: &Found| {
        error.kind == "CompilerException"
            && error
                .message
                .starts_with("The following requirements were not satisfied:")
    };
    let is_unused = |warning: &Found| {
        warning
            .message
            .ends_with("is present in requires but it is not used by the model.")
    };
    // What comes after an error does not run.
    seen.source.contains("\nrequires:")
        && (seen.ours.errors.iter().any(is_constraint) || seen.ours.warnings.iter().any(is_unused))
}

/// The reference says of itself that it has a bug.
fn invalid_state(seen: &Seen) -> bool {
    let is_bug = |error: &Found| error.kind == "InvalidCompilerState";
    seen.reference.errors.len() == 1
        && seen.reference.errors.iter().all(is_bug)
        && matches!(seen.ours.outcome, Outcome::Rejected | Outcome::Accepted)
}

/// A dict of Python whose keys are no texts, in a field of a dataclass: the reference looks only at the type of the field.
fn dict_keys(seen: &Seen) -> bool {
    let is_key = |error: &Found| error.message.starts_with("dict keys should be strings");
    seen.ours
        .errors
        .first()
        .is_some_and(|error| error.causes.iter().any(is_key))
}

/// The reference does not find a resource that its `std` has no more.
fn resources_of_std(seen: &Seen) -> bool {
    const NAMES: &[&str] = &[
        "std::File",
        "std::ConfigFile",
        "std::Directory",
        "std::Symlink",
        "std::Package",
        "std::Service",
        "std::Reload",
    ];
    let is_named = |error: &Found| NAMES.iter().any(|name| error.message.contains(name));
    seen.reference.errors.iter().any(is_named)
}

/// `no` in a file in YAML, which is a truth value for the reference and so no text.
fn unquoted_words(seen: &Seen) -> bool {
    const WORDS: &[&str] = &["yes", "no", "on", "off"];
    let metadata = seen.source.split("--- end").filter_map(|file| {
        let (_, file) = file.rsplit_once("--- ")?;
        let (name, content) = file.split_once('\n')?;
        (name == "project.yml" || name.ends_with("/module.yml")).then_some(content)
    });
    let mut values = metadata
        .flat_map(str::lines)
        .filter_map(|line| line.split_once(": "));
    let is_no_text = |error: &Found| match error.kind.as_str() {
        "InvalidMetadata" => {
            error.message.contains("input_type=bool") || error.message.contains("got False")
        }
        // It does not say why.
        "ModuleLoadingException" => error
            .causes
            .iter()
            .any(|cause| cause.message.ends_with("is not a valid V1 module")),
        _ => false,
    };
    let [error] = seen.reference.errors.as_slice() else {
        return false;
    };
    values.any(|(_, value)| WORDS.contains(&value.trim())) && is_no_text(error)
}

/// The name of the deviation that explains a difference.
pub fn explained(seen: &Seen) -> Option<&'static str> {
    DEVIATIONS
        .iter()
        .find(|(_, explains)| explains(seen))
        .map(|(name, _)| *name)
}
