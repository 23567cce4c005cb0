//! Inputs of a size or a shape that no model has: each is answered, in bounded time and memory.
//!
//! What is refused says which limit it meets. Recursion of the compiler is bounded by limits on nesting, and it runs on a
//! thread with a deep stack.

use std::time::{Duration, Instant};

use steward_compiler::{Compiled, Limits, MemWorld, Options, Severity, compile};

/// Far beyond what any of these takes, also on a busy machine without optimisation.
const PATIENCE: Duration = Duration::from_secs(120);

#[track_caller]
fn run(text: &str) -> (Compiled, String) {
    run_with(text, Limits::default())
}

#[track_caller]
fn run_with(text: &str, limits: Limits) -> (Compiled, String) {
    let world = MemWorld::default()
        .file("project.yml", "name: case")
        .file("main.cf", text);
    let started = Instant::now();
    let options = Options {
        limits,
        ..Options::default()
    };
    let compiled = compile(&world, &options);
    let took = started.elapsed();
    assert!(took < PATIENCE, "{took:?}");
    for diagnostic in &compiled.diagnostics {
        assert_ne!(diagnostic.kind, "InvalidCompilerState", "{diagnostic:?}");
    }
    let printed = world.printed();
    (compiled, printed)
}

#[track_caller]
fn accepted(text: &str, wanted: &str) {
    let (compiled, printed) = run(text);
    let errors = compiled.diagnostics.iter();
    let first = errors
        .filter(|diagnostic| diagnostic.severity == Severity::Error)
        .map(|diagnostic| &diagnostic.message)
        .next();
    assert_eq!((first, printed.as_str()), (None, wanted));
}

/// Rejected; the first error, or a cause of it, contains the text.
#[track_caller]
fn refused(text: &str, wanted: &str) {
    refused_with(text, wanted, Limits::default());
}

#[track_caller]
fn refused_with(text: &str, wanted: &str, limits: Limits) {
    let (compiled, _) = run_with(text, limits);
    let errors = compiled.diagnostics.iter();
    let first = errors
        .filter(|diagnostic| diagnostic.severity == Severity::Error)
        .map(|diagnostic| diagnostic.to_json().to_string())
        .next();
    let first = first.unwrap_or_default();
    let shown: String = first.chars().take(500).collect();
    assert!(first.contains(wanted), "{shown}");
}

const DEEP: usize = 100_000;
const NESTED: &str = "nested more than";
const LEVELS: &str = "an expression of more than";

/// Each of many constructors of one instance has a mistake, whose message names the instance and so where it was constructed.
#[test]
fn an_instance_of_many_constructors_is_described_in_short() {
    let text = "entity A:\n    string name\n    int nr\nend\nimplement A using std::none\nindex A(name)\n\
                for i in std::sequence(20000):\n    A(name=\"one\", nr=i)\nend\n";
    refused(text, "value set twice");
    let (compiled, _) = run(text);
    let error = compiled.diagnostics.first().expect("a mistake");
    assert!(error.message.len() < 5000, "{}", error.message.len());
    assert!(
        error.message.contains(",and 19900 more)"),
        "{}",
        error.message
    );
    // The same with a value of many elements, which each of many statements shows.
    let text = "entity A:\n    string name\nend\nimplement A using std::none\n\
                all = [\"a{{ i }}\" for i in std::sequence(20000)]\n\
                for i in std::sequence(20000):\n    A(name=all)\nend\n";
    refused(text, "Invalid value");
}

#[test]
fn what_nests_is_bounded() {
    let around = |open: &str, inner: &str, close: &str| {
        format!("x = {}{inner}{}", open.repeat(DEEP), close.repeat(DEEP))
    };
    refused(&around("(", "1", ")"), NESTED);
    refused(&around("[", "1", "]"), NESTED);
    refused(&around("{\"a\": ", "1", "}"), NESTED);
    refused(&around("not ", "true", ""), NESTED);
    refused(&around("true ? 1 : ", "2", ""), NESTED);
    refused(&around("std::upper(", "\"a\"", ")"), NESTED);
    refused(&around("A(b=", "1", ")"), NESTED);
    refused(&around("[", "1", " for x in y]"), NESTED);
    refused(&around("d[", "\"a\"", "]"), NESTED);
    for block in ["if true:\n", "for x in [1]:\n"] {
        refused(
            &format!("{}{}", block.repeat(DEEP), "end\n".repeat(DEEP)),
            NESTED,
        );
        refused(&block.repeat(DEEP), NESTED);
    }
    refused(
        &format!("if false:\n{}end", "elif false:\n".repeat(DEEP)),
        NESTED,
    );
}

