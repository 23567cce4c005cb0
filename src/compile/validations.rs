//! The loop that validates service instances of an environment, beside the one that exports.
//!
//! A validation changes no version, so it waits for no export, and no export for it. Two validations at once could take the
//! same value from a pool, since neither sees what the other has taken; so one that writes what it has taken does so only if
//! none has written since it began, and else begins again. Source: docs/reference/lsm.md § 3.7, § 3.8.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::install::Place;
use super::run::{self, begin};
use super::service::{Lanes, Options, aborted, given_up, is_given_up};
use super::services::report_ends;
use super::source::Head;
use crate::domain::chain;
use crate::store::{Compile, Error, Lane};

/// How long a failure of the database is waited for.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the loop waits without being told that there is something to do.
const PATIENCE: Duration = Duration::from_secs(600);

pub(super) struct Validations {
    options: Options,
    lanes: Arc<Lanes>,
    /// Each gives its number back when it ends.
    running: JoinSet<(usize, Result<(), Error>)>,
    numbers: BTreeSet<usize>,
    /// Validations may be marked running that nobody runs: after a start, and after an error between the two.
    may_be_interrupted: bool,
    /// Changes when the database has been away: what was written last may be gone.
    returns: watch::Receiver<u64>,
}

impl Validations {
    pub(super) fn new(options: Options, lanes: Arc<Lanes>) -> Self {
        let returns = options.store.database_returns();
        Self {
            options,
            lanes,
            returns,
            running: JoinSet::new(),
            numbers: BTreeSet::new(),
            may_be_interrupted: true,
        }
    }

    pub(super) async fn run(&mut self) {
        let shutdown = self.options.shutdown.clone();
        let mut accepted = self.lanes.accepted.subscribe();
        loop {
            let begun = tokio::select! {
                // Dropping it at shutdown loses nothing: requests are rows until they are done.
                begun = self.begin_all() => begun,
                () = shutdown.cancelled() => return,
            };
            let patience = match begun {
                Ok(()) => PATIENCE,
                Err(error) => {
                    self.failed(&error);
                    PAUSE
                }
            };
            let wake = Arc::clone(&self.lanes.validations);
            tokio::select! {
                () = wake.notified() => {}
                _ = accepted.changed() => {}
                Ok(()) = self.returns.changed() => self.may_be_interrupted = true,
                Some(ended) = self.running.join_next() => self.ended(ended),
                () = tokio::time::sleep(patience) => {}
                () = shutdown.cancelled() => return,
            }
        }
    }

    fn failed(&mut self, error: &Error) {
        self.may_be_interrupted = true;
        tracing::error!(
            environment.id = %self.options.environment, error = chain(error),
            "validations of services cannot go on; trying again"
        );
    }

    fn ended(&mut self, ended: Result<(usize, Result<(), Error>), tokio::task::JoinError>) {
        match ended {
            Ok((number, outcome)) => {
                self.numbers.remove(&number);
                if let Err(error) = outcome {
                    self.failed(&error);
                }
            }
            Err(error) => {
                tracing::error!(environment.id = %self.options.environment, %error, "a validation ended badly");
                self.may_be_interrupted = true;
                if self.running.is_empty() {
                    self.numbers.clear();
                }
            }
        }
    }

    /// Begins as many validations as there are and may run.
    async fn begin_all(&mut self) -> Result<(), Error> {
        let (store, id) = (self.options.store.clone(), self.options.environment);
        if self.may_be_interrupted {
            if !self.running.is_empty() {
                // Which of those that are marked running are not is known when none runs.
                return Ok(());
            }
            store
                .compile_requeue_interrupted(id, Lane::Validations)
                .await?;
            if report_ends(&store, &self.options.services, id, Lane::Validations).await? > 0 {
                self.lanes.wake();
            }
            self.may_be_interrupted = false;
        }
        let Some(environment) = store.environment_fetch(id).await? else {
            return Ok(());
        };
        let Some(head) = self.lanes.accepted.borrow().clone() else {
            // Nothing was exported yet: the catalog is empty.
            return Ok(());
        };
        let limit = store.settings_fetch(id).await?.parallel_validations();
        while !environment.halted && self.running.len() < limit {
            let mut claimed = store.compile_claim(id, Lane::Validations, None).await?;
            if claimed.is_empty() {
                return Ok(());
            }
            let first = claimed.remove(0);
            let number = (1..).find(|number| !self.numbers.contains(number));
            let number = number.unwrap_or_default();
            self.numbers.insert(number);
            let (options, lanes) = (self.options.clone(), Arc::clone(&self.lanes));
            let head = head.clone();
            self.running.spawn(async move {
                let outcome = validate(&options, &lanes, number, &first, &claimed, &head).await;
                (number, outcome)
            });
        }
        Ok(())
    }
}

/// One validation, up to what the lifecycle manager makes of it.
async fn validate(
    options: &Options,
    lanes: &Lanes,
    number: usize,
    first: &Compile,
    served: &[Compile],
    head: &Head,
) -> Result<(), Error> {
    if is_given_up(first) {
        let end = aborted(first, served, given_up());
        options.store.compile_finish(&end).await?;
    } else {
        let _in_use = options.checkouts.read().await;
        let context = options.context(lanes, Place::Validation(number)).await?;
        run::run(&context, first, served, head, begin()).await?;
    }
    let services = &options.services;
    report_ends(
        &options.store,
        services,
        options.environment,
        Lane::Validations,
    )
    .await?;
    lanes.wake();
    Ok(())
}
