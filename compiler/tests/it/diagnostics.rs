//! Diagnostics as a person reads them, and as other programs do.

use steward_compiler::{MemWorld, Options, compile, render};

use crate::disk::Disk;

fn world(text: &str) -> MemWorld {
    MemWorld::default()
        .file("project.yml", "name: case")
        .file("main.cf", text)
}

/// All diagnostics of a model, one below the other, without colours.
fn shown(text: &str) -> String {
    let world = world(text);
    let compiled = compile(&world, &Options::default());
    let diagnostics = compiled.diagnostics.iter();
    diagnostics
        .map(|diagnostic| render(diagnostic, &world, false))
        .collect()
}

#[test]
fn a_double_assignment_shows_both_places() {
    insta::assert_snapshot!(shown("x = 1\ny = 2\nx = 3\n"), @r"
    error[DoubleSetException]: value set twice:
     --> main.cf:3:1
      |
    1 | x = 1
      | ----- it was set to `1` here
    2 | y = 2
    3 | x = 3
      | ^^^^^
      |
      = note: old value: 1
                  set at ./main.cf:1
              new value: 3
                  set at ./main.cf:3
    ");
}

#[test]
fn a_default_that_is_set_again_is_shown_where_it_is_written() {
    let entity = "
entity Host:
    string name
    int port = 80
end
index Host(name)
implement Host using std::none
";
    insta::assert_snapshot!(shown(&format!("{entity}host = Host(name=\"a\")\nhost.port = 81\n")), @r"
    error[AttributeException]: Could not set attribute `port` on instance `__config__::Host (instantiated at ./main.cf:8)`
     --> main.cf:9:1
      |
    9 | host.port = 81
      | ^^^^^^^^^^^^^^
      |
    caused by: DoubleSetException: value set twice:
     --> main.cf:9:1
      |
    4 |     int port = 80
      |                -- it was set to `80` here
    ...
    9 | host.port = 81
      | ^^^^^^^^^^^^^^
      = note: old value: 80
                  set at ./main.cf:4
              new value: 81
                  set at ./main.cf:9
    ");
    // The other way round, the default is the new value.
    insta::assert_snapshot!(shown(&format!("{entity}Host(name=\"a\", port=81)\nHost(name=\"a\")\n")), @r#"
    error[AttributeException]: Could not set attribute `port` on instance `__config__::Host (instantiated at ./main.cf:8,./main.cf:9)`
     --> main.cf:9:1
      |
    9 | Host(name="a")
      | ^^^^^^^^^^^^^^
      |
    caused by: DoubleSetException: value set twice:
     --> main.cf:9:1
      |
    8 | Host(name="a", port=81)
      | ----------------------- it was set to `81` here
    9 | Host(name="a")
      | ^^^^^^^^^^^^^^
      = note: old value: 81
                  set at ./main.cf:8
              new value: 80
                  set at ./main.cf:4
    "#);
}

#[test]
fn a_mistyped_name_comes_with_the_likely_one() {
    insta::assert_snapshot!(shown(r#"
entity Host:
    string hostname
end
implement Host using std::none
host = Host(hotsname="a")
implement Host using none
"#), @r#"
    error[TypeNotFoundException]: could not find type none in namespace __config__
     --> main.cf:7:22
      |
    7 | implement Host using none
      |                      ^^^^
      |
      = help: did you mean `std::none`?
    error[TypingException]: no attribute hotsname on type __config__::Host
     --> main.cf:6:13
      |
    6 | host = Host(hotsname="a")
      |             ^^^^^^^^
      |
      = help: did you mean `hostname`?
    "#);
    insta::assert_snapshot!(shown("port = 1\nprint(prot)\n"), @r"
    error[TypeNotFoundException]: could not find type print in namespace __config__
     --> main.cf:2:1
      |
    2 | print(prot)
      | ^^^^^
      |
      = help: did you mean `std::print`?
    ");
    insta::assert_snapshot!(shown("port = {\"http\": 80}\nx = port[\"htpt\"]\ny = prot\n"), @r#"
    error[NotFoundException]: variable prot not found
     --> main.cf:3:1
      |
    3 | y = prot
      | ^^^^----
      |     |
      |     the name is here
      |
      = help: did you mean `port`?
    error[KeyException]: key htpt not found in dict, options are [http]
     --> main.cf:2:9
      |
    2 | x = port["htpt"]
      |         ^
      |
      = help: did you mean `http`?
    "#);
}

#[test]
fn an_attribute_without_a_value_says_what_it_waits_for() {
    insta::assert_snapshot!(shown("
entity A:
    int x
end
implement A using std::none
a = A(x=b.x + 1)
b = A()
"), @r"
    error[UnsetException]: The object __config__::A (instantiated at ./main.cf:6) is not complete: attribute x (./main.cf:3:9) is not set
      |
    note: the object was created here
     --> main.cf:6:5
      |
    6 | a = A(x=b.x + 1)
      |     ^^^^^^^^^^^^
    note: `x` of `__config__::A (instantiated at ./main.cf:6)` waits for `x` of `__config__::A (instantiated at ./main.cf:7)` here
     --> main.cf:6:5
      |
    6 | a = A(x=b.x + 1)
      |     ^^^^^^^^^^^^
    note: nothing gives `x` of `__config__::A (instantiated at ./main.cf:7)` a value
     --> main.cf:7:5
      |
    7 | b = A()
      |     ^^^
    error[UnsetException]: The object __config__::A (instantiated at ./main.cf:7) is not complete: attribute x (./main.cf:3:9) is not set
      |
      = help: assign it where the object is created or in an implementation, or give the attribute a default
    note: the object was created here
     --> main.cf:7:5
      |
    7 | b = A()
      |     ^^^
    ");
}

#[test]
fn a_circle_of_waiting_is_followed_until_it_closes() {
    insta::assert_snapshot!(shown("
entity A:
    int x
end
implementation twice for A:
    half = self.x
    self.x = half * 2
end
implement A using twice
A()
"), @r"
    error[UnsetException]: The object __config__::A (instantiated at ./main.cf:10) is not complete: attribute x (./main.cf:3:9) is not set
       |
       = help: these wait for one another: give one of them a value of its own
    note: the object was created here
      --> main.cf:10:1
       |
    10 | A()
       | ^^^
    note: `x` of `__config__::A (instantiated at ./main.cf:10)` waits for `half` here
      --> main.cf:7:5
       |
     7 |     self.x = half * 2
       |     ^^^^^^^^^^^^^^^^^
    note: `half` waits for `x` of `__config__::A (instantiated at ./main.cf:10)` here
      --> main.cf:6:17
       |
     6 |     half = self.x
       |                 ^
    ");
}

#[test]
fn an_index_collision_shows_what_each_index_finds() {
    insta::assert_snapshot!(shown(r#"
entity A:
    int x
    string y
end
index A(x)
index A(y)
implement A using std::none
A(x=1, y="a")
A(x=2, y="b")
A(x=1, y="b")
"#), @r#"
    error[IndexCollisionException]: Inconsistent indexes detected!
      --> main.cf:11:1
       |
     9 | A(x=1, y="a")
       | ------------- one index finds __config__::A (instantiated at ./main.cf:9)
    10 | A(x=2, y="b")
       | ------------- another finds __config__::A (instantiated at ./main.cf:10)
    11 | A(x=1, y="b")
       | ^^^^^^^^^^^^^
    "#);
}

#[test]
fn a_cycle_of_parents_shows_each_of_them() {
    insta::assert_snapshot!(shown("
entity A extends B:
end
entity B extends C:
end
entity C extends A:
end
"), @r"
    error[CycleException]: Entity can not be its own parent __config__::C,__config__::B,__config__::A
     --> main.cf:6:8
      |
    2 | entity A extends B:
      |        - `A` is part of the cycle
    3 | end
    4 | entity B extends C:
      |        - `B` is part of the cycle
    5 | end
    6 | entity C extends A:
      |        ^
    ");
}

#[test]
fn a_shadowed_variable_is_shown_with_the_one_it_hides() {
    insta::assert_snapshot!(shown("
x = 1
if true:
    x = 2
end
"), @r"
    warning[VariableShadowWarning]: Variable `x` shadowed: originally declared at ./main.cf:2, shadowed at ./main.cf:4
     --> main.cf:4:5
      |
    2 | x = 1
      | ----- it was declared here
    3 | if true:
    4 |     x = 2
      |     ^^^^^
    ");
}

#[test]
fn other_programs_get_an_object_with_the_reference_s_names() {
    let compiled = compile(&world("x = 1\nx = 2\n"), &Options::default());
    let json: Vec<_> = compiled.diagnostics.iter().map(|d| d.to_json()).collect();
    assert_eq!(
        serde_json::to_value(json).expect("it is JSON"),
        serde_json::json!([{
            "severity": "error",
            "kind": "DoubleSetException",
            "message": "value set twice:\n\told value: 1\n\t\tset at ./main.cf:1\n\tnew value: 2\n\t\tset at ./main.cf:2\n",
            "file": "main.cf",
            "line": 2,
            "column": 1,
            "end_line": 2,
            "end_column": 6,
            "notes": [{
                "message": "it was set to `1` here",
                "file": "main.cf",
                "line": 1,
                "column": 1,
                "end_line": 1,
                "end_column": 6,
            }],
            "values": [1, 2],
        }])
    );
}

#[test]
fn an_error_of_a_template_shows_its_line() {
    let world =
        world("hostname = \"a\"\nd = {\"a\": {\"key\": 1}}\nx = std::template(\"/t.j2\")\n").file(
            "templates/t.j2",
            "ok\n{% if true %}\n  {{ d[\"a\"].kee }}\n{% endif %}\n",
        );
    let compiled = compile(&world, &Options::default());
    let [error] = compiled.diagnostics.as_slice() else {
        panic!("{:?}", compiled.diagnostics);
    };
    insta::assert_snapshot!(render(error, &world, false), @r#"
    error[WrappingRuntimeException]: Exception in plugin std::template
     --> main.cf:3:5
      |
    3 | x = std::template("/t.j2")
      |     ^^^^^^^^^^^^^
      |
    caused by: NotFoundException: 'd["a"].kee' is undefined
      |
      = help: did you mean `key`?
    note: in the template /t.j2, line 3
     --> templates/t.j2:3:6
      |
    3 |   {{ d["a"].kee }}
      |      ^^^^^^^^^^
    "#);
    assert_eq!(
        error.to_json()["causes"][0]["notes"][0],
        serde_json::json!({
            "message": "in the template /t.j2, line 3",
            "file": "templates/t.j2",
            "line": 3,
            "column": 6,
            "end_line": 3,
            "end_column": 16,
        })
    );
    // Where no more than the line is known, it is shown.
    let world = self::world("x = std::template(\"/t.j2\")\n")
        .file("templates/t.j2", "ok\n{{ 1 | nofilter }}\n");
    let compiled = compile(&world, &Options::default());
    let rendered = render(&compiled.diagnostics[0], &world, false);
    assert!(rendered.contains("2 | {{ 1 | nofilter }}"), "{rendered}");
}

#[test]
fn what_no_type_of_a_union_takes_is_an_error_of_typing() {
    let plugins =
        "from inmanta.plugins import plugin\n\n\n@plugin\ndef f(x: str | int) -> None:\n    pass\n";
    let files = [
        ("project.yml", "name: case\nmodulepath: libs\n"),
        ("main.cf", "import m\nm::f(5.5)\n"),
        (
            "libs/m/module.yml",
            "name: m\nversion: 1.0.0\nlicense: Apache-2.0\n",
        ),
        ("libs/m/model/_init.cf", ""),
        ("libs/m/plugins/__init__.py", plugins),
    ];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let compiled = Disk::new(&files).run(&Options::default(), &[]).compiled;
    let [error, _deprecated_module] = compiled.diagnostics.as_slice() else {
        panic!("{:#?}", compiled.diagnostics);
    };
    let cause = &error.causes[0];
    assert_eq!(
        (
            error.kind.as_ref(),
            cause.kind.as_ref(),
            cause.message.as_str()
        ),
        (
            "PluginTypeException",
            "TypingException",
            "Invalid value '5.5', expected Union[string,int]"
        )
    );
}

/// Given: a dataclass with an attribute of each type, and a class in Python without a field. Expected: the class that the help
/// proposes is accepted as it is.
#[test]
fn the_class_that_the_help_proposes_for_a_dataclass_is_accepted() {
    let model = "import std\nentity Thing extends std::Dataclass:\n    string s\n    int i\n    float f\n    bool b\n    number n\n    \
                 string[] words\n    number[] numbers\n    list l\n    dict d\n    int? maybe\n    number? either = null\nend\n";
    let project = |class: &str| {
        let text = |text: &str| text.to_owned();
        Disk::new(&[
            (text("project.yml"), text("name: case\nmodulepath: libs\n")),
            (text("main.cf"), text("import m\n")),
            (
                text("libs/m/module.yml"),
                text("name: m\nversion: 1.0\nlicense: x\n"),
            ),
            (text("libs/m/model/_init.cf"), text(model)),
            (
                text("libs/m/plugins/__init__.py"),
                format!(
                    "{class}\n\n@__import__('inmanta.plugins').plugins.plugin\ndef f() -> None: ...\n"
                ),
            ),
        ])
    };
    let empty =
        "import dataclasses\n\n@dataclasses.dataclass(frozen=True)\nclass Thing:\n    pass\n";
    let outcome = project(empty).run(&Options::default(), &[]);
    let helps = outcome
        .compiled
        .diagnostics
        .iter()
        .filter_map(|diagnostic| diagnostic.help.as_ref());
    let proposed: Vec<&str> = helps
        .filter_map(|help| help.split_once("module:\n\n"))
        .map(|(_, class)| class)
        .collect();
    let [class] = proposed.as_slice() else {
        panic!("{:#?}", outcome.compiled.diagnostics)
    };
    let outcome = project(class).run(&Options::default(), &[]);
    assert!(
        outcome.compiled.succeeded(),
        "{class}\n{:#?}",
        outcome.compiled.diagnostics
    );
}

/// Given: an attribute of a dataclass whose type is a typedef, which nothing in Python stands for. Expected: the help says which type
/// to write, since no class would do.
#[test]
fn an_attribute_that_no_dataclass_may_have_is_to_be_changed() {
    let text = |text: &str| text.to_owned();
    let model = "import std\nentity Thing extends std::Dataclass:\n    std::uuid id\n    std::port[]? ports\nend\n";
    let disk = Disk::new(&[
        (text("project.yml"), text("name: case\nmodulepath: libs\n")),
        (text("main.cf"), text("import m\n")),
        (
            text("libs/m/module.yml"),
            text("name: m\nversion: 1.0\nlicense: x\n"),
        ),
        (text("libs/m/model/_init.cf"), text(model)),
        (
            text("libs/m/plugins/__init__.py"),
            text(
                "import dataclasses\n\n@dataclasses.dataclass(frozen=True)\nclass Thing:\n    id: str\n    ports: list[int] | None\n",
            ),
        ),
    ]);
    let outcome = disk.run(&Options::default(), &[]);
    let found = outcome.compiled.diagnostics.first();
    let help = found.and_then(|found| found.help.as_deref()).unwrap_or("");
    let changes = "make `id` a `string`, which has a counterpart in Python, and make `ports` a `int[]?`, \
                   which has a counterpart in Python, and add to the Python module:";
    assert!(help.starts_with(changes), "{help}");
}

/// Given: a plugin with two contexts. Expected: the error says so, and nothing of a module that would not have been imported.
#[test]
fn what_plugins_may_not_declare_is_no_error_of_an_import() {
    let text = |text: &str| text.to_owned();
    let plugin = "from inmanta.plugins import Context, plugin\n\n@plugin\ndef f(a: Context, b: Context) -> None: ...\n";
    let disk = Disk::new(&[
        (text("project.yml"), text("name: case\nmodulepath: libs\n")),
        (text("main.cf"), text("import m\n")),
        (
            text("libs/m/module.yml"),
            text("name: m\nversion: 1.0\nlicense: x\n"),
        ),
        (text("libs/m/model/_init.cf"), text("")),
        (text("libs/m/plugins/__init__.py"), text(plugin)),
    ]);
    let outcome = disk.run(&Options::default(), &[]);
    let found = outcome.compiled.diagnostics.first();
    let message = found.map_or("", |found| found.message.as_str());
    assert_eq!(message, "Only one parameter of m::f may be a Context");
}

/// Given: a relation without a value that is read. Expected: the place is shown once.
#[test]
fn a_place_is_shown_once() {
    let model =
        "entity A:\nend\nA.b [0:1] -- A\nimplement A using std::none\na = A(b=null)\nx = a.b.b\n";
    insta::assert_snapshot!(shown(model), @r"
    error[OptionalValueException]: Optional variable accessed that has no value (attribute `__config__::A.b` of `__config__::A (instantiated at ./main.cf:5)`)
     --> main.cf:6:7
      |
    6 | x = a.b.b
      |       ^
      |
      = help: check it with `is defined` first
    ");
}

/// Given: a module whose Python imports a package that is not there. Expected: the help says where to ask for it.
#[test]
fn a_package_that_is_not_there_is_asked_for_in_the_requirements() {
    let text = |text: &str| text.to_owned();
    let project = Disk::new(&[
        (text("project.yml"), text("name: case\nmodulepath: libs\n")),
        (text("main.cf"), text("import m\n")),
        (
            text("libs/m/module.yml"),
            text("name: m\nversion: 1.0\nlicense: x\n"),
        ),
        (text("libs/m/model/_init.cf"), text("")),
        (
            text("libs/m/plugins/__init__.py"),
            text("import nowhere.to.be\n"),
        ),
    ]);
    let outcome = project.run(&Options::default(), &[]);
    let mut helps = outcome
        .compiled
        .diagnostics
        .iter()
        .filter_map(|diagnostic| diagnostic.help.as_ref());
    let help = helps.next().expect("a help");
    assert!(
        help.contains("`nowhere`: name the one that has it in requirements.txt"),
        "{help}"
    );
}

/// Given: a variable that is not set, and an error about what it would have been. Expected: the first error names it, at the call;
/// the second does not say it again.
#[test]
fn an_error_about_an_unknown_value_names_the_variable_that_is_not_set() {
    let model = r#"
entity A:
    string name
end
index A(name)
implement A using std::none
root = std::get_env("ROOT")
x = A[name="{{ root }}1"]
y = A[name="{{ root }}2"]
"#;
    let shown = shown(model);
    let (first, rest) = shown
        .split_once("error[")
        .unwrap()
        .1
        .split_once("error[")
        .unwrap();
    let note = "the variable `ROOT` is not set, so this is unknown";
    assert!(
        first.contains(note) && first.contains("std::get_env"),
        "{shown}"
    );
    assert!(!rest.contains(note), "{shown}");
}