#[test]
fn what_never_closes_is_told() {
    for open in ["(", "[", "{\"a\": ", "f(", "A(b=", "x[", "f\"{", "{{"] {
        let (compiled, _) = run(&format!("x = {}", open.repeat(DEEP)));
        assert!(!compiled.succeeded(), "{open}");
    }
}

#[test]
fn long_chains_are_bounded() {
    let chain = |first: &str, next: &str| format!("x = {first}{}", next.repeat(DEEP));
    for next in [
        " + 1", " - 1", " * 1", " / 1", " % 1", " ** 1", " == 1", " < 1",
    ] {
        refused(&chain("1", next), LEVELS);
    }
    refused(&chain("true", " and true"), LEVELS);
    refused(&chain("true", " or true"), LEVELS);
    refused(&chain("1", " in [1]"), LEVELS);
    refused(&chain("a", ".b"), LEVELS);
    refused(&chain("d", "[\"a\"]"), LEVELS);
    refused(&format!("x = [1{}]", " for x in [1]".repeat(DEEP)), LEVELS);
    refused(
        &format!("x = [1 for x in [1]{}]", " if true".repeat(DEEP)),
        LEVELS,
    );
    refused(&format!("x = \"{{{{a{}}}}}\"", ".b".repeat(DEEP)), "");
    accepted(
        &format!("x = 1{}\nstd::print(x)", " + 1".repeat(5_000)),
        "5001\n",
    );
}

#[test]
fn placeholders_are_as_many_as_one_likes() {
    let text = format!(
        "a = 1\nx = \"{}\"\nstd::print(std::length(x))",
        "{{a}}".repeat(DEEP)
    );
    accepted(&text, "100000\n");
    let text = format!(
        "a = 1\nx = f\"{}\"\nstd::print(std::length(x))",
        "{a}".repeat(DEEP)
    );
    accepted(&text, "100000\n");
    refused(
        &format!("a = 1\nx = f\"{}\"", "{a:".repeat(DEEP)),
        "Invalid f-string",
    );
    refused(
        &format!("a = 1\nx = f\"{}{}\"", "{a:".repeat(DEEP), "}".repeat(DEEP)),
        "Invalid f-string",
    );
}

#[test]
fn chains_of_types_are_bounded() {
    let mut entities = "entity A0:\nend\n".to_owned();
    for at in 1..DEEP {
        entities.push_str(&format!("entity A{at} extends A{}:\nend\n", at - 1));
    }
    refused(&entities, "has more than 1000 ancestors");
    let mut reverse = String::new();
    for at in 0..DEEP {
        reverse.push_str(&format!("entity A{at} extends A{}:\nend\n", at + 1));
    }
    refused(
        &format!("{reverse}entity A{DEEP}:\nend\n"),
        "has more than 1000 ancestors",
    );
    refused(
        &format!("{reverse}entity A{DEEP} extends A0:\nend\n"),
        "can not be its own parent",
    );
    let mut typedefs = "typedef t0 as int matching self > 0\n".to_owned();
    for at in 1..DEEP {
        typedefs.push_str(&format!("typedef t{at} as t{} matching self > 0\n", at - 1));
    }
    refused(&typedefs, "a chain of more than 1000 typedefs");
    refused(
        "typedef a as a matching self > 0\n",
        "can not be based on itself",
    );
    refused(
        "typedef a as b matching self > 0\ntypedef b as a matching self > 0\n",
        "can not be based on itself",
    );
}

