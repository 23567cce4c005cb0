use std::collections::BTreeSet;

use super::*;
use crate::domain::{ResourceId, Timestamp};
use crate::store::tests::{check, environment, resource, state, store_version};
use crate::store::{Db, ResourceState, StoredResource};

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn agent_of(n: u64) -> AgentName {
    AgentName::new(format!("a{n}"))
}

/// A resource that keeps its agent, as its id says.
fn of_agent(n: u64, value: u64) -> StoredResource {
    let agent = agent_of(n);
    StoredResource {
        resource_id: ResourceId::new(format!("t::R[{agent},name=x]")),
        agent,
        ..resource("x", &value.to_string(), "")
    }
    .with_digest()
}

fn state_of(resource: &StoredResource) -> ResourceState {
    ResourceState {
        resource_id: resource.resource_id.clone(),
        agent: resource.agent.clone(),
        ..state("x")
    }
}

/// Given: random versions of resources on a few agents, some of which are put in force, and some purged. Expected: whenever
/// agents are purged, those stay that a stored version names, and no other.
#[tokio::test]
async fn agents_stay_as_long_as_a_version_names_them() {
    check(|store| async move {
        let id = environment(&store).await;
        let mut numbers = Numbers(7);
        let mut in_force: BTreeSet<ResourceId> = BTreeSet::new();
        let mut n_purged = 0;
        for _ in 0..60 {
            let mut resources = Vec::new();
            for n in 0..8 {
                if numbers.below(3) == 0 {
                    resources.push(of_agent(n, numbers.below(2)));
                }
            }
            let agents: Vec<AgentName> = resources.iter().map(|one| one.agent.clone()).collect();
            let states: Vec<ResourceState> = resources.iter().map(state_of).collect();
            let (number, _) = store_version(&store, id, resources).await;
            if numbers.below(3) > 0 {
                let ids: BTreeSet<ResourceId> =
                    states.iter().map(|one| one.resource_id.clone()).collect();
                let removed: Vec<ResourceId> = in_force.difference(&ids).cloned().collect();
                let activated = store.version_activate(id, number, &states, &removed, &agents);
                activated.await.unwrap();
                in_force = ids;
            }
            let keep = numbers.below(4) as usize;
            store.version_purge(id, keep, Timestamp(0)).await.unwrap();
            store.orphan_purge(id).await.unwrap();
            let before: BTreeSet<AgentName> = names(&store, id).await;
            let mut used = BTreeSet::new();
            for version in store.version_list(id, 100).await.unwrap() {
                let resources = store.resource_list(id, version.number).await.unwrap();
                used.extend(resources.into_iter().map(|one| one.agent));
            }
            n_purged += store.agent_purge(id).await.unwrap();
            let expected: BTreeSet<AgentName> = before.intersection(&used).cloned().collect();
            assert_eq!(names(&store, id).await, expected);
        }
        assert!(n_purged > 5, "some went: {n_purged}");
    })
    .await;
}

async fn names(store: &Store, id: EnvironmentId) -> BTreeSet<AgentName> {
    let agents = store.agent_list(id).await.unwrap();
    agents.into_iter().map(|agent| agent.name).collect()
}

/// Expected: whether an agent has a state is looked up by its name, and resources that ended or came are looked for by that:
/// nothing goes through all resources.
#[tokio::test]
async fn agents_are_looked_up_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("steward.db");
    let store = Store::open_sqlite(&path).await.unwrap();
    let Db::Sqlite { read, .. } = &store.db else {
        panic!("it is SQLite");
    };
    for (sql, index) in [
        (
            WITHOUT_STATE,
            "resource_state_agent (agent=? AND environment_id=?)",
        ),
        (OF_ENDED, "desired_resource_to (environment_id=?"),
        (
            OF_LATER,
            "desired_resource_from (environment_id=? AND from_version>?)",
        ),
    ] {
        let explain = format!("EXPLAIN QUERY PLAN {sql}");
        let query = sqlx::query_as(&explain).bind("e").bind(1_i64);
        let rows: Vec<(i64, i64, i64, String)> = query.fetch_all(read).await.unwrap();
        let lines: Vec<String> = rows.into_iter().map(|(.., line)| line).collect();
        assert!(lines.iter().any(|line| line.contains(index)), "{lines:?}");
    }
}
