//! Where modules come from, and what projects ask of them. Source: docs/reference/language.md § 11.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use steward_compiler::{
    Compiled, DirWorld, MemWorld, Options, PythonRuntime, PythonSource, compile,
};

fn compiled(files: &[(&str, &str)]) -> (Compiled, String) {
    let mut world = MemWorld::default();
    if files.iter().all(|(name, _)| *name != "project.yml") {
        world = world.file("project.yml", "name: case\nmodulepath: libs");
    }
    for (name, text) in files {
        world = world.file(name, text);
    }
    let compiled = compile(&world, &Options::default());
    (compiled, world.printed())
}

#[track_caller]
fn check_printed(files: &[(&str, &str)], wanted: &str) {
    let (compiled, printed) = compiled(files);
    assert!(compiled.succeeded(), "{:#?}", compiled.diagnostics);
    assert_eq!(printed, wanted);
}

/// Kind and message of the first error.
#[track_caller]
fn error(files: &[(&str, &str)]) -> (String, String) {
    let (compiled, _) = compiled(files);
    assert!(!compiled.succeeded(), "it compiles");
    let error = &compiled.diagnostics[0];
    (error.kind.clone(), error.message.clone())
}

const MAIN: (&str, &str) = ("main.cf", "import m\nstd::print(m::where)");
const PROJECT_MODULE: (&str, &str) = ("libs/m/model/_init.cf", "where = \"project\"");
const SETUP: &str = "[metadata]\nname = inmanta-module-m\nversion = 1.2.0\nlicense = X\n";

#[test]
fn a_module_of_the_project_replaces_a_built_in_one() {
    for name in ["fs", "exec"] {
        check_printed(
            &[
                (
                    "main.cf",
                    &format!("import {name}\nstd::print({name}::where)"),
                ),
                (
                    &format!("libs/{name}/module.yml"),
                    &format!("name: {name}\nversion: 1.0.0\nlicense: x"),
                ),
                (
                    &format!("libs/{name}/model/_init.cf"),
                    "where = \"project\"",
                ),
            ],
            "project\n",
        );
    }
    // Nothing replaces std.
    check_printed(
        &[
            ("main.cf", "std::print(std::count([1]))"),
            (
                "libs/std/module.yml",
                "name: std\nversion: 1.0.0\nlicense: x",
            ),
            ("libs/std/model/_init.cf", "where = \"project\""),
        ],
        "1\n",
    );
}

#[track_caller]
fn check_versions(requires: &str, setup: &str, satisfied: bool) {
    let (compiled, _) = compiled(&[
        MAIN,
        PROJECT_MODULE,
        ("libs/m/setup.cfg", setup),
        (
            "project.yml",
            &format!("name: case\nmodulepath: libs\nrequires: [\"{requires}\"]"),
        ),
    ]);
    assert_eq!(
        compiled.succeeded(),
        satisfied,
        "{requires}: {:#?}",
        compiled.diagnostics
    );
}

#[test]
fn versions_are_compared_as_packaging_tools_do() {
    for (requires, satisfied) in [
        ("m ~= 1.2", true),
        ("m ~= 1.3", false),
        ("m >= 1.0, < 1.2", false),
        ("m == 1.2.*", true),
        ("m != 1.2.0", false),
        ("m === 1.2.0", true),
        ("m > 1.2.0rc1", true),
        ("inmanta-module-m[extra] >= 1", true),
        ("m", true),
    ] {
        check_versions(requires, SETUP, satisfied);
    }
    let tagged = format!("{SETUP}[egg_info]\ntag_build = dev3\n");
    check_versions("m < 1.2.0", &tagged, false);
    check_versions("m >= 1.2.0.dev1", &tagged, true);
    check_versions("m >= 1.2.0", &tagged, false);
}

