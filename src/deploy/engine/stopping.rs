//! How a loop ends.

use std::time::Duration;

use tokio::sync::mpsc;

use super::Reconciler;
use crate::executor::link::{Message, Purpose};

/// How long shutdown waits for running tasks.
const PATIENCE: Duration = Duration::from_secs(5);

impl Reconciler {
    /// Waits a moment for running tasks, cuts off those that go on, and writes what is known.
    pub(super) async fn shut_down(&mut self, messages: &mut mpsc::UnboundedReceiver<Message>) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while self
            .in_flight
            .keys()
            .any(|action| !self.executor.goes_on_without_us(*action))
        {
            tokio::select! {
                message = messages.recv() => match message {
                    Some(message) => self.on_message(message).await,
                    None => break,
                },
                // A handler that has asked something can end when it is answered.
                answered = self.requests.next() => {
                    if let Some((asker, answer)) = answered {
                        self.on_answer(asker, answer).await;
                    }
                }
                () = tokio::time::sleep_until(deadline) => break,
            }
        }
        // What is still running is cut off; the executor goes with us.
        for done in self
            .executor
            .close("this run was cut off, as the server stopped, or as its environment was cleared, deleted or got another repository; the resource is verified again")
            .await
        {
            // A dry run goes on after the next start.
            if !matches!(done.purpose, Purpose::DryRun(_)) {
                self.on_task_done(done).await;
            }
        }
        self.flush().await;
    }
}
