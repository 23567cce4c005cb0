//! What happened to an instance, and its resources. Source: docs/reference/lsm.md § 5.7.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use steward_lsm::Instance;

use super::keyset::{Around, Keyset};
use super::record::{Extras, record, resources_of};
use super::{assert_version, bounds, find, sorting};
use crate::api::Answer;
use crate::api::environments::scope;
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::routes::routes;
use crate::app::App;
use crate::domain::{ResourceId, ResourceStatus, Timestamp};
use crate::lsm::event_json;
use crate::store::{EventSearch, EventSpan, StoredEvent};

routes! {
    Get "/lsm/v1/service_inventory/<entity>/<id>/log" Environment "the versions of an instance" => Query log(entity, id);
    Get "/lsm/v1/service_inventory/<entity>/<id>/events" Environment "what happened to an instance" => Query events(entity, id);
    Get "/lsm/v1/service_inventory/<entity>/<id>/resources" Environment "the resources of an instance" => Query resources(entity, id);
}

/// A version of an instance, and what happened in it.
fn log_item(instance: &Instance, events: &[&StoredEvent]) -> Value {
    let mut item = record(instance, &Extras::default());
    if let Some(fields) = item.as_object_mut() {
        for only_now in ["deployment_progress", "referenced_by", "metadata", "id"] {
            fields.remove(only_now);
        }
    }
    item["service_instance_id"] = json!(instance.id);
    item["timestamp"] = json!(Timestamp(instance.last_updated.0).to_string());
    item["events"] = events.iter().map(|event| event_json(event)).collect();
    item
}

/// Events by the version that they belong to: the one that they led to. An event names the version before, so this is the next
/// one; what has led nowhere yet belongs to the newest.
fn by_version(events: &[StoredEvent], newest: u64) -> BTreeMap<u64, Vec<&StoredEvent>> {
    let mut found: BTreeMap<u64, Vec<&StoredEvent>> = BTreeMap::new();
    for event in events {
        let version = event.event.service_instance_version.saturating_add(1);
        found.entry(version.min(newest)).or_default().push(event);
    }
    found
}

/// The filter by version as one range without its bounds.
fn versions(args: &Args) -> Result<(i64, i64), ApiError> {
    let (mut above, mut below) = (0, i64::MAX);
    for (comparison, number) in bounds(args, "version", |text| text.parse::<i64>().ok())? {
        let (next, last) = (number.saturating_add(1), number.saturating_sub(1));
        match comparison {
            " < " => below = below.min(number),
            " <= " => below = below.min(next),
            " > " => above = above.max(number),
            " >= " => above = above.max(last),
            _ => (above, below) = (above.max(last), below.min(next)),
        }
    }
    Ok((above, below))
}

async fn log(entity: Segment, id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let instance = find(&app, environment, &entity.0, &id).await?;
    args.only_filters(&["version"])?;
    let (column, is_descending) = sorting(&args, "version.desc")?;
    if column != "version" {
        let message = format!("the log is not sorted by `{column}`; it is by version");
        return Err(ApiError::bad_request(message));
    }
    let (above, below) = versions(&args)?;
    let keyset = Keyset::of(&args, is_descending)?;
    let [start, end] = keyset.bounds(|text| text.parse::<i64>().ok())?;
    let from = start.map_or(above, |(start, _)| above.max(start));
    let to = end.map_or(below, |(end, _)| below.min(end));
    let (store, id_of) = (&app.store, instance.id);
    let is_ascending = !keyset.reads_descending();
    let rows = store.service_log(
        environment,
        id_of,
        (from, to),
        is_ascending,
        keyset.n_read(),
    );
    let rows = keyset.in_order(rows.await?);
    let total = store
        .service_log_count(environment, id_of, (above, below))
        .await?;
    let before = match rows.first() {
        None => 0,
        Some(first) => {
            let version = i64::try_from(first.version).unwrap_or(i64::MAX);
            let range = if is_descending {
                (version, below)
            } else {
                (above, version)
            };
            store.service_log_count(environment, id_of, range).await?
        }
    };
    let shown = rows.iter().map(|row| row.version);
    let first = shown.clone().min().unwrap_or_default().saturating_sub(1);
    let last = shown.max().unwrap_or_default();
    let events = store.service_events_of(environment, id_of, first..=last);
    // It may have moved on since it was read.
    let events = events.await?;
    let events = by_version(&events, instance.version.max(last));
    let path = format!("/lsm/v1/service_inventory/{}/{}/log", entity.0, id.0);
    let key = |row: &Instance| (row.version.to_string(), String::new());
    let shape = |row: &Instance| {
        let events = events.get(&row.version);
        log_item(row, events.map_or(&[][..], Vec::as_slice))
    };
    let around = Around { total, before };
    Ok(keyset.answer(&args, &path, (&rows, &around), key, shape))
}

