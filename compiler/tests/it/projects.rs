//! Mistakes in the files of a project that are no model: `project.yml`, `setup.cfg`, files that can not be read.
//! Each is an error of the reference's kind that names the file, and the line where there is one.

use steward_compiler::{Diagnostic, DirWorld, MemWorld, Options, Severity, compile};

use crate::disk::Disk;

const SETUP: &str = "[metadata]\nname = inmanta-module-m\nversion = 1.0\nlicense = A\n";

fn chain(diagnostic: &Diagnostic) -> String {
    let mut text = format!("{}: {}", diagnostic.kind, diagnostic.message);
    for cause in &diagnostic.causes {
        text.push_str(" <- ");
        text.push_str(&chain(cause));
    }
    text
}

/// Errors and warnings of a project.
fn outcome(files: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
    let mut world = MemWorld::default();
    for (name, text) in files {
        world = world.file(name, text);
    }
    split(&compile(&world, &Options::default()).diagnostics)
}

fn split(diagnostics: &[Diagnostic]) -> (Vec<String>, Vec<String>) {
    let (errors, warnings): (Vec<&Diagnostic>, Vec<&Diagnostic>) = diagnostics
        .iter()
        .partition(|diagnostic| diagnostic.severity == Severity::Error);
    let texts = |found: Vec<&Diagnostic>| found.into_iter().map(chain).collect();
    (texts(errors), texts(warnings))
}

#[track_caller]
fn accepted(project: &str) {
    let (errors, _) = outcome(&[("project.yml", project), ("main.cf", "x = 1\n")]);
    assert!(errors.is_empty(), "{project:?}: {errors:?}");
}

#[track_caller]
fn rejected(project: &str, wanted: &[&str]) {
    let (errors, _) = outcome(&[("project.yml", project), ("main.cf", "x = 1\n")]);
    let [error] = errors.as_slice() else {
        panic!("{project:?}: {errors:?}");
    };
    let named = error.starts_with("InvalidMetadata: ") && error.contains("project.yml");
    assert!(named, "{project:?}: {error}");
    for wanted in wanted {
        assert!(error.contains(wanted), "{project:?}: {error}");
    }
}

#[test]
//: lang 181
fn project_files_that_the_reference_accepts_are_accepted() {
    for rest in [
        "",
        "foo: bar",
        "modulepath: 5",
        "modulepath: [5]",
        "modulepath:",
        "modulepath: libs\ndownloadpath: libs",
        "freeze_recursive: yes",
        "freeze_recursive: 'true'",
        "freeze_operator: ~=",
        "requires: m",
        "requires: [my-mod >= 1, 'n[extra] ~= 1.2, != 1.3 ; python_version > \"3\"', 'o @ https://x']",
        "relation_precedence_policy: []",
        "author_email: a@b.com",
        "author_email: 'Fred <a@b.com>'",
        "description:",
        "license: 5",
        "install_mode: master",
        "repo: https://x",
        "repo: {url: https://x, type: git}",
        "repo: [https://x, {url: https://y}]",
        "pip: {index_url: a, extra_index_url: [b], pre: true, use_system_config: false}",
        "strict_deps_check: maybe",
        "environment_settings: {auto_deploy: true}",
        "environment_settings:",
        "environment_settings: {a: {b: 1}, 2: x}",
        "repo:",
        "requires:",
        "description: &a x\nlicense: *a",
    ] {
        accepted(&format!("name: x\n{rest}\n"));
    }
    accepted("name: 5\n");
    accepted("name: 1.5\n");
    accepted("\u{feff}name: x\n");
    accepted("base: &base {name: x}\n<<: *base\n");
    accepted("name: x\r\nrequires: []\r\n");
}

