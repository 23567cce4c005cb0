//! Files of metadata: `project.yml`, `module.yml`, `setup.cfg`, `pyproject.toml`, with null, nothing and nonsense as values.

use crate::random::Random;
use crate::tree::{Case, Tree, text};

const PROJECT: &[&str] = &[
    "author",
    "author_email",
    "license",
    "copyright",
    "modulepath",
    "downloadpath",
    "repo",
    "requires",
    "install_mode",
    "freeze_recursive",
    "freeze_operator",
    "relation_precedence_policy",
    "strict_deps_check",
    "pip",
    "environment_settings",
    "description",
    "agent_install_dependency_modules",
    "nothing",
    "name",
];
const PIP: &[&str] = &[
    "index-url",
    "extra-index-url",
    "pre",
    "use-system-config",
    "index_url",
    "nothing",
];
const MODULE: &[&str] = &[
    "name",
    "version",
    "license",
    "description",
    "compiler_version",
    "requires",
    "freeze_recursive",
    "freeze_operator",
    "deprecated",
    "install_mode",
    "author",
    "author_email",
    "copyright",
    "nothing",
];
const PACKAGE: &[&str] = &[
    "metadata.name",
    "metadata.version",
    "metadata.license",
    "metadata.description",
    "metadata.freeze_recursive",
    "metadata.freeze_operator",
    "metadata.deprecated",
    "metadata.version_tag",
    "metadata.four_digit_version",
    "metadata.author",
    "metadata.nothing",
    "options.packages",
    "options.install_requires",
    "options.zip_safe",
    "other.name",
];
const YAML: &[&str] = &[
    "null",
    "null",
    "~",
    "",
    "[]",
    "{}",
    "''",
    "x",
    "\"y\"",
    "1",
    "1.5",
    "0",
    "true",
    "no",
    "'true'",
    "[null]",
    "[x]",
    "[1]",
    "{a: 1}",
    "{a: null}",
    "{a: {b: 1}}",
    "{a: {b: null}}",
    "{a: [1]}",
    "{1: x}",
    "[[x]]",
    "[{a: 1}]",
    "release",
    "prerelease",
    "master",
    "'=='",
    "'~='",
    "a@example.org",
    "'A <a@example.org>'",
    "a@b",
    "[std]",
    "[\"std ~= 8.0\"]",
    "[\"std < 1.0\"]",
    "[\"m\"]",
    "[\"m >= 2.0\"]",
    "\"std>8\"",
    "1.0.0",
    "1.2",
    "2",
    "1.0.0.dev1",
    "v1.0",
    "libs",
    "[libs]",
    "[a, libs]",
    "{url: x}",
    "[{url: x, type: git}]",
    "[{url: x, type: package}]",
    "[{url: x, type: null}]",
    "{url: null}",
    "[x, {url: y}]",
    "[\"a::B.c before d::E.f\"]",
    "[a before b]",
    "http://x",
    "[http://x]",
    "no value: twice",
];
const INI: &[&str] = &[
    "",
    "x",
    "1",
    "0",
    "1.0.0",
    "1.0.0.4",
    "1.2",
    "v1.0",
    "1.0.dev0",
    "1.0a1",
    "2024",
    "1.0+x",
    "True",
    "true",
    "yes",
    "no",
    "On",
    "off",
    "t",
    "y",
    "1 # c",
    "\n    a\n    b",
    "\n  b",
    "==",
    "~=",
    ">=",
    "[]",
    "null",
    "inmanta-module-m",
    "inmanta-module-x",
    "inmanta-module-m_x",
    "Inmanta-Module-m",
    "%",
    "%%",
    "%(name)s",
    "%(nothing)s",
    "std",
    "${name}",
    "= x",
    "\ninmanta-module-std\n",
];

pub fn metadata(random: &mut Random) -> Case {
    let mut case = Case::new(text("import m\nstd::print(m::y)\n"));
    case.files
        .push(("libs/m/model/_init.cf".to_owned(), text("y = 1\n")));
    let which = random.below(4);
    let is_package = which == 2 || which == 3 && random.chance(50);
    let project = match which {
        0 | 3 => project(random, is_package),
        _ => vec!["name: case".to_owned(), "modulepath: libs".to_owned()],
    };
    case.files[0].1 = lines(project);
    if is_package {
        let n_changes = if which == 2 { random.between(1, 2) } else { 0 };
        case.files.push((
            "libs/m/setup.cfg".to_owned(),
            lines(package(random, n_changes)),
        ));
        if random.chance(20) {
            let texts = [
                "",
                "[[",
                "x = null\n",
                "[project]\nname = 'inmanta-module-x'\nversion = '2'\n",
            ];
            let toml = text(*random.pick(&texts));
            case.files.push(("libs/m/pyproject.toml".to_owned(), toml));
        }
    } else {
        let n_changes = if which == 1 { random.between(1, 2) } else { 0 };
        case.files.push((
            "libs/m/module.yml".to_owned(),
            lines(module(random, n_changes)),
        ));
    }
    case
}

