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
