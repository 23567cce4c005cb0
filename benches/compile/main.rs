//! The compiler beside the reference and beside the floor; see benches/README.md.
//!
//! `STEWARD_ORACLE`: the Python of a virtual environment with the reference; without it its columns stay empty.
//! `STEWARD_BENCH_PROGRAM`: another binary to measure instead of ours, such as that of an earlier commit.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod floor;
mod generate;
mod measure;
mod served;
mod shapes;

use std::path::{Path, PathBuf};

use generate::Kind;
use measure::{Usage, best};
use shapes::Shape;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("--measure") => return measure::child(&arguments[1..]),
        Some("--floor") => {
            let mut kinds = Kind::ALL.into_iter();
            let kind = kinds.find(|kind| kind.name() == arguments[1]);
            let kind = kind.expect("a kind of projects");
            let n = arguments[2].parse().expect("a number of services");
            return floor::run(kind, n, &arguments[3]).expect("the floor writes its file");
        }
        _ => {}
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let bench = Bench {
        python: same_python(dir.path()),
        dir: dir.path().to_owned(),
        oracle: std::env::var_os("STEWARD_ORACLE").map(PathBuf::from),
    };
    let is_named = |wanted: &str| arguments.iter().any(|name| name == wanted);
    let wanted = shapes::ALL
        .into_iter()
        .filter(|shape| is_named(shape.name) || is_named("shapes"));
    if is_named("served") {
        let program = program();
        return shapes::ALL
            .iter()
            .for_each(|shape| served::run(shape, &program, dir.path()));
    }
    let mut has_shapes = false;
    for shape in wanted {
        bench.shape(&shape);
        has_shapes = true;
    }
    // Names of kinds; without any all of them.
    let named = |kind: &Kind| is_named(kind.name());
    let some = Kind::ALL.iter().any(named) || has_shapes;
    if !some {
        bench.cold_start();
        for kind in WITH_FLOOR {
            bench.same_as_the_floor(kind);
        }
    }
    for kind in Kind::ALL.into_iter().filter(|kind| !some || named(kind)) {
        bench.beside_the_reference(kind);
        bench.growth(kind);
    }
}

/// The binary that is measured.
fn program() -> String {
    std::env::var("STEWARD_BENCH_PROGRAM")
        .unwrap_or_else(|_| env!("CARGO_BIN_EXE_steward").to_owned())
}

/// The Python that Steward is given: that of the reference, in an environment of its own without packages, unless
/// `STEWARD_PYTHON` names one. What is on the path may be slower to start, and other than what is compared with.
fn same_python(dir: &Path) -> Option<PathBuf> {
    let oracle = std::env::var_os("STEWARD_ORACLE")?;
    if std::env::var_os("STEWARD_PYTHON").is_some() {
        return None;
    }
    let environment = dir.join("python");
    let made = std::process::Command::new(oracle)
        .args(["-m", "venv", "--without-pip"])
        .arg(&environment)
        .status()
        .expect("Python makes an environment");
    assert!(made.success());
    Some(environment.join("bin/python"))
}

/// The kinds that have a floor.
const WITH_FLOOR: [Kind; 2] = [Kind::Refine, Kind::Service];

struct Bench {
    dir: PathBuf,
    python: Option<PathBuf>,
    oracle: Option<PathBuf>,
}

impl Bench {
    fn project(&self, kind: Kind, n: usize) -> PathBuf {
        let directory = self.dir.join(format!("{}-{n}", kind.name()));
        if !directory.is_dir() {
            generate::project(kind, n, &directory).expect("the project is written");
        }
        directory
    }

