//! Single tasks for native handlers, given to an executor of the binary as the server does it.

use std::process::Stdio;

use serde_json::Value;
use steward::domain::{ActionId, AgentName, DryRunId, EnvironmentId, ResourceId, VersionNumber};
use steward::executor::protocol::{
    ExecutorCommand, ExecutorReply, Hello, Task, TaskKind, TaskOutcome,
};
use steward_compiler::protocol;

use crate::harness::steward;

/// Runs one task in an executor of its own.
#[track_caller]
fn run(resource_type: &str, attributes: &Value, kind: TaskKind) -> TaskOutcome {
    let task = Task {
        action: ActionId::generate(),
        kind,
        code: String::new(),
        agent: AgentName::new("host"),
        resource_id: ResourceId::new(format!("{resource_type}[host,name=x]")),
        resource_type: resource_type.into(),
        version: VersionNumber::new(1),
        attributes: attributes.to_string(),
        reason: "a test said so".into(),
        limit_ms: 60_000,
    };
    let mut command = steward();
    command
        .arg("executor")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut executor = command.spawn().unwrap();
    let mut stdin = executor.stdin.take().unwrap();
    let hello = ExecutorCommand::Hello(Hello::ours());
    protocol::write_frame(&mut stdin, &hello).unwrap();
    let no_code = ExecutorCommand::Code {
        code: String::new(),
        modules: Vec::new(),
        python: None,
        environment_id: EnvironmentId::generate(),
        packages: None,
    };
    protocol::write_frame(&mut stdin, &no_code).unwrap();
    protocol::write_frame(&mut stdin, &ExecutorCommand::Run(task)).unwrap();
    let mut stdout = executor.stdout.take().unwrap();
    let outcome = loop {
        match protocol::read_frame(&mut stdout).unwrap() {
            Some(ExecutorReply::Done(done)) => break done.outcome,
            Some(_) => (),
            None => panic!("the executor ended"),
        }
    };
    drop(stdin);
    executor.wait().unwrap();
    outcome
}

/// What a dry run finds.
#[track_caller]
pub fn dry_run(resource_type: &str, attributes: &Value) -> TaskOutcome {
    let kind = TaskKind::DryRun {
        run: DryRunId::generate(),
        requires: Vec::new(),
    };
    run(resource_type, attributes, kind)
}

/// What deploying a resource comes to.
#[track_caller]
pub fn deploy(resource_type: &str, attributes: &Value) -> TaskOutcome {
    let kind = TaskKind::Deploy {
        requires: Vec::new(),
        dependency_changed: false,
    };
    run(resource_type, attributes, kind)
}

/// Deploys a resource and checks `status change`; gives its log.
#[track_caller]
pub fn check(resource_type: &str, attributes: Value, expected: &str) -> String {
    let outcome = deploy(resource_type, &attributes);
    let logs: Vec<&str> = outcome.logs.iter().map(|line| line.msg.as_str()).collect();
    let result = format!("{} {}", outcome.status, outcome.change);
    assert_eq!(result, expected, "{logs:#?}");
    logs.join("\n")
}
