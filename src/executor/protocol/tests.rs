use steward_compiler::protocol::{decode, write_frame};

use super::*;

fn hello(version: u32, capabilities: &[Capability]) -> Hello {
    Hello {
        version,
        capabilities: capabilities.to_vec(),
    }
}

#[test]
fn processes_of_one_release_understand_one_another() {
    assert_eq!(Hello::ours().check_executor(), Ok(()));
    assert_eq!(Hello::ours().check_server(), Ok(()));
}

#[test]
fn another_version_is_refused_on_both_sides_and_both_versions_are_named() {
    let other = hello(VERSION + 1, Capability::ALL);
    for (peer, checked) in [
        ("executor", other.check_executor()),
        ("server", other.check_server()),
    ] {
        let error = checked.unwrap_err().to_string();
        let says = format!("the {peer} speaks version 4 of the executor protocol");
        assert!(error.starts_with(&says), "{error}");
        assert!(error.contains("this process speaks version 3"), "{error}");
    }
}

#[test]
fn an_executor_that_can_do_more_will_do_and_one_that_can_do_less_will_not() {
    let mut more = Capability::ALL.to_vec();
    more.push(Capability::Unknown);
    assert_eq!(hello(VERSION, &more).check_executor(), Ok(()));
    // A server that needs what we never heard of.
    let error = hello(VERSION, &more).check_server().unwrap_err();
    assert!(error.to_string().contains("(["), "{error}");
    let less = hello(VERSION, &[Capability::Deploy, Capability::DryRun]);
    let error = less.check_executor().unwrap_err().to_string();
    assert!(
        error.contains("lacks what the server needs ([CollectFacts, PythonHandlers])"),
        "{error}"
    );
    assert_eq!(less.check_server(), Ok(()));
}

#[test]
fn a_hello_of_a_later_release_can_be_read() {
    let later = serde_json::json!({"hello": {"version": 9, "capabilities": ["deploy", "teleport"], "more": true}});
    let mut frame = Vec::new();
    write_frame(&mut frame, &later).unwrap();
    let Ok(ExecutorReply::Hello(read)) = decode(&frame[4..]) else {
        panic!("it is a hello");
    };
    let expected = hello(9, &[Capability::Deploy, Capability::Unknown]);
    assert_eq!(read, expected);
}

#[test]
fn what_a_host_says_that_is_no_word_of_ours_counts_as_failed() {
    let outcome = TaskOutcome::from(HandlerOutcome {
        status: "splendid".into(),
        change: "everything".into(),
        ..HandlerOutcome::default()
    });
    assert_eq!(
        (outcome.status, outcome.change),
        (HandlerStatus::Failed, Change::NoChange)
    );
}
