//! The cron expressions of an environment's settings: when each is due next.
//!
//! Each is planned for itself: a deploy and a repair that are due at the same second are both asked for, and the settings may
//! be read anew at any moment without one that has just come due being forgotten.
//! Source: docs/reference/deployment.md § 1.5 "Integer or cron" and § 9.1.

use crate::domain::{Interval, Settings, Timestamp};

/// What asks for all of an environment at once.
#[derive(Debug, Default)]
pub(super) struct Crons {
    deploy: Cron,
    repair: Cron,
}

#[derive(Debug)]
struct Cron {
    /// What `next` is worked out from.
    interval: Interval,
    /// `None`: it is no cron expression, or one that never comes again.
    next: Option<Timestamp>,
}

/// What has come due.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) deploy: bool,
    pub(super) repair: bool,
}

impl Crons {
    /// Follows the settings. What is unchanged stays due when it was.
    pub(super) fn plan(&mut self, settings: &Settings, now: Timestamp) {
        self.deploy.plan(settings.deploy_interval(), now);
        self.repair.plan(settings.repair_interval(), now);
    }

    /// What is due by now, each once however often it would have been since the last call.
    pub(super) fn take(&mut self, now: Timestamp) -> Due {
        Due {
            deploy: self.deploy.take(now),
            repair: self.repair.take(now),
        }
    }

    /// When the first one is due.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let both = [self.deploy.next, self.repair.next];
        both.into_iter().flatten().min()
    }
}

impl Default for Cron {
    fn default() -> Self {
        Self {
            interval: Interval::Never,
            next: None,
        }
    }
}

impl Cron {
    fn plan(&mut self, interval: Interval, now: Timestamp) {
        let next = interval.next_cron(now);
        self.next = match self.next {
            // It may be due by now, or the clock went back: then it is due earlier than it seemed.
            Some(before) if interval.cron_expression() == self.interval.cron_expression() => {
                Some(next.map_or(before, |next| next.min(before)))
            }
            _ => next,
        };
        self.interval = interval;
    }

    fn take(&mut self, now: Timestamp) -> bool {
        let is_due = self.next.is_some_and(|due| due <= now);
        if is_due {
            self.next = self.interval.next_cron(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000_000;

    fn settings(deploy: &str, repair: &str) -> Settings {
        Settings::from_stored([
            ("autostart_agent_deploy_interval".to_owned(), deploy.into()),
            ("autostart_agent_repair_interval".to_owned(), repair.into()),
        ])
    }

    fn due(deploy: bool, repair: bool) -> Due {
        Due { deploy, repair }
    }

    /// Given: a deploy every five minutes, and a repair every ten. Expected: each time the repair is due, so is the deploy.
    #[test]
    fn a_repair_is_due_though_a_deploy_is_at_the_same_second() {
        let settings = settings("*/5 * * * *", "*/10 * * * *");
        let mut crons = Crons::default();
        crons.plan(&settings, Timestamp(0));
        let at = |minute: i64| Timestamp(minute * MINUTE);
        assert_eq!(crons.next(), Some(at(5)));
        assert_eq!(crons.take(at(4)), due(false, false));
        assert_eq!(crons.take(at(5)), due(true, false));
        assert_eq!(crons.take(at(10)), due(true, true));
        assert_eq!(crons.take(at(10)), due(false, false));
        // However long nobody looked.
        assert_eq!(crons.take(at(31)), due(true, true));
        assert_eq!(crons.next(), Some(at(35)));
    }

    /// Given: settings that are read anew a moment after something came due. Expected: it is due all the same; another
    /// expression counts from now on.
    #[test]
    fn reading_the_settings_forgets_nothing_that_is_due() {
        let before = settings("*/5 * * * *", "0");
        let mut crons = Crons::default();
        crons.plan(&before, Timestamp(0));
        let late = Timestamp(5 * MINUTE + 1);
        crons.plan(&before, late);
        assert_eq!(crons.take(late), due(true, false));
        let after = settings("*/7 * * * *", "0");
        crons.plan(&after, late);
        assert_eq!(crons.next(), Some(Timestamp(7 * MINUTE)));
        // A clock that was years ahead.
        crons.plan(&after, Timestamp(-7 * MINUTE));
        assert_eq!(crons.next(), Some(Timestamp(0)));
        let none = settings("600", "0");
        crons.plan(&none, late);
        assert_eq!(crons.next(), None);
        assert_eq!(crons.take(Timestamp(60 * MINUTE)), due(false, false));
    }
}
