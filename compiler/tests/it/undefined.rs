//! What templates do with a value that is not there, wherever it is used: a slip in a name never gives an empty text. Source:
//! docs/reference/std.md § 7.3.

use crate::disk::Disk;

const MAIN: &str = "d = {\"a\": 1}\nl = [1, 2]\nrows = [{\"n\": \"x\", \"on\": true}, {\"n\": \"y\"}]\n\
                    x = std::template(\"/t.j2\")\n";

/// The errors of a template.
fn errors(template: &str) -> Vec<(String, String)> {
    let files = [
        ("project.yml", "name: undefined\n"),
        ("main.cf", MAIN),
        ("templates/t.j2", template),
    ];
    let disk = Disk::new(&files.map(|(name, text)| (name.to_owned(), text.to_owned())));
    let outcome = disk.run(&steward_compiler::Options::default(), &[]);
    let diagnostics = outcome.compiled.diagnostics.iter();
    let causes = diagnostics.flat_map(|found| &found.causes);
    causes
        .map(|cause| (cause.kind.to_string(), cause.message.clone()))
        .collect()
}

#[track_caller]
fn refused(template: &str, name: &str) {
    let wanted = (
        "NotFoundException".to_owned(),
        format!("'{name}' is undefined"),
    );
    assert_eq!(errors(template), [wanted], "{template}");
}

#[test]
fn no_filter_takes_what_is_undefined_for_nothing() {
    let filters = "abs attr('x') batch(2) capitalize center count dictsort e escape filesizeformat first float forceescape \
                   format groupby('x') indent int join last length list lower map('upper') map(attribute='x') max min \
                   random reject rejectattr('x') replace('a','b') reverse round safe select selectattr('x') slice(2) sort \
                   string striptags sum sum(attribute='x') title trim truncate unique upper urlencode urlize wordcount \
                   wordwrap xmlattr std.upper";
    for filter in filters.split_whitespace() {
        refused(&format!("{{{{ nme|{filter} }}}}"), "nme");
        refused(&format!("{{{{ d.nme|{filter} }}}}"), "d.nme");
    }
}

#[test]
fn arguments_tests_and_formats_do_not_either() {
    for template in [
        "{{ 'a'|replace('a', nme) }}",
        "{{ l|join(nme) }}",
        "{{ l|sum(start=nme) }}",
        "{{ nme is odd }}",
        "{{ nme is eq(1) }}",
        "{{ 1 is eq(nme) }}",
        "{{ nme is in(l) }}",
        "{{ nme is iterable }}",
        "{{ '%s' % nme }}",
        "{{ '{}'.format(nme) }}",
        "{{ '{a}'.format(a=nme) }}",
        "{{ nme is test }}",
        "{{ nme is filter }}",
        "{{ none|default('x', nme) }}",
        "{{ {'a': nme}|urlencode }}",
    ] {
        refused(template, "nme");
    }
}

#[test]
fn elements_without_the_attribute_are_told() {
    for template in [
        "{{ rows|selectattr('on')|list }}",
        "{{ rows|rejectattr('on')|list }}",
        "{{ rows|selectattr('on', 'eq', true)|list }}",
        "{{ rows|unique(attribute='on')|list }}",
        "{{ rows|sum(attribute='on') }}",
        "{{ rows|sort(attribute='on') }}",
        "{{ rows|groupby('on') }}",
    ] {
        let found = errors(template);
        assert_eq!(found.len(), 1, "{template}: {found:?}");
        assert_eq!(found[0].0, "NotFoundException", "{template}: {found:?}");
    }
}

/// Python asks them for a number, a key, their elements, or whether they are equal.
#[test]
fn functions_literals_and_methods_do_not_either() {
    for template in [
        "{{ range(nme) }}",
        "{{ range(1, nme) }}",
        "{% for i in range(1, 5, nme) %}{{ i }}{% endfor %}",
        "{{ dict(nme) }}",
        "{{ dict([[nme, 1]]) }}",
        "{% set x = namespace(nme) %}",
        "{% set x = {nme: 1} %}",
        "{{ 'a'.join(nme) }}",
        "{{ 'a'.join([nme]) }}",
        "{{ 'abc'.split(nme) }}",
        "{{ 'abc'.strip(nme) }}",
        "{{ 'abc'.find(nme) }}",
        "{{ 'abc'.index(nme) }}",
        "{{ 'abc'.ljust(9, nme) }}",
        "{{ 'abc'.removeprefix(nme) }}",
        "{{ 'abc'.splitlines(nme) }}",
        "{{ 'abc'.rsplit(sep=nme) }}",
        "{{ l.index(nme) }}",
        "{{ l.count(nme) }}",
        "{{ [1, 2].remove(nme) }}",
        "{{ [1, 2].extend(nme) }}",
        "{{ [1, 2].insert(nme, 1) }}",
        "{{ [1, 2].pop(nme) }}",
        "{{ [nme, 1].index(1) }}",
        "{{ (1, 2).count(nme) }}",
        "{{ d.get(nme) }}",
        "{{ {'a': 1}.pop(nme) }}",
        "{{ {'a': 1}.update(nme) }}",
        "{{ {'a': 1}.setdefault(nme) }}",
    ] {
        refused(template, "nme");
        refused(&template.replace("nme", "d.nme"), "d.nme");
    }
}

#[test]
fn what_only_keeps_a_value_takes_it() {
    for template in [
        "{{ [nme] }}",
        "{{ dict(a=nme)|length }}",
        "{{ {'a': nme}|length }}",
        "{{ [1].append(nme) }}",
        "{{ [1].insert(0, nme) }}",
        "{{ [1, nme].index(1) }}",
        "{{ {}.setdefault('a', nme) is defined }}",
        "{{ d.get('a', nme) }}",
        "{{ d.get('b', nme) is defined }}",
        "{{ '{a}'.format(a=1, b=nme) }}",
        "{{ nme is callable }} {{ nme is sameas(nme) }}",
    ] {
        assert_eq!(errors(template), [], "{template}");
    }
    refused("{{ d.get('b', nme) }}", "nme");
    refused("{{ dict(a=nme).a }}", "nme");
}

/// Jinja2 knows no such item of a list.
#[test]
fn a_list_has_no_starred_items() {
    for template in ["{{ [*l] }}", "{{ {**d} }}", "{% set x = [1, *nme] %}"] {
        let found = errors(template);
        assert_eq!(found.len(), 1, "{template}: {found:?}");
        assert!(
            found[0].1.contains("TemplateSyntaxError"),
            "{template}: {found:?}"
        );
    }
}