#[test]
fn a_deep_family_is_fine() {
    let mut text = "entity A0:\n int x = 1\nend\nimplement A0 using std::none\n".to_owned();
    for at in 1..900 {
        text.push_str(&format!(
            "entity A{at} extends A{}:\nend\nimplement A{at} using parents\n",
            at - 1
        ));
    }
    text.push_str("a = A899()\nstd::print(a.x)\n");
    accepted(&text, "1\n");
    let mut text = "typedef t0 as int matching self > 0\n".to_owned();
    for at in 1..900 {
        text.push_str(&format!("typedef t{at} as t{} matching self > 0\n", at - 1));
    }
    text.push_str(
        "entity A:\n t899 x\nend\nimplement A using std::none\na = A(x=1)\nstd::print(a.x)\n",
    );
    accepted(&text, "1\n");
}

#[test]
fn parents_over_two_ways_are_met_once() {
    let mut text = "entity A0:\nend\nentity B0:\nend\nimplement A0 using std::none\nimplement B0 using std::none\n".to_owned();
    for at in 1..60 {
        for name in ["A", "B"] {
            let last = at - 1;
            text.push_str(&format!("entity {name}{at} extends A{last}, B{last}:\nend\nimplement {name}{at} using parents\n"));
        }
    }
    accepted(&format!("{text}a = A59()\nstd::print(\"ok\")\n"), "ok\n");
}

#[test]
fn imports_go_as_deep_as_files() {
    let mut world = MemWorld::default()
        .file("project.yml", "name: case\nmodulepath: libs")
        .file("main.cf", "import m0\n");
    for at in 0..2_000 {
        let text = format!("import m{}\nx = 1\n", (at + 1) % 2_000);
        world = world
            .file(
                &format!("libs/m{at}/module.yml"),
                &format!("name: m{at}\nversion: 1.0\nlicense: A\n"),
            )
            .file(&format!("libs/m{at}/model/_init.cf"), &text);
    }
    assert!(compile(&world, &Options::default()).succeeded());
}

#[test]
fn large_models_compile() {
    let ones = "1,".repeat(1_000_000);
    accepted(
        &format!("x = [{ones}]\nstd::print(std::count(x))"),
        "1000000\n",
    );
    let names = "y,".repeat(1_000_000);
    accepted(
        &format!("y = 1\nx = [{names}]\nstd::print(std::count(x))"),
        "1000000\n",
    );
    accepted(
        "x = std::sequence(1000000)\nstd::print(std::unique(x))",
        "True\n",
    );
    let mut entities = String::new();
    for at in 0..100_000 {
        entities.push_str(&format!("entity A{at}:\nend\n"));
    }
    accepted(&entities, "");
    let mut variables = "x0 = 1\n".to_owned();
    for at in 1..100_000 {
        variables.push_str(&format!("x{at} = x{}\n", at - 1));
    }
    accepted(&format!("{variables}std::print(x99999)\n"), "1\n");
    let mut attributes = "entity A:\n".to_owned();
    for at in 0..20_000 {
        attributes.push_str(&format!(" int x{at} = {at}\n"));
    }
    accepted(
        &format!("{attributes}end\nimplement A using std::none\na = A()\nstd::print(a.x19999)\n"),
        "19999\n",
    );
    let mut relations = "entity A:\nend\nimplement A using std::none\n".to_owned();
    for at in 0..20_000 {
        relations.push_str(&format!("A.r{at} [0:] -- A.s{at} [0:]\n"));
    }
    accepted(&format!("{relations}a = A()\nstd::print(\"ok\")\n"), "ok\n");
}

#[test]
fn a_million_statements_compile() {
    let mut text = String::new();
    for at in 0..1_000_000 {
        text.push_str(&format!("x{at} = {at}\n"));
    }
    accepted(&format!("{text}std::print(x999999)\n"), "999999\n");
}

#[test]
fn long_texts_compile() {
    let lines = "a\\n".repeat(1_000_000);
    accepted(
        &format!("x = \"\"\"{lines}\"\"\"\nstd::print(std::length(x))"),
        "2000000\n",
    );
    let lines = "ab\n".repeat(33_400_000);
    accepted(
        &format!("x = \"\"\"{lines}\"\"\"\nstd::print(std::length(x))"),
        "100200000\n",
    );
    let name = "a".repeat(10_000_000);
    accepted(&format!("{name} = 1\nstd::print({name})"), "1\n");
    accepted(&format!("#{}\n", "x".repeat(10_000_000)), "");
    accepted(
        &format!("{}\n{}", " ".repeat(10_000_000), "\n".repeat(10_000_000)),
        "",
    );
    refused(
        &format!("x = \"{}", "a".repeat(10_000_000)),
        "Illegal character",
    );
    refused(&"\"".repeat(1_000_001), "Illegal character");
    refused(&"::".repeat(1_000_000), "Syntax error");
}

