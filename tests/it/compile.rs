//! `steward compile`, as docs/reference/compile-contract.md has it.

use std::path::Path;

use serde_json::Value;

use crate::harness::{finish, steward};

fn project(main: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("project.yml"), "name: test\n").unwrap();
    std::fs::write(dir.path().join("main.cf"), main).unwrap();
    dir
}

fn compile(dir: &Path, more: &[&str]) -> (Option<i32>, String, String) {
    let mut arguments = vec!["--message-format", "json"];
    arguments.extend(more);
    compile_with(dir, &arguments)
}

fn compile_with(dir: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = steward();
    command
        .arg("compile")
        .arg("--project")
        .arg(dir)
        .args(arguments);
    let output = finish(command);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
//: lang 183
fn standard_output_is_what_the_model_prints() {
    let dir = project(
        "std::print(\"héllo\")\nstd::print(0.1 + 0.2)\nstd::print(null)\nstd::print([\"a\", 1.5])\nstd::print(true)\n",
    );
    let (code, out, err) = compile(dir.path(), &[]);
    assert_eq!(
        (code, out.as_str(), err.as_str()),
        (
            Some(0),
            "héllo\n0.30000000000000004\nNone\n@['a', 1.5]\nTrue\n",
            ""
        )
    );
}

#[test]
//: lang 183
fn errors_are_objects_on_standard_error_and_the_exit_code_is_one() {
    let dir = project("x = 1\nx = 2\n");
    let (code, out, err) = compile(dir.path(), &[]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    let object: Value = serde_json::from_str(err.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&object["severity"], &object["kind"], &object["line"]),
        (&"error".into(), &"DoubleSetException".into(), &2.into())
    );
}

/// For people: what is printed stays apart from what is wrong, which says kind, place and line.
#[test]
//: lang 183
fn people_see_errors_on_standard_error_and_warnings_fail_nothing() {
    let dir = project("std::print(\"out\")\nx = 1\nx = 2\n");
    let (code, out, err) = compile_with(dir.path(), &[]);
    assert_eq!((code, out.as_str()), (Some(1), "out\n"));
    for wanted in [
        "error[DoubleSetException]: value set twice:",
        "main.cf:3:1",
        "3 | x = 2\n  | ^^^^^\n",
    ] {
        assert!(err.contains(wanted), "{wanted}: {err}");
    }
    let dir = project("std::print(\"out\")\nx = \"\\d\"\n");
    let (code, out, err) = compile_with(dir.path(), &[]);
    assert_eq!((code, out.as_str()), (Some(0), "out\n"));
    assert!(err.starts_with("warning[ParserWarning]: "), "{err}");
    assert!(!err.contains("error"), "{err}");
}

#[test]
fn wrong_usage_is_two() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(compile(dir.path(), &[]).0, Some(2));
    assert_eq!(compile(Path::new("/no/such/dir"), &[]).0, Some(2));
    assert_eq!(
        compile(project("").path(), &["--no-such-option"]).0,
        Some(2)
    );
}

#[test]
fn the_model_and_the_resources_are_written_where_it_says() {
    let dir = project(
        "import fs\nhost = std::Host(name=\"h\", os=std::linux)\nf = fs::File(host=host, path=\"/a\", content=\"x\", requires=d)\n\
         d = fs::Directory(host=host, path=\"/d\")\nnumber = 1.0\n",
    );
    let (model, resources) = (dir.path().join("m.json"), dir.path().join("r.json"));
    let options = [
        "--dump-model",
        model.to_str().unwrap(),
        "--export-json",
        resources.to_str().unwrap(),
    ];
    let (code, _, err) = compile(dir.path(), &options);
    assert_eq!(code, Some(0), "{err}");
    let read =
        |path| serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap();
    let model = read(&model);
    assert_eq!(model["variables"]["__config__"]["number"], 1.0);
    assert_eq!(
        model["variables"]["__config__"]["f"]["$instance"],
        "fs::File"
    );
    let mut resources = read(&resources).as_array().unwrap().clone();
    resources.sort_by_key(|resource| resource["id"].as_str().unwrap().to_owned());
    assert_eq!(resources[0]["id"], "fs::Directory[h,path=/d],v=0");
    assert_eq!(resources[1]["id"], "fs::File[h,path=/a],v=0");
    assert_eq!(
        resources[1]["requires"],
        serde_json::json!(["fs::Directory[h,path=/d],v=0"])
    );
    assert_eq!(resources[1]["content"], "x");
}

