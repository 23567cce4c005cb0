//! What should happen, from the specification: a state machine over the lifecycle's JSON, with numbers for attribute sets.
//!
//! It is written apart from the crate and shares nothing with it, so that both have to be wrong in the same way to agree.
//! Source: docs/reference/lsm.md § 3.4 to § 3.9.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde_json::Value;

/// All of an instance that the lifecycle is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub state: String,
    pub version: u64,
    pub desired: u64,
    pub candidate: Option<u64>,
    pub active: Option<u64>,
    pub rollback: Option<u64>,
}

/// A validation: the index of the transfer, and the state and version that it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    pub transfer: usize,
    pub version: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum Went {
    There,
    Nowhere,
}

pub struct Reference {
    /// The server died before it could go on, and found the instance at its start.
    pub is_started_anew: Rc<Cell<bool>>,
    pub lifecycle: Value,
    pub now: Snapshot,
    pub switches: BTreeMap<String, bool>,
    known: Option<bool>,
    /// The validations that were asked for since the last step.
    pub asked: Vec<Pending>,
}

impl Reference {
    pub fn new(lifecycle: &Value, value: u64) -> Self {
        let state = lifecycle["initial_state"].as_str().unwrap().to_owned();
        let now = Snapshot {
            state,
            version: 1,
            desired: 1,
            candidate: Some(value),
            active: None,
            rollback: None,
        };
        let lifecycle = lifecycle.clone();
        let switches = BTreeMap::new();
        let mut made = Self {
            is_started_anew: Rc::default(),
            lifecycle,
            now,
            switches,
            known: None,
            asked: Vec::new(),
        };
        made.settle();
        made
    }

    fn ways(&self, trigger: &str) -> Vec<usize> {
        let transfers = self.lifecycle["transfers"]
            .as_array()
            .unwrap()
            .iter()
            .enumerate();
        let here =
            transfers.filter(|(_, one)| one["source"] == *self.now.state && one[trigger] == true);
        here.map(|(at, _)| at).collect()
    }

    pub fn has_ended(&self) -> bool {
        let mut states = self.lifecycle["states"].as_array().unwrap().iter();
        states.any(|one| one["name"] == *self.now.state && one["deleted"] == true)
    }

    fn go(&mut self, transfer: usize, edge: &str, given: Option<u64>, is_report: bool) -> Went {
        let transfer = &self.lifecycle["transfers"][transfer];
        let Some(end) = transfer[edge].as_str() else {
            return Went::Nowhere;
        };
        let operation = transfer[format!("{edge}_operation")].as_str();
        if end == self.now.state && operation.is_none() && given.is_none() {
            return Went::Nowhere;
        }
        let mut next = self.now.clone();
        next.candidate = given.or(next.candidate);
        match operation {
            Some("promote") if next.candidate.is_none() => return Went::Nowhere,
            Some("promote") => {
                (next.rollback, next.active, next.candidate) = (next.active, next.candidate, None);
            }
            Some("rollback") if next.rollback.is_none() => return Went::Nowhere,
            Some("rollback") => {
                (next.candidate, next.active, next.rollback) = (next.active, next.rollback, None);
            }
            Some("clear candidate") => next.candidate = None,
            Some("clear active") => next.active = None,
            Some("clear rollback") => next.rollback = None,
            _ => {}
        }
        next.state = end.to_owned();
        next.version += 1;
        let is_same = transfer[format!("{edge}_same_desired_state")] == true;
        if !is_same {
            next.desired += 1;
        }
        if !is_same {
            self.known = None;
        } else if is_report {
            let (source, succeeded) = (self.now.state.clone(), edge == "target");
            let mut passed = BTreeSet::new();
            let comes_back = self.comes_to(&source, &next.state, succeeded, &mut passed);
            self.known = (!comes_back).then_some(succeeded);
        }
        self.now = next;
        Went::There
    }

    /// Whether, with this result known, an instance comes from `at` to `goal` by itself, and stays the same for its resources.
    fn comes_to(
        &self,
        goal: &str,
        at: &str,
        succeeded: bool,
        passed: &mut BTreeSet<String>,
    ) -> bool {
        if at == goal {
            return true;
        }
        if !passed.insert(at.to_owned()) {
            return false;
        }
        let transfers = self.lifecycle["transfers"].as_array().unwrap();
        let leaving = transfers.iter().filter(|one| one["source"] == *at);
        let mut ends = leaving.flat_map(|one| {
            ["target", "error"].map(|edge| {
                let is_by_result = one["resource_based"] == true;
                let fits = (is_by_result && (edge == "target") == succeeded)
                    || (!is_by_result && one["auto"] == true);
                let is_same = one[format!("{edge}_same_desired_state")] == true;
                one[edge].as_str().filter(|_| fits && is_same)
            })
        });
        ends.any(|end| end.is_some_and(|end| self.comes_to(goal, end, succeeded, passed)))
    }