#[test]
fn numbers_are_bounded() {
    accepted(
        &format!("x = {}\nstd::print(x > 1)", "9".repeat(100_000)),
        "True\n",
    );
    accepted(
        &format!("x = {}.0\nstd::print(x)", "9".repeat(400)),
        "inf\n",
    );
    accepted(
        &format!("x = 0.{}\nstd::print(x < 1)", "1".repeat(1_000_000)),
        "True\n",
    );
    accepted("std::print(2 ** 64 - 2 ** 64 + 1)", "1\n");
    refused(&format!("x = {}", "9".repeat(1_000_000)), "digits");
    for text in [
        "x = 10 ** 1000000000",
        "x = 2 ** (2 ** (2 ** (2 ** (2 ** 2))))",
        "x = 10.0 ** 400",
    ] {
        refused(text, "too large");
    }
    let mut squares = "x0 = 10 ** 1000\n".to_owned();
    for at in 1..60 {
        squares.push_str(&format!("x{at} = x{0} * x{0}\n", at - 1));
    }
    refused(&squares, "too large");
    refused("x = 1.0 * 10 ** 400", "int too large to convert to float");
    refused("x = int(\"nan\")", "Failed to cast");
    refused("x = int(float(\"inf\"))", "");
    refused("x = 1 / 0", "division by zero");
    refused("x = 0 ** -1", "");
}

/// Some megabytes, so that a test is quick.
fn small() -> Limits {
    Limits {
        text_bytes: 1 << 20,
        steps: 100_000,
        instances: 1_000,
        ..Limits::default()
    }
}

/// Input: values that double (docs/reference/security.md § 3.25). Answer: an error at a limit.
#[test]
fn texts_do_not_grow_without_end() {
    let growing = |first: &str, next: &dyn Fn(usize) -> String| {
        let mut text = format!("x0 = {first}\n");
        for at in 1..60 {
            text.push_str(&format!("x{at} = {}\n", next(at - 1)));
        }
        text
    };
    let double = growing("\"aaaaaaaaaa\"", &|at| format!("x{at} + x{at}"));
    refused_with(&double, "bytes of text", small());
    let tenfold = growing("\"aaaaaaaaaa\"", &|at| {
        format!("\"{}\"", format!("{{{{x{at}}}}}").repeat(10))
    });
    refused_with(&tenfold, "bytes of text", small());
    let fields = growing("\"aaaaaaaaaa\"", &|at| {
        format!("f\"{}\"", format!("{{x{at}}}").repeat(10))
    });
    refused_with(&fields, "bytes of text", small());
    let replaced = growing("\"aaaaaaaaaa\"", &|at| {
        format!("std::replace(x{at}, \"a\", \"aaaaaaaaaa\")")
    });
    refused_with(&replaced, "bytes of text", small());
    let formatted = growing("\"aaaaaaaaaa\"", &|at| {
        format!("std::format(\"{}\", x{at})", "{0}".repeat(10))
    });
    refused_with(&formatted, "bytes of text", small());
    let dumped = growing("\"aaaaaaaaaa\"", &|at| {
        format!(
            "std::json_dumps([{}])",
            vec![format!("x{at}"); 10].join(", ")
        )
    });
    refused_with(&dumped, "bytes of text", small());
}

