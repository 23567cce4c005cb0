//! The stages of a compile, as reports show them.

use std::time::Instant;

use super::Context;
use crate::domain::{Timestamp, chain};
use crate::observe::EventKind;
use crate::store::{Compile, Stage};

/// Stages of a compile as they are written.
pub(in crate::compile) struct Stages<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) compile: &'a Compile,
    pub(super) position: i64,
    /// What is not written yet. A compile of a service takes milliseconds: its stages are written together when it has ended,
    /// so that nobody waits for the disk between two of them.
    pub(super) held: Vec<(i64, Stage)>,
}

impl Stages<'_> {
    /// Emits that a stage begins which may take long: it is written when it is done.
    pub(in crate::compile) fn announce(&self, name: &str, detail: String) {
        let began = EventKind::StageBegan {
            compile: self.compile.id,
            name: name.to_owned(),
            detail,
        };
        self.context.bus.emit(self.context.environment, began);
    }

    /// Writes a finished stage. A report that cannot be written does not stop the compile.
    pub(in crate::compile) async fn write(
        &mut self,
        name: &str,
        command: &str,
        began: (Timestamp, Instant),
        out: String,
        error: String,
    ) {
        let has_failed = !error.is_empty();
        self.write_as(name, command, began, out, error, has_failed)
            .await;
    }

    /// As [`write`](Self::write), of a stage that may have warned without having failed.
    pub(in crate::compile) async fn write_as(
        &mut self,
        name: &str,
        command: &str,
        began: (Timestamp, Instant),
        out: String,
        error: String,
        has_failed: bool,
    ) {
        let stage = Stage {
            id: uuid::Uuid::now_v7().to_string(),
            name: name.to_owned(),
            command: command.to_owned(),
            started: began.0,
            completed: Some(Timestamp::now()),
            returncode: Some(i64::from(has_failed)),
            outstream: out.clone(),
            errstream: error,
        };
        self.held.push((self.position, stage));
        self.position += 1;
        if self.compile.services.is_none() {
            self.flush().await;
        }
        let detail = out.lines().next().unwrap_or_default().to_owned();
        let done = EventKind::StageDone {
            compile: self.compile.id,
            name: name.to_owned(),
            duration: began.1.elapsed(),
            detail,
        };
        self.context.bus.emit(self.context.environment, done);
    }

    /// Writes what is held back. What cannot be written is held until the next time: a disk may be slow for a while.
    pub(super) async fn flush(&mut self) {
        let written = self.context.store.stages_write(self.compile.id, &self.held);
        match written.await {
            Ok(()) => self.held.clear(),
            Err(error) => {
                tracing::error!(compile.id = %self.compile.id, error = chain(&error), "cannot write stages of a compile");
            }
        }
    }
}

pub(in crate::compile) fn begin() -> (Timestamp, Instant) {
    (Timestamp::now(), Instant::now())
}