async fn events(entity: Segment, id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let instance = find(&app, environment, &entity.0, &id).await?;
    args.only_filters(&[
        "source",
        "destination",
        "version",
        "event_type",
        "timestamp",
    ])?;
    let (column, is_descending) = sorting(&args, "timestamp.desc")?;
    if column != "timestamp" {
        let message = format!("events are not sorted by `{column}`; they are by timestamp");
        return Err(ApiError::bad_request(message));
    }
    let moment = |text: &str| Timestamp::parse(text).map(|moment| moment.0);
    let search = EventSearch {
        sources: args.filter("source")?,
        destinations: args.filter("destination")?,
        event_types: args.filter("event_type")?,
        versions: bounds(&args, "version", |text| text.parse().ok())?,
        times: bounds(&args, "timestamp", moment)?,
    };
    let keyset = Keyset::of(&args, is_descending)?;
    let [after, before] = keyset.bounds(moment)?;
    // Without an id: behind all that has the same time, or before all of it.
    let after = after.map(|(time, id)| (time, id.unwrap_or_else(|| "~".to_owned())));
    let before = before.map(|(time, id)| (time, id.unwrap_or_default()));
    let span = EventSpan {
        after,
        before,
        is_descending: keyset.reads_descending(),
        limit: keyset.n_read(),
    };
    let (store, id_of) = (&app.store, instance.id);
    let rows = store
        .service_events(environment, id_of, &search, &span)
        .await?;
    let rows = keyset.in_order(rows);
    let all = EventSpan::default();
    let total = store
        .service_event_count(environment, id_of, &search, &all)
        .await?;
    let before = match (keyset.known_before(rows.len()), rows.first()) {
        (Some(before), _) => before,
        (None, None) => 0,
        (None, Some(first)) => {
            let here = Some((first.event.timestamp.0, first.id.to_string()));
            let (after, before) = if is_descending {
                (here, None)
            } else {
                (None, here)
            };
            let span = EventSpan {
                after,
                before,
                ..all
            };
            store
                .service_event_count(environment, id_of, &search, &span)
                .await?
        }
    };
    let path = format!("/lsm/v1/service_inventory/{}/{}/events", entity.0, id.0);
    let key = |row: &StoredEvent| {
        let moment = Timestamp(row.event.timestamp.0).to_string();
        (moment, row.id.to_string())
    };
    let around = Around { total, before };
    Ok(keyset.answer(&args, &path, (&rows, &around), key, event_json))
}

async fn resources(entity: Segment, id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let instance = find(&app, environment.id, &entity.0, &id).await?;
    assert_version(&args, &instance)?;
    let version = environment.active_version.unwrap_or_default();
    let resources = resources_of(&app, environment.id, instance.id).await?;
    let shape = |(id, state): (ResourceId, ResourceStatus)| json!({"resource_id": format!("{id},v={version}"), "resource_state": state});
    Ok(Answer::Data(resources.into_iter().map(shape).collect()))
}
