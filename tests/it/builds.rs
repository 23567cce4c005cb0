//! Packages that a server builds: what hangs is stopped, and whatever is killed, no environment is ever half of one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::crash::descendants;
use crate::harness::{Host, Repo, Running, signal, wait_until};
use crate::packages::{Wheels, environments, source_folder};
use crate::sandbox::{below, first_report, report_of, server_of};
use crate::serve::{Served, serve};

const HANG_BUILD: &str = include_str!("../../fixtures/packages/hang_build.py");

/// A project that asks for a folder of its own, whose build goes on for as long as there is a flag.
struct Hanging {
    repo: Repo,
    dir: TempDir,
    /// Names the program that its build starts.
    seconds: String,
}

impl Hanging {
    fn new() -> Self {
        let repo = Repo::new("import greet\nstd::print(greet::version())\n");
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("hang"), "").unwrap();
        repo.write("requirements.txt", "--no-index\n./sources/greet\n");
        let source = repo.path().join("sources/greet");
        source_folder(&source, "1.0");
        let text = fs::read_to_string(source.join("package.json")).unwrap();
        let mut package: Value = serde_json::from_str(&text).unwrap();
        package["hang"] = dir.path().join("hang").to_str().into();
        // Nobody else sleeps for as long.
        let unique = dir.path().file_name().unwrap().as_encoded_bytes();
        let unique = unique
            .iter()
            .fold(0_u64, |sum, byte| sum * 31 + u64::from(*byte));
        let seconds = format!("9999.{unique}");
        package["seconds"] = seconds.as_str().into();
        repo.write("sources/greet/package.json", &package.to_string());
        repo.write("sources/greet/hang_build.py", HANG_BUILD);
        repo.write(
            "sources/greet/pyproject.toml",
            "[build-system]\nrequires = []\nbuild-backend = \"hang_build\"\nbackend-path = [\".\"]\n",
        );
        repo.commit("asks for a module");
        Self { repo, dir, seconds }
    }

    /// The programs that its builds started, and that live.
    fn programs(&self) -> Vec<u32> {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let wanted = format!("sleep\0{}\0", self.seconds);
        let is_one = |process: &fs::DirEntry| {
            let command = fs::read(process.path().join("cmdline"));
            command.is_ok_and(|command| command == wanted.as_bytes())
        };
        let found = entries.filter(is_one);
        found
            .filter_map(|process| process.file_name().to_str()?.parse().ok())
            .collect()
    }

    #[track_caller]
    fn wait_for_build(&self) {
        wait_until("the build begins", || self.programs().len() == 1);
    }

    #[track_caller]
    fn wait_for_its_end(&self) {
        wait_until("all of the build is gone", || self.programs().is_empty());
    }

    fn release(&self) {
        fs::remove_file(self.dir.path().join("hang")).unwrap();
    }

    /// Lets the build that runs go on: pip waits for all that may write into its pipe.
    fn release_with_programs(&self) {
        self.release();
        let programs = self.programs();
        programs.iter().for_each(|id| signal(*id, Signal::KILL));
    }
}

fn marks(data: &Path) -> Vec<PathBuf> {
    let below = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
    let owners = below(data.join("python/environments"));
    let files = owners
        .flat_map(|owner| below(owner.path()))
        .map(|entry| entry.path());
    files
        .filter(|path| path.extension().is_some_and(|end| end == "complete"))
        .collect()
}

/// Input: a build backend that hangs (docs/reference/security.md § 4.5). Answer: it is ended at `compile.install_timeout` with all that it started, the report names stage and setting, and the next compile installs.
#[test]
fn a_build_that_hangs_is_stopped_with_all_of_it_and_the_next_compile_installs() {
    let hanging = Hanging::new();
    let dir = tempfile::tempdir().unwrap();
    let config = format!(
        "compile: {{install_timeout: 30s}}\nenvironments:\n- {{project: p, name: e, repository: {}}}\n",
        hanging.repo.path().display()
    );
    let served = serve(dir.path(), &config);
    let environment = served.environment("e");
    hanging.wait_for_build();
    let reports = || served.get(&environment, "/api/v2/compilereport")["data"].clone();
    wait_until("the compile ends", || reports()[0]["completed"].is_string());
    let report = &reports()[0];
    assert_eq!(report["success"], false, "{report}");
    let failure = report["failure"].as_str().unwrap();
    assert!(
        failure.contains("choosing versions for requirements.txt did not end within 30 s")
            && failure.contains("compile.install_timeout"),
        "{failure}"
    );
    hanging.wait_for_its_end();
    assert!(marks(&dir.path().join("data")).is_empty());
    hanging.release();
    hanging.repo.commit("once more");
    wait_until("the next compile is good", || {
        reports()[0]["success"] == true
    });
    assert_eq!(marks(&dir.path().join("data")).len(), 1);
}