#[test]
fn modules_and_the_requirements_file_constrain_modules_too() {
    let other = [
        ("main.cf", "import m\nimport n"),
        PROJECT_MODULE,
        ("libs/m/setup.cfg", SETUP),
        ("libs/n/model/_init.cf", ""),
    ];
    let setup = "[metadata]\nname = inmanta-module-n\nversion = 1.0\nlicense = X\n[options]\ninstall_requires =\n    six\n    inmanta-module-m>=2\n";
    let (kind, message) = error(&[&other[..], &[("libs/n/setup.cfg", setup)]].concat());
    assert_eq!(kind, "CompilerException");
    assert_eq!(
        message,
        "The following requirements were not satisfied:\n\t* requirement inmanta-module-m>=2 on module m not fulfilled, now at version 1.2.0"
    );
    let yaml = "name: n\nversion: 1.0.0\nlicense: x\nrequires:\n  - m < 1\n";
    let (_, message) = error(&[&other[..], &[("libs/n/module.yml", yaml)]].concat());
    assert!(
        message.contains("requirement m < 1 on module m"),
        "{message}"
    );
    let file = ("requirements.txt", "six\ninmanta-module-m < 1  # why\n");
    let (_, message) = error(
        &[
            &other[..],
            &[
                ("libs/n/module.yml", "name: n\nversion: 2.0.0\nlicense: x"),
                file,
            ],
        ]
        .concat(),
    );
    assert!(
        message.contains("requirement inmanta-module-m < 1 on module m"),
        "{message}"
    );
}

#[test]
fn a_constraint_on_a_module_that_is_not_used_only_warns() {
    let (compiled, _) = compiled(&[
        ("main.cf", ""),
        ("project.yml", "name: case\nrequires: other >= 3"),
    ]);
    assert!(compiled.succeeded());
    assert_eq!(
        compiled.diagnostics[0].message,
        "Module other is present in requires but it is not used by the model."
    );
}

#[test]
fn metadata_that_the_reference_refuses_is_refused() {
    for (line, wanted) in [
        ("requires: [\"m >>= 1\"]", "requires"),
        ("requires: {a: 1}", "requires"),
        ("freeze_operator: \"<\"", "freeze_operator"),
        ("install_mode: newest", "install_mode"),
        ("author_email: nobody", "author_email"),
        ("freeze_recursive: often", "freeze_recursive"),
        ("pip: 3", "pip"),
        ("repo: {url: x, type: svn}", "repo.type"),
        (
            "relation_precedence_policy: [\"A.b after C.d\"]",
            "relation_precedence_policy",
        ),
        ("requires: [a", "did not find expected"),
    ] {
        let (kind, message) = error(&[
            ("main.cf", ""),
            ("project.yml", &format!("name: case\n{line}")),
        ]);
        assert_eq!(kind, "InvalidMetadata");
        assert!(message.contains(wanted), "{line}: {message}");
    }
    check_printed(
        &[
            ("main.cf", "std::print(1)"),
            (
                "project.yml",
                "name: case\nauthor_email: Fred <fred@example.com>\nversion: 3\nrepo: [a, {url: b, type: package}]\npip: {index-url: x}",
            ),
        ],
        "1\n",
    );
}

#[test]
fn plugins_run_on_the_interpreter_of_the_projects_environment() {
    let directory = tempfile::tempdir().expect("there is a directory for temporary files");
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it has a directory"))
            .expect("it can be made");
        std::fs::write(path, text).expect("it can be written");
    };
    let interpreter = std::env::var_os("STEWARD_PYTHON").unwrap_or_else(|| "python3".into());
    let status = std::process::Command::new(&interpreter)
        .args(["-m", "venv", "--without-pip"])
        .arg(directory.path().join(".env"))
        .status()
        .expect("there is a Python");
    assert!(status.success());
    write("project.yml", "name: case\nmodulepath: libs");
    write("main.cf", "import m\nstd::print(m::prefix())");
    write("libs/m/module.yml", "name: m\nversion: 1.0.0\nlicense: x");
    write("libs/m/model/_init.cf", "");
    write(
        "libs/m/plugins/__init__.py",
        "import sys\nfrom inmanta.plugins import plugin\n@plugin\ndef prefix() -> str:\n    return sys.prefix\n",
    );
    let printed = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&printed);
    let world = DirWorld::new(directory.path().to_owned(), BTreeMap::new(), move |line| {
        sink.lock()
            .expect("nobody panics while printing")
            .push_str(line);
    });
    let options = Options {
        python: PythonSource::At(PythonRuntime {
            interpreter: interpreter.into(),
            package: Path::new(env!("CARGO_MANIFEST_DIR")).join("../python"),
            files: None,
            launcher: Default::default(),
        }),
        ..Options::default()
    };
    let compiled = compile(&world, &options);
    assert!(compiled.succeeded(), "{:#?}", compiled.diagnostics);
    let printed = printed
        .lock()
        .expect("nobody panics while printing")
        .clone();
    assert!(printed.ends_with("/.env"), "{printed}");
}
