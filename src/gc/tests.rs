use serde_json::json;

use super::*;
use crate::domain::{
    ActionId, ActionKind, AgentName, Change, EnvironmentId, FactSource, ProjectId, ResourceId,
    ResourceStatus,
};
use crate::store::{ActionEnd, ActionStart, Fact, NewEnvironment, NewVersion, StoredResource};

const DAY: i64 = 24 * 3600 * 1_000_000;

async fn environment(store: &Store, name: &str) -> EnvironmentId {
    let project = ProjectId::named(name);
    store.project_create(project, name).await.unwrap();
    let id = EnvironmentId::named(name, name);
    let new = NewEnvironment {
        id,
        project_id: project,
        name: name.into(),
        description: String::new(),
        icon: String::new(),
        repo_url: String::new(),
        repo_branch: String::new(),
        variables: Default::default(),
    };
    store.environment_create(&new).await.unwrap();
    id
}

fn resource_id(name: &str) -> ResourceId {
    ResourceId::new(format!("t::R[a,name={name}]"))
}

async fn store_version(store: &Store, id: EnvironmentId, names: &[&str]) {
    let resource = |name: &&str| {
        StoredResource {
            digest: String::new(),
            resource_id: resource_id(name),
            resource_type: "t::R".into(),
            agent: AgentName::new("a"),
            id_attribute: "name".into(),
            id_value: (*name).to_owned(),
            attributes: "{}".into(),
            attribute_hash: "h".into(),
            requires: Vec::new(),
            is_undefined: false,
            set_name: String::new(),
            created: Timestamp(0),
        }
        .with_digest()
    };
    let new = NewVersion {
        environment_id: id,
        commit_id: None,
        tree_id: None,
        metadata: json!({}),
        modules: json!([]),
        unknowns: json!([]),
        agent_places: Default::default(),
        resources: names.iter().map(resource).collect(),
        release: true,
        sent: crate::store::Sent::default(),
    };
    let number = store.version_reserve(id).await.unwrap();
    store.version_store_reserved(number, &new).await.unwrap();
}

/// A run that ended some days ago.
async fn run(store: &Store, id: EnvironmentId, name: &str, days: i64) {
    let started = Timestamp(Timestamp::now().0 - days * DAY);
    let action = ActionId::generate();
    let start = ActionStart {
        id: action,
        action: ActionKind::Deploy,
        version: crate::domain::VersionNumber::new(1),
        resource_id: resource_id(name),
        started,
    };
    let end = ActionEnd {
        id: action,
        finished: started,
        status: ResourceStatus::Deployed,
        change: Change::NoChange,
        changes: "{}".into(),
        messages: "[]".into(),
        state: None,
        facts: Vec::new(),
        discovered: Vec::new(),
        resource_id: resource_id(name),
    };
    store.action_write(id, &[start], &[end]).await.unwrap();
}

async fn garbage(dir: &tempfile::TempDir) -> Garbage {
    Garbage {
        store: Store::open_sqlite(&dir.path().join("steward.db"))
            .await
            .unwrap(),
        data: DataDir::new(dir.path()),
        checkouts: Arc::default(),
    }
}

//: deploy 138
#[tokio::test]
async fn history_beyond_the_retention_goes_but_not_that_of_a_halted_environment() {
    let dir = tempfile::tempdir().unwrap();
    let garbage = garbage(&dir).await;
    let store = &garbage.store;
    let (free, halted) = (
        environment(store, "free").await,
        environment(store, "halted").await,
    );
    store.environment_halt(halted, true).await.unwrap();
    for id in [free, halted] {
        store_version(store, id, &["one"]).await;
        for days in [1, 6, 8, 400] {
            run(store, id, "one", days).await;
        }
    }
    collect(&garbage).await;
    let n_left = async |id| {
        store
            .action_list(id, Some(&resource_id("one")), 100)
            .await
            .unwrap()
            .len()
    };
    assert_eq!(
        (n_left(free).await, n_left(halted).await),
        (2, 4),
        "a week is kept"
    );
    let one_day = json!(1);
    store
        .setting_set(free, "resource_action_logs_retention", &one_day)
        .await
        .unwrap();
    collect(&garbage).await;
    assert_eq!(n_left(free).await, 0);
}

//: deploy 31
#[tokio::test]
async fn facts_go_with_the_last_version_that_has_their_resource() {
    let dir = tempfile::tempdir().unwrap();
    let garbage = garbage(&dir).await;
    let store = &garbage.store;
    let id = environment(store, "prod").await;
    store
        .setting_set(id, "available_versions_to_keep", &json!(1))
        .await
        .unwrap();
    store_version(store, id, &["gone", "stays"]).await;
    for name in [Some("gone"), Some("stays"), None] {
        let fact = Fact {
            resource_id: name.map(resource_id),
            name: "size".into(),
            value: "5".into(),
            source: FactSource::Fact,
            metadata: json!({}),
            expires: false,
            updated: Timestamp::now(),
        };
        store.fact_set(id, &fact).await.unwrap();
    }
    let left = async || {
        let facts = store.fact_list(id).await.unwrap().into_iter();
        let mut names: Vec<String> = facts
            .map(|fact| {
                fact.resource_id
                    .map_or_else(String::new, ResourceId::into_string)
            })
            .collect();
        names.sort();
        names
    };
    store_version(store, id, &["stays"]).await;
    collect(&garbage).await;
    assert_eq!(
        left().await.len(),
        3,
        "a version that is kept has the resource"
    );
    store_version(store, id, &["stays"]).await;
    collect(&garbage).await;
    assert_eq!(left().await, ["", "t::R[a,name=stays]"]);
}

#[tokio::test]
async fn orders_that_ended_go_after_the_retention_but_never_where_it_is_zero() {
    let dir = tempfile::tempdir().unwrap();
    let garbage = garbage(&dir).await;
    let store = &garbage.store;
    let (free, kept) = (
        environment(store, "free").await,
        environment(store, "kept").await,
    );
    let ended = |days: i64| Timestamp(Timestamp::now().0 - days * DAY);
    for id in [free, kept] {
        for (number, completed) in [(1, Some(400)), (2, Some(100)), (3, None)] {
            let order = crate::store::Order {
                id: uuid::Uuid::from_u128(number),
                description: String::new(),
                created: ended(500),
                completed: completed.map(ended),
                items: Vec::new(),
            };
            store.order_create(id, &order).await.unwrap();
        }
    }
    let set = async |id, days| {
        let name = "lsm_order_retention";
        store.setting_set(id, name, &json!(days)).await.unwrap();
    };
    let n_left = async |id| {
        let span = crate::store::OrderSpan::default();
        store.order_count(id, &span).await.unwrap()
    };
    set(kept, 0).await;
    collect(&garbage).await;
    assert_eq!(
        (n_left(free).await, n_left(kept).await),
        (2, 3),
        "a year is kept"
    );
    set(free, 90).await;
    collect(&garbage).await;
    assert_eq!(n_left(free).await, 1, "it is in progress");
}
