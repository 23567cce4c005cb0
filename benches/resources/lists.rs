//! Pages of what is beside resources: as many facts, discovered resources and agents as there are resources, at most 100 000 of
//! each, and 10 000 notifications and compiles.

use std::collections::BTreeMap;

use serde_json::json;
use steward::domain::{
    AgentName, EnvironmentId, FactSource, ResourceId, Severity, Timestamp, VersionNumber,
};
use steward::store::{
    AgentOrder, AgentSearch, COUNTED, CompileRequest, CompileSearch, Discovered, DiscoveredOrder,
    DiscoveredSearch, Edge, Fact, FactOrder, FactSearch, Key, Notification, NotificationSearch,
    ParameterOrder, ParameterSearch, Part, ResourceState, Span, Store, VersionSearch,
};

use crate::report;

const MOST: usize = 100_000;
const EVENTS: i64 = 10_000;

pub async fn fill(store: &Store, id: EnvironmentId, states: &[ResourceState]) {
    let some = &states[..states.len().min(MOST)];
    let fact = |(n, resource_id): (usize, Option<ResourceId>)| Fact {
        name: if resource_id.is_some() {
            format!("fact{}", n % 7)
        } else {
            format!("parameter{n}")
        },
        resource_id,
        value: format!("the value of {n}"),
        source: FactSource::User,
        metadata: json!({}),
        expires: n.is_multiple_of(2),
        updated: Timestamp(n as i64),
    };
    let ids = some.iter().map(|state| Some(state.resource_id.clone()));
    let facts: Vec<Fact> = ids.chain(vec![None; 5000]).enumerate().map(fact).collect();
    store.facts_set(id, &facts).await.expect("facts");
    let found = |(n, state): (usize, &ResourceState)| Discovered {
        resource_id: if n.is_multiple_of(2) {
            state.resource_id.clone()
        } else {
            ResourceId::new(format!("net::Port[host-{},name={n}]", n % 100))
        },
        values: json!({"found": "x".repeat(100)}),
        discovery_resource_id: ResourceId::new("net::Ports[host-1,name=all]"),
        discovered: Timestamp(0),
    };
    let found: Vec<Discovered> = some.iter().enumerate().map(found).collect();
    store.discovered_set(id, &found).await.expect("discovered");
    let agents: Vec<AgentName> = (0..some.len())
        .map(|n| AgentName::new(format!("machine-{n}")))
        .collect();
    let one = VersionNumber::new(1);
    store
        .version_activate(id, one, &[], &[], &agents)
        .await
        .expect("agents");
    for n in 0..EVENTS {
        let new = Notification {
            created: Timestamp(n * 1000),
            is_read: true,
            ..Notification::new(Severity::Error, "A compile failed", "It says why it did")
        };
        let new = store.notification_create(id, &new);
        new.await.expect("a notification");
        let request = CompileRequest {
            environment_id: id,
            do_export: true,
            update: true,
            metadata: json!({"type": "api", "message": "somebody asked for it"}),
            variables: BTreeMap::new(),
        };
        store.compile_request(&request).await.expect("a compile");
    }
}

/// The page and the counts of an answer.
macro_rules! list {
    ($what:expr, $span:expr, |$each:ident| $page:expr, $count:expr) => {
        report($what, async || {
            let $each: &Span = $span;
            $page.await.expect("a page");
            let $each = &Span::first(COUNTED);
            $count.await.expect("a count");
            let $each = &Span {
                limit: COUNTED,
                before: $span.after.clone(),
                ..Span::default()
            };
            $count.await.expect("a count");
        })
        .await;
    };
}

fn first() -> Span {
    Span::first(101)
}

fn last() -> Span {
    Span {
        is_last: true,
        ..first()
    }
}

fn behind(parts: &[&str]) -> Span {
    let parts = parts.iter().map(|part| Part::text(*part));
    Span {
        after: Some(Edge::at(Key(parts.collect()))),
        ..first()
    }
}

fn nowhere() -> Vec<String> {
    vec!["no such thing".to_owned()]
}

pub async fn measure(store: &Store, id: EnvironmentId) {
    facts(store, id).await;
    parameters(store, id).await;
    discovered(store, id).await;
    agents(store, id).await;
    events(store, id).await;
}