/// As many as compiles. The time of waiting is none of their limit.
#[test]
fn installations_take_turns() {
    let both = [Hanging::new(), Hanging::new()];
    let dir = tempfile::tempdir().unwrap();
    let section = |(name, hanging): (&str, &Hanging)| {
        let path = hanging.repo.path().display();
        format!("- {{project: p, name: {name}, repository: {path}}}\n")
    };
    let sections: String = ["a", "b"].into_iter().zip(&both).map(section).collect();
    let config = format!("compile: {{slots: 1}}\nenvironments:\n{sections}");
    let served = serve(dir.path(), &config);
    let reports = ["a", "b"].map(|name| {
        let environment = served.environment(name);
        let served = &served;
        move || served.get(&environment, "/api/v2/compilereport")["data"][0].clone()
    });
    let stages = |report: &Value| {
        let url = format!("/api/v2/compilereport/{}", report["id"].as_str().unwrap());
        served.get(report["environment"].as_str().unwrap(), &url)["data"]["reports"].to_string()
    };
    wait_until("one build begins", || {
        both.iter().any(|one| !one.programs().is_empty())
    });
    let first = both
        .iter()
        .position(|one| !one.programs().is_empty())
        .unwrap();
    let second = 1 - first;
    wait_until("the other one waits", || {
        let report = reports[second]();
        report["id"].is_string() && stages(&report).contains("Checking out")
    });
    assert_eq!(both[second].programs().len(), 0);
    both[first].release_with_programs();
    both[second].wait_for_build();
    wait_until("the first compile is good", || {
        reports[first]()["success"] == true
    });
    both[second].release_with_programs();
    wait_until("the second compile is good", || {
        reports[second]()["success"] == true
    });
    let waited = "Waiting for other installations";
    assert!(!stages(&reports[first]()).contains(waited));
    let of_second = stages(&reports[second]());
    assert!(of_second.contains(waited), "{of_second}");
}

//: deploy 98
#[test]
fn a_server_that_is_killed_or_stopped_while_it_builds_leaves_nothing_and_builds_again() {
    let hanging = Hanging::new();
    let host = Host::new();
    let mut running = Running::start(host.up(hanging.repo.path()));
    hanging.wait_for_build();
    signal(running.child.id(), Signal::KILL);
    running.child.wait().unwrap();
    hanging.wait_for_its_end();
    assert!(marks(&host.data()).is_empty());
    // The next one does the same; asked to stop, it does not wait for the build.
    let running = Running::start(host.up(hanging.repo.path()));
    hanging.wait_for_build();
    assert!(running.stop().success());
    hanging.wait_for_its_end();
    assert!(marks(&host.data()).is_empty());
    hanging.release();
    let mut running = Running::start(host.up(hanging.repo.path()));
    running.settled(1);
    assert_eq!(environments(&host).len(), 1);
    assert_eq!(marks(&host.data()).len(), 1);
    assert!(running.stop().success());
}

#[test]
fn a_pip_that_is_killed_fails_one_compile_and_the_next_one_builds() {
    let hanging = Hanging::new();
    let host = Host::new();
    let mut running = Running::start(host.up(hanging.repo.path()));
    hanging.wait_for_build();
    let pip = descendants(running.child.id())
        .into_iter()
        .find(|process| process.role == "-m")
        .unwrap();
    signal(pip.pid, Signal::KILL);
    let event = running.wait_for(|event| event["event"] == "compiled");
    let failure = event["failure"].as_str().unwrap();
    assert!(
        failure.starts_with("choosing versions for requirements.txt was cut short (signal: 9"),
        "{failure}"
    );
    hanging.wait_for_its_end();
    assert!(marks(&host.data()).is_empty() && environments(&host).is_empty());
    hanging.release();
    hanging.repo.commit("once more");
    running.settled(1);
    assert_eq!(marks(&host.data()).len(), 1);
    assert!(running.stop().success());
}