#[test]
fn one_step_does_not_take_all_memory() {
    // A text of a megabyte, and a step that would make 100 gigabytes of it.
    let grown = "a".repeat(1_000_000);
    let many = "{{x}}".repeat(100_000);
    refused(&format!("x = \"{grown}\"\ny = \"{many}\""), "bytes of text");
    let fields = "{x}".repeat(100_000);
    refused(
        &format!("x = \"{grown}\"\ny = f\"{fields}\""),
        "bytes of text",
    );
    refused(
        &format!("x = \"{grown}\"\ny = std::replace(x, \"a\", x)"),
        "too long",
    );
    refused(
        &format!("x = \"{grown}\"\ny = std::replace(x, \"\", x)"),
        "too long",
    );
    let list = format!("x = \"{grown}\"\nl = [x for e in std::sequence(100000)]\n");
    refused(&format!("{list}y = std::json_dumps(l)"), "too long");
    refused(&format!("{list}y = \"{{{{l}}}}\""), "too long");
    refused(
        "x = std::sequence(1000000000000)",
        "the sequence is too long",
    );
    refused("w = 1000000000000\nx = f\"{w:{w}}\"", "");
    refused("x = 1.5\ny = f\"{x:.1000000000f}\"", "");
    refused("x = std::format(\"{:1000000000000}\", 1)", "");
    refused("x = std::unique_file(\"a\", \"b\", 5)", "");
    refused(
        &format!("x = std::json_loads(\"{}\")", "[".repeat(100_000)),
        "JSON",
    );
}

#[test]
fn lists_do_not_grow_without_end() {
    let mut lists = "x0 = [1,1,1,1,1,1,1,1,1,1]\n".to_owned();
    for at in 1..12 {
        let ten = vec![format!("x{}", at - 1); 10].join(",");
        lists.push_str(&format!("x{at} = [{ten}]\n"));
    }
    refused(&lists, "too long");
    let mut products = "x0 = [1,1,1,1,1,1,1,1,1,1]\n".to_owned();
    for at in 1..8 {
        products.push_str(&format!(
            "x{at} = [a for a in x{0} for b in x{0}]\n",
            at - 1
        ));
    }
    refused_with(&products, "steps", small());
}

/// Input: models that construct without end (docs/reference/security.md § 3.25). Answer: an error at a limit.
#[test]
fn what_never_ends_is_stopped() {
    let refinement = "entity A:\n int n\nend\nindex A(n)\nimplementation i for A:\n A(n=n + 1)\nend\nimplement A using i\nA(n=1)\n";
    refused(refinement, "A → __config__::A");
    let feeding = "entity A:\n int n\nend\nA.l [0:] -- A\nimplement A using std::none\na = A(n=0)\na.l = a\nfor x in a.l:\n a.l += A(n=x.n + 1)\nend\n";
    refused(feeding, "more than");
    refused(
        "entity A:\n dict d\nend\nimplement A using std::none\na = A(d={\"x\": a.d})\n",
        "is not complete",
    );
    refused("x = y\ny = z\nz = x\n", "not all statements executed");
}

/// Input: regular expressions that backtrack without end (docs/reference/security.md § 3.25). Answer: they end at a limit, with an error.
#[test]
fn hostile_patterns_end() {
    let hostile = format!(
        "typedef t as string matching /(a+)+$/\nentity A:\n t x\nend\nimplement A using std::none\nA(x=\"{}b\")\n",
        "a".repeat(50)
    );
    let (compiled, _) = run(&hostile);
    assert!(!compiled.succeeded());
    refused(
        "typedef t as string matching /(a{1000}){1000}/",
        "Regex error",
    );
    refused(
        &format!(
            "typedef t as string matching /{}a{}/",
            "(".repeat(DEEP),
            ")".repeat(DEEP)
        ),
        "Regex error",
    );
    let world = MemWorld::default()
        .file("project.yml", "name: case")
        .file("main.cf", "x = std::template(\"/a.j2\")")
        .file(
            "templates/a.j2",
            "{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}",
        );
    let started = Instant::now();
    let compiled = compile(&world, &Options::default());
    assert!(!compiled.succeeded() && started.elapsed() < PATIENCE);
}

#[test]
fn escapes_that_are_no_characters_are_told() {
    for text in [
        "\\ud800",
        "\\ud83d\\ude00",
        "\\U00110000",
        "\\UFFFFFFFF",
        "\\N{NO SUCH NAME}",
        "\\N{",
        "\\N",
        "\\x",
        "\\xZZ",
        "\\u12",
    ] {
        for string in [
            format!("x = \"{text}\""),
            format!("x = \"\"\"{text}\"\"\""),
            format!("x = f\"{text}\""),
        ] {
            refused(&string, "ParserException");
        }
    }
    accepted(
        "std::print(\"\\0\\777\\400\" == \"\\0\\777\\400\")",
        "True\n",
    );
}

