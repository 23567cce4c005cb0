//! Compiles a project directory by hand: `cargo run --example compile -- DIR [--export] [--dump] [--json]
//! [--without-tiles] [--check]`.

use std::path::PathBuf;

use steward_compiler::{
    DirWorld, JsonWriter, Options, PythonRuntime, PythonSource, compile_to, render,
};

fn main() {
    let mut directory = PathBuf::from(".");
    let mut options = Options::default();
    let mut json = false;
    let mut only_check = false;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--export" => options.export = true,
            "--dump" => options.dump_model = true,
            "--json" => json = true,
            "--check" => only_check = true,
            "--without-tiles" => options.tiling.large = usize::MAX,
            other => directory = PathBuf::from(other),
        }
    }
    if let (Some(interpreter), Some(package)) = (
        std::env::var_os("PYTHON"),
        std::env::var_os("PYTHON_PACKAGE"),
    ) {
        options.python = PythonSource::At(PythonRuntime {
            interpreter: interpreter.into(),
            package: package.into(),
            files: None,
            launcher: Default::default(),
        });
    }
    let world = DirWorld::new(directory, std::env::vars().collect(), |line| {
        println!("{line}")
    });
    let started = std::time::Instant::now();
    let mut writer = JsonWriter::new(std::io::stdout());
    let compiled = match only_check {
        true => steward_compiler::check(&world),
        false => compile_to(&world, &options, &mut writer),
    };
    for diagnostic in &compiled.diagnostics {
        if json {
            eprintln!("{}", diagnostic.to_json());
        } else {
            eprint!("{}", render(diagnostic, &world, false));
        }
    }
    if compiled.export.is_some() {
        writer.finish().expect("the output takes the resources");
    }
    if let Some(model) = &compiled.model {
        println!("{model}");
    }
    eprintln!("# {:?}", started.elapsed());
    std::process::exit(i32::from(!compiled.succeeded()));
}
