//! An executor process that means us no good, on a real pipe.

use serde_json::json;
use steward_compiler::protocol::write_frame;
use tokio::io::AsyncWriteExt;

use super::*;
use crate::domain::{ActionId, HandlerStatus, LogLevel};
use crate::executor::protocol::{Hello, LogLine, TaskDone, TaskOutcome, VERSION};

fn source(room_kib: usize) -> (Source, mpsc::UnboundedReceiver<Message>) {
    let (messages, received) = mpsc::unbounded_channel();
    let source = Source {
        generation: 1,
        messages,
        room: Arc::new(Semaphore::new(room_kib)),
        silence: Duration::from_millis(300),
        startup: Duration::from_millis(300),
    };
    (source, received)
}

fn done(msg: String) -> Vec<u8> {
    let line = LogLine {
        level: LogLevel::Info,
        msg,
        kwargs: serde_json::Map::from_iter([("a".to_owned(), json!(1))]),
        timestamp_us: 1,
    };
    let done = TaskDone {
        action: ActionId::generate(),
        finished_us: 2,
        outcome: TaskOutcome {
            logs: vec![line],
            ..TaskOutcome::of(HandlerStatus::Deployed)
        },
    };
    frame(&ExecutorReply::Done(done))
}

fn frame(reply: &ExecutorReply) -> Vec<u8> {
    let mut frame = Vec::new();
    write_frame(&mut frame, reply).unwrap();
    frame
}

fn hello() -> Vec<u8> {
    frame(&ExecutorReply::Hello(Hello::ours()))
}

async fn why(received: &mut mpsc::UnboundedReceiver<Message>) -> String {
    match received.recv().await {
        Some(Message::Ended { why, .. }) => why.unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

/// Input: a frame of 4 GiB from an executor (docs/reference/security.md § 4.8). Answer: it is given up before a byte of it is read.
#[tokio::test]
async fn a_frame_that_is_too_large_ends_the_executor() {
    let (mut theirs, ours) = tokio::io::duplex(64);
    let (source, mut received) = source(1024);
    let reader = tokio::spawn(read(ours, source));
    theirs.write_all(&[0xff; 8]).await.unwrap();
    let why = why(&mut received).await;
    assert_eq!(
        why,
        "it sent a frame of 4294967295 bytes, the limit is 16777216"
    );
    reader.await.unwrap();
}

/// Input: an executor that says nothing, or stops in the middle of a frame (docs/reference/security.md § 4.8). Answer: it is given up.
#[tokio::test]
async fn silence_ends_the_executor_also_within_a_frame_and_a_beat_does_not() {
    let beat = frame(&ExecutorReply::Alive);
    for begun in [&[][..], &[0, 0], &[0, 0, 0, 9, 1]] {
        let (mut theirs, ours) = tokio::io::duplex(64);
        let (source, mut received) = source(1024);
        let reader = tokio::spawn(read(ours, source));
        theirs.write_all(&hello()).await.unwrap();
        for _ in 0..5 {
            theirs.write_all(&beat).await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(received.is_empty());
        theirs.write_all(begun).await.unwrap();
        assert!(
            why(&mut received)
                .await
                .contains("no sign of life for 0.3 s")
        );
        reader.await.unwrap();
    }
}

/// Given: a server that stands still together with its executor, for longer than the limit: a container that is paused. Expected: that
/// is no silence of the executor's, which was ended with all that it ran.
#[tokio::test]
async fn time_in_which_the_server_itself_stood_still_is_no_silence() {
    let (mut theirs, ours) = tokio::io::duplex(64);
    let (source, mut received) = source(1024);
    let reader = tokio::spawn(read(ours, source));
    theirs.write_all(&hello()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    // The one thread of this test.
    std::thread::sleep(Duration::from_millis(900));
    tokio::time::sleep(Duration::from_millis(50)).await;
    theirs
        .write_all(&frame(&ExecutorReply::Alive))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(received.is_empty());
    drop(theirs);
    assert_eq!(why(&mut received).await, "");
    reader.await.unwrap();
}

/// Input: answers that come faster than they are written (docs/reference/security.md § 4.8). Answer: the pipe is not read until there is room.
#[tokio::test]
async fn answers_wait_in_the_pipe_until_there_is_room_and_are_cut_when_they_are_read() {
    let (mut theirs, ours) = tokio::io::duplex(64);
    let (source, mut received) = source(300);
    let reader = tokio::spawn(read(ours, source));
    let writer = tokio::spawn(async move {
        theirs.write_all(&hello()).await.unwrap();
        for _ in 0..4 {
            theirs
                .write_all(&done("x".repeat(200 << 10)))
                .await
                .unwrap();
        }
    });
    let mut take = async || match received.recv().await {
        Some(Message::Done { done, held, .. }) => (done, held),
        other => panic!("{other:?}"),
    };
    let (first, held) = take().await;
    assert!(first.outcome.logs[0].msg.len() <= bounds::LINE_BYTES);
    // Longer than the limit of silence: to wait for room is no silence.
    assert!(
        tokio::time::timeout(Duration::from_millis(600), take())
            .await
            .is_err()
    );
    drop(held);
    for _ in 0..3 {
        drop(take().await);
    }
    writer.await.unwrap();
    reader.await.unwrap();
}

/// One of another release, and one that does not say of which it is: the error says what to do.
#[tokio::test]
async fn an_executor_that_we_do_not_understand_is_given_up_before_any_other_frame() {
    let other = Hello {
        version: VERSION + 1,
        ..Hello::ours()
    };
    for (first, expected) in [
        (
            frame(&ExecutorReply::Hello(other)),
            "run the same release of Steward on both sides",
        ),
        (done("x".to_owned()), "the executor did not say hello first"),
    ] {
        let (mut theirs, ours) = tokio::io::duplex(1 << 20);
        let (source, mut received) = source(1024);
        let reader = tokio::spawn(read(ours, source));
        theirs.write_all(&first).await.unwrap();
        let why = why(&mut received).await;
        assert!(why.contains(expected), "{why}");
        reader.await.unwrap();
    }
}
