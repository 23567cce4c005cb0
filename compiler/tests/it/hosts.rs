//! Processes of Python: kept between compiles, stopped at the limit, heard. Source: docs/design.md § 4,
//! docs/reference/python.md § 8.

use std::sync::Arc;
use std::time::{Duration, Instant};

use steward_compiler::{Options, Severity, WarmHosts};

use crate::disk::Disk;

const MODULE: &str = "name: m\nversion: 1.0.0\nlicense: Apache-2.0\n";

fn project(main: &str, plugins: &str) -> Disk {
    let files = [
        ("project.yml", "name: hosts\nmodulepath: libs\n"),
        ("main.cf", main),
        ("libs/m/module.yml", MODULE),
        ("libs/m/model/_init.cf", ""),
        ("libs/m/plugins/__init__.py", plugins),
    ];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
    Disk::new(&files)
}

fn warm() -> Options {
    Options {
        hosts: Some(Arc::new(WarmHosts::default())),
        ..Options::default()
    }
}

#[track_caller]
fn printed(disk: &Disk, options: &Options) -> String {
    let outcome = disk.run(options, &[]);
    let errors = &outcome.compiled.diagnostics;
    assert!(outcome.compiled.succeeded(), "{errors:#?}");
    outcome.printed
}

const COUNTING: &str = r#"
import os, random
from inmanta.plugins import plugin
import inmanta.plugins
IMPORTED_BY = os.getpid()
SEEN = []

@plugin
def count() -> "int":
    SEEN.append(1)
    os.environ["LEFT"] = "behind"
    inmanta.plugins.LEFT = "behind"
    return len(SEEN)

@plugin
def left() -> "string":
    return os.environ.get("LEFT", "nothing") + " " + getattr(inmanta.plugins, "LEFT", "nothing")

@plugin
def imported_by() -> "int":
    return IMPORTED_BY

@plugin
def run_by() -> "int":
    return os.getpid()

@plugin
def number() -> "float":
    return random.random()
"#;

#[test]
fn modules_are_imported_once_and_no_compile_sees_what_another_one_left() {
    let main = "import m\nstd::print(m::left())\nstd::print(m::count())\nstd::print(m::imported_by())\n\
                std::print(m::run_by())\nstd::print(m::number())";
    let disk = project(main, COUNTING);
    let options = warm();
    let all: Vec<String> = (0..4).map(|_| printed(&disk, &options)).collect();
    let lines: Vec<Vec<&str>> = all.iter().map(|text| text.lines().collect()).collect();
    for line in &lines {
        assert_eq!(line[..2], ["nothing nothing", "1"], "{lines:?}");
        assert_eq!(line[2], lines[0][2], "another process imported the modules");
        assert_ne!(
            line[2], line[3],
            "the compile ran in the process that imports"
        );
    }
    let mut run_by: Vec<&str> = lines.iter().map(|line| line[3]).collect();
    run_by.sort_unstable();
    run_by.dedup();
    assert_eq!(run_by.len(), 4, "a process had two compiles");
    assert_ne!(lines[0][4], lines[1][4], "forks draw the same numbers");
}

#[test]
fn a_module_that_changed_is_imported_again() {
    let main = "import m\nstd::print(m::f())";
    let plugin = |text: &str| {
        format!(
            "from inmanta.plugins import plugin\n@plugin\ndef f() -> 'string':\n    return '{text}'\n"
        )
    };
    let disk = project(main, &plugin("old"));
    let options = warm();
    assert_eq!(printed(&disk, &options), "old\n");
    let file = disk.path().join("libs/m/plugins/__init__.py");
    std::fs::write(file, plugin("new")).expect("a file");
    assert_eq!(printed(&disk, &options), "new\n");
}

#[test]
fn data_that_a_module_reads_while_it_is_imported_count_as_its_code() {
    let plugins = "import os\nfrom inmanta.plugins import plugin\n\
                   TEXT = open(os.path.join(os.path.dirname(__file__), 'data.txt')).read()\n\
                   @plugin\ndef f() -> 'string':\n    return TEXT\n";
    let disk = project("import m\nstd::print(m::f())", plugins);
    let data = disk.path().join("libs/m/plugins/data.txt");
    let options = warm();
    for text in ["first", "second"] {
        std::fs::write(&data, text).expect("a file");
        assert_eq!(printed(&disk, &options), format!("{text}\n"));
    }
}

