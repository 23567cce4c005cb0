//! What a check knows without running.

use steward_compiler::{Diagnostic, MemWorld, Severity, check};

fn world(text: &str) -> MemWorld {
    MemWorld::default()
        .file("project.yml", "name: case\nmodulepath: libs")
        .file("main.cf", text)
}

fn lines(diagnostics: &[Diagnostic]) -> Vec<String> {
    let line = |diagnostic: &Diagnostic| {
        let place = diagnostic.location.as_ref().map_or(0, |at| at.line);
        let word = match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let root = diagnostic.causes.first().unwrap_or(diagnostic);
        let help = diagnostic.help.as_deref().unwrap_or("");
        let text = format!(
            "{place} {word} {}: {} {help}",
            diagnostic.kind, root.message
        );
        text.trim_end().to_owned()
    };
    // The modules here are of the first generation, of which every compile warns.
    let is_other = |it: &&Diagnostic| !it.message.starts_with("Loaded V1 module");
    diagnostics.iter().filter(is_other).map(line).collect()
}

#[track_caller]
fn finds(text: &str, expected: &[&str]) {
    assert_eq!(lines(&check(&world(text)).diagnostics), expected);
}

#[test]
fn bodies_that_never_run_are_looked_at() {
    finds(
        "
entity Host:
    string hostname
    int port = 80
end
Host.disks [0:] -- Disk.host [1]
Host.main [0:1] -- Disk
entity Disk:
    int size
end
implementation never for Host:
    a = hostnam
    b = self.prot
    self.port = \"http\"
    self.disk += Disk(size=true)
    self.port += 1
    for disk in self.disks:
        std::print(disk.siez)
    end
    c = [disk.sizes for disk in disks if disk.host.hostname == 1]
    d = self.disks.size
    e = main.host.hostname
    std::print(1, 2)
end
implement Host using never when prot == 1
implement Disk using std::none
",
        &[
            "12 warning NotFoundException: variable hostnam not found did you mean `hostname`?",
            "13 warning NotFoundException: could not find attribute with name: prot in type __config__::Host did you mean `port`?",
            "14 warning AttributeException: Invalid value 'http', expected int",
            "15 warning NotFoundException: could not find attribute with name: disk in type __config__::Host did you mean `disks`?",
            "16 warning TypingException: Can not use += on relations with multiplicity 1",
            "18 warning NotFoundException: could not find attribute with name: siez in type __config__::Disk did you mean `size`?",
            "20 warning NotFoundException: could not find attribute with name: sizes in type __config__::Disk did you mean `size`?",
            "21 warning RuntimeException: can not get attribute size, this is not an entity but a list of __config__::Disk a list comprehension reads it of each: `[x.size for x in …]`",
            "23 warning RuntimeException: std::print() takes 1 positional arguments but 2 were given",
            "25 warning NotFoundException: variable prot not found did you mean `port`?",
        ],
    );
}

#[test]
fn what_runs_in_every_compile_is_in_error() {
    finds(
        "
typedef port as int matching self > 0
entity Host:
    string hostname
    port port = 80
end
entity Lone:
end
host = Host(hostname=1, port=-1)
implement Host using std::none
x = host.hostnam
y = hots
if false:
    hots.port = 3
    z = nothing
end
Lone()
",
        &[
            "9 error AttributeException: Invalid value -1, does not match constraint `(self > 0)`",
            "11 error NotFoundException: could not find attribute with name: hostnam in type __config__::Host did you mean `hostname`?",
            "12 error NotFoundException: variable hots not found did you mean `host`?",
            "14 error NotFoundException: variable hots not found did you mean `host`?",
            "17 error RuntimeException: Unable to select implementation for entity Lone add `implement Lone using std::none`, or an implementation of its own",
            "9 error AttributeException: Invalid value '1', expected string",
            "15 warning NotFoundException: variable nothing not found",
        ],
    );
}

#[test]
fn a_kind_of_the_entity_may_have_the_attribute() {
    finds(
        "
entity Base:
end
entity Disk extends Base:
    int size
end
Base.other [0:1] -- Base
implement Base using std::none
implement Disk using std::none
implementation reads for Base:
    x = self.size
    y = size
    z = other.size
end
implement Base using reads when false
",
        &[],
    );
}

