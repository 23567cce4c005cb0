//! Getters of resource classes, which run for many resources in one frame (`runtime/python_bridge/rendering.rs`): what they
//! say, read, return and raise is that of one resource after the other.

use std::time::Duration;

use steward_compiler::{Options, Severity};

use crate::disk::Disk;
use crate::lang::Outcome;

const MODEL: &str = r#"
import m

entity Box extends std::PurgeableResource:
    string name
    int number
    bool managed = true
end
Box.holder [1] -- Holder.boxes [0:]
entity Crate extends std::PurgeableResource:
    string name
end
entity Holder:
    string name
end
implement Box using std::none
implement Crate using std::none
implement Holder using std::none

for i in std::sequence(150):
    Box(name="b{{ i }}", number=i, managed=i != 77, holder=Holder(name="h{{ i }}"))
    Crate(name="c{{ i }}")
end
"#;

const CLASSES: &str = r#"
from inmanta.resources import IgnoreResourceException, PurgeableResource, Resource, resource

@resource("__config__::Crate", agent="name", id_attribute="name")
class Crate(PurgeableResource):
    fields = ("name", "kind")

    @staticmethod
    def get_kind(exporter, crate):
        print("> crate", crate.name)
        return "crate"

@resource("__config__::Box", agent="holder.name", id_attribute="name")
class Box(PurgeableResource):
    fields = ("name", "seen", "managed", "last")

    @staticmethod
    def get_seen(exporter, box):
        return seen(box)

    @staticmethod
    def get_last(exporter, box):
        print("> last", box.name)
        return box.number
"#;

fn export(body: &str, more: &Options) -> Outcome {
    let plugins = format!("{CLASSES}\ndef seen(box):\n{body}");
    export_of(MODEL, &plugins, more)
}

fn export_of(model: &str, plugins: &str, more: &Options) -> Outcome {
    let files = [
        ("project.yml", "name: rendering\nmodulepath: libs\n"),
        ("main.cf", model),
        (
            "libs/m/module.yml",
            "name: m\nversion: 1.0.0\nlicense: Apache-2.0\n",
        ),
        ("libs/m/model/_init.cf", ""),
        ("libs/m/plugins/__init__.py", plugins),
    ];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let options = Options {
        export: true,
        ..more.clone()
    };
    Disk::new(&files).run(&options, &[])
}

/// The exported text of the attributes of a box.
fn attributes(outcome: &Outcome, box_: &str) -> Option<String> {
    let export = outcome.compiled.export.as_ref().expect("it is exported");
    let name = format!(",name={box_}]");
    let mut resources = export.resources.iter();
    let found = resources.find(|resource| resource.id.to_string().contains(&name));
    found.map(|resource| resource.attributes.clone())
}

/// The message of the first error, with its causes.
#[track_caller]
fn error(outcome: &Outcome) -> String {
    let mut diagnostics = outcome.compiled.diagnostics.iter();
    let error = diagnostics.find(|diagnostic| diagnostic.severity == Severity::Error);
    let error = error.expect("there is an error");
    let causes = error.causes.iter().map(|cause| cause.message.as_str());
    format!(
        "{} | {}",
        error.message,
        causes.collect::<Vec<_>>().join(" | ")
    )
}