#[test]
fn two_compiles_of_the_same_inputs_give_the_same_bytes() {
    let quickstart = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/quickstart");
    let dir = tempfile::tempdir().unwrap();
    let export = |name: &str| {
        let path = dir.path().join(name);
        let (code, _, err) = compile(&quickstart, &["--export-json", path.to_str().unwrap()]);
        assert_eq!(code, Some(0), "{err}");
        std::fs::read(path).unwrap()
    };
    assert_eq!(export("one"), export("two"));
}

/// The resources of an export by id.
fn exported(dir: &Path, more: &[&str]) -> Result<Vec<String>, Vec<Value>> {
    let path = dir.join("resources.json");
    let mut options = vec!["--export-json", path.to_str().unwrap()];
    options.extend(more);
    let (code, _, err) = compile(dir, &options);
    if code != Some(0) {
        let objects = err.lines().map(|line| serde_json::from_str(line).unwrap());
        return Err(objects.collect());
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let resources: Vec<Value> = serde_json::from_str(&text).unwrap();
    let ids = resources
        .iter()
        .map(|resource| resource["id"].as_str().unwrap().to_owned());
    let mut ids: Vec<String> = ids.collect();
    ids.sort();
    Ok(ids)
}

const TWO_SETS: &str = "
import std::testing
a = std::testing::NullResource(name=\"a\")
b = std::testing::NullResource(name=\"b\")
std::ResourceSet(name=\"one\", resources=[a])
std::ResourceSet(name=\"two\", resources=[b])
";

#[test]
fn a_partial_export_has_the_sets_that_are_named() {
    let dir = project(TWO_SETS);
    let both = [
        "std::testing::NullResource[internal,name=a],v=0",
        "std::testing::NullResource[internal,name=b],v=0",
    ];
    let all = ["--partial", "--set", "one", "--set", "two", "--set", "gone"];
    for options in [&[][..], &["--partial"], &all] {
        assert_eq!(exported(dir.path(), options).unwrap(), both);
    }
    let errors = exported(dir.path(), &["--partial", "--set", "one"]).unwrap_err();
    let message = errors[0]["message"].as_str().unwrap();
    assert!(
        message.ends_with("is part of ResourceSet two, which this partial compile is not for"),
        "{message}"
    );
    let (code, ..) = compile(dir.path(), &["--set", "one"]);
    assert_eq!(code, Some(2));
}

#[test]
fn a_partial_export_may_not_tie_its_sets_together() {
    let tied = TWO_SETS.replace("(name=\"b\")", "(name=\"b\", requires=a)");
    let dir = project(&tied);
    assert!(exported(dir.path(), &[]).is_ok());
    let errors = exported(dir.path(), &["--partial"]).unwrap_err();
    let message = errors[0]["message"].as_str().unwrap();
    assert!(
        message.contains("belong to different resource sets"),
        "{message}"
    );
    // What was exported before stays.
    assert!(dir.path().join("resources.json").exists());
}

#[test]
fn facts_and_the_environment_come_from_the_file_of_inputs() {
    let dir = project(
        "import std::testing\nr = std::testing::NullResource(name=\"r\")\nstd::print(std::getfact(r, \"size\"))\n",
    );
    let inputs = dir.path().join("inputs.json");
    let facts = r#"{"facts": {"std::testing::NullResource[internal,name=r]": {"size": "9"}}}"#;
    std::fs::write(&inputs, facts).unwrap();
    let given = ["--inputs", inputs.to_str().unwrap()];
    let (code, out, err) = compile(dir.path(), &given);
    assert_eq!((code, out.as_str()), (Some(0), "9\n"), "{err}");
    std::fs::write(&inputs, r#"{"fact": {}}"#).unwrap();
    let (code, out, _) = compile(dir.path(), &given);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    let (code, ..) = compile(dir.path(), &["--inputs", "/no/such/file"]);
    assert_eq!(code, Some(2));
}

#[test]
#[cfg(target_os = "linux")]
fn text_that_cannot_be_written_is_told() {
    let dir = project("std::print(\"text\")\n");
    let mut command = steward();
    command
        .args(["compile", "--project"])
        .arg(dir.path())
        .stdout(std::fs::File::create("/dev/full").unwrap())
        .stderr(std::process::Stdio::piped());
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{told}");
    assert!(
        told.contains("cannot write what the model prints"),
        "{told}"
    );
}

/// What `steward attached` says to a Python package that says this of itself first.
fn answer_of_attached(hello: &serde_json::Value, inputs: &str) -> (Option<i32>, Value) {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use steward_compiler::protocol::{read_frame, write_frame};

    let dir = project("x = 1\n");
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut command = steward();
    command
        .args(["attached", "--inputs", inputs, "--project"])
        .arg(dir.path())
        .stdin(OwnedFd::from(theirs));
    let mut child = command.spawn().unwrap();
    // What is left of it holds the other end of the socket.
    drop(command);
    write_frame(&mut ours, hello).unwrap();
    let said: Value = read_frame(&mut ours).unwrap().unwrap();
    drop(ours);
    (child.wait().unwrap().code(), said)
}

#[test]
fn a_python_package_of_another_version_is_told_which_program_it_has() {
    let hello = |protocol: u32| serde_json::json!({"hello": {"protocol": protocol, "python": "3.13.0", "pid": 1, "reads_calls": true}});
    let ours = steward_compiler::protocol::VERSION;
    let told = |said: &Value| {
        let error = &said["finished"]["diagnostics"][0];
        assert_eq!(error["kind"], "CompilerException", "{said}");
        error["message"].as_str().unwrap().to_owned()
    };
    let (code, said) = answer_of_attached(&hello(ours - 1), "{}");
    let text = told(&said);
    assert!(
        text.contains(&format!("version {} of the protocol, not {ours}", ours - 1)),
        "{text}"
    );
    assert!(
        text.contains(env!("CARGO_BIN_EXE_steward")) && text.contains("STEWARD_PROGRAM"),
        "{text}"
    );
    assert_ne!(code, Some(0));
    let (_, said) = answer_of_attached(&hello(ours), "{\"of_tomorrow\": 1}");
    assert!(
        told(&said).contains("unknown field `of_tomorrow`"),
        "{said}"
    );
}

/// Who runs Python with folders of their own has the modules there, as with the reference.
#[test]
fn modules_on_the_path_of_python_are_found_before_those_that_are_installed() {
    let dir = project("import m\nstd::print(m::where)\n");
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let site = ".env/lib/python3.13/site-packages";
    write(".env/pyvenv.cfg", "");
    for (place, says) in [("mine", "mine"), (site, "installed")] {
        let package = format!("{place}/inmanta_plugins/m");
        write(&format!("{package}/__init__.py"), "");
        write(
            &format!("{package}/model/_init.cf"),
            &format!("where = \"{says}\"\n"),
        );
        let setup = "[metadata]\nname = inmanta-module-m\nversion = 1.0.0\nlicense = X\n";
        write(&format!("{package}/setup.cfg"), setup);
    }
    let printed = |python_path: &str| {
        let mut command = steward();
        command.arg("compile").arg("--project").arg(dir.path());
        command.env("PYTHONPATH", python_path);
        let output = finish(command);
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(printed(""), "installed\n");
    let mine = dir.path().join("mine");
    assert_eq!(printed(&format!("/nowhere:{}", mine.display())), "mine\n");
}

#[test]
fn only_a_module_that_is_in_an_archive_is_said_to_be_there() {
    let dir = project("import nosuch\n");
    let archive = dir.path().join("archive.zip");
    let pack = "import sys, zipfile\nzipfile.ZipFile(sys.argv[1], 'w').writestr('inmanta_plugins/packed/__init__.py', '')";
    let mut command = std::process::Command::new("python3");
    command.args(["-c", pack]).arg(&archive);
    let output = finish(command);
    assert!(output.status.success(), "{output:?}");
    let site = dir.path().join(".env/lib/python3.13/site-packages");
    std::fs::create_dir_all(&site).unwrap();
    std::fs::write(dir.path().join(".env/pyvenv.cfg"), "").unwrap();
    std::fs::write(site.join("a.pth"), archive.display().to_string()).unwrap();
    let (code, _, err) = compile(dir.path(), &[]);
    assert!(
        code == Some(1) && err.contains("ModuleNotFoundException"),
        "{err}"
    );
    assert!(!err.contains("in an archive"), "{err}");
    std::fs::write(dir.path().join("main.cf"), "import packed\n").unwrap();
    let (_, _, err) = compile(dir.path(), &[]);
    assert!(err.contains("is installed in an archive"), "{err}");
}
