//! Resources that require each other in a circle: each would wait for the others for ever.
//! Source: docs/reference/deployment.md § 2.3.

use std::collections::HashMap;

use crate::domain::ResourceId;
use crate::store::StoredResource;

/// How many resources of a circle a message names.
const MAX_NAMED: usize = 20;

/// What resources require, for finding circles.
pub struct Requirements<'a> {
    nodes: Vec<(&'a ResourceId, &'a [ResourceId])>,
    index: HashMap<&'a ResourceId, usize>,
}

/// What came of following the requirements.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Search {
    NoCycle,
    /// Each requires the next one, and the last one the first.
    Cycle(Vec<ResourceId>),
    /// The search has come to these resources, whose requirements are not known.
    Unknown(Vec<ResourceId>),
}

#[derive(Clone, Copy, PartialEq)]
enum Mark {
    NotSeen,
    OnPath,
    Done,
}

impl<'a> Requirements<'a> {
    pub fn of(resources: impl IntoIterator<Item = &'a StoredResource>) -> Self {
        let resources = resources.into_iter();
        let mut requirements = Self {
            nodes: Vec::with_capacity(resources.size_hint().0),
            index: HashMap::with_capacity(resources.size_hint().0),
        };
        requirements.add(resources);
        requirements
    }

    pub(super) fn add(&mut self, resources: impl IntoIterator<Item = &'a StoredResource>) {
        for resource in resources {
            self.insert(&resource.resource_id, &resource.requires);
        }
    }

    /// Adds a resource; the first one of an id counts.
    pub(super) fn insert(&mut self, id: &'a ResourceId, requires: &'a [ResourceId]) {
        let next = self.nodes.len();
        if *self.index.entry(id).or_insert(next) == next {
            self.nodes.push((id, requires));
        }
    }

    /// Checks that every resource that is required is there, and that none requires itself, however far around.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        let all = self.nodes.iter().map(|(id, _)| *id);
        match self.search(all) {
            Search::NoCycle => Ok(()),
            Search::Cycle(cycle) => Err(describe(&cycle)),
            Search::Unknown(_) => Err(self.missing()),
        }
    }

    fn missing(&self) -> String {
        let mut all = self.nodes.iter().flat_map(|(id, requires)| {
            let missing = requires.iter().filter(|id| !self.index.contains_key(id));
            missing.map(move |missing| (id, missing))
        });
        all.next()
            .map(|(id, missing)| {
                format!("resource {id} requires {missing}, which is not in this version")
            })
            .unwrap_or_default()
    }

    /// Follows the requirements of some resources, depth first: one that is met again on the way to itself is in a circle.
    pub(super) fn search(&self, from: impl IntoIterator<Item = &'a ResourceId>) -> Search {
        let mut marks = vec![Mark::NotSeen; self.nodes.len()];
        // Resources, each with how many of its requirements were followed.
        let mut path: Vec<(usize, usize)> = Vec::new();
        let mut unknown: Vec<&ResourceId> = Vec::new();
        for start in from {
            match self.index.get(start) {
                None => unknown.push(start),
                Some(&at) if marks[at] == Mark::NotSeen => {
                    marks[at] = Mark::OnPath;
                    path.push((at, 0));
                }
                Some(_) => {}
            }
            while let Some((at, n_followed)) = path.last_mut() {
                let at = *at;
                let Some(required) = self.nodes[at].1.get(*n_followed) else {
                    marks[at] = Mark::Done;
                    path.pop();
                    continue;
                };
                *n_followed += 1;
                let Some(&next) = self.index.get(required) else {
                    unknown.push(required);
                    continue;
                };
                match marks[next] {
                    Mark::NotSeen => {
                        marks[next] = Mark::OnPath;
                        path.push((next, 0));
                    }
                    Mark::OnPath => {
                        let cycle = path.iter().skip_while(|(at, _)| *at != next);
                        return Search::Cycle(
                            cycle.map(|(at, _)| self.nodes[*at].0.clone()).collect(),
                        );
                    }
                    Mark::Done => {}
                }
            }
        }
        if unknown.is_empty() {
            return Search::NoCycle;
        }
        unknown.sort_unstable();
        unknown.dedup();
        Search::Unknown(unknown.into_iter().cloned().collect())
    }
}

/// A circle in words.
pub(super) fn describe(cycle: &[ResourceId]) -> String {
    let [first, .., _] = cycle else {
        let names: Vec<&str> = cycle.iter().map(ResourceId::as_str).collect();
        return format!("resource {} requires itself", names.concat());
    };
    let mut names: Vec<&str> = cycle
        .iter()
        .take(MAX_NAMED)
        .map(ResourceId::as_str)
        .collect();
    let more = format!("… {} more …", cycle.len().saturating_sub(MAX_NAMED));
    if cycle.len() > MAX_NAMED {
        names.push(&more);
    }
    names.push(first.as_str());
    format!(
        "resources require each other in a circle, so that none could ever be deployed: {}",
        names.join(" → ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(names: &[&str]) -> Vec<ResourceId> {
        names.iter().map(|name| ResourceId::new(*name)).collect()
    }

    /// What is wrong with resources that are given as `a: b c`.
    fn check(lines: &[&str]) -> Result<(), String> {
        let parsed: Vec<(ResourceId, Vec<ResourceId>)> = lines
            .iter()
            .map(|line| {
                let (id, requires) = line.split_once(':').unwrap();
                let requires: Vec<&str> = requires.split_whitespace().collect();
                (ResourceId::new(id), ids(&requires))
            })
            .collect();
        let mut requirements = Requirements::of([]);
        for (id, requires) in &parsed {
            requirements.insert(id, requires);
        }
        requirements.check()
    }

    #[test]
    fn a_circle_is_named_from_its_first_resource_back_to_it() {
        assert_eq!(check(&["a: b c", "b: d", "c: d", "d:"]), Ok(()));
        let error = check(&["x: a", "a: b", "b: c", "c: a"]).unwrap_err();
        assert!(
            error.ends_with("could ever be deployed: a → b → c → a"),
            "{error}"
        );
        assert_eq!(check(&["a: a"]).unwrap_err(), "resource a requires itself");
        let error = check(&["a: b"]).unwrap_err();
        assert_eq!(error, "resource a requires b, which is not in this version");
    }

    /// Input: dependencies in a circle of any length (docs/reference/security.md § 3.25). Answer: the version is refused, and some of the circle is named.
    #[test]
    fn a_chain_of_a_hundred_thousand_is_followed_and_a_long_circle_is_cut_short() {
        let line = |n: usize| format!("r{n}: r{}", n + 1);
        let mut lines: Vec<String> = (0..100_000).map(line).collect();
        lines.push("r100000:".to_owned());
        let texts = |lines: &[String]| check(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(texts(&lines), Ok(()));
        lines[99_999] = "r99999: r0".to_owned();
        let error = texts(&lines).unwrap_err();
        assert!(error.ends_with("r19 → … 99980 more … → r0"), "{error}");
    }
}
