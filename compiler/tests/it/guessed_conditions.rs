//! Conditions of typedefs that call Python, whose answers for the next values are asked ahead
//! (`runtime/python_bridge/guessed_conditions.rs`): nothing of it may be noticed. Each model runs with plugins that only compute,
//! and with the same ones that note their calls, so that nobody asks them ahead.

use steward_compiler::Options;

use crate::ahead::printed_by_the_reference;
use crate::disk::Disk;
use crate::lang::Outcome;

const MODULE: &str = "name: m\nversion: 1.0.0\nlicense: Apache-2.0\n";

const PLUGINS: &str = r#"
import re
from inmanta.plugins import plugin

HOST = re.compile(r"[a-z][a-z0-9.-]*")
CALLS = []

@plugin
def is_host(text: "string") -> "bool":
    NOTE
    return HOST.fullmatch(text) is not None

@plugin
def is_between(number: "int", low: "int", high: "int" = 65535) -> "bool":
    NOTE
    if number == 666:
        raise ValueError("not this one")
    return low <= number <= high

@plugin
def label(host: "string", port: "int") -> "string":
    NOTE
    return f"{host}:{port}"
"#;

/// Values of all kinds, which come as constants, computed, in lists and dicts, as keys of an index, and as defaults.
const MODEL: &str = r#"
import m

typedef host as string matching m::is_host(self)
typedef short as host matching std::length(self) < 12 and not m::is_host(self) == false
typedef port as int matching m::is_between(self, 1)
typedef high as port matching self > 1000 and m::is_between(self, low=1000, high=70000)

entity Check:
    host name
    host? alias = null
    port number
    high[] others = []
    dict more = {}
    short label = "one"
end
index Check(name, number)
entity Group:
    short name
    host[]? hosts = null
end
Group.checks [0:] -- Check.group [0:1]
implement Group using group
implement Check using std::none
implementation group for Group:
    for at in std::sequence(3):
        self.checks += Check(name="{{ self.name }}{{ at }}", number=at + 1, label="l{{ at }}")
    end
end

for at in std::sequence(30):
    group = Group(name="g{{ at }}", hosts=["a{{ at }}", "b.example.org"])
    Check(name="c{{ at }}", number=at + 2, others=[at + 1001, 8080], alias="x{{ at }}", group=group)
end
Check(name="first", number=22, alias="second", others=[2222, 4444])
Check(name="second", number=443, label="short")
"#;

fn project(model: &str, is_noted: bool) -> Disk {
    let note = if is_noted { "CALLS.append(1)" } else { "pass" };
    let files = [
        ("project.yml", "name: conditions\nmodulepath: libs\n"),
        ("main.cf", model),
        ("libs/m/module.yml", MODULE),
        ("libs/m/model/_init.cf", ""),
        ("libs/m/plugins/__init__.py", &PLUGINS.replace("NOTE", note)),
    ];
    Disk::new(&files.map(|(name, text)| (name.to_owned(), text.to_owned())))
}

fn said(outcome: &Outcome) -> Vec<String> {
    let diagnostics = outcome.compiled.diagnostics.iter();
    let diagnostics = diagnostics.map(|one| {
        let line = one.location.as_ref().map(|at| at.line);
        let causes = one.causes.iter().map(|cause| cause.message.as_str());
        let causes: Vec<&str> = causes.collect();
        format!("{} {} {line:?} {causes:?}", one.kind, one.message)
    });
    diagnostics.collect()
}

#[test]
fn values_are_accepted_and_refused_as_if_each_was_asked_for_in_its_turn() {
    let slips = [
        ("", ""),
        ("number=443", "number=0"),
        ("number=443", "number=666"),
        ("\"second\", number", "\"Second\", number"),
        ("alias=\"second\"", "alias=\"Not a host\""),
        ("[2222, 4444]", "[2222, 44]"),
        ("label=\"short\"", "label=\"much.too.long\""),
        ("at + 1001, 8080", "at + 1001, 980 + at"),
        ("\"b.example.org\"", "\"B{{ at }}\""),
        ("label=\"l{{ at }}\"", "label=\"L{{ at }}\""),
        ("label = \"one\"", "label = \"One\""),
    ];
    for (right, wrong) in slips {
        let model = MODEL.replacen(right, wrong, 1);
        let ahead = project(&model, false).run(&Options::default(), &[]);
        let noted = project(&model, true).run(&Options::default(), &[]);
        assert_eq!(said(&ahead), said(&noted), "{wrong}");
        assert_eq!(
            ahead.compiled.succeeded(),
            wrong.is_empty(),
            "{:?}",
            said(&ahead)
        );
    }
}

#[test]
fn calls_go_ahead_beside_conditions_that_only_compute() {
    let calls = "import m\ntypedef host as string matching m::is_host(self)\nentity Named:\n    host name\nend\nimplement Named using std::none\n\
        for at in std::sequence(50):\n    Named(name=\"n{{ at }}\")\n    Named(name=m::label(\"a\", at) == \"a:7\" ? \"Wrong\" : \"l{{ at }}\")\n    std::print(\"> {{ at }}\")\nend\n";
    let ahead = project(calls, false);
    let outcome = ahead.run(&Options::default(), &[]);
    let noted = project(calls, true).run(&Options::default(), &[]);
    assert_eq!(outcome.printed, noted.printed);
    assert_eq!(said(&outcome), said(&noted));
    assert!(!outcome.compiled.succeeded());
    if let Some(reference) = printed_by_the_reference(&ahead) {
        let ours = outcome
            .printed
            .lines()
            .filter(|line| line.starts_with("> "));
        let ours: String = ours.map(|line| format!("{line}\n")).collect();
        assert_eq!(ours, reference);
    }
}