    /// Everything that comes by itself.
    pub fn settle(&mut self) {
        loop {
            let auto = self.ways("auto").into_iter().next().filter(|at| {
                let switch = self.lifecycle["transfers"][*at]["config_name"].as_str();
                switch.is_none_or(|name| self.switches.get(name).copied().unwrap_or(true))
            });
            let validates =
                auto.is_some_and(|at| self.lifecycle["transfers"][at]["validate"] == true);
            if let Some(at) = auto.filter(|_| !validates) {
                match self.go(at, "target", None, false) {
                    Went::There => continue,
                    Went::Nowhere => return,
                }
            }
            if let Some(succeeded) = self.known
                && self.deployed(succeeded) == Went::There
            {
                continue;
            }
            if let Some(transfer) = auto {
                self.asked.push(Pending {
                    transfer,
                    version: self.now.version,
                });
            }
            return;
        }
    }

    fn deployed(&mut self, succeeded: bool) -> Went {
        let edge = if succeeded { "target" } else { "error" };
        match self.ways("resource_based").first() {
            Some(at) => self.go(*at, edge, None, true),
            None => Went::Nowhere,
        }
    }

    fn went(&mut self, went: Went) {
        if went == Went::There {
            self.settle();
        }
    }

    /// Whether it is accepted.
    pub fn update(&mut self, value: u64) -> bool {
        let Some(at) = self.ways("on_update").into_iter().next() else {
            return false;
        };
        let went = self.go(at, "target", Some(value), false);
        self.went(went);
        true
    }

    pub fn delete(&mut self) -> bool {
        let Some(at) = self.ways("on_delete").into_iter().next() else {
            return false;
        };
        let went = self.go(at, "target", None, false);
        self.went(went);
        true
    }

    pub fn set_state(&mut self, target: &str) -> bool {
        let transfers = &self.lifecycle["transfers"];
        let ways = self.ways("api_set_state").into_iter();
        let ways: Vec<usize> = ways
            .filter(|at| transfers[*at]["target"] == *target)
            .collect();
        let plain = ways.iter().find(|at| transfers[**at]["validate"] != true);
        match (plain.copied(), ways.first().copied()) {
            (Some(at), _) => {
                let went = self.go(at, "target", None, false);
                self.went(went);
            }
            (None, Some(transfer)) => self.asked.push(Pending {
                transfer,
                version: self.now.version,
            }),
            (None, None) => return false,
        }
        true
    }

    pub fn validated(&mut self, pending: &Pending, succeeded: bool) {
        let source = &self.lifecycle["transfers"][pending.transfer]["source"];
        if *source == *self.now.state && pending.version == self.now.version {
            let edge = if succeeded { "target" } else { "error" };
            let went = self.go(pending.transfer, edge, None, false);
            self.went(went);
        }
    }

    pub fn reported(&mut self, desired: u64, succeeded: bool) {
        if desired != self.now.desired || self.has_ended() {
            return;
        }
        match self.deployed(succeeded) {
            Went::There => self.settle(),
            Went::Nowhere => self.known = Some(succeeded),
        }
    }

    pub fn force_state(&mut self, state: &str) {
        state.clone_into(&mut self.now.state);
        self.now.version += 1;
        self.now.desired += 1;
        self.known = None;
        self.settle();
    }

    pub fn force_candidate(&mut self, value: u64) {
        self.now.candidate = Some(value);
        self.now.version += 1;
        if !self.has_ended() {
            self.settle_without_result();
        }
    }

    pub fn switch(&mut self, name: &str, value: bool) {
        self.switches.insert(name.to_owned(), value);
        self.settle_without_result();
    }

    /// Nothing arrived anywhere, so a known result waits for its next occasion, which is the next transfer.
    fn settle_without_result(&mut self) {
        if self.is_started_anew.take() {
            // A server that starts looks at its instances, which is such an occasion.
            return self.settle();
        }
        let known = self.known.take();
        let before = self.now.version;
        self.settle_once(known);
        if self.now.version != before {
            self.settle();
        }
    }

    fn settle_once(&mut self, known: Option<bool>) {
        let auto = self.ways("auto").into_iter().next().filter(|at| {
            let switch = self.lifecycle["transfers"][*at]["config_name"].as_str();
            switch.is_none_or(|name| self.switches.get(name).copied().unwrap_or(true))
        });
        self.known = known;
        let Some(at) = auto else { return };
        if self.lifecycle["transfers"][at]["validate"] == true {
            self.asked.push(Pending {
                transfer: at,
                version: self.now.version,
            });
        } else {
            self.go(at, "target", None, false);
        }
    }
}