#[test]
fn modules_with_threads_get_a_process_of_their_own() {
    let plugins = "import os, threading, time\nfrom inmanta.plugins import plugin\n\
                   threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n\
                   @plugin\ndef f() -> 'int':\n    return os.getpid()\n";
    let disk = project("import m\nstd::print(m::f())", plugins);
    let options = warm();
    assert_ne!(printed(&disk, &options), printed(&disk, &options));
}

/// The other end would get what two compiles send over one connection, as if it were from one.
#[test]
fn modules_with_connections_get_a_process_of_their_own() {
    let plugins = "import socket\nfrom inmanta.plugins import plugin\nHERE, THERE = socket.socketpair()\n\
                   @plugin\ndef f() -> 'int':\n    HERE.send(b'x')\n    return len(THERE.recv(99, socket.MSG_PEEK))\n";
    let disk = project("import m\nstd::print(m::f())", plugins);
    let options = warm();
    for _ in 0..3 {
        assert_eq!(printed(&disk, &options), "1\n");
    }
}

/// What a module seeds makes a compile reproducible; what it does not seed is another chance for each compile.
#[test]
fn generators_of_random_numbers_are_as_a_module_leaves_them() {
    let plugins = "import random\nfrom inmanta.plugins import plugin\nrandom.seed(42)\n\
                   SEEDED, OTHER = random.Random(7), random.Random()\n\
                   @plugin\ndef f() -> 'string':\n    return f'{random.random()} {SEEDED.random()}'\n\
                   @plugin\ndef g() -> 'string':\n    return str(OTHER.random())\n";
    let seeded = project("import m\nstd::print(m::f())", plugins);
    let other = project("import m\nstd::print(m::g())", plugins);
    let options = warm();
    let first = printed(&seeded, &options);
    assert_eq!(first, "0.6394267984578837 0.32383276483316237\n");
    assert_eq!(printed(&seeded, &options), first);
    assert_ne!(printed(&other, &options), printed(&other, &options));
}

#[test]
fn a_fork_that_dies_is_one_clear_failure_and_the_next_compile_works() {
    let plugins = "import os, signal\nfrom inmanta.plugins import plugin\n\
                   @plugin\ndef f() -> 'int':\n    if os.path.exists('/proc/self') and os.path.exists(FLAG):\n        \
                   os.kill(os.getpid(), signal.SIGKILL)\n    return 1\n\
                   FLAG = os.path.join(os.path.dirname(__file__), 'flag')\n";
    let disk = project("import m\nstd::print(m::f())", plugins);
    let options = warm();
    assert_eq!(printed(&disk, &options), "1\n");
    let flag = disk.path().join("libs/m/plugins/flag");
    std::fs::write(&flag, "").expect("a file");
    let outcome = disk.run(&options, &[]);
    let error = &outcome.compiled.diagnostics[0];
    assert!(error.message.contains("m::f"), "{error:#?}");
    assert!(
        format!("{error:?}").contains("signal: 9 (SIGKILL)"),
        "{error:#?}"
    );
    std::fs::remove_file(flag).expect("a file");
    assert_eq!(printed(&disk, &options), "1\n");
}

#[test]
fn a_plugin_that_hangs_is_stopped_at_the_limit_and_named() {
    let hangs = [
        "while True: pass",
        "import time; time.sleep(600)",
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64)); import time; time.sleep(600)",
    ];
    for (hang, options) in hangs
        .iter()
        .flat_map(|hang| [(hang, Options::default()), (hang, warm())])
    {
        let plugins = format!(
            "from inmanta.plugins import plugin\n@plugin\ndef hang() -> 'int':\n    {hang}\n    return 1\n"
        );
        let disk = project("import m\nx = 1\nstd::print(m::hang())", &plugins);
        let options = Options {
            time_limit: Some(Duration::from_secs(2)),
            ..options
        };
        let started = Instant::now();
        let outcome = disk.run(&options, &[]);
        assert!(started.elapsed() < Duration::from_secs(8), "{hang}");
        let error = &outcome.compiled.diagnostics[0];
        assert_eq!(error.message, "Exception in plugin m::hang");
        let location = error.location.as_ref().expect("the place of the call");
        assert_eq!(location.line, 3);
        assert!(
            format!("{error:?}").contains("did not end within the 2 s that the compile has"),
            "{error:#?}"
        );
    }
}