#[test]
fn what_is_wrong_besides_is_looked_for_for_a_while_only() {
    // After the first mistake two relations feed one another without end, each step with more elements.
    refused(
        r#"
entity A:
    string n
end
entity B:
    string n
end
entity C:
    string n
end
B.r0 [0:] -- B.i0 [0:]
B.r1 [0:] -- A.i1 [0:1]
if (v4.r0 is defined):
    v2.i1 = v4
end
v4.r0 = B(n = "a")
v2 = A(n = "10.0.0.1", i1 = B(n = "b"))
v1 = C(n = "a,b")
v4.r1 += v3
implement B using std::none
v3 = A(n = "")
implement C using imc0 when ((self.n) in [self.n for e12 in [3, 1, 3] if (["a"] == [])])
implementation imc0 for C:
    if (self.n is defined):
        for f11 in []:
            f11.r0 = f11
        end
    end
end
for f7 in v4.r1:
    for f8 in v4.r0:
        f7.i1 = B(n = "b", i0 = v4.r0)
        v4.i0 = f7.i1
    end
end
implement C using std::none
v4.r1 = (true ? v2 : v2)
for f9 in []:
    y10 = {"a": "b", r'k': [1, [2]]}
end
implementation ima0 for A:
    self.i1 = self.i1
end
implement A using ima0 when (self.i1 is defined)
v4 = B(n = v2.n, r0 = [])
for f5 in []:
    v2.i1 = v3.i1
end
implement A using std::none
for f6 in v4.r1:
    v3.i1 = v2.i1
    v4.i0 = v4
end
"#,
        "value set twice",
    );
}

/// Input: numbers with more digits behind the point than there are, in templates and f-strings (docs/reference/security.md § 3.24). Answer: zeros, to a limit.
#[test]
fn numbers_have_digits_to_a_limit() {
    let printed = |model: &str, template: &str| {
        let world = MemWorld::default()
            .file("project.yml", "name: case")
            .file("templates/t.j2", template)
            .file("main.cf", model);
        let compiled = compile(&world, &Options::default());
        assert!(compiled.succeeded(), "{:?}", compiled.diagnostics);
        world.printed()
    };
    let zeros = |n: usize| "0".repeat(n);
    let cases = [
        ("'%.70000f' % 1.5", format!("1.5{}", zeros(69_999))),
        ("'%.70000e' % 1.5", format!("1.5{}e+00", zeros(69_999))),
        ("'%.70000g' % 1.5", "1.5".to_owned()),
        ("'%#.70000g' % 1.5", format!("1.5{}", zeros(69_998))),
        ("'{:.70000f}'.format(0.5)", format!("0.5{}", zeros(69_999))),
        ("'{:.70000%}'.format(0.5)", format!("50.{}%", zeros(70_000))),
        ("'%.*f'|format(70000, 1e400)", "inf".to_owned()),
    ];
    for (template, wanted) in cases {
        let printed = printed(
            "std::print(std::template(\"/t.j2\"))",
            &format!("{{{{ {template} }}}}"),
        );
        assert!(
            printed.trim_end() == wanted,
            "{template}: {} bytes",
            printed.len()
        );
    }
    let text = printed("x = 0.5\nstd::print(f\"{x:.70000f}\")", "");
    assert!(text.trim_end() == format!("0.5{}", zeros(69_999)));
}

/// Input: templates that double their text or call themselves (docs/reference/security.md § 3.24). Answer: an error at a limit.
#[test]
fn templates_do_not_grow_without_end() {
    let grown = [
        "{% set ns = namespace(x='xxxxxxxxxx') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% macro m(x) %}{{ m(x ~ x) }}{% endmacro %}{{ m('xxxxxxxxxx') }}",
        "{% macro m(x) %}{{ m(x=x + x) }}{% endmacro %}{{ m([1, 2, 3]) }}",
    ];
    for template in grown {
        let world = MemWorld::default()
            .file("project.yml", "name: case")
            .file("templates/t.j2", template)
            .file("main.cf", "x = std::template(\"/t.j2\")");
        let compiled = compile(&world, &Options::default());
        let errors = format!("{:?}", compiled.diagnostics);
        assert!(
            errors.contains("too long a text or list"),
            "{template}: {errors}"
        );
    }
}