#[test]
//: lang 181
fn a_field_of_the_wrong_form_is_named_with_its_line() {
    for (rest, wanted) in [
        ("modulepath: [{a: b}]", "modulepath (line 2)"),
        ("modulepath: true", "modulepath (line 2)"),
        (
            "freeze_operator: '<='",
            "freeze_operator (line 2): must be one of",
        ),
        ("freeze_operator: 5", "freeze_operator (line 2)"),
        ("freeze_operator:", "freeze_operator (line 2)"),
        (
            "freeze_recursive: maybe",
            "freeze_recursive (line 2): a truth value",
        ),
        ("freeze_recursive: 2", "freeze_recursive (line 2)"),
        ("requires: {a: b}", "requires (line 2)"),
        ("requires: [null]", "requires (line 2)"),
        (
            "requires: ['m >>> 3']",
            "requires (line 2): `m >>> 3` is no requirement",
        ),
        ("requires: ['']", "requires (line 2)"),
        (
            "relation_precedence_policy: 'a.b before c.d'",
            "a list was expected",
        ),
        (
            "relation_precedence_policy: ['a.b before']",
            "`a.b before` is not of the form",
        ),
        (
            "relation_precedence_policy: ['a.b.c before c.d']",
            "is not of the form",
        ),
        (
            "relation_precedence_policy: ['a.b before c.d x']",
            "is not of the form",
        ),
        (
            "relation_precedence_policy:",
            "relation_precedence_policy (line 2)",
        ),
        (
            "relation_precedence_policy: [5]",
            "relation_precedence_policy (line 2)",
        ),
        (
            "author_email: nope",
            "author_email (line 2): an e-mail address",
        ),
        ("description: [a]", "description (line 2)"),
        ("author: {a: b}", "author (line 2)"),
        ("copyright: [a]", "copyright (line 2)"),
        ("install_mode: nope", "install_mode (line 2)"),
        ("repo: {url: https://x, type: svn}", "repo.type (line 2)"),
        ("repo: {type: git}", "repo.url (line 2)"),
        ("repo: 5", "repo (line 2)"),
        (
            "modulepath: {a: b}",
            "modulepath (line 2): a string or a list of strings was expected, as in `modulepath: [TEXT, TEXT]`",
        ),
        (
            "pip: abc",
            "pip (line 2): a map was expected, as in `pip: {index-url: URL}`",
        ),
        ("pip:", "pip (line 2)"),
        ("pip: {index-url: [a]}", "pip.index-url (line 2)"),
        (
            "pip: {extra-index-url: a}",
            "pip.extra-index-url (line 2): a list of strings",
        ),
        ("pip: {pre: maybe}", "pip.pre (line 2)"),
        ("downloadpath: [a]", "downloadpath (line 2)"),
        (
            "environment_settings: {a: null}",
            "environment_settings (line 2): `a`",
        ),
        (
            "environment_settings: {a: {b: [1]}}",
            "environment_settings (line 2): `a`",
        ),
        ("author_email: 5", "author_email (line 2)"),
        (
            "environment_settings: [a]",
            "environment_settings (line 2): a map",
        ),
    ] {
        rejected(&format!("name: x\n{rest}\n"), &[wanted]);
    }
    rejected(
        "modulepath: libs\n",
        &["name: it is missing: write `name: …`"],
    );
    rejected("# a comment\nname:\n", &["name (line 2)"]);
    rejected("name: [a]\n", &["name (line 1)"]);
    rejected("name: true\n", &["name (line 1)"]);
}

#[test]
//: lang 181
fn yaml_that_is_none_is_told_with_its_line() {
    for text in ["", "x", "- a"] {
        rejected(text, &[]);
    }
    rejected(
        "name: x\nrequires: [a\nfoo: }\n",
        &["Invalid yaml syntax", "line 3"],
    );
    rejected("name: x\n  foo: 1\n", &["Invalid yaml syntax", "line 2"]);
    rejected("name: x\n\tfoo: 1\n", &["Invalid yaml syntax", "line 2"]);
    rejected("name: x\n---\nname: y\n", &["Invalid yaml syntax"]);
    rejected("name: x\0y\n", &["Invalid yaml syntax"]);
    rejected(
        &format!("name: x\nfoo: {}", "[".repeat(100_000)),
        &["Invalid yaml syntax"],
    );
    // Names that stand for ever more names.
    let mut bomb = "name: x\na0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let inner = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
    }
    rejected(&bomb, &["Invalid yaml syntax"]);
}