#[test]
fn getters_run_resource_by_resource_each_once_in_the_order_of_the_instances() {
    let body = r#"
    print("> seen", box.name, box.holder.name)
    if box.number % 7 == 0:
        raise IgnoreResourceException("not this one")
    return [box.holder.name, box.number]
"#;
    let outcome = export(body, &Options::default());
    assert!(
        outcome.compiled.succeeded(),
        "{:?}",
        outcome.compiled.diagnostics
    );
    let mut expected = String::new();
    for i in 0..150 {
        // What a crate is made of is known at once, so it comes before the box.
        expected += &format!("> crate c{i}\n> seen b{i} h{i}\n");
        // One that is ignored, or not to be managed, has no getters behind that.
        if i % 7 != 0 && i != 77 {
            expected += &format!("> last b{i}\n");
        }
    }
    assert_eq!(outcome.printed, expected);
    assert_eq!(attributes(&outcome, "b70"), None);
    assert_eq!(attributes(&outcome, "b77"), None);
    let written = attributes(&outcome, "b149").expect("it is exported");
    assert!(written.contains(r#""seen": ["h149", 149]"#), "{written}");
}

#[test]
fn a_getter_that_raises_ends_the_export_at_its_resource() {
    let body = r#"
    print("> seen", box.name)
    return 1 // (120 - box.number)
"#;
    let outcome = export(body, &Options::default());
    let said = error(&outcome);
    assert!(said.contains("attribute 'seen'"), "{said}");
    assert!(said.contains("division"), "{said}");
    assert!(outcome.printed.contains("> seen b120\n"));
    assert!(!outcome.printed.contains("> seen b121\n"));
}

#[test]
fn a_mistake_of_the_export_ends_what_is_heard_of_getters() {
    let body = r#"
    print("> seen", box.name)
    # Python has nothing against it; but an instance is no value of a field.
    return box.holder if box.number == 99 else "x"
"#;
    let outcome = export(body, &Options::default());
    assert!(!outcome.compiled.succeeded());
    assert!(outcome.printed.contains("> seen b99\n"));
    assert!(
        !outcome.printed.contains("> seen b100\n"),
        "{}",
        outcome.printed
    );
}

#[test]
fn a_death_or_a_time_limit_among_getters_is_that_of_the_resource_that_ran() {
    for (ends, says) in [
        ("import time; time.sleep(600)", "did not end within the 2 s"),
        ("import os; os._exit(3)", "the Python host ended"),
    ] {
        let body = format!(
            "    print(\"> seen\", box.name)\n    if box.number == 90:\n        {ends}\n    return 1\n"
        );
        let limited = Options {
            time_limit: Some(Duration::from_secs(2)),
            ..Options::default()
        };
        let outcome = export(&body, &limited);
        let said = error(&outcome);
        assert!(said.contains(says), "{said}");
        assert!(outcome.printed.contains("> seen b90\n"));
        assert!(!outcome.printed.contains("> seen b91\n"));
    }
}

#[test]
fn fields_have_the_same_value_in_whatever_form_they_travel() {
    let body = r#"
    values = [
        None, True, 7, -(2 ** 31) - 1, 2 ** 63, -(2 ** 80), 1.5, "", "\u00e9\ud55c", (1, [2]), {"3": {"k": None}},
        ["a", "b"], box.holder.boxes[0].name, "x" * 5000, [[[]]], float(2 ** 60),
    ]
    return values[box.number % len(values)]
"#;
    let outcome = export(body, &Options::default());
    assert!(
        outcome.compiled.succeeded(),
        "{:?}",
        outcome.compiled.diagnostics
    );
    for (number, expected) in [
        (16, "null"),
        (17, "true"),
        (19, "-2147483649"),
        (20, "9223372036854775808"),
        (21, "-1208925819614629174706176"),
        (22, "1.5"),
        (24, r#""\u00e9\ud55c""#),
        (25, "[1, [2]]"),
        (26, r#"{"3": {"k": null}}"#),
        (27, r#"["a", "b"]"#),
        (28, r#""h28""#),
        (30, "[[[]]]"),
    ] {
        let written = attributes(&outcome, &format!("b{number}")).expect("it is exported");
        let field = format!(r#""seen": {expected}"#);
        let field = field.replace("\"h28\"", "\"b28\"");
        assert!(written.contains(&field), "{field} in {written}");
    }
}

#[test]
fn a_field_that_no_value_can_be_made_of_is_an_error_at_its_resource() {
    let outcome = export("    return 1 << 20000", &Options::default());
    let said = error(&outcome);
    assert!(said.contains("an integer that can not be read"), "{said}");
}

#[test]
fn of_the_resources_of_one_instance_the_last_one_has_what_it_requires() {
    let model = r#"
import m

entity Base extends std::PurgeableResource:
    string name
end
entity Derived extends Base:
    string more = "x"
end
implement Base using std::none
implement Derived using std::none

first = Derived(name="first")
second = Derived(name="second", requires=first)
third = Base(name="third", requires=second)
"#;
    let plugins = r#"
from inmanta.resources import PurgeableResource, resource

@resource("__config__::Base", agent="name", id_attribute="name")
class Base(PurgeableResource):
    fields = ("name",)

@resource("__config__::Derived", agent="name", id_attribute="name")
class Derived(Base):
    fields = ("more",)
"#;
    let outcome = export_of(model, plugins, &Options::default());
    let export = outcome.compiled.export.expect("it is exported");
    let requires = export.resources.iter().map(|resource| {
        let requires = resource.requires.iter().map(ToString::to_string);
        (
            resource.id.to_string(),
            requires.collect::<Vec<_>>().join(" "),
        )
    });
    let mut requires: Vec<_> = requires.collect();
    requires.sort();
    // As the reference says.
    let expected = [
        ("__config__::Base[first,name=first]", ""),
        ("__config__::Base[second,name=second]", ""),
        (
            "__config__::Base[third,name=third]",
            "__config__::Derived[second,name=second]",
        ),
        ("__config__::Derived[first,name=first]", ""),
        (
            "__config__::Derived[second,name=second]",
            "__config__::Derived[first,name=first]",
        ),
    ];
    let expected = expected.map(|(id, requires)| (id.to_owned(), requires.to_owned()));
    assert_eq!(requires, expected);
}
