//! Calls of plugins that go ahead of their turn (`runtime/python_bridge/ahead.rs`), with what their plugins read (`runtime/python_bridge/known_values.rs`):
//! nothing of it may be noticed. Each model here runs as it is, and with a type in it whose condition calls Python, so
//! that nothing goes ahead; what is printed, said and exported must be the same. With `STEWARD_ORACLE` the reference says
//! so, too.

use std::time::Duration;

use steward_compiler::{Diagnostic, Options, Severity};

use crate::disk::{Disk, python};
use crate::lang::Outcome;

const MODULE: &str = "name: m\nversion: 1.0.0\nlicense: Apache-2.0\n";

/// A type that nobody uses; it keeps calls from going ahead.
const IN_TURN: &str = "\ntypedef watched as string matching m::always(self)\n";
const ALWAYS: &str = r#"
from inmanta.plugins import plugin

@plugin
def always(text: "string") -> "bool":
    return True
"#;

fn project(main: &str, plugins: &str, in_turn: bool) -> Disk {
    let main = match in_turn {
        true => format!("{main}{IN_TURN}"),
        false => main.to_owned(),
    };
    let files = [
        ("project.yml", "name: ahead\nmodulepath: libs\n".to_owned()),
        ("main.cf", main),
        ("libs/m/module.yml", MODULE.to_owned()),
        ("libs/m/model/_init.cf", String::new()),
        ("libs/m/plugins/__init__.py", format!("{ALWAYS}{plugins}")),
        (
            "libs/m/templates/seen.tmpl",
            "{{ name | m.seen }}".to_owned(),
        ),
    ];
    let files = files.map(|(name, text)| (name.to_owned(), text));
    Disk::new(&files)
}