#[test]
fn doubtful_fields_are_warnings() {
    for (rest, wanted) in [
        (
            "pip: {foo: bar}",
            "ProjectConfigurationWarning: Found unexpected configuration value 'pip.foo' in 'project.yml'",
        ),
        (
            "repo: {url: https://x, type: package}",
            "ProjectConfigurationWarning: Setting a pip index",
        ),
        (
            "modulpath: libs",
            "ProjectConfigurationWarning: project.yml:2: `modulpath` is not read; did you mean `modulepath`?",
        ),
        (
            "colour: blue",
            "ProjectConfigurationWarning: project.yml:2: `colour` is not read",
        ),
        (
            "repo: [x, {url: https://x, typ: git}]",
            "ProjectConfigurationWarning: project.yml:2: `repo.typ` is not read; did you mean `type`?",
        ),
    ] {
        let project = format!("name: x\n{rest}\n");
        let (errors, warnings) = outcome(&[("project.yml", &project), ("main.cf", "x = 1\n")]);
        assert!(errors.is_empty(), "{errors:?}");
        assert!(
            warnings.iter().any(|warning| warning.starts_with(wanted)),
            "{warnings:?}"
        );
    }
}

#[test]
fn fields_that_are_read_or_there_for_their_anchors_are_no_warnings() {
    let project = "name: x\nx-common: &common {index-url: https://x}\n.more: 1\npip: {<<: *common, pre: true}\n\
                   agent_install_dependency_modules: true\nrepo: {url: https://x}\n";
    let (errors, warnings) = outcome(&[("project.yml", project), ("main.cf", "x = 1\n")]);
    assert!(
        errors.is_empty() && warnings.is_empty(),
        "{errors:?} {warnings:?}"
    );
}

#[test]
fn a_project_without_a_model_says_what_is_missing() {
    let (errors, _) = outcome(&[("project.yml", "name: x\n")]);
    let wanted = "CompilerException: there is no main.cf: a project has one beside its project.yml";
    assert_eq!(errors, [wanted]);
}

/// A project that imports a module with this `setup.cfg`.
fn with_module(setup: &str) -> (Vec<String>, Vec<String>) {
    outcome(&[
        ("project.yml", "name: x\nmodulepath: libs\n"),
        ("main.cf", "import m\nx = m::x\n"),
        ("libs/m/setup.cfg", setup),
        ("libs/m/model/_init.cf", "x = 1\n"),
        ("libs/m/inmanta_plugins/m/__init__.py", ""),
    ])
}

#[test]
fn the_metadata_of_a_module_are_checked() {
    let (errors, warnings) = with_module(SETUP);
    assert!(
        errors.is_empty() && warnings.is_empty(),
        "{errors:?} {warnings:?}"
    );
    let (errors, _) = with_module(&format!(
        "{SETUP}foo = bar\n[options]\ninstall_requires =\n  foo >>> 1\n"
    ));
    assert!(errors.is_empty(), "{errors:?}");
    let (errors, warnings) = with_module(&format!("{SETUP}deprecated = True\n"));
    assert!(errors.is_empty(), "{errors:?}");
    let deprecated = ["ModuleDeprecationWarning: Module m has been deprecated"];
    assert_eq!(warnings, deprecated);
    let (errors, warnings) = outcome(&[
        ("project.yml", "name: x\nmodulepath: libs\n"),
        ("main.cf", "import m\nimport m::sub\nx = m::x\n"),
        (
            "libs/m/module.yml",
            "name: m\nversion: 1.0.0\nlicense: x\ndeprecated: true\n",
        ),
        ("libs/m/model/_init.cf", "x = 1\n"),
        ("libs/m/model/sub.cf", "x = 1\n"),
    ]);
    assert!(errors.is_empty(), "{errors:?}");
    let older = "InmantaWarning: Loaded V1 module m. The use of V1 modules is deprecated. Use the equivalent V2 module instead.";
    assert_eq!(warnings, [older, deprecated[0]]);
    for (setup, wanted) in [
        (
            "[metadata]\nversion = 1.0\nlicense = A\n".to_owned(),
            "no name",
        ),
        (
            "[metadata]\nname = inmanta-module-m\nlicense = A\n".to_owned(),
            "no version",
        ),
        (
            "[metadata]\nname = inmanta-module-m\nversion = 1\n".to_owned(),
            "no license",
        ),
        (
            SETUP.replace("inmanta-module-m", "m"),
            "does not start with inmanta-module-",
        ),
        (SETUP.replace("-m\n", "-m_x\n"), "underscores"),
        (SETUP.replace("1.0", "abc"), "abc is no version"),
        (
            SETUP.replace("1.0", "1.0.dev5"),
            "1.0.dev5 may have nothing after its numbers",
        ),
        (format!("{SETUP}freeze_operator = <\n"), "freeze_operator"),
        (format!("{SETUP}deprecated = maybe\n"), "deprecated"),
        (
            format!("{SETUP}version = 2\n"),
            "line 5: version is given twice",
        ),
        (String::new(), "no section [metadata]"),
        (format!("{SETUP}deprecated =\n"), "deprecated may not be ``"),
        (format!("{SETUP}author\n"), "line 5: a key has no value"),
        (format!("{SETUP}author = %\n"), "`%` must be followed by"),
        ("name = x\n".to_owned(), "line 1: a value is in no section"),
        (
            "[metadata\nname = x\n".to_owned(),
            "line 1: a section has no end",
        ),
    ] {
        let (errors, _) = with_module(&setup);
        let [error] = errors.as_slice() else {
            panic!("{setup:?}: {errors:?}");
        };
        let kinds = "ModuleLoadingException: Failed to load module m <- InvalidModuleException: Could not load module m <- InvalidMetadata: Metadata defined in libs/m/setup.cfg is invalid";
        assert!(
            error.starts_with(kinds) && error.contains(wanted),
            "{setup:?}: {error}"
        );
    }
}