#[test]
fn a_server_installs_from_git_what_is_built_in_a_sandbox() {
    let module = Repo::new("");
    source_folder(module.path(), "1.0");
    let commit = module.commit("version 1.0");
    let repo = Repo::new("import greet\nstd::print(greet::version())\n");
    let requirement = format!("--no-index\ngit+file://{}@main\n", module.path().display());
    repo.write("requirements.txt", &requirement);
    repo.commit("asks for a module from git");
    let host = Host::new();
    let mut running = Running::start(host.up(repo.path()));
    running.settled(1);
    let [mark] = marks(&host.data()).try_into().unwrap();
    let lock = fs::read_to_string(mark).unwrap();
    assert!(lock.contains(commit.trim()), "{lock}");
    assert!(running.stop().success());
}

/// Serves the files of a folder to who has the password, and says its port.
const SERVER: &str = r#"
import base64, functools, http.server, sys
wanted = "Basic " + base64.b64encode(sys.argv[2].encode()).decode()
class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.headers.get("Authorization") == wanted:
            return super().do_GET()
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=sys.argv[1]))
print(server.server_port, flush=True)
server.serve_forever()
"#;

/// What is served over HTTP to who has the password.
struct Private {
    child: std::process::Child,
    port: u16,
}

impl Private {
    fn serve(repository: &Path) -> Self {
        let git = repository.join(".git");
        let status = std::process::Command::new("git")
            .arg("-C")
            .arg(&git)
            .arg("update-server-info")
            .status();
        assert!(status.unwrap().success());
        Self::serve_files(repository)
    }

    fn serve_files(folder: &Path) -> Self {
        use std::io::BufRead;
        let mut child = std::process::Command::new("python3")
            .args(["-c", SERVER])
            .arg(folder)
            .arg("user:a-password")
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        std::io::BufReader::new(stdout)
            .read_line(&mut line)
            .unwrap();
        let port = line.trim().parse().unwrap();
        Self { child, port }
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Everybody on the machine reads the arguments of processes, compiles of other environments among them.
#[test]
fn the_password_of_an_index_is_in_no_arguments() {
    let home = tempfile::tempdir().unwrap();
    let wheels = Wheels::new();
    wheels.module("greet", "1.0", &[]);
    let folder = home.path().join("index/simple/inmanta-module-greet");
    fs::create_dir_all(&folder).unwrap();
    for wheel in fs::read_dir(wheels.path()).unwrap().flatten() {
        fs::copy(wheel.path(), folder.join(wheel.file_name())).unwrap();
    }
    let index = Private::serve_files(&home.path().join("index"));
    let repo = Repo::new("import greet\nstd::print(greet::version())\n");
    let url = format!("http://user:a-password@127.0.0.1:{}/simple", index.port);
    let project = format!("name: test\npip:\n  index-url: {url}\n  extra-index-url: [{url}]\n");
    repo.write("project.yml", &project);
    let requirements = format!("--extra-index-url {url}\ninmanta-module-greet==1.0\n");
    repo.write("requirements.txt", &requirements);
    repo.commit("asks a private index");
    let (_, config) = server_of(home.path(), &repo);
    let served = serve(home.path(), &config);
    let (report, [seen, pips]) = watched(&served, ["a-password", "--index-url"], || {
        first_report(&served)
    });
    assert!(report.contains("\"success\":true"), "{report}");
    assert_eq!(seen, [""; 0]);
    // Where uv installs there is no such argument.
    assert!(!pips.is_empty() || report.contains("uv "), "{report}");
}

/// Neither pip's git nor the git that this one starts has it, with a lock and without one.
#[test]
fn the_password_of_a_repository_is_in_no_arguments() {
    let home = tempfile::tempdir().unwrap();
    let module = Repo::new("");
    source_folder(module.path(), "1.0");
    module.commit("version 1.0");
    let private = Private::serve(module.path());
    let place = format!("127.0.0.1:{}/.git", private.port);
    let repo = Repo::new("import greet\nstd::print(greet::version())\n");
    let asked = format!("git+http://user:a-password@{place}@main");
    // One file includes the other.
    repo.write("requirements.txt", "--no-index\n-r more/modules.txt\n");
    repo.write("more/modules.txt", &format!("{asked}\n"));
    repo.commit("asks for a private module");
    let (_, config) = server_of(home.path(), &repo);
    let served = serve(home.path(), &config);
    let words = ["a-password", "git-remote-http"];
    let (report, [seen, gits]) = watched(&served, words, || first_report(&served));
    assert!(report.contains("\"success\":true"), "{report}");
    assert_eq!(seen, [""; 0]);
    assert!(!gits.is_empty());
    let [mark] = marks(&home.path().join("data")).try_into().unwrap();
    let lock = fs::read_to_string(mark).unwrap();
    assert!(lock.contains(&format!("http://{place}")), "{lock}");
    repo.write("steward.lock", &lock);
    let commit = repo.commit("locks it");
    let (report, [seen, gits]) = watched(&served, words, || report_of(&served, &commit));
    assert!(report.contains("\"success\":true"), "{report}");
    assert_eq!(seen, [""; 0]);
    assert!(!gits.is_empty());
}

/// What the work gives, and the arguments of processes of the server that have these words meanwhile.
fn watched<T>(
    served: &Served,
    words: [&str; 2],
    work: impl FnOnce() -> T,
) -> (T, [Vec<String>; 2]) {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut seen = [Vec::new(), Vec::new()];
            while !is_done.load(Ordering::Relaxed) {
                for (_, line) in below(served.child.id()) {
                    for (seen, word) in seen.iter_mut().zip(words) {
                        seen.extend(line.contains(word).then(|| line.clone()));
                    }
                }
                // All of /proc is read each time.
                std::thread::sleep(Duration::from_millis(50));
            }
            seen
        });
        let done = work();
        is_done.store(true, Ordering::Relaxed);
        (done, watcher.join().unwrap())
    })
}

