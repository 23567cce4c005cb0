//! Plugins as filters of templates: how often and in which order they are called, by which names, and what goes wrong. With
//! `STEWARD_ORACLE` the reference says so, too. Source: docs/reference/std.md § 7.

use crate::ahead::printed_by_the_reference;
use crate::disk::Disk;

const PLUGINS: &str = r#"
from inmanta.plugins import plugin
N_CALLS = []

@plugin
def count(x: "any") -> "string":
    N_CALLS.append(x)
    return f"{x}:{len(N_CALLS)}"

@plugin
def joined(x: "any", b: "any" = "B", c: "any" = "C") -> "string":
    return f"{x} {b} {c}"

@plugin
def same(x: "any") -> "any":
    return x

@plugin
def boom(x: "any") -> "any":
    raise Exception(f"boom {x}")
"#;

fn project(template: &str) -> Disk {
    let main = "import m\nname = \"n\"\nall = [\"a\", \"b\", \"c\"]\n\
                std::print(\"> {{text}}\")\ntext = std::template(\"m/t.j2\")\nlate = std::replace(\"abc\", \"b\", name)\n";
    let files = [
        ("project.yml", "name: filters\nmodulepath: libs\n"),
        ("main.cf", main),
        (
            "libs/m/module.yml",
            "name: m\nversion: 1.0.0\nlicense: Apache-2.0\n",
        ),
        ("libs/m/model/_init.cf", ""),
        ("libs/m/plugins/__init__.py", PLUGINS),
        ("libs/m/templates/t.j2", template),
        ("libs/m/templates/part.j2", "<{{ i | m.joined }}>"),
    ];
    Disk::new(&files.map(|(name, text)| (name.to_owned(), text.to_owned())))
}

#[track_caller]
fn check(template: &str, wanted: &str) {
    let disk = project(template);
    let outcome = disk.run(&steward_compiler::Options::default(), &[]);
    let errors = &outcome.compiled.diagnostics;
    assert!(outcome.compiled.succeeded(), "{template}: {errors:#?}");
    let wanted = format!("> {wanted}\n");
    assert_eq!(outcome.printed, wanted, "{template}");
    if let Some(reference) = printed_by_the_reference(&disk) {
        assert_eq!(reference, wanted, "{template}");
    }
}

#[test]
fn each_use_of_a_filter_is_a_call() {
    check(
        "{{ name|m.count }} {{ name|m.count }}{% for i in all %} {{ name|m.count }}{% endfor %}",
        "n:1 n:2 n:3 n:4 n:5",
    );
    // With more calls than a rendering is begun again for, and templates that are read in between.
    check(
        "{% for i in all %}{{ i|m.count }}{% include 'm/part.j2' %}{% endfor %}{% for i in all %}{{ i|m.count|m.count }}{% endfor %}",
        "a:1<a B C>b:2<b B C>c:3<c B C>a:4:5b:6:7c:8:9",
    );
    check(
        "{% if name|m.count == 'n:1' %}one{% else %}again{% endif %}",
        "one",
    );
    // A value that comes late, when many calls were made.
    check(
        "{% for i in all %}{{ i|m.same }}{{ i|m.same }}{% endfor %}{{ late|m.same }}",
        "aabbccanc",
    );
}

#[test]
fn a_template_of_many_calls_is_rendered_once() {
    let numbers: Vec<String> = (0..3000).map(|i| i.to_string()).collect();
    let calls = "{% for i in range(3000) %}{{ i|m.same }} {% endfor %}";
    check(calls, &format!("{} ", numbers.join(" ")));
}

#[test]
fn filters_have_the_names_of_plugins_wherever_filters_are_named() {
    check(
        "{{ all|map('m.joined')|join(',') }} {{ ['a-b']|map('std.replace', '-', '+')|join }}",
        "a B C,b B C,c B C a+b",
    );
    check(
        "{% filter m.joined %}q{% endfilter %}, {% filter m.joined('z')|upper %}q{% endfilter %}",
        "q B C, Q Z C",
    );
    check(
        "{% set x | m.joined %}z{% endset %}{{ x }} {{ name|m.joined(name|m.joined) }}",
        "z B C n n B C C",
    );
    check(
        "{% macro f(a) %}{{ a|m.joined }}{{ caller() }}{% endmacro %}{% call f(name|m.joined) %}!{% endcall %}",
        "n B C B C!",
    );
    // What is no filter keeps its dots.
    check(
        "a | std.upper {{ 'x | std.upper' }}",
        "a | std.upper x | std.upper",
    );
}

#[track_caller]
fn check_cause(template: &str, wanted: &str) {
    let disk = project(template);
    let outcome = disk.run(&steward_compiler::Options::default(), &[]);
    let error = outcome.compiled.diagnostics.first().expect("a mistake");
    assert_eq!(error.message, "Exception in plugin std::template");
    let cause = error.causes.first().expect("the cause");
    assert_eq!(cause.message, wanted, "{template}");
}

#[test]
fn what_is_not_there_is_named() {
    for (template, wanted) in [
        (
            "{% include 'm/none.j2' %}",
            "jinja2.exceptions.TemplateNotFound: m/none.j2",
        ),
        (
            "{% extends 'm/none.j2' %}",
            "jinja2.exceptions.TemplateNotFound: m/none.j2",
        ),
        (
            "{% import 'm/none.j2' as x %}",
            "jinja2.exceptions.TemplateNotFound: m/none.j2",
        ),
        (
            "{% include ['m/none.j2', 'm/n2.j2'] %}",
            "jinja2.exceptions.TemplatesNotFound: none of the templates given were found: m/none.j2, m/n2.j2",
        ),
        (
            "{{ 1|m.nothing }}",
            "jinja2.exceptions.TemplateAssertionError: No filter named 'm.nothing'.",
        ),
        (
            "{{ [1]|map('m.nothing')|list }}",
            "jinja2.exceptions.TemplateAssertionError: No filter named 'm.nothing'.",
        ),
        (
            "{{ 1|m.joined(c='x') }}",
            "TypeError: m::joined got an unexpected keyword argument 'c': as filters, plugins take arguments by position only",
        ),
        ("{{ 1|m.boom }}", "Exception: boom 1"),
        (
            "{% for i in range(9) %}{{ i|m.same }}{% endfor %}{{ 1|m.boom }}{{ 2|m.boom }}",
            "Exception: boom 1",
        ),
    ] {
        check_cause(template, wanted);
    }
}