#[test]
fn a_module_in_the_place_of_another_is_told() {
    let (errors, _) = with_module(&SETUP.replace("-m\n", "-other\n"));
    let [error] = errors.as_slice() else {
        panic!("{errors:?}");
    };
    assert!(error.starts_with("InvalidModuleException: The module at libs/m is not m"));
    assert!(error.contains("inmanta-module-other"), "{error}");
}

/// The errors of a project whose only module has this `module.yml`.
fn with_older_module(metadata: &str) -> Vec<String> {
    let (errors, _) = outcome(&[
        ("project.yml", "name: x\nmodulepath: libs\n"),
        ("main.cf", "import m\nx = m::x\n"),
        ("libs/m/module.yml", metadata),
        ("libs/m/model/_init.cf", "x = 1\n"),
    ]);
    errors
}

const MODULE: &str = "name: m\nversion: 1.0.0\nlicense: A\n";

#[test]
fn the_metadata_of_an_older_module_are_checked() {
    for rest in [
        "",
        "description:",
        "deprecated: null",
        "requires:",
        "requires: [std ~= 8.0]",
        "compiler_version: 2020.1",
        "author: [a]",
    ] {
        let errors = with_older_module(&format!("{MODULE}{rest}\n"));
        assert!(errors.is_empty(), "{rest}: {errors:?}");
    }
    for (rest, wanted) in [
        ("description: [a]", "description (line 4): a string"),
        ("compiler_version: null", "compiler_version (line 4)"),
        ("compiler_version: x", "x is no version"),
        ("freeze_operator: null", "freeze_operator (line 4)"),
        ("freeze_recursive: null", "freeze_recursive (line 4)"),
        ("deprecated: maybe", "deprecated (line 4): a truth value"),
        ("requires: {a: 1}", "requires (line 4)"),
    ] {
        let errors = with_older_module(&format!("{MODULE}{rest}\n"));
        let [error] = errors.as_slice() else {
            panic!("{rest}: {errors:?}");
        };
        let kinds = "ModuleLoadingException: Failed to load module m <- InvalidModuleException: Could not load module m <- InvalidMetadata: Metadata defined in libs/m/module.yml is invalid";
        assert!(error.starts_with(kinds), "{rest}: {error}");
        assert!(error.contains(wanted), "{rest}: {error}");
    }
    for key in ["name", "version", "license"] {
        let lines = MODULE.lines().filter(|line| !line.starts_with(key));
        let errors = with_older_module(&lines.collect::<Vec<_>>().join("\n"));
        assert!(
            errors[0].contains(&format!("{key}: it is missing")),
            "{errors:?}"
        );
    }
}

/// The only error of a project on disk.
#[track_caller]
fn error_on_disk(disk: &Disk) -> String {
    let (errors, _) = split(&disk.run(&Options::default(), &[]).compiled.diagnostics);
    let [error] = errors.as_slice() else {
        panic!("{errors:?}");
    };
    error.clone()
}

fn plain() -> Disk {
    Disk::new(&[
        (
            "project.yml".to_owned(),
            "name: x\nmodulepath: libs\n".to_owned(),
        ),
        ("main.cf".to_owned(), "import m\n".to_owned()),
        ("libs/m/setup.cfg".to_owned(), SETUP.to_owned()),
        ("libs/m/model/_init.cf".to_owned(), "x = 1\n".to_owned()),
    ])
}