#[test]
fn answers_that_one_compile_took_early_are_not_those_of_the_next_compile() {
    // Calls that go to Python together and take long are heard of one by one; the next compile numbers its calls from the
    // start again, as a fork of the same process.
    let plugins = "import os, time\nfrom inmanta.plugins import plugin\n@plugin\ndef twice(i: 'int') -> 'int':\n    \
                   if os.path.exists('is_slow'): time.sleep(0.04)\n    return 2 * i\n";
    let calls: String = (0..8).map(|i| format!("x{i} = m::twice({i})\n")).collect();
    let disk = project(
        &format!("import m\n{calls}std::print([x0, x1, x2, x3, x4, x5, x6, x7])"),
        plugins,
    );
    let flag = disk.path().join("is_slow");
    let plugins = disk.path().join("libs/m/plugins/__init__.py");
    let text = std::fs::read_to_string(&plugins).expect("plugins");
    let text = text.replace("is_slow", &flag.display().to_string());
    std::fs::write(plugins, text).expect("plugins");
    let options = Options {
        time_limit: Some(Duration::from_secs(20)),
        ..warm()
    };
    for is_slow in [true, false, true, true, false] {
        if is_slow {
            std::fs::write(&flag, "").expect("a file");
        } else {
            let _ = std::fs::remove_file(&flag);
        }
        assert_eq!(printed(&disk, &options), "@[0, 2, 4, 6, 8, 10, 12, 14]\n");
    }
}

#[test]
fn what_plugins_say_is_in_the_report() {
    let plugins = r#"
import logging, subprocess, sys, warnings
from inmanta.plugins import plugin
print("while importing")

@plugin
def speak() -> "string":
    print("printed", 1)
    print("no end", end="")
    sys.stderr.write("to standard error\n")
    subprocess.run(["sh", "-c", "echo from a child"])
    logging.getLogger("m").info("an info")
    logging.getLogger("m").warning("a warning of the log")
    warnings.warn("a warning of Python")
    return "said"

@plugin
def flood() -> "string":
    for _ in range(100):
        sys.stderr.write("x" * 100000)
    return "flooded"
"#;
    let main = "import m\nstd::print(m::speak())\nstd::print(m::flood())";
    for options in [Options::default(), warm()] {
        let outcome = project(main, plugins).run(&options, &[]);
        let compiled = &outcome.compiled;
        assert!(compiled.succeeded(), "{:#?}", compiled.diagnostics);
        assert_eq!(
            outcome.printed,
            "while importing\nprinted 1\nno end\nsaid\nflooded\n"
        );
        for text in ["to standard error", "from a child", "an info"] {
            assert!(compiled.plugin_output.contains(text), "{text}");
        }
        let length = compiled.plugin_output.len();
        assert!((1 << 20..1 << 21).contains(&length), "{length} bytes");
        assert!(compiled.plugin_output.contains("bytes more"));
        let warnings: Vec<&str> = compiled
            .diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.severity == Severity::Warning)
            .map(|diagnostic| diagnostic.message.as_str())
            .filter(|message| !message.starts_with("Loaded V1 module"))
            .collect();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert_eq!(warnings[0], "a warning of the log");
        assert!(warnings[1].contains("UserWarning: a warning of Python"));
    }
}

/// Notes, from a thread of its own, where the main thread of the host may run: while it waits for the next call, too.
#[cfg(target_os = "linux")]
const PROCESSORS: &str = r#"
import os, subprocess, threading, time
from inmanta.plugins import plugin
WAITING = set()

def look(main):
    while True:
        WAITING.add(len(os.sched_getaffinity(main)))
        time.sleep(0.0001)

@plugin
def start() -> "int":
    threading.Thread(target=look, args=[threading.get_native_id()], daemon=True).start()
    return 0

