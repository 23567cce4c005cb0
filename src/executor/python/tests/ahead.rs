//! Tasks that a host is given while it has others.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

/// A module whose handler does what the names of its resources say, and writes down each run in `runs`.
fn source(dir: &Path) -> String {
    let runs = dir.join("runs");
    let (class, _) = HANDLER.split_once("    def read_resource").unwrap();
    format!(
        r#"
import os
{class}
    def read_resource(self, ctx, resource):
        number, *words = resource.name.split("-")
        with open({runs:?}, "a") as file:
            file.write(number + "\n")
        for word in words:
            if word == "print":
                print(number, "printed")
            elif word == "line":
                print(number, "began", end="")
            elif word == "child":
                subprocess.run(["echo", number, "printed"])
            elif word == "fd":
                os.write(2, (number + " printed\n").encode())
            elif word == "slow":
                time.sleep(0.03)
            elif word == "flood":
                os.write(1, (("x" * 99 + "\n") * 1500).encode())
            elif word == "close":
                os.closerange(3, 4)
            elif word == "end":
                os._exit(3)
            elif word == "hang":
                time.sleep(1000)

    def create_resource(self, ctx, resource):
        pass

    update_resource = delete_resource = create_resource
"#
    )
}

/// An agent whose host has done so many quick runs that it gets many tasks at once.
struct Warm {
    dir: tempfile::TempDir,
    code: Arc<Code>,
    agent: Agent,
}

impl Warm {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let code = Arc::new(code(dir.path(), &source(dir.path())));
        let agent = Agent::new(Limits::default());
        let mut warm = Self { dir, code, agent };
        warm.run_warm();
        warm
    }

    /// On a busy machine any run may take long.
    fn run_warm(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.most_at_once() < 32 {
            assert!(Instant::now() < deadline, "{}", self.most_at_once());
            assert_eq!(self.agent.run(task("warm"), &self.code).0, "deployed");
        }
        let _ = fs::remove_file(self.dir.path().join("runs"));
    }

    fn most_at_once(&self) -> usize {
        let host = self.agent.host.as_ref();
        host.map_or(0, |host| host.python.most_at_once())
    }

    fn run(&mut self, names: &[String]) -> (Vec<TaskDone>, VecDeque<Task>) {
        let tasks = names.iter().map(|name| {
            let mut task = task(name);
            task.limit_ms = if name.ends_with("hang") { 700 } else { 60_000 };
            task
        });
        self.agent.run_all(tasks, &self.code)
    }

    /// The numbers of the runs that were begun, in order.
    fn begun(&self) -> Vec<String> {
        let runs = fs::read_to_string(self.dir.path().join("runs")).unwrap();
        runs.lines().map(str::to_owned).collect()
    }
}

fn printed(done: &TaskDone) -> Vec<&str> {
    let lines = done.outcome.logs.iter();
    lines
        .filter_map(|line| line.msg.strip_prefix("printed: "))
        .collect()
}

fn numbers(names: &[String]) -> Vec<&str> {
    let number = |name: &'_ str| name.split('-').next().map(str::len);
    names
        .iter()
        .map(|name| &name[..number(name).unwrap_or(0)])
        .collect()
}

/// Given: tasks at random of which some print, in Python, by a child, without a line's end, so much that the pipe is full, and some
/// take long. Expected: each is run once, in order, and has in its log what was printed during it and nothing else.
#[test]
fn what_is_printed_belongs_to_its_run_also_when_tasks_are_given_ahead() {
    let words = ["print", "line", "child", "fd", "slow", "flood"];
    let mut random = StdRng::seed_from_u64(14);
    let mut warm = Warm::new();
    let mut n_ahead = 0;
    for round in 0..40 {
        n_ahead += usize::from(warm.most_at_once() > 1);
        let names: Vec<String> = (0..32)
            .map(|number| {
                let mut name = format!("{}", 1000 * round + number);
                for word in words {
                    if random.random_ratio(1, 20) {
                        name.push('-');
                        name.push_str(word);
                    }
                }
                name
            })
            .collect();
        let (done, left) = warm.run(&names);
        assert!(left.is_empty());
        assert_eq!(done.len(), names.len());
        for (name, done) in names.iter().zip(&done) {
            assert_eq!(done.outcome.status.as_str(), "deployed");
            let number = numbers(std::slice::from_ref(name))[0];
            let lines = printed(done);
            let mut wanted = String::new();
            for word in name.split('-').skip(1) {
                match word {
                    "print" | "child" | "fd" => wanted.push_str(&format!("{number} printed\n")),
                    "line" => wanted.push_str(&format!("{number} began")),
                    _ => {}
                }
            }
            let is_flooded = name.ends_with("flood");
            let own: Vec<&str> = lines
                .iter()
                .copied()
                .filter(|line| !line.contains("xx"))
                .collect();
            let others = own.len() - own.iter().filter(|line| line.contains(number)).count();
            assert_eq!(others, 0, "{name}: {lines:?}");
            let count = |text: &str| text.matches(number).count();
            let n_wanted = count(&wanted);
            assert!(
                lines.iter().map(|line| count(line)).sum::<usize>() == n_wanted,
                "{name}: {lines:?}"
            );
            let n_flood = lines.iter().filter(|line| line.contains("xx")).count();
            assert_eq!(n_flood > 0, is_flooded, "{name}: {lines:?}");
        }
        assert_eq!(warm.begun(), numbers(&names));
        // When each was done is known though its answer is read later.
        let logs = |at: usize| done.get(at).map(|done| &done.outcome.logs[..]);
        for (at, done) in done.iter().enumerate() {
            let end = logs(at).and_then(|logs| Some(logs.last()?.timestamp_us));
            let next = logs(at + 1).and_then(|logs| Some(logs.first()?.timestamp_us));
            assert!(end <= Some(done.finished_us), "{end:?} {done:?}");
            assert!(next.is_none_or(|next| done.finished_us <= next));
        }
        warm.run_warm();
    }
    assert_eq!(n_ahead, 40);
}

