//! What is read in pages is what is read row by row.

use serde_json::json;

use super::*;
use crate::domain::{ResourceId, SharedText};
use crate::store::tests::{check, environment, resource, state, store_version};
use crate::store::{ResourceState, StoredResource};

/// What was seen, and in which order.
#[derive(Default)]
struct Seen {
    ids: Vec<String>,
    resources: Vec<ResourceFields>,
    states: Vec<ResourceState>,
    /// How many resources had been seen when the first state came.
    n_before_states: Option<usize>,
}

type ResourceFields = (
    String,
    (String, String),
    (String, String),
    (bool, Timestamp),
    Vec<ResourceId>,
    String,
);

impl SeesRows for Seen {
    fn resource(&mut self, row: &ResourceRow<'_>) -> Result<()> {
        self.ids.push(row.resource_id.to_owned());
        self.resources.push((
            row.resource_id.to_owned(),
            (row.resource_type.to_owned(), row.agent.to_owned()),
            (row.id_value.to_owned(), row.attribute_hash.to_owned()),
            (row.is_undefined, row.created),
            serde_json::from_str::<Vec<ResourceId>>(row.requires).unwrap(),
            row.attributes.to_owned(),
        ));
        Ok(())
    }

    fn state(&mut self, row: &StateRow<'_>) {
        self.n_before_states.get_or_insert(self.ids.len());
        self.states.push(ResourceState {
            resource_id: ResourceId::new(row.resource_id),
            created: row.created,
            blocked: row.blocked,
            deployed_hash: row.deployed_hash.map(SharedText::from),
            deployed_version: row.deployed_version,
            last_run: row.last_run,
            last_run_compliant: row.last_run_compliant,
            last_run_at: row.last_run_at,
            last_success: row.last_success,
            last_events: row.last_events,
            last_change: row.last_change,
            last_status: row.last_status,
            n_failures: row.n_failures,
            ..state("")
        });
    }

    fn has_seen(&self, resource_id: &str) -> bool {
        self.ids.iter().any(|id| id == resource_id)
    }
}

/// More than two pages, with values that pages do not expect.
fn resources() -> Vec<StoredResource> {
    let names = (0..2 * ROWS + 3).map(|n| format!("{n:05}"));
    let mut all: Vec<StoredResource> = names.map(|name| resource(&name, "1", "")).collect();
    // The separator is in an id, and in a value.
    all.push(resource("a\u{1f}b", "1", ""));
    all[7].attribute_hash = "h\u{1f}".into();
    let text = json!({"text": "x".repeat(100_000)});
    all[ROWS].attributes = text.to_string();
    all[ROWS + 1].requires = vec![
        all[0].resource_id.clone(),
        ResourceId::new("t::R[a,name=\"]"),
    ];
    all[ROWS + 2].is_undefined = true;
    all
}

#[tokio::test]
async fn resources_of_a_version_read_in_pages_are_those_of_the_list() {
    check(|store| async move {
        let id = environment(&store).await;
        let (version, _) = store_version(&store, id, resources()).await;
        let mut seen = Seen::default();
        let rows = store.rows_each(id, version, false, &mut seen);
        rows.await.unwrap();
        let list = store.resource_list(id, version).await.unwrap();
        assert_eq!(list.len(), 2 * ROWS + 4);
        let list = list.into_iter().map(|one| {
            (
                one.resource_id.to_string(),
                (one.resource_type, one.agent.to_string()),
                (one.id_value, one.attribute_hash),
                (one.is_undefined, one.created),
                one.requires,
                one.attributes,
            )
        });
        assert_eq!(seen.resources, list.collect::<Vec<_>>());
        assert_eq!(seen.states, []);
    })
    .await;
}

#[tokio::test]
async fn states_read_in_pages_are_those_of_the_list_without_orphans() {
    check(|store| async move {
        let id = environment(&store).await;
        let names = (0..ROWS + 5).map(|n| format!("{n:05}"));
        let mut states: Vec<ResourceState> = names.map(|name| state(&name)).collect();
        states[1].orphaned_after = Some(VersionNumber::new(1));
        states[2] = ResourceState {
            blocked: Blocked::TemporarilyBlocked,
            deployed_hash: Some(SharedText::from("")),
            deployed_version: Some(VersionNumber::new(4)),
            last_run: LastRun::Failed,
            last_run_compliant: Some(false),
            last_run_at: Some(Timestamp(5)),
            last_success: Some(Timestamp(6)),
            last_events: Some(Timestamp(-7)),
            last_change: Some(Timestamp(8)),
            last_status: ResourceStatus::Failed,
            n_failures: 9,
            ..states[2].clone()
        };
        states[3].last_run_compliant = Some(true);
        let activate = store.version_activate(id, VersionNumber::new(1), &states, &[], &[]);
        activate.await.unwrap();
        let mut seen = Seen::default();
        let rows = store.rows_each(id, VersionNumber::new(1), true, &mut seen);
        rows.await.unwrap();
        let list = store.state_list(id).await.unwrap().into_iter();
        let list = list.filter(|state| state.orphaned_after.is_none());
        let list = list.map(|one| ResourceState {
            id_value: state("").id_value,
            ..one
        });
        assert_eq!(seen.states, list.collect::<Vec<_>>());
        assert_eq!(seen.states.len(), ROWS + 4);
    })
    .await;
}

#[tokio::test]
async fn states_come_soon_after_their_resources() {
    check(|store| async move {
        let id = environment(&store).await;
        let names: Vec<String> = (0..3 * ROWS + 3).map(|n| format!("{n:05}")).collect();
        let all = names.iter().map(|name| resource(name, "1", ""));
        let (version, _) = store_version(&store, id, all.collect()).await;
        // Some resources have no state yet, and some states are those of others, before, among and behind them.
        let of_others = ["", "00500x", "zzz"].into_iter().map(state);
        let states = names
            .iter()
            .skip(7)
            .map(|name| state(name))
            .chain(of_others);
        let states: Vec<ResourceState> = states.collect();
        let activate = store.version_activate(id, version, &states, &[], &[]);
        activate.await.unwrap();
        let mut seen = Seen::default();
        let rows = store.rows_each(id, version, true, &mut seen);
        rows.await.unwrap();
        assert_eq!(seen.ids.len(), names.len());
        // The first page of states ends a little behind the first page of resources.
        assert_eq!(seen.n_before_states, Some(2 * ROWS));
        let ids = |states: &[ResourceState]| {
            let ids = states.iter().map(|state| state.resource_id.clone());
            ids.collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(ids(&seen.states), ids(&states));
        assert_eq!(seen.states.len(), states.len());
    })
    .await;
}