#[test]
fn a_private_repository_is_installed_from_and_nobody_of_it_reads_the_credentials() {
    let home = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let secrets = [
        ".netrc",
        ".git-credentials",
        ".gitconfig",
        ".ssh/id_rsa",
        ".aws/credentials",
    ];
    for path in secrets {
        write(path, "secret\n");
    }
    write(".gitconfig", "[credential]\n\thelper = store\n");
    write("plain", "not a secret\n");
    // Raises if anything can be read, by what the build's home says and by where it really is.
    let probe = format!(
        "import os\nfor home in (os.environ['HOME'], {home:?}):\n    for name in {secrets:?}:\n        try:\n            \
         text = open(os.path.join(home, name)).read()\n        except (PermissionError, FileNotFoundError):\n            \
         continue\n        raise Exception('read ' + name)\nopen({plain:?}).read()\n",
        home = home.path(),
        plain = home.path().join("plain"),
    );
    let module = Repo::new("");
    source_folder(module.path(), "1.0");
    let wheel = fs::read_to_string(module.path().join("wheel.py")).unwrap();
    module.write("wheel.py", &format!("{wheel}\n{probe}"));
    let plugins = "__init__.py";
    let text = fs::read_to_string(module.path().join(plugins)).unwrap();
    module.write(plugins, &format!("{text}\n{probe}"));
    let commit = module.commit("version 1.0");
    let private = Private::serve(module.path());
    let url = format!("http://127.0.0.1:{}/.git", private.port);
    let credentials = url.replace("http://", "http://user:a-password@");
    write(".git-credentials", &format!("{credentials}\n"));
    let repo = Repo::new("import greet\nstd::print(greet::version())\n");
    repo.write("requirements.txt", &format!("--no-index\ngit+{url}@main\n"));
    repo.commit("asks for a private module");
    let host = Host::new();
    let mut command = host.up(repo.path());
    command.env("HOME", home.path());
    let mut running = Running::start(command);
    running.settled(1);
    let [mark] = marks(&host.data()).try_into().unwrap();
    let lock = fs::read_to_string(mark).unwrap();
    assert!(
        lock.contains(commit.trim()) && lock.contains(&url),
        "{lock}"
    );
    assert!(!lock.contains("a-password"), "{lock}");
    assert!(running.stop().success());

    // Without the credentials there is nothing to install.
    let host = Host::new();
    let mut command = host.up(repo.path());
    command.env("HOME", host.root());
    let mut running = Running::start(command);
    let compiled = running.wait_for(|event| event["event"] == "compiled");
    assert_eq!(compiled["success"], false);
    assert!(running.stop().success());
}

#[test]
fn an_environment_that_is_gone_is_made_again_when_the_server_starts() {
    let hanging = Hanging::new();
    hanging.release();
    let host = Host::new();
    let mut running = Running::start(host.up(hanging.repo.path()));
    running.settled(1);
    assert!(running.stop().success());
    let [environment] = environments(&host).try_into().unwrap();
    fs::remove_dir_all(&environment).unwrap();
    fs::remove_file(environment.with_extension("complete")).unwrap();
    fs::remove_dir_all(host.data().join("checkouts")).unwrap();
    let running = Running::start(host.up(hanging.repo.path()));
    let mark = environment.with_extension("complete");
    wait_until("the environment is there again", || mark.exists());
    assert!(environment.join("bin/python").exists());
    assert!(running.stop().success());
}