/// Given: a task in the middle that ends its host, or hangs. Expected: it is unavailable and says why, those before it are done, and
/// those behind it are given back, begun by nobody; run again, they are done, each once.
#[test]
fn tasks_behind_one_that_ends_its_host_are_run_by_the_next_one() {
    for (bad, why) in [
        ("end", "the Python host ended: exit status: 3"),
        ("hang", "within 0.7 s"),
    ] {
        let mut warm = Warm::new();
        let names: Vec<String> = (100..120)
            .map(|number| match number {
                107 => format!("{number}-{bad}"),
                _ => number.to_string(),
            })
            .collect();
        let (done, left) = warm.run(&names);
        let status = |done: &TaskDone| done.outcome.status.as_str();
        assert_eq!(
            done.iter().map(status).collect::<Vec<_>>(),
            [vec!["deployed"; 7], vec!["unavailable"]].concat()
        );
        let log = &done[7].outcome.logs;
        assert!(log.iter().any(|line| line.msg.contains(why)), "{log:?}");
        assert!(warm.agent.host.is_none());
        let ids: Vec<_> = left
            .iter()
            .map(|task| task.resource_id.to_string())
            .collect();
        let wanted: Vec<_> = names[8..]
            .iter()
            .map(|name| format!("net::Row[host,name={name}]"))
            .collect();
        assert_eq!(ids, wanted);
        assert_eq!(warm.begun(), numbers(&names[..8]));
        let (done, left) = warm.agent.run_all(left, &warm.code);
        assert!(left.is_empty());
        assert_eq!(
            done.iter().map(status).collect::<Vec<_>>(),
            vec!["deployed"; 12]
        );
        assert_eq!(warm.begun(), numbers(&names));
    }
}

/// Given: module code that closes files which are not its own. Expected: nothing is taken for another run's, since the host waits
/// after each run.
#[test]
fn a_host_that_cannot_tell_what_was_printed_waits_after_each_run() {
    let mut warm = Warm::new();
    let source = source(warm.dir.path()).replace("closerange(3, 4)", "closerange(4, 64)");
    warm.code = Arc::new(code(warm.dir.path(), &source));
    warm.agent.host = None;
    warm.run_warm();
    let names: Vec<String> = (0..30)
        .map(|number| format!("{number}{}", ["", "-close", "-print", ""][number % 4]))
        .collect();
    let (done, _) = warm.run(&names);
    for (name, done) in names.iter().zip(&done) {
        let wanted = format!("{} printed", numbers(std::slice::from_ref(name))[0]);
        let wanted: &[&str] = if name.ends_with("print") {
            &[&wanted]
        } else {
            &[]
        };
        assert_eq!(printed(done), wanted);
    }
}

/// Given: tasks of which one alone fills a socket, behind and before small ones. Expected: all are done, in order.
#[test]
fn large_tasks_wait_for_small_ones() {
    let mut warm = Warm::new();
    let tasks: Vec<Task> = (0..30)
        .map(|number| {
            let mut task = task(&number.to_string());
            if number % 3 == 1 {
                let mut attributes: Value = serde_json::from_str(&task.attributes).unwrap();
                attributes["padding"] = "x".repeat(1 << (10 + number / 2)).into();
                task.attributes = attributes.to_string();
            }
            task
        })
        .collect();
    let actions: Vec<_> = tasks.iter().map(|task| task.action).collect();
    let (done, left) = warm.agent.run_all(tasks, &warm.code);
    assert!(left.is_empty());
    assert!(
        done.iter()
            .all(|done| done.outcome.status.as_str() == "deployed")
    );
    assert_eq!(
        done.iter().map(|done| done.action).collect::<Vec<_>>(),
        actions
    );
}