#[test]
fn python_plugins_are_known_by_their_text_and_never_run() {
    let plugins = "from inmanta.plugins import plugin\n@plugin\ndef known(a: \"string\") -> \"string\":\n    raise SystemExit\nplugin(\"made_elsewhere\")(known)\n";
    let world = world("import m\nimport n\na = m::known(\"x\")\nb = m::made_elsewhere()\nc = n::known()\nd = m::Known()\n")
        .file("libs/m/module.yml", "name: m\nversion: 1.0.0\nlicense: x")
        .file("libs/m/model/_init.cf", "")
        .file("libs/m/plugins/__init__.py", plugins)
        .file("libs/n/module.yml", "name: n\nversion: 1.0.0\nlicense: x")
        .file("libs/n/model/_init.cf", "");
    assert_eq!(
        lines(&check(&world).diagnostics),
        [
            "5 error TypeNotFoundException: could not find type n::known in namespace n",
            "6 error TypeNotFoundException: could not find type m::Known in namespace m did you mean `m::known`?",
        ]
    );
}

#[test]
fn all_files_of_a_project_are_read() {
    let world = world("import m\nx = )\n")
        .file("libs/m/module.yml", "name: m\nversion: 1.0.0\nlicense: x")
        .file("libs/m/model/_init.cf", "import m::sub\nentity a:\nend\n")
        .file("libs/m/model/sub.cf", "typedef t as strin\n");
    let compiled = check(&world);
    let places: Vec<_> = compiled
        .diagnostics
        .iter()
        .filter_map(|diagnostic| diagnostic.location.as_ref())
        .map(|at| format!("{}:{}", at.file, at.line))
        .collect();
    assert_eq!(
        places,
        [
            "main.cf:2",
            "libs/m/model/_init.cf:2",
            "libs/m/model/sub.cf:3"
        ]
    );
}

#[test]
fn kinds_of_other_modules_may_have_what_nothing_constructs_here() {
    let model = |more: &str| {
        format!(
            "entity Element:\n    string path\nend\nimplementation rest for Element:\n    self.path = self.parent.path\n    a = self.pth\nend\nimplement Element using rest\n{more}"
        )
    };
    let typo = "6 warning NotFoundException: could not find attribute with name: pth in type __config__::Element did you mean `path`?";
    finds(&model(""), &[typo]);
    let missing = "5 warning NotFoundException: could not find attribute with name: parent in type __config__::Element";
    finds(&model("e = Element()\n"), &[missing, typo]);
}

/// A project that imports a module `q`.
fn with_module(main: &str, model: &str, python: Option<&str>) -> MemWorld {
    let world = world(&format!("import q\n{main}"))
        .file("libs/q/module.yml", "name: q\nversion: 1.0.0\nlicense: x")
        .file("libs/q/model/_init.cf", model);
    match python {
        Some(python) => world.file("libs/q/plugins/__init__.py", python),
        None => world,
    }
}

#[test]
fn python_declares_neither_types_nor_implementations() {
    let model = "
entity A:
    string n
    nope x
end
entity B:
end
typedef z as nope matching self > 1
implementation i for A:
end
implementation j for Nobody:
end
implement A using i
implement A using nope
implement B using nope
index A(nope)
";
    let expected = [
        "8 error TypeNotFoundException: could not find type nope in namespace q",
        "4 error TypeNotFoundException: could not find type nope in namespace q",
        "11 error TypeNotFoundException: could not find type Nobody in namespace q",
        "14 error TypeNotFoundException: could not find type nope in namespace q",
        "15 error TypeNotFoundException: could not find type nope in namespace q",
    ];
    // Whether all plugins are known, or some may be missing.
    let some = "from helpers import *\n";
    for python in [None, Some("import os\n"), Some(some)] {
        let checked = check(&with_module("q::A(n=\"1\")\nq::B()\n", model, python));
        let mut found = lines(&checked.diagnostics);
        found.sort();
        let mut expected = expected.map(str::to_owned);
        expected.sort();
        assert_eq!(found, expected, "{python:?}");
    }
}

