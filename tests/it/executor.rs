//! The process that runs handlers, spoken to as the server does.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use steward::domain::{
    ActionId, AgentName, CodeFile, CodeModule, Content, EnvironmentId, ResourceId, VersionNumber,
};
use steward::executor::protocol::{
    ExecutorCommand, ExecutorReply, Hello, Python, Task, TaskKind, VERSION,
};
use steward_compiler::protocol;

use crate::harness::{steward, wait_until};

fn start(mut command: Command) -> Child {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    piped.spawn().unwrap()
}

/// Input: a handler that hangs (docs/reference/security.md § 4.8). Answer: it is ended at `deploy_timeout`, its resource is unavailable and says so.
#[test]
fn a_python_handler_that_hangs_is_stopped_at_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("__init__.py");
    let source = "import time\nfrom inmanta.agent.handler import ResourceHandler, provider\n\
        from inmanta.resources import Resource, resource\n\
        @resource('net::Row', agent='host', id_attribute='name')\nclass Row(Resource):\n    fields = ('name',)\n\
        @provider('net::Row', name='row')\nclass Handler(ResourceHandler):\n    \
        def execute(self, ctx, resource, dry_run=False):\n        time.sleep(1000)\n";
    std::fs::write(&path, source).unwrap();
    let file = CodeFile {
        module: "inmanta_plugins.net".into(),
        content: Content::Path(path),
        package: true,
    };
    let module = CodeModule {
        name: "net".into(),
        files: vec![file],
        requirements: Default::default(),
    };
    let interpreter = std::env::var_os("STEWARD_PYTHON").unwrap_or_else(|| "python3".into());
    let announce = ExecutorCommand::Code {
        code: "code".into(),
        modules: vec![module],
        python: Some(Python {
            interpreter: interpreter.into(),
            package: Path::new(env!("CARGO_MANIFEST_DIR")).join("python"),
            files: None,
        }),
        environment_id: EnvironmentId::generate(),
        packages: None,
    };
    let attributes = json!({
        "name": "r", "send_event": true, "receive_events": true, "references": [], "mutators": [], "report_only": false
    });
    let task = Task {
        action: ActionId::generate(),
        kind: TaskKind::Deploy {
            requires: Vec::new(),
            dependency_changed: false,
        },
        code: "code".into(),
        agent: AgentName::new("host"),
        resource_id: ResourceId::new("net::Row[host,name=r]"),
        resource_type: "net::Row".into(),
        version: VersionNumber::new(1),
        attributes: attributes.to_string(),
        reason: "a test said so".into(),
        limit_ms: 1000,
    };
    let mut command = steward();
    command.arg("executor");
    let mut executor = start(command);
    let mut stdin = executor.stdin.take().unwrap();
    let hello = ExecutorCommand::Hello(Hello::ours());
    protocol::write_frame(&mut stdin, &hello).unwrap();
    protocol::write_frame(&mut stdin, &announce).unwrap();
    protocol::write_frame(&mut stdin, &ExecutorCommand::Run(task)).unwrap();
    let mut stdout = executor.stdout.take().unwrap();
    let done = loop {
        match protocol::read_frame(&mut stdout).unwrap().unwrap() {
            ExecutorReply::Hello(_) | ExecutorReply::Alive => {}
            ExecutorReply::Done(done) => break done,
            reply => panic!("{reply:?}"),
        }
    };
    let message = &done.outcome.logs.last().unwrap().msg;
    assert_eq!(done.outcome.status.as_str(), "unavailable", "{message}");
    assert!(
        message.contains("net::Row[host,name=r]")
            && message.contains("within 1 s (setting `deploy_timeout`)"),
        "{message}"
    );
    drop(stdin);
    assert!(executor.wait().unwrap().success());
}

/// The executor says who it is, and does no work for a server that it may not understand.
#[test]
fn an_executor_ends_when_its_server_speaks_another_version() {
    let mut command = steward();
    command.arg("executor").stderr(Stdio::piped());
    let mut executor = start(command);
    let other = Hello {
        version: VERSION + 1,
        ..Hello::ours()
    };
    let mut stdin = executor.stdin.take().unwrap();
    protocol::write_frame(&mut stdin, &ExecutorCommand::Hello(other)).unwrap();
    let output = executor.wait_with_output().unwrap();
    assert!(!output.status.success());
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(
        log.contains("run the same release of Steward on both sides"),
        "{log}"
    );
    match protocol::read_frame(&mut &output.stdout[..]).unwrap() {
        Some(ExecutorReply::Hello(hello)) => assert_eq!(hello, Hello::ours()),
        reply => panic!("{reply:?}"),
    }
}

#[test]
fn a_child_whose_parent_died_before_it_looked_does_nothing() {
    // Nobody's child can be our child: its parent is said to be one that it is not.
    let mut command = steward();
    command.arg("executor").env("STEWARD_PARENT", "1");
    let mut executor = start(command);
    // Not for the end of its stdin, which is open.
    wait_until("it ends by itself", || {
        executor.try_wait().unwrap().is_some()
    });
    assert_eq!(executor.wait().unwrap().code(), Some(1));

    let mut command = steward();
    command.args(["supervise", "--parent", "1", "/bin/echo", "ran"]);
    let mut supervised = start(command);
    let mut said = String::new();
    supervised
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(
        (said.as_str(), supervised.wait().unwrap().code()),
        ("", Some(127))
    );
}