/// What the reference prints: the lines of the model and its plugins, which begin with `> `.
pub(crate) fn printed_by_the_reference(disk: &Disk) -> Option<String> {
    let python = std::env::var_os("STEWARD_ORACLE")?;
    let output = std::process::Command::new(python)
        .args(["-m", "inmanta.app", "compile"])
        .current_dir(disk.path())
        .output()
        .expect("the reference starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter(|line| line.starts_with("> "));
    Some(lines.map(|line| format!("{line}\n")).collect())
}

/// Runs a model both ways; the outcome, which is the same.
#[track_caller]
fn check(main: &str, plugins: &str, options: &Options) -> Outcome {
    let disk = project(main, plugins, false);
    let ahead = disk.run(options, &[]);
    let in_turn = project(main, plugins, true).run(options, &[]);
    let said = |outcome: &Outcome| {
        let diagnostics = outcome.compiled.diagnostics.iter();
        let diagnostics = diagnostics.map(|diagnostic| {
            // Numbers of instances are the same, places in temporary directories are not.
            let message = diagnostic.message.clone();
            let line = diagnostic.location.as_ref().map(|at| at.line);
            let causes = diagnostic.causes.iter().map(|cause| cause.message.clone());
            (message, line, causes.collect::<Vec<_>>())
        });
        diagnostics.collect::<Vec<_>>()
    };
    assert_eq!(ahead.printed, in_turn.printed);
    assert_eq!(said(&ahead), said(&in_turn));
    if options.time_limit.is_none()
        && let Some(reference) = printed_by_the_reference(&disk)
    {
        let ours = ahead.printed.lines().filter(|line| line.starts_with("> "));
        let ours: String = ours.map(|line| format!("{line}\n")).collect();
        assert_eq!(ours, reference);
    }
    ahead
}

/// Things with a name, an owner that is known at once, and parts that become known late.
const THINGS: &str = r#"
import m

entity Thing:
    string name
    int number
    string label
    string? late = null
end
Thing.owner [1] -- Owner.things [0:]
Thing.parts [0:] -- Part.thing [1]

entity Owner:
    string name
end
Owner.parent [0:1] -- Owner.children [0:]

entity Part:
    string name
    int weight = 1
end

index Thing(name)
index Owner(name)

implement Owner using std::none
implement Part using std::none
implement Thing using thing
"#;

const RECORDING: &str = r#"
from inmanta.ast import UnsetException
HISTORY = []
LATE = {}

def note(*parts):
    HISTORY.append(" ".join(str(part) for part in parts))
    return len(HISTORY)

@plugin
def text(value: "string") -> "string":
    return f"{value}-{note('text', value)}"

@plugin
def read(thing: "any") -> "string":
    """Reads an attribute, and attributes of relations; notes what is there when it runs."""
    owner = thing.owner
    note("read", thing.name, owner.name)
    try:
        parent = owner.parent.name
    except UnsetException:
        parent = "unset"
    except Exception as error:
        parent = type(error).__name__
    try:
        parts = [part.name for part in thing.parts]
    except UnsetException:
        parts = "unset"
    return f"{thing.name}/{parent}/{parts}/{note('was read', parent, parts)}"

@plugin
def whole(thing: "any") -> "string":
    """Runs again until all parts are there."""
    note("whole", thing.name)
    return ",".join(f"{part.name}*{part.weight}" for part in thing.parts) + f" {note('ends')}"

@plugin
def many(items: "any", more: "dict" = {}) -> "string":
    note("many", len(items))
    return ",".join(str(getattr(item, "name", item)) for item in items) + str(sorted(more))

@plugin
def number(value: "int", times: "int" = 2) -> "int":
    note("number", value, times)
    return value * times

@plugin
def history(after: "any") -> "string":
    return " | ".join(HISTORY)
"#;

#[test]
fn plugins_are_called_in_the_order_of_the_queue_and_see_the_model_as_it_is_in_their_turn() {
    let main = format!(
        r#"{THINGS}
implementation thing for Thing:
    self.label = m::text("thing {{{{ self.name }}}} of {{{{ self.owner.name }}}}")
    seen = m::read(self)
    for i in std::sequence(m::number(self.number, times=1)):
        self.parts += Part(name="part {{{{ i }}}}", weight=m::number(i))
    end
    all = m::whole(self)
    names = m::many([self, self.owner], more={{"x": 1, "owner": self.owner}})
    plain = m::many(["a", "b", self.name])
    big = m::number(self.number * 1000000007, times=123456789)
    std::print("> {{{{ self.label }}}} {{{{ seen }}}} {{{{ all }}}} {{{{ names }}}} {{{{ plain }}}} {{{{ big }}}}")
end

root = Owner(name="root")
for o in std::sequence(7):
    Owner(name="owner {{{{ o }}}}", parent=o > 3 ? root : null)
end
for t in std::sequence(120):
    which = t > 99 ? 6 : t > 60 ? 4 : 2
    Thing(name="t{{{{ t }}}}", number=t in [3, 8, 50, 77, 110] ? 3 : 1, owner=Owner[name="owner {{{{ which }}}}"])
end
labels = [thing.label for owner in root.children for thing in owner.things]
history = m::history(labels)
std::print("> {{{{ history }}}}")
"#
    );
    let outcome = check(&main, RECORDING, &Options::default());
    let errors = &outcome.compiled.diagnostics;
    assert!(outcome.compiled.succeeded(), "{errors:#?}");
    assert_eq!(outcome.printed.lines().count(), 121, "{}", outcome.printed);
    assert!(outcome.printed.contains("unset"), "{}", outcome.printed);
}

/// Given: plugins that read attributes which others of the same frame give, through constructors, assignments, defaults, implementations
/// and relations; all of them note each time that they begin. Expected: each is called as often as in its turn, in the same order.
#[test]
fn attributes_without_a_value_in_the_turn_of_a_call_are_not_asked_for() {
    let plugins = r#"
HISTORY = []
@plugin
def vlan(port: "any") -> "int":
    HISTORY.append(f"vlan {port.name}")
    return len(HISTORY)

@plugin
def label(name: "string") -> "string":
    HISTORY.append(f"label {name}")
    return f"{name}-{len(HISTORY)}"

@plugin
def text(port: "any") -> "string":
    HISTORY.append(f"text {port.name}")
    return f"{port.device.name} {port.vlan} {port.label} {port.kind} {port.note}"

@plugin
def peer(port: "any") -> "string":
    HISTORY.append(f"peer {port.name}")
    try:
        return port.peer.text
    except Exception as error:
        HISTORY.append(type(error).__name__)
        raise

@plugin
def history(after: "any") -> "string":
    return " | ".join(HISTORY)
"#;
    let model = |body: &str| {
        format!(
            r#"
import m
entity Device:
    string name
end
entity Port:
    string name
    int vlan
    string label
    string text
    string kind = "plain"
    string? note
    string seen
end
Port.device [1] -- Device.ports [0:]
Port.peer [0:1] -- Port.peer_of [0:]
implement Device using std::none
{body}
history = m::history([port.seen for device in devices for port in device.ports])
std::print("> {{{{ history }}}}")
"#
        )
    };
    let constructed = (0..40).map(|at| {
        let peer = match at % 3 {
            0 => String::new(),
            _ => format!(", peer=p{}", at - 1),
        };
        let seen = if at % 3 == 0 { "m::label(\"x\")".to_owned() } else { format!("m::peer(p{at})") };
        format!(
            "p{at} = Port(name=\"p{at}\", device=d{}, vlan=m::vlan(p{at}), label=m::label(\"p{at}\"), text=m::text(p{at}), \
             note=m::label(\"n{at}\"), seen={seen}{peer})\n",
            at % 2
        )
    });
    let constructed = format!(
        "implement Port using std::none\nd0 = Device(name=\"d0\")\nd1 = Device(name=\"d1\")\ndevices = [d0, d1]\n{}",
        constructed.collect::<String>()
    );
    let implemented = r#"
implement Port using port
implementation port for Port:
    self.text = m::text(self)
    self.vlan = m::vlan(self)
    self.note = m::label("note of {{ self.name }}")
    self.label = m::label(self.name)
    self.seen = m::peer(self)
    self.peer = self.name == "p0" ? null : Port[name="p0"]
end
index Port(name)
devices = [Device(name="a"), Device(name="b")]
for device in devices:
    for at in std::sequence(20):
        Port(name=device.name == "a" ? "p{{ at }}" : "q{{ at }}", device=device)
    end
end
"#
    .replace(
        "self.seen = m::peer(self)",
        "self.seen = self.name == \"p0\" ? \"none\" : m::peer(self)",
    );
    for body in [&constructed, &implemented] {
        let outcome = check(&model(body), plugins, &Options::default());
        let errors = &outcome.compiled.diagnostics;
        assert!(outcome.compiled.succeeded(), "{errors:#?}");
        assert!(outcome.printed.contains("text p7"), "{}", outcome.printed);
    }
}

/// A hundred calls that are ready together.
const CALLS: &str = r#"
import m
for i in std::sequence(100):
    result = m::f(i)
    std::print("> result {{ result }} of {{ i }}")
end
"#;

#[test]
fn what_a_plugin_says_comes_in_the_order_of_the_calls_and_of_the_model() {
    let plugins = r#"
import logging
@plugin
def f(i: "int") -> "int":
    print("> called", i)
    if i == 50:
        logging.getLogger("m").warning("halfway")
    return i
"#;
    let outcome = check(CALLS, plugins, &Options::default());
    assert!(outcome.compiled.succeeded());
    assert_eq!(outcome.printed.lines().count(), 200);
    let told = outcome.compiled.diagnostics.iter();
    assert_eq!(told.filter(|it| it.message == "halfway").count(), 1);
}

#[test]
fn calls_behind_one_that_raises_are_not_made() {
    let plugins = r#"
@plugin
def f(i: "int") -> "int":
    print("> called", i)
    if i == 41:
        raise ValueError("not this one")
    return i
"#;
    let outcome = check(CALLS, plugins, &Options::default());
    let error = &outcome.compiled.diagnostics[0];
    assert_eq!(error.message, "Exception in plugin m::f");
    let diagnostics = outcome.compiled.diagnostics.iter();
    let is_error = |it: &&Diagnostic| it.severity == Severity::Error;
    assert_eq!(diagnostics.filter(is_error).count(), 1);
    assert!(!outcome.printed.contains("called 42\n"));
}

#[test]
fn calls_behind_a_result_of_the_wrong_type_count_as_not_made() {
    let plugins = r#"
@plugin
def f(i: "int") -> "int":
    print("> called", i)
    return "no number" if i == 41 else i
"#;
    let outcome = check(CALLS, plugins, &Options::default());
    assert!(!outcome.compiled.succeeded());
    assert!(!outcome.printed.contains("called 42\n"));
}

#[test]
fn a_mistake_between_two_calls_ends_what_is_heard_of_them() {
    let main = r#"
import m
entity Box:
    int value
    string label = "x"
end
implement Box using box
implementation box for Box:
    self.value = m::f(self.label == "b7" ? 1 : 0)
    if self.label == "b7":
        self.value = 9
    end
end
for i in std::sequence(30):
    Box(label="b{{ i }}")
end
"#;
    let plugins = r#"
@plugin
def f(i: "int") -> "int":
    print("> called", i)
    return i
"#;
    let outcome = check(main, plugins, &Options::default());
    assert!(!outcome.compiled.succeeded());
}

#[test]
fn a_time_limit_or_a_death_among_many_calls_is_that_of_the_call_that_ran() {
    for (ends, says) in [
        ("import time; time.sleep(600)", "did not end within the 2 s"),
        ("import os; os._exit(3)", "the Python host ended"),
    ] {
        let plugins = format!(
            "\n@plugin\ndef f(i: \"int\") -> \"int\":\n    print(\"> called\", i)\n    if i == 23:\n        {ends}\n    return i\n"
        );
        let options = Options {
            time_limit: Some(Duration::from_secs(2)),
            ..Options::default()
        };
        let outcome = check(CALLS, &plugins, &options);
        let error = &outcome.compiled.diagnostics[0];
        assert_eq!(error.message, "Exception in plugin m::f");
        assert!(format!("{error:?}").contains(says), "{error:#?}");
        assert!(
            outcome.printed.contains("> called 22\n> called 23\n"),
            "{ends}"
        );
        assert!(!outcome.printed.contains("> called 24"), "{ends}");
    }
}

#[test]
fn what_was_answered_before_a_death_is_known_when_nothing_was_said_meanwhile() {
    let calls = (1..60).map(|i| format!("std::print(m::f({i}))\n"));
    let main = format!("import m\nimport std\n{}", calls.collect::<String>());
    for ends in [
        "import time; time.sleep(600)",
        "import os; os._exit(3)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    ] {
        let plugins = format!(
            "\n@plugin\ndef f(i: \"int\") -> \"string\":\n    if i == 23:\n        {ends}\n    return f\"> {{i}}\"\n"
        );
        let options = Options {
            time_limit: Some(Duration::from_secs(2)),
            ..Options::default()
        };
        let outcome = check(&main, &plugins, &options);
        let error = &outcome.compiled.diagnostics[0];
        assert_eq!(error.message, "Exception in plugin m::f");
        assert_eq!(
            error.location.as_ref().map(|at| at.line),
            Some(25),
            "{ends}"
        );
    }
}

#[test]
fn results_of_all_sizes_and_kinds_come_in_order() {
    let calls = (1..150).map(|i| format!("std::print(m::f({i}))\nstd::print(m::g({i}))\n"));
    let main = format!("import m\nimport std\n{}", calls.collect::<String>());
    let plugins = r#"
@plugin
def f(i: "int") -> "string":
    return "é" * (i * 997 % 3000)

@plugin
def g(i: "int") -> "dict":
    return {"i": [i, None, 1.5, "x" * (i * 613 % 2500)]}
"#;
    let outcome = check(&main, plugins, &Options::default());
    assert!(outcome.compiled.succeeded());
    assert_eq!(outcome.printed.lines().count(), 298);
}

#[test]
fn getters_of_resources_read_the_same_whether_it_travels_or_is_asked_for() {
    let main = r#"
import m

entity Box extends std::PurgeableResource:
    string name
    string? label = null
    dict more = {}
end
Box.holder [1] -- Holder.boxes [0:]
Box.next [0:1] -- Box.before [0:1]
entity Holder:
    string name
end
implement Box using std::none
implement Holder using std::none

for i in std::sequence(40):
    holder = Holder(name="h{{ i }}")
    Box(name="a{{ i }}", holder=holder, label="l{{ i }}", more={"k": [i, holder.name]})
    Box(name="b{{ i }}", holder=holder, next=Box(name="c{{ i }}", holder=holder))
end
"#;
    let plugins = r#"
from inmanta.ast import OptionalValueException
from inmanta.resources import PurgeableResource, resource

@resource("__config__::Box", agent="holder.name", id_attribute="name")
class Box(PurgeableResource):
    fields = ("name", "seen", "label", "others")

    @staticmethod
    def get_seen(exporter, box):
        try:
            after = box.next.name
        except OptionalValueException:
            after = None
        return {"holder": box.holder.name, "after": after, "more": dict(box.more)}

    @staticmethod
    def get_others(exporter, box):
        return sorted(other.name for other in box.holder.boxes)
"#;
    let options = Options {
        export: true,
        ..Options::default()
    };
    let outcome = check(main, plugins, &options);
    let in_turn = project(main, plugins, true).run(&options, &[]);
    assert!(
        outcome.compiled.succeeded(),
        "{:?}",
        outcome.compiled.diagnostics
    );
    let export = outcome.compiled.export.expect("it is exported");
    assert_eq!(export.resources.len(), 120);
    assert_eq!(
        in_turn.compiled.export.expect("it is exported").resources,
        export.resources
    );
    let attributes = export.resources.iter().map(|one| one.attributes.as_str());
    let written: String = attributes.collect();
    assert!(written.contains(r#""after": "c39""#), "{written}");
    assert!(written.contains(r#"["a39", "b39", "c39"]"#), "{written}");
}

/// Plugins that say nothing of what they return, of which some return objects whose texts are noted when they are made.
const ANYTHING: &str = r#"
HISTORY = []

class Odd:
    def __init__(self, i):
        self.i = i

    def __str__(self):
        HISTORY.append(f"text of {self.i}")
        return f"odd {self.i}"

    def __repr__(self):
        return "odd"

class Text(str):
    pass

@plugin
def f(i: "int") -> "any":
    HISTORY.append(f"f {i}")
    return Odd(i) if i in ODD else i

@plugin
def g(i: "int") -> "dict":
    HISTORY.append(f"g {i}")
    return {"i": i, "text": Text(f"t{i}") if i in ODD else "t"}

@plugin
def history(after: "any") -> "string":
    return " | ".join(HISTORY)
"#;

#[test]
fn a_result_that_only_python_knows_has_its_text_before_the_next_call_is_made() {
    let main = r#"
import m
entity Box:
    int i
    string text
end
implement Box using box
implementation box for Box:
    found = m::f(self.i)
    parts = m::g(self.i)
    part = parts["text"]
    self.text = "{{ found }}, {{ part }}"
end
for i in std::sequence(90):
    Box(i=i, boxes=boxes)
end
entity Boxes:
end
implement Boxes using std::none
Boxes.all [0:] -- Box.boxes [1]
boxes = Boxes()
texts = [box.text for box in boxes.all]
history = m::history(texts)
std::print("> {{ texts }}")
std::print("> {{ history }}")
"#;
    for odd in ["(7,)", "(0, 1, 2, 40, 89)", "range(100)", "()"] {
        let plugins = ANYTHING.replace("ODD", odd);
        let outcome = check(main, &plugins, &Options::default());
        let errors = &outcome.compiled.diagnostics;
        assert!(outcome.compiled.succeeded(), "{errors:#?}");
        let printed = &outcome.printed;
        assert_eq!(printed.lines().count(), 2);
        assert!(printed.contains("f 89"), "{printed}");
        assert_eq!(printed.contains("text of"), odd != "()", "{printed}");
    }
}

#[test]
fn calls_go_ahead_whatever_a_plugin_says_that_it_returns() {
    // The first call comes before a mistake, and those behind it go with it.
    let main = r#"
import m
entity Box:
    int i
    int[] values
end
implement Box using box
implementation box for Box:
    self.values = [0]
    value = m::f(self.i)
    if self.i == 0:
        self.values = [value == null ? 1 : 2]
    end
end
for i in std::sequence(30):
    Box(i=i)
end
"#;
    for (returns, value) in [
        ("int", "i"),
        ("any", "i"),
        ("dict", "{}"),
        ("list", "[i]"),
        ("any", "None"),
    ] {
        let calls = tempfile::NamedTempFile::new().expect("a file");
        let plugins = format!(
            "@plugin\ndef f(i: \"int\") -> \"{returns}\":\n    with open({:?}, \"a\") as file:\n        file.write(\".\")\n    return {value}\n",
            calls.path()
        );
        let disk = project(main, &plugins, false);
        let outcome = disk.run_once(
            &Options {
                python: python(),
                ..Options::default()
            },
            &[],
        );
        assert!(!outcome.compiled.succeeded());
        let calls = std::fs::read_to_string(calls.path()).expect("a file");
        assert_eq!(
            calls.len(),
            30,
            "{returns}: {:#?}",
            outcome.compiled.diagnostics
        );
    }
}

#[test]
fn what_else_asks_python_between_two_calls_keeps_its_place() {
    let main = r#"
import m
entity Box:
    int i
    string name = "box"
end
implement Box using box
implementation box for Box:
    a = m::write(self.i)
    b = std::template("m/seen.tmpl")
    std::print("> {{ a }} {{ b }}")
end
for i in std::sequence(20):
    Box(i=i)
end
"#;
    let plugins = r#"
STATE = []
@plugin
def write(i: "int") -> "int":
    STATE.append(i)
    return i

@plugin
def seen(text: "string") -> "string":
    return f"{len(STATE)} {text}"
"#;
    let outcome = check(main, plugins, &Options::default());
    let errors = &outcome.compiled.diagnostics;
    assert!(outcome.compiled.succeeded(), "{errors:#?}");
    assert_eq!(outcome.printed.lines().count(), 20);
}

/// Enough services for tiles.
fn services(body: &str, end: &str) -> String {
    let services: String = (0..1500)
        .map(|i| format!("s{i} = Service(name=\"s{i}\")\n"))
        .collect();
    format!(
        r#"
import m
entity Service:
    string name
    string text
    bool special = false
end
index Service(name)
Service.parts [0:] -- Part.service [1]
entity Part:
    string name
end
implementation service for Service:
    for i in std::sequence(2):
        self.parts += Part(name="{{{{ self.name }}}}-{{{{ i }}}}")
    end
    {body}
end
implementation special for Service:
    x = m::seen(self.name)
end
implement Service using service
implement Part using std::none
{services}{end}
"#
    )
}

const SEEN: &str = r#"
CALLED = []
@plugin
def seen(text: "string") -> "string":
    CALLED.append(text)
    return f"{text} {len(CALLED)}"

@plugin
def order(after: "any") -> "string":
    return f"{len(CALLED)} {list(after)}"
"#;

#[test]
fn a_model_runs_in_tiles_beside_plugins_that_it_does_not_call() {
    let outcome = check(&services("self.text = name", ""), SEEN, &Options::default());
    assert!(outcome.compiled.succeeded());
    assert!(outcome.compiled.ran_in_tiles);
    for end in [
        "std::print(m::seen(s0.name))",
        "implement Service using special when self.special",
    ] {
        let outcome = check(
            &services("self.text = name", end),
            SEEN,
            &Options::default(),
        );
        assert!(outcome.compiled.succeeded());
        assert!(!outcome.compiled.ran_in_tiles, "{end}");
    }
}

#[test]
fn calls_that_nobody_could_foresee_are_made_once_and_in_order() {
    let body = "self.text = std::template(\"m/seen.tmpl\")";
    let end = "order = m::order([s0.text, s1.text, s1499.text])\nstd::print(\"> {{ order }}\")";
    // A template calls: that is found out when it runs, in a tile.
    for (body, end) in [(body, ""), (body, end)] {
        let main = services(body, end);
        let outcome = check(&main, SEEN, &Options::default());
        let errors = &outcome.compiled.diagnostics;
        assert!(outcome.compiled.succeeded(), "{errors:#?}");
        assert!(!outcome.compiled.ran_in_tiles);
    }
}

/// So many connections.
const CONNECTIONS: usize = 240;

const MANY_CONNECTIONS: &str = "
import m

entity Owner:
    string name
end

entity End:
    string name
end

entity Pool:
end

entity Connection:
    string name
    string seen
end

Connection.ends [2] -- End.connection [0:1]
Pool.members [0:] -- End.pools [0:]
End.owner [1] -- Owner
index Owner(name)
index End(owner, name)
index Connection(name)
implement Owner using std::none
implement End using std::none
implement Pool using std::none
implement Connection using seen

implementation seen for Connection:
    self.seen = m::ends(self)
end

o = Owner(name=\"o\")
";

/// Connections between two ends that are looked up, so that they come one by one, just before the call that reads them.
/// `is_varied`: of every second one the last end comes from a list, too, by way of so many names, and the ends are looked up
/// by way of so many: so it comes before, between or after the others.
fn connections(asked: &str, is_varied: bool) -> String {
    let mut model = MANY_CONNECTIONS.to_owned();
    let named = |from: &str, to: &str, n_names: usize| {
        let names = (0..n_names).map(|name| format!("{to}_{} = {to}_{name}\n", name + 1));
        names.fold(format!("{to}_0 = {from}\n"), |all, name| all + &name)
    };
    for at in 0..CONNECTIONS {
        let is_pooled = is_varied && at % 2 == 1;
        let (n_names, is_first) = (at / 2 % 6, at / 60 % 2 == 1);
        let n_keys = if is_varied { at / 12 % 5 } else { 0 };
        let [x, y] = ["x", "y"].map(|end| match n_keys {
            0 => format!("\"{end}{at}\""),
            n_keys => format!("t{at}{end}_{n_keys}"),
        });
        let [x, y] = [x, y].map(|name| format!("End[owner=Owner[name=\"o\"], name={name}]"));
        model += &format!(
            "p{at} = Pool()\nEnd(name=\"x{at}\", owner=o)\ny{at} = End(name=\"y{at}\", owner=o)\n"
        );
        let mut made = format!("c{at} = Connection(name=\"c{at}\", ends=[{x}, {y}])\n");
        let mut pooled = String::new();
        if is_pooled {
            pooled = named(&format!("y{at}"), &format!("m{at}"), n_names);
            pooled += &format!("p{at}.members += m{at}_{n_names}\n");
            made += &format!("c{at}.ends += p{at}.members\n");
        }
        for end in ["x", "y"].iter().take(2 * n_keys.min(1)) {
            made += &named(&format!("\"{end}{at}\""), &format!("t{at}{end}"), n_keys);
        }
        model += &match is_first {
            true => pooled + &made,
            false => made + &pooled,
        };
    }
    let seen: Vec<String> = (0..CONNECTIONS).map(|at| format!("c{at}.seen")).collect();
    let seen = seen.join(", ");
    format!("{model}all = {asked}([{seen}])\nstd::print(\"> {{{{ all }}}}\")\n")
}

const ENDS: &str = r#"
TOLD = []
RUNS = {}

@plugin
def ends(connection: "any") -> "string":
    known = getattr(connection._get_instance(), "_values", ())
    if "ends" in known:
        TOLD.append(connection.name)
    found = " ".join(end.name for end in connection.ends)
    RUNS[connection.name] = RUNS.get(connection.name, 0) + 1
    return f"{connection.name}: {found}"

@plugin
def joined(texts: "string[]") -> "string":
    return ", ".join(texts)

@plugin
def known(texts: "string[]") -> "string":
    """How many connections came with their ends, and how many were asked for again, since the ends came in another order."""
    return f"{len(TOLD)} told, {sum(1 for n in RUNS.values() if n > 1)} again"
"#;

#[test]
fn values_that_come_between_two_calls_go_with_the_second_one() {
    let outcome = check(&connections("m::joined", true), ENDS, &Options::default());
    let errors = &outcome.compiled.diagnostics;
    assert!(outcome.compiled.succeeded(), "{errors:#?}");
    let printed = &outcome.printed;
    assert!(printed.contains("c0: x0 y0, "), "{printed}");
    let turned = (0..CONNECTIONS).filter(|at| printed.contains(&format!("c{at}: y{at} x{at}")));
    let n_turned = turned.count();
    assert!((20..100).contains(&n_turned), "{printed}");

    // Without that, all but a few would be asked for.
    let main = connections("m::known", false);
    let outcome = project(&main, ENDS, false).run(&Options::default(), &[]);
    let printed = &outcome.printed;
    let n_told = printed
        .split(|letter: char| !letter.is_ascii_digit())
        .find_map(|figure| figure.parse::<usize>().ok());
    // The first frame was sent before anybody knew what is read.
    assert!(n_told.is_some_and(|n_told| n_told > 150), "{printed}");
}

/// What a connection gets first brings its last end along, by way of lists that feed one another in the middle of that step:
/// so the ends come in another order than that of the steps that store them.
const FED: &str = "
import m

entity Owner:
    string name
end

entity End:
    string name
end

entity Group:
end

entity Connection:
    string name
    string seen
end

Connection.ends [3] -- End.connection [0:1]
Group.members [0:] -- End.groups [0:]
End.leads [0:] -- Group.tops [0:]
End.owner [1] -- Owner
index Owner(name)
index End(owner, name)
implement Owner using std::none
implement End using std::none
implement Group using std::none
implement Connection using seen

implementation seen for Connection:
    self.seen = m::ends(self)
end

o = Owner(name=\"o\")
";

#[test]
fn a_call_that_was_told_another_order_is_made_again() {
    let model = |asked: &str| {
        let mut model = FED.to_owned();
        for at in 0..CONNECTIONS {
            for end in ["a", "b", "c"] {
                model += &format!("{end}{at} = End(name=\"{end}{at}\", owner=o)\n");
            }
            let [a, b, c] = ["a", "b", "c"]
                .map(|end| format!("End[owner=Owner[name=\"o\"], name=\"{end}{at}\"]"));
            model += &format!(
                "g{at} = Group()\nn{at} = Connection(name=\"n{at}\", ends=[{a}, {b}, {c}])\n\
                 g{at}.members += n{at}.ends\nc{at}.leads += a{at}.groups\nn{at}.ends += g{at}.tops\n"
            );
        }
        let seen: Vec<String> = (0..CONNECTIONS).map(|at| format!("n{at}.seen")).collect();
        let seen = seen.join(", ");
        format!("{model}all = {asked}([{seen}])\nstd::print(\"> {{{{ all }}}}\")\n")
    };
    let outcome = check(&model("m::joined"), ENDS, &Options::default());
    let errors = &outcome.compiled.diagnostics;
    assert!(outcome.compiled.succeeded(), "{errors:#?}");
    for at in 0..CONNECTIONS {
        let in_order = format!("n{at}: a{at} c{at} b{at}");
        assert!(outcome.printed.contains(&in_order), "{}", outcome.printed);
    }

    let outcome = project(&model("m::known"), ENDS, false).run(&Options::default(), &[]);
    let printed = &outcome.printed;
    let figures: Vec<usize> = printed
        .split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|figure| figure.parse().ok())
        .collect();
    // The first call of a frame goes in its turn, with what there is.
    assert!(
        matches!(figures[..], [_, n_again] if n_again > 100),
        "{printed}"
    );
}

/// Nodes whose labels tell of their parts, which are complete one node after the other. `BRINGS` follows a label.
const NODES: &str = r#"
import m
entity Node:
    int nr
    string name
    string label
end
implement Node using node
Node.parts [0:] -- Part.node [1]
Node.next [0:1] -- Node.before [0:1]
entity Part:
    string name
end
Part.bolts [0:] -- Bolt.part [1]
implement Part using std::none
entity Bolt:
    int size
end
implement Bolt using std::none
index Node(nr)
implementation node for Node:
    self.label = m::label(self, more={"nr": self.nr})
    BRINGS
end
nodes = [Node(nr=i, name="n{{ i }}") for i in std::sequence(80)]
for node in nodes:
    part = Part(name="p{{ node.nr }}", node=node)
    Bolt(size=node.nr, part=part)
    if node.nr > 0:
        node.before = Node[nr=node.nr - 1]
    end
end
labels = m::after([node.label for node in nodes])
std::print("> {{ labels }}")
"#;

#[test]
fn calls_that_wait_for_relations_give_what_they_would_give_one_by_one() {
    let plugins = r#"
from inmanta.ast import UnsetException
SEEN = []

@plugin
def label(node: "any", more: "dict") -> "string":
    found = [node.name, str(more["nr"])]
    for part in node.parts:
        found.append(part.name + "".join(str(bolt.size) for bolt in part.bolts))
    if node.nr % 7 == 3 and node.next is not None:
        found.append(node.next.name)
    if node.nr == WRONG:
        raise ValueError("no label for this one")
    return "/".join(found)

@plugin
def peek(node: "any", after: "string") -> "string":
    """Sees what is there when it is called, and notes it: it does more than compute."""
    try:
        seen = ",".join(part.name for part in node.parts)
    except UnsetException:
        seen = "open"
    SEEN.append(f"{node.name} is {seen} after {after}")
    return seen

@plugin
def after(labels: "list") -> "string":
    return " | ".join([*labels, *SEEN])
"#;
    // Nothing; an element for the next node, which is told of too early then; for the one after that; one for itself, too
    // late; and somebody who looks at the next one meanwhile.
    let brings = [
        "",
        "if self.nr % 5 == 1:\n        Part(name=\"late {{ self.label }}\", node=self.next)\n    end",
        "if self.nr == 20:\n        Bolt(size=99, part=Part(name=\"late {{ self.label }}\", node=self.next.next))\n    end",
        "if self.nr == 30:\n        Part(name=\"late {{ self.label }}\", node=self)\n    end",
        "if self.nr % 9 == 2:\n        seen = m::peek(self.next, self.label)\n    end",
        "std::print(\"> {{ self.label }}\")",
    ];
    for (at, brings) in brings.into_iter().enumerate() {
        for wrong in ["None", "41"] {
            let main = NODES.replace("BRINGS", brings);
            let outcome = check(&main, &plugins.replace("WRONG", wrong), &Options::default());
            let errors = &outcome.compiled.diagnostics;
            let is_good = wrong == "None" && at != 3;
            assert_eq!(
                outcome.compiled.succeeded(),
                is_good,
                "{brings}: {errors:#?}"
            );
        }
    }
}