#[test]
fn files_that_are_no_text_are_told_with_their_line() {
    let latin = b"# one\nx = \"\xe9\"\n";
    for (file, wanted) in [
        (
            "project.yml",
            "project.yml can not be read: line 2 of the file is not UTF-8",
        ),
        (
            "main.cf",
            "main.cf can not be read: line 2 of the file is not UTF-8",
        ),
        ("libs/m/model/_init.cf", "line 2 of the file is not UTF-8"),
        ("libs/m/setup.cfg", "line 2 of the file is not UTF-8"),
    ] {
        let disk = plain();
        std::fs::write(disk.path().join(file), latin).expect("a file");
        let error = error_on_disk(&disk);
        assert!(error.contains(wanted), "{file}: {error}");
    }
}

#[test]
fn what_is_no_file_is_told() {
    for file in ["project.yml", "main.cf", "libs/m/model/_init.cf"] {
        // A directory, a link to itself, a link to nothing, a link to what never ends.
        for way in 0..5 {
            let disk = plain();
            let path = disk.path().join(file);
            std::fs::remove_file(&path).expect("the file is there");
            match way {
                0 => std::fs::create_dir(&path).expect("a directory"),
                1 => std::os::unix::fs::symlink(&path, &path).expect("a link"),
                2 => std::os::unix::fs::symlink("/nothing/there", &path).expect("a link"),
                3 => std::os::unix::fs::symlink("/dev/zero", &path).expect("a link"),
                _ => {}
            }
            let error = error_on_disk(&disk);
            let name = if file.starts_with("libs") {
                "module m"
            } else {
                file
            };
            assert!(error.contains(name), "{file} {way}: {error}");
        }
    }
}

#[test]
fn links_to_files_are_followed() {
    let disk = plain();
    let (link, file) = (disk.path().join("main.cf"), disk.path().join("other.cf"));
    std::fs::rename(&link, &file).expect("it moves");
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    assert!(disk.run(&Options::default(), &[]).compiled.succeeded());
}

#[test]
fn a_module_without_a_model_is_told() {
    let disk = plain();
    std::fs::remove_file(disk.path().join("libs/m/model/_init.cf")).expect("it is there");
    let error = error_on_disk(&disk);
    assert!(
        error.starts_with("ModuleLoadingException: Failed to load module m"),
        "{error}"
    );
}

#[test]
fn a_module_that_is_asked_for_and_not_there_is_to_be_installed() {
    let help_of = |files: &[(&str, &str)]| {
        let mut world = MemWorld::default()
            .file("project.yml", "name: case\nmodulepath: libs\n")
            .file("main.cf", "import far_away\n")
            .file(
                "libs/far_awey/module.yml",
                "name: far_awey\nversion: 1.0\nlicense: A\n",
            )
            .file("libs/far_awey/model/_init.cf", "");
        for (name, text) in files {
            world = world.file(name, text);
        }
        let compiled = compile(&world, &Options::default());
        let error = compiled.diagnostics.into_iter().next().expect("an error");
        assert_eq!(error.kind, "ModuleLoadingException");
        error.help.unwrap_or_default()
    };
    let install = "asks for it, but it is not installed: run `steward project install`";
    let add = "asks for it, but it is not installed: add `inmanta-module-far-away` to requirements.txt and run `steward project install`";
    let package = "# all\ninmanta-module-far-away ~= 1.0\n";
    assert_eq!(help_of(&[]), "did you mean `far_awey`?");
    assert_eq!(
        help_of(&[("requirements.txt", package)]),
        format!("requirements.txt {install}")
    );
    let cfg = "[options]\ninstall_requires =\n    inmanta-module-far-away\n";
    assert_eq!(help_of(&[("setup.cfg", cfg)]), format!("setup.cfg {add}"));
    let project = "name: case\nmodulepath: libs\nrequires:\n  - far_away\n";
    assert_eq!(
        help_of(&[("project.yml", project)]),
        format!("project.yml {add}")
    );
    // Of a module that is there.
    let near = [
        ("main.cf", "import near\n"),
        (
            "libs/near/module.yml",
            "name: near\nversion: 1.0\nlicense: A\n",
        ),
        ("libs/near/model/_init.cf", "import far_away\n"),
        ("libs/near/requirements.txt", package),
    ];
    assert_eq!(help_of(&near), format!("the module near {install}"));
}