@plugin
def own(i: "int") -> "int":
    return len(os.sched_getaffinity(0))

@plugin
def of_child() -> "int":
    return int(subprocess.check_output(["nproc"]))

@plugin
def waiting(everywhere: "bool") -> "string":
    return f"{everywhere}, waiting {min(WAITING)}"
"#;

#[test]
#[cfg(target_os = "linux")]
fn a_host_waits_where_it_is_asked_and_runs_wherever_it_may() {
    let n_processors = std::thread::available_parallelism().map_or(1, usize::from);
    // Each call waits for the one before it, so none goes ahead of its turn, and the host waits between them.
    let calls = (1..=1000).map(|i| format!("n{i} = m::own(n{})\n", i - 1));
    let last: String = calls.collect();
    let main = format!(
        "import m\nn0 = m::start()\n{last}std::print(m::waiting(n1000 == {n_processors}))\n\
         std::print(m::of_child() == {n_processors})"
    );
    let disk = project(&main, PROCESSORS);
    for options in [Options::default(), warm()] {
        let text = printed(&disk, &options);
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["True", "True, waiting 1"]);
    }
}

const OWN_IDS: &str = r#"
from inmanta.plugins import Context, plugin
from inmanta.resources import Id, PurgeableResource, resource

@resource("m::Own", agent="name", id_attribute="name")
class Own(PurgeableResource):
    fields = ("name",)
    @classmethod
    def object_to_id(cls, instance, entity, attribute, agent):
        return Id(entity, "own", attribute, instance.name * 2)

@resource("m::Numbered", agent="name", id_attribute="nr")
class Numbered(PurgeableResource):
    fields = ("name",)
    @staticmethod
    def get_nr(exporter, instance):
        return len(instance.name)

@plugin
def fact(context: Context, of: "std::Entity", name: "string") -> "any":
    import inmanta_plugins.std as std
    return std.getfact(context, of, name)
"#;

#[test]
fn facts_are_those_of_the_ids_that_classes_make() {
    let main = "import m\no = m::Own(name=\"a\")\nn = m::Numbered(name=later)\n\
                std::print(std::getfact(o, \"f\"))\nstd::print(m::fact(o, \"f\"))\n\
                std::print(std::getfact(n, \"f\"))\nstd::print(m::fact(n, \"f\"))\n\
                later = std::replace(\"abc\", \"c\", \"d\")\nstd::getfact(n, \"absent\")";
    let disk = project(main, OWN_IDS);
    let entities = "entity Own extends std::PurgeableResource:\n    string name\nend\n\
                    entity Numbered extends std::PurgeableResource:\n    string name\nend\n\
                    implement Own using std::none\nimplement Numbered using std::none\n";
    std::fs::write(disk.path().join("libs/m/model/_init.cf"), entities).expect("the model");
    let facts =
        r#"{"facts": {"m::Own[own,name=aa]": {"f": "1"}, "m::Numbered[abd,nr=3]": {"f": "2"}}}"#;
    let options = Options {
        inputs: serde_json::from_str(facts).expect("inputs"),
        export: true,
        ..Options::default()
    };
    assert_eq!(printed(&disk, &options), "1\n1\n2\n2\n");
    let compiled = disk.run(&options, &[]).compiled;
    let asked = compiled.export.expect("an export").unknowns;
    let asked: Vec<&str> = asked
        .iter()
        .map(|unknown| unknown.resource.as_str())
        .collect();
    assert_eq!(asked, ["m::Numbered[abd,nr=3]"]);
}

#[test]
fn an_annotation_that_names_no_type_is_an_error_at_the_plugin() {
    let plugins = "from inmanta.plugins import plugin\n\n@plugin\ndef f(a: \"nope\") -> \"int\":\n    return 1\n";
    let outcome = project("import m", plugins).run(&Options::default(), &[]);
    let error = &outcome.compiled.diagnostics[0];
    assert_eq!(error.message, "could not find type nope in namespace m");
    let place = error.location.as_ref().expect("a place");
    assert_eq!(
        (place.file.as_str(), place.line),
        ("libs/m/plugins/__init__.py", 4)
    );
}