fn lines(lines: Vec<String>) -> Tree {
    let mut items: Vec<Tree> = lines.into_iter().map(text).collect();
    items.push(text(""));
    Tree::Items {
        separator: "\n",
        items,
    }
}

/// The lines of a YAML map, some of whose values are something else.
fn changed(
    random: &mut Random,
    base: &[(&str, &str)],
    keys: &[&str],
    n_changes: usize,
) -> Vec<String> {
    let mut entries: Vec<(String, String)> = base
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    for _ in 0..n_changes {
        let key = *random.pick(keys);
        let value = *random.pick(YAML);
        match entries.iter_mut().find(|(known, _)| known == key) {
            Some((_, _)) if random.chance(8) => entries.retain(|(known, _)| known != key),
            Some((_, known)) => value.clone_into(known),
            None => entries.push((key.to_owned(), value.to_owned())),
        }
    }
    let line = |(key, value): (String, String)| format!("{key}: {value}");
    entries.into_iter().map(line).collect()
}

/// `is_package`: the reference has the module installed, ours finds it in the module path.
fn project(random: &mut Random, is_package: bool) -> Vec<String> {
    let n_changes = random.between(1, 2);
    let base = [("name", "case"), ("modulepath", "libs")];
    let mut project = changed(random, &base, PROJECT, n_changes);
    if is_package {
        project.retain(|line| !line.starts_with("modulepath"));
        project.push("modulepath: libs".to_owned());
    }
    if random.chance(20) && !project.iter().any(|line| line.starts_with("pip")) {
        project.push("pip:".to_owned());
        for _ in 0..random.between(1, 2) {
            let (key, value) = (*random.pick(PIP), *random.pick(YAML));
            let line = format!("  {key}: {value}");
            if !project
                .iter()
                .any(|known| known.starts_with(&format!("  {key}:")))
            {
                project.push(line);
            }
        }
    }
    project
}

fn module(random: &mut Random, n_changes: usize) -> Vec<String> {
    let base = [("name", "m"), ("version", "1.0.0"), ("license", "x")];
    changed(random, &base, MODULE, n_changes)
}

fn package(random: &mut Random, n_changes: usize) -> Vec<String> {
    let mut entries: Vec<(String, String)> = [
        ("metadata.name", "inmanta-module-m"),
        ("metadata.version", "1.0.0"),
        ("metadata.license", "x"),
        ("options.packages", "find_namespace:"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .to_vec();
    for _ in 0..n_changes {
        let (key, value) = (*random.pick(PACKAGE), *random.pick(INI));
        match entries.iter_mut().find(|(known, _)| known == key) {
            Some((_, _)) if random.chance(8) => entries.retain(|(known, _)| known != key),
            Some((_, known)) => value.clone_into(known),
            None => entries.push((key.to_owned(), value.to_owned())),
        }
    }
    let mut lines = Vec::new();
    for section in ["metadata", "options", "other"] {
        lines.push(match random.chance(2) {
            true => {
                (*random.pick(&["[Metadata]", "[metadata", "metadata", "[DEFAULT]", ""])).to_owned()
            }
            false => format!("[{section}]"),
        });
        for (key, value) in &entries {
            if let Some(key) = key.strip_prefix(section) {
                let key = &key[1..];
                lines.push(match random.below(60) {
                    0 => key.to_owned(),
                    1 => format!("{key}: {value}"),
                    2 => format!("  {key} = {value}"),
                    3 => format!("{} = {value}", key.to_uppercase()),
                    4 => format!("{key} = {value}\n{key} = {value}"),
                    5 => format!("; comment\n{key}={value}\n# another"),
                    6 => format!("{key} =\n  {value}"),
                    _ => format!("{key} = {value}"),
                });
            }
        }
    }
    lines
}