#[test]
fn a_module_that_is_not_found_says_where_it_was_looked_for_and_what_installs_it() {
    let told = |project: &str, environment: bool| {
        let mut world = MemWorld::default()
            .file("project.yml", project)
            .file("main.cf", "import far_away\n");
        if environment {
            world = world.file(".env/pyvenv.cfg", "");
        }
        let compiled = compile(&world, &Options::default());
        let error = compiled.diagnostics.into_iter().next().expect("an error");
        let notes = error.notes.iter().map(|note| note.message.clone());
        (
            notes.collect::<Vec<_>>().join("\n"),
            error.help.unwrap_or_default(),
        )
    };
    let (notes, help) = told("name: case\nmodulepath: [libs, more]\n", false);
    assert_eq!(
        notes,
        "looked for far_away in: module path: libs/far_away, more/far_away; the project has no environment (.env); packages come from: nowhere (project.yml names no pip.index-url)"
    );
    let add = "add `inmanta-module-far-away` to requirements.txt and run `steward project install`";
    assert!(help.starts_with(add), "{help}");
    let index = "name: case\nmodulepath: libs\npip:\n  index-url: https://me:secret@packages.example.org/simple\n";
    let (notes, _) = told(index, true);
    assert_eq!(
        notes,
        "looked for far_away in: module path: libs/far_away; installed in: .env; packages come from: https://packages.example.org/simple"
    );
    let (notes, _) = told("name: case\npip:\n  use_system_config: true\n", true);
    assert!(
        notes.ends_with("the index of this machine (pip.use-system-config)"),
        "{notes}"
    );
}

const RESOURCES: &str = "from inmanta.resources import Resource, resource


@resource(\"m::A\", agent=\"n\", id_attribute=\"n\")
class AResource(Resource):
    fields = (\"n\", \"owner\")
";

#[test]
fn a_field_without_an_attribute_names_its_resource_class() {
    let files = [
        ("project.yml", "name: case\nmodulepath: libs\n"),
        ("main.cf", "import m\na = m::A(n=\"a\")\n"),
        ("libs/m/module.yml", "name: m\nversion: 1.0\nlicense: A\n"),
        (
            "libs/m/model/_init.cf",
            "entity A extends std::Resource:\n    string n\nend\nimplement A using std::none\n",
        ),
        ("libs/m/plugins/__init__.py", RESOURCES),
    ];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let options = Options {
        export: true,
        ..Options::default()
    };
    let mut compiled = Disk::new(&files).run(&options, &[]).compiled;
    compiled
        .diagnostics
        .retain(|diagnostic| diagnostic.severity == Severity::Error);
    let [error] = compiled.diagnostics.as_slice() else {
        panic!("{:?}", compiled.diagnostics);
    };
    assert_eq!(
        chain(error),
        "ExternalException: Failed to get attribute 'owner' for export on 'm::A' <- \
         NotFoundException: could not find attribute with name: owner in type m::A"
    );
    assert_eq!(error.location.as_ref().map(|at| at.line), Some(2));
    assert_eq!(
        error.notes[0].message,
        "the resource class `AResource` of `m::A` has the field `owner`"
    );
    let place = error.notes[0].location.as_ref().expect("a place");
    assert_eq!(
        (place.file.as_str(), place.line),
        ("libs/m/plugins/__init__.py", 5)
    );
    assert_eq!(
        error.help.as_deref(),
        Some("add an attribute `owner` to `m::A`, or a method `get_owner` to the class")
    );
}

#[test]
fn a_module_whose_folder_is_empty_may_be_a_submodule_that_was_not_fetched() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    std::fs::create_dir_all(root.join("libs/far_away")).unwrap();
    std::fs::write(root.join("project.yml"), "name: case\nmodulepath: libs\n").unwrap();
    std::fs::write(root.join("main.cf"), "import far_away\n").unwrap();
    let world = DirWorld::new(root.to_owned(), Default::default(), |_: &str| ());
    let compiled = compile(&world, &Options::default());
    let note = &compiled.diagnostics[0].notes[0].message;
    assert!(
        note.contains("module path: libs/far_away (an empty folder; submodules of git are not fetched by servers)"),
        "{note}"
    );
}
