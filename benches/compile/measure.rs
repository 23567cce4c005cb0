//! CPU time and memory of one process.

use std::process::{Command, Stdio};

use nix::sys::resource::{UsageWho, getrusage};

#[derive(Clone, Copy)]
pub struct Usage {
    /// User and system, seconds.
    pub cpu: f64,
    /// Peak, MB.
    pub memory: f64,
}

/// The least of some runs: what the machine does besides only adds.
pub fn best(runs: usize, command: &[String]) -> Usage {
    let all = (0..runs).map(|_| once(command));
    all.min_by(|a, b| a.cpu.total_cmp(&b.cpu))
        .expect("there is a run")
}

/// Runs it below a small process of its own, whose only child it is.
fn once(command: &[String]) -> Usage {
    let output = Command::new(std::env::current_exe().expect("our own path"))
        .arg("--measure")
        .args(command)
        .stderr(Stdio::inherit())
        .output()
        .expect("the bench starts itself");
    assert!(output.status.success(), "{command:?} failed");
    let text = String::from_utf8(output.stdout).expect("figures are text");
    let mut figures = text.split_whitespace().map(|figure| figure.parse::<f64>());
    let mut next = || figures.next().and_then(Result::ok).expect("a figure");
    Usage {
        cpu: next(),
        memory: next(),
    }
}

/// The other side of [`once`]: prints seconds and MB.
#[expect(clippy::print_stdout, reason = "the figures go to the parent")]
pub fn child(command: &[String]) {
    let status = Command::new(&command[0])
        .args(&command[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("the program starts");
    assert!(status.success(), "{command:?} ended with {status}");
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the usage of a child");
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    println!(
        "{} {}",
        seconds(usage.user_time()) + seconds(usage.system_time()),
        usage.max_rss() as f64 / 1024.0
    );
}