    fn out(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    fn steward(&self, project: &Path) -> Vec<String> {
        let program = program();
        let project = project.display().to_string();
        let mut command = vec![
            program,
            "compile".to_owned(),
            "--project".to_owned(),
            project,
        ];
        command.extend(["--export-json".to_owned(), self.out("steward.json")]);
        if let Some(python) = &self.python {
            command.extend(["--python".to_owned(), python.display().to_string()]);
        }
        command
    }

    fn floor(&self, kind: Kind, n: usize) -> Vec<String> {
        let program = std::env::current_exe().expect("our own path");
        let out = self.out("floor.json");
        vec![
            program.display().to_string(),
            "--floor".to_owned(),
            kind.name().to_owned(),
            n.to_string(),
            out,
        ]
    }

    fn reference(&self, project: &Path) -> Option<Usage> {
        let python = self.oracle.as_ref()?.display().to_string();
        let script = "import os, sys; os.chdir(sys.argv.pop()); sys.argv += ['export', '-j', 'reference.json']; import inmanta.app; inmanta.app.app()";
        let project = project.display().to_string();
        let command = [python, "-c".to_owned(), script.to_owned(), project];
        Some(best(2, &command))
    }

    fn cold_start(&self) {
        let project = self.dir.join("one-line");
        std::fs::create_dir_all(&project).expect("a directory");
        std::fs::write(project.join("project.yml"), "name: one\n").expect("a file");
        std::fs::write(project.join("main.cf"), "x = 1\n").expect("a file");
        let command = self.steward(&project);
        let mut walls: Vec<f64> = (0..30)
            .map(|_| {
                let started = std::time::Instant::now();
                let status = std::process::Command::new(&command[0])
                    .args(&command[1..])
                    .status()
                    .expect("it starts");
                assert!(status.success());
                started.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        walls.sort_by(f64::total_cmp);
        println!(
            "cold start, one line: {:.1} ms (median of 30; law: 15)\n",
            walls[walls.len() / 2]
        );
    }

    /// The floor is honest: its resources are those of the compiler.
    fn same_as_the_floor(&self, kind: Kind) {
        let project = self.project(kind, 100);
        best(1, &self.steward(&project));
        best(1, &self.floor(kind, 100));
        assert!(
            resources(&self.dir.join("steward.json")) == resources(&self.dir.join("floor.json")),
            "the floor builds other resources than the compiler"
        );
    }

    /// So are those of the reference.
    fn same_as_the_reference(&self, project: &Path) {
        best(1, &self.steward(project));
        assert!(
            resources(&self.dir.join("steward.json")) == resources(&project.join("reference.json")),
            "the reference exports other resources than the compiler"
        );
    }

    /// Laws P1 and P2, and memory.
    fn beside_the_reference(&self, kind: Kind) {
        println!(
            "{} kind, CPU of compile and export, start-up included",
            kind.name()
        );
        println!(
            "{:>9} {:>11} {:>12} {:>9} {:>11} {:>9}",
            "services", "steward", "reference", "ratio", "floor", "ratio"
        );
        let mut grown = Vec::new();
        for n in [100, 1000] {
            let project = self.project(kind, n);
            let steward = best(15, &self.steward(&project));
            let reference = self.reference(&project);
            if reference.is_some() {
                self.same_as_the_reference(&project);
            }
            let floor = WITH_FLOOR
                .contains(&kind)
                .then(|| best(15, &self.floor(kind, n)));
            let column = |usage: Option<Usage>| {
                usage.map_or_else(
                    || ["-".to_owned(), "-".to_owned()],
                    |usage| {
                        let ratio = f64::max(usage.cpu / steward.cpu, steward.cpu / usage.cpu);
                        [format!("{:.1} ms", usage.cpu * 1e3), format!("{ratio:.2}")]
                    },
                )
            };
            let ([reference_time, reference_ratio], [floor_time, floor_ratio]) =
                (column(reference), column(floor));
            println!(
                "{n:>9} {:>8.1} ms {reference_time:>12} {reference_ratio:>9} {floor_time:>11} {floor_ratio:>9}",
                steward.cpu * 1e3,
            );
            grown.push((steward.memory, reference.map(|usage| usage.memory)));
        }
        let steward = grown[1].0 - grown[0].0;
        print!("peak memory grows by {steward:.1} MB from 100 to 1000 services");
        if let (Some(first), Some(last)) = (grown[0].1, grown[1].1) {
            let reference = last - first;
            print!(
                ", the reference's by {reference:.1}: {:.1} times as much",
                reference / steward
            );
        }
        println!("\n");
    }

    /// A model of another shape, beside the reference.
    fn shape(&self, shape: &Shape) {
        let project = self.dir.join(shape.name);
        shapes::project(shape, &project).expect("the project is written");
        let steward = best(15, &self.steward(&project));
        print!(
            "{:<12} {:>5} {:>8.1} ms",
            shape.name,
            shape.n,
            steward.cpu * 1e3
        );
        if let Some(reference) = self.reference(&project) {
            self.same_as_the_reference(&project);
            let ratio = reference.cpu / steward.cpu;
            print!(" {:>9.1} ms {ratio:>6.1} times", reference.cpu * 1e3);
        }
        println!();
    }

    /// Law P3.
    fn growth(&self, kind: Kind) {
        println!("{} kind, CPU and memory a service", kind.name());
        let empty = best(15, &self.steward(&self.project(kind, 0)));
        for (n, runs) in [
            (100, 15),
            (300, 15),
            (1000, 9),
            (3000, 7),
            (10_000, 5),
            (30_000, 3),
        ] {
            let usage = best(runs, &self.steward(&self.project(kind, n)));
            println!(
                "{n:>9} {:>8.1} us   without start-up {:>8.1} us   {:>8.1} KB",
                usage.cpu / n as f64 * 1e6,
                (usage.cpu - empty.cpu) / n as f64 * 1e6,
                (usage.memory - empty.memory) / n as f64 * 1024.0,
            );
        }
        println!();
    }
}

/// The resources of a file, in one order, without the version, which some files give ids and others do not.
fn resources(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read(path).expect("the output is there");
    let mut resources: Vec<serde_json::Value> =
        serde_json::from_slice(&text).expect("the output is JSON");
    for resource in &mut resources {
        let Some(fields) = resource.as_object_mut() else {
            continue;
        };
        fields.remove("version");
        fields.sort_keys();
        if let Some(requires) = fields
            .get_mut("requires")
            .and_then(|all| all.as_array_mut())
        {
            for required in requires.iter_mut() {
                let id = required.as_str().unwrap_or_default();
                *required = id.trim_end_matches(",v=0").into();
            }
            requires.sort_by_key(ToString::to_string);
        }
    }
    resources.sort_by_key(|resource| resource["id"].to_string());
    resources
}
