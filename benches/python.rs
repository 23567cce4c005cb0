//! Plugin calls, and how long it takes to come to them; see README.md beside this file (law P5 of docs/design.md § 8).
//!
//! `cargo bench -p steward-compiler --bench python`; `STEWARD_PYTHON` names another Python than the first of the path.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use steward_compiler::{
    DirWorld, Options, PythonRuntime, PythonSource, Variables, WarmHosts, compile,
};

const CALLS: usize = 50_000;
const ROUNDS: usize = 7;

const PLUGINS: &str = r#"
from inmanta.plugins import plugin

@plugin
def join(a: "string", b: "int") -> "string":
    return a + str(b)

@plugin
def name(t: "m::T") -> "string":
    return t.name

@plugin
def three(t: "m::T") -> "string":
    return f"{t.name} {t.n} {t.more}"

@plugin
def total(items: "int[]") -> "int":
    return sum(items)
"#;

const MODEL: &str = r#"
entity T:
    string name
    int n
    string more = "more"
    string joined = ""
end
implement T using std::none
"#;

/// What is called, in a loop over `i` where `t` is an instance.
const CASES: &[(&str, &str)] = &[
    ("text and number to text", r#"m::join("prefix", i)"#),
    (
        "list of ten numbers to number",
        "m::total([1, 2, 3, 4, 5, 6, 7, 8, 9, i])",
    ),
    ("one attribute of an instance", "m::name(t)"),
    ("three attributes of an instance", "m::three(t)"),
];

fn main() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let write = |name: &str, text: &str| {
        let file = path.join(name);
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
        std::fs::write(file, text).expect("a file");
    };
    write("project.yml", "name: bench\nmodulepath: libs\n");
    write("libs/m/module.yml", "name: m\nversion: 1.0.0\nlicense: x\n");
    write("libs/m/model/_init.cf", MODEL);
    write("libs/m/plugins/__init__.py", PLUGINS);

    write("main.cf", "import m\nx = m::join(\"a\", 1)\n");
    let cold = median(path, &Options::default);
    let hosts = Arc::new(WarmHosts::default());
    let warm = || Options {
        hosts: Some(Arc::clone(&hosts)),
        ..Options::default()
    };
    run(path, warm());
    println!("{:<40} {:>8.1} ms", "one call, cold", cold * 1e3);
    println!(
        "{:<40} {:>8.1} ms   (law: 15)",
        "one call, modules imported",
        median(path, &warm) * 1e3
    );

    let model = |call: &str| {
        format!(
            "import m\nfor i in std::sequence({CALLS}):\n    t = m::T(name=f\"n{{i}}\", n=i)\n    x = {call}\nend\n"
        )
    };
    write("main.cf", &model("i"));
    let without = median(path, &warm);
    for (what, call) in CASES {
        write("main.cf", &model(call));
        let seconds = median(path, &warm) - without;
        let (each, rate) = (seconds / CALLS as f64, CALLS as f64 / seconds);
        println!(
            "{what:<40} {:>8.1} us a call {rate:>9.0} a second   (law: 30 000)",
            each * 1e6
        );
    }
}

/// Seconds of one compile.
fn run(directory: &Path, options: Options) -> f64 {
    let interpreter = std::env::var_os("STEWARD_PYTHON").unwrap_or_else(|| "python3".into());
    let options = Options {
        python: PythonSource::At(PythonRuntime {
            interpreter: interpreter.into(),
            package: PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../python"),
            files: None,
            launcher: Default::default(),
        }),
        ..options
    };
    let world = DirWorld::new(directory.to_owned(), Variables::new(), |_| {});
    let began = Instant::now();
    let compiled = compile(&world, &options);
    let seconds = began.elapsed().as_secs_f64();
    assert!(compiled.succeeded(), "{:#?}", compiled.diagnostics);
    seconds
}

fn median(directory: &Path, options: &dyn Fn() -> Options) -> f64 {
    let mut all: Vec<f64> = (0..ROUNDS).map(|_| run(directory, options())).collect();
    all.sort_by(f64::total_cmp);
    all[ROUNDS / 2]
}