#[test]
fn calls_of_python_plugins_fit_their_text() {
    let python = "
from inmanta.plugins import plugin, Context

@plugin
def known(context: Context, a: \"string\", *, flag: \"bool\" = False) -> \"string\":
    ...

@plugin(\"other\")
def inner(a: int, b: int = 1) -> None:
    ...
";
    let main = "
a = q::known(\"x\", flag=true)
b = q::knwon(\"x\")
c = q::inner(1)
q::other(1, 2, 3)
q::other(b=1)
q::other(1, x=2)
for i in [1]:
    q::known()
end
";
    let expected = [
        "4 error TypeNotFoundException: could not find type q::knwon in namespace q did you mean `q::known`?",
        "5 error TypeNotFoundException: could not find type q::inner in namespace q",
        "6 error RuntimeException: q::other() takes 2 positional arguments but 3 were given",
        "7 error RuntimeException: q::other() missing 1 required positional argument: 'a'",
        "8 error RuntimeException: q::other() got an unexpected keyword argument: 'x'",
        "10 warning RuntimeException: q::known() missing 1 required positional argument: 'a'",
    ];
    let found = lines(&check(&with_module(main, "", Some(python))).diagnostics);
    assert_eq!(found, expected);
    // Who knows what the others do.
    let python = python.replace("@plugin\n", "@plugin\n@wrapping\n");
    let found = lines(&check(&with_module(main, "", Some(&python))).diagnostics);
    assert_eq!(found, expected[2..5]);
}

#[test]
fn a_lookup_needs_an_index_of_its_attributes() {
    finds(
        "
entity A:
    string n
    string m
end
entity B extends A:
end
entity Owner:
end
A.owner [1] -- Owner.parts [0:]
index B(n, m)
index A(owner, n)
implement A using std::none
implement B using std::none
implement Owner using std::none
o = Owner()
a = A(n=\"1\", m=\"2\", owner=o)
b = A[n=3]
c = B[m=\"2\", n=\"1\"]
d = o.parts[n=\"1\"]
e = o.parts[m=o]
if false:
    f = Owner[x=1]
end
",
        &[
            "18 error NotFoundException: No index defined on __config__::A for this lookup: [('n', 3)] there is an index `A(n, owner)`",
            "21 error NotFoundException: No index defined on __config__::A for this lookup: [('owner', …), ('m', …)] there is an index `A(n, owner)`",
            "23 warning NotFoundException: No index defined on __config__::Owner for this lookup: [('x', 1)] `Owner` has no index: define one with `index Owner(…)`",
        ],
    );
}

#[test]
fn one_variable_has_one_value() {
    let twice = |old: &str, was: u32, new: &str, is: u32| {
        format!(
            "value set twice:\n\told value: {old}\n\t\tset at ./main.cf:{was}\n\tnew value: {new}\n\t\tset at ./main.cf:{is}"
        )
    };
    let model = "
entity A:
    string n
end
implement A using std::none
x = 1
x = 2
y = 1
y = 1.0
z = [1, 2]
z = [2, 1]
a = A(n=\"1\")
a = A(n=\"1\")
b = b
c = \"c{{c}}\"
d = d.n + 1
e = e
e = 1
f = true ? 1 : f
if true:
    f = 1
    f = 2
    g = g
end
for h in [1]:
    h = h
end
";
    let entity = |line: u32| format!("__config__::A (instantiated at ./main.cf:{line})");
    let stuck = |at: u32, word: &str, text: &str| {
        format!(
            "{at} {word} RuntimeException: not all statements executed: [{text}] its value is the variable itself"
        )
    };
    let error = |at: u32, text: String| format!("{at} error DoubleSetException: {text}");
    let expected = [
        error(7, twice("1", 6, "2", 7)),
        error(11, twice("[1, 2]", 10, "[2, 1]", 11)),
        error(13, twice(&entity(12), 12, &entity(13), 13)),
        stuck(14, "error", "b"),
        stuck(15, "error", "\"c{{c}}\""),
        stuck(16, "error", "+"),
        "21 warning VariableShadowWarning: Variable `f` shadowed: originally declared at ./main.cf:19, shadowed at ./main.cf:21,./main.cf:22".to_owned(),
        // As a compile does: what is last in a block comes first.
        format!("21 warning DoubleSetException: {}", twice("2", 22, "1", 21)),
        stuck(23, "warning", "g"),
    ];
    let found = lines(&check(&world(model)).diagnostics);
    assert_eq!(found, expected);
}

/// Given: numbers that mean nothing, in resources of the native modules. Expected: an error each, where they stand; handlers took
/// them for their defaults.
#[test]
fn numbers_that_mean_nothing_are_in_error_in_native_resources() {
    finds(
        "
import steward
host = std::Host(name=\"h\", os=std::linux)
steward::Checkout(host=host, path=\"/a\", repository=\"/b\", depth=0)
steward::Archive(host=host, path=\"/c\", source=\"/d\", strip=-1)
steward::HttpObject(host=host, url=\"http://h/e\", timeout=-5)
",
        &[
            "4 error AttributeException: Invalid value 0, does not match constraint `(self > 0)`",
            "5 error AttributeException: Invalid value -1, does not match constraint `(self >= 0)`",
            "6 error AttributeException: Invalid value -5, does not match constraint `(self > 0)`",
        ],
    );
}