async fn facts(store: &Store, id: EnvironmentId) {
    let (first, last) = (first(), last());
    let any = FactSearch::default();
    let expiring = FactSearch {
        expires: Some(true),
        ..any.clone()
    };
    let common = FactSearch {
        names: vec!["FACT".to_owned()],
        ..any.clone()
    };
    let rare = FactSearch {
        resources: nowhere(),
        ..any.clone()
    };
    let deep = behind(&["fact3", "fs::File[host-5,"]);
    let (name, resource) = (FactOrder::Name, FactOrder::Resource);
    let middle = behind(&["fs::File[host-5,", "f"]);
    for (what, search, order, span) in [
        ("facts, first page", &any, name, &first),
        ("facts, from the middle", &any, name, &deep),
        (
            "facts, by resource, from the middle",
            &any,
            resource,
            &middle,
        ),
        ("facts, last page by resource", &any, resource, &last),
        ("facts that expire", &expiring, name, &first),
        ("facts, a part of all names", &common, name, &first),
        ("facts, found nowhere (scans)", &rare, name, &first),
    ] {
        list!(
            what,
            span,
            |part| store.fact_page(id, search, order, part),
            store.fact_count(id, search, order, part)
        );
    }
}

async fn parameters(store: &Store, id: EnvironmentId) {
    let (first, last) = (first(), last());
    let any = ParameterSearch::default();
    let rare = ParameterSearch {
        names: nowhere(),
        ..any.clone()
    };
    for (what, search, order, span) in [
        ("parameters", &any, ParameterOrder::Name, &first),
        (
            "parameters, by source",
            &any,
            ParameterOrder::Source,
            &first,
        ),
        ("parameters, newest", &any, ParameterOrder::Updated, &last),
        (
            "parameters, found nowhere",
            &rare,
            ParameterOrder::Name,
            &first,
        ),
    ] {
        list!(
            what,
            span,
            |part| store.parameter_page(id, search, order, part),
            store.parameter_count(id, search, order, part)
        );
    }
}

async fn discovered(store: &Store, id: EnvironmentId) {
    let first = first();
    let any = DiscoveredSearch::default();
    let unmanaged = DiscoveredSearch {
        is_managed: Some(false),
        ..any.clone()
    };
    let rare = DiscoveredSearch {
        values: nowhere(),
        ..any.clone()
    };
    let middle = behind(&["host-5"]);
    let (by_id, agent) = (DiscoveredOrder::Id, DiscoveredOrder::Agent);
    for (what, search, order, span) in [
        ("discovered, first page", &any, by_id, &first),
        (
            "discovered, by agent, from the middle",
            &any,
            agent,
            &middle,
        ),
        ("discovered, not managed", &unmanaged, by_id, &first),
        ("discovered, found nowhere (scans)", &rare, by_id, &first),
    ] {
        list!(
            what,
            span,
            |part| store.discovered_page(id, search, order, part),
            store.discovered_count(id, search, order, part)
        );
    }
}

async fn agents(store: &Store, id: EnvironmentId) {
    let first = first();
    let any = AgentSearch::default();
    let up = AgentSearch {
        statuses: vec!["up".to_owned()],
        ..any.clone()
    };
    let down = AgentSearch {
        statuses: vec!["down".to_owned()],
        ..any.clone()
    };
    let middle = behind(&["up", "machine-5"]);
    for (what, search, order, span) in [
        ("agents, first page", &any, AgentOrder::Name, &first),
        (
            "agents, by status, from the middle",
            &any,
            AgentOrder::Status,
            &middle,
        ),
        ("agents that are up", &up, AgentOrder::Name, &first),
        (
            "agents that are down: none",
            &down,
            AgentOrder::Name,
            &first,
        ),
    ] {
        list!(
            what,
            span,
            |part| store.agent_page(id, search, order, part),
            store.agent_count(id, search, order, part)
        );
    }
}

async fn events(store: &Store, id: EnvironmentId) {
    let last = last();
    let any = NotificationSearch::default();
    let unread = NotificationSearch {
        is_read: Some(false),
        ..any.clone()
    };
    let rare = NotificationSearch {
        messages: nowhere(),
        ..any.clone()
    };
    for (what, search) in [
        ("notifications", &any),
        ("notifications that nobody read: none", &unread),
        ("notifications, found nowhere (scans)", &rare),
    ] {
        list!(
            what,
            &last,
            |part| store.notification_page(id, search, part),
            store.notification_count(id, search, part)
        );
    }

    let any = CompileSearch::default();
    let ended = CompileSearch {
        is_completed: Some(true),
        ..any.clone()
    };
    for (what, search) in [
        ("compiles", &any),
        ("compiles that have ended: few (scans)", &ended),
    ] {
        list!(
            what,
            &last,
            |part| store.compile_page(id, search, part),
            store.compile_count(id, search, part)
        );
    }

    let released = VersionSearch {
        is_released: Some(true),
        ..VersionSearch::default()
    };
    for (what, search) in [
        ("versions", &VersionSearch::default()),
        ("versions that are released", &released),
    ] {
        list!(
            what,
            &last,
            |part| store.version_page(id, search, part),
            store.version_count(id, search, part)
        );
    }
}
