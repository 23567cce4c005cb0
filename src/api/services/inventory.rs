//! The inventory: what there is, and new instances. Source: docs/reference/lsm.md § 5.4.

use std::collections::BTreeMap;

use steward_lsm::Instance;
use uuid::Uuid;

use super::keyset::{Around, Keyset};
use super::record::{Extras, Wanted, record};
use super::{
    assert_version, bounds, conditions, find, no_instance, required_object, sorting, switches,
};
use crate::api::Answer;
use crate::api::environments::scope;
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::routes::routes;
use crate::app::App;
use crate::domain::{EnvironmentId, Timestamp};
use crate::lsm::Creation;
use crate::store::{COUNTED, Column, InstanceSearch, InstanceSpan, Place};

routes! {
    Get "/lsm/v1/service_inventory" Environment "a service instance by its id alone" => Query by_id();
    Get "/lsm/v1/service_inventory/<entity>" Environment "the instances of a service" => Query list_instances(entity);
    Post "/lsm/v1/service_inventory/<entity>" Environment "creates a service instance" => Body create(entity);
    Get "/lsm/v1/service_inventory/<entity>/<id>" Environment "a service instance" => Query details(entity, id);
}

/// The columns that a list may be sorted by.
fn column(name: &str) -> Option<Column> {
    Some(match name {
        "created_at" => Column::Created,
        "last_updated" => Column::Updated,
        "state" => Column::State,
        "id" => Column::Id,
        "service_identity_attribute_value" | "identity" => Column::Identity,
        _ => return None,
    })
}

/// A value of a column as a client writes it.
fn place(column: Column, text: &str) -> Option<Place> {
    match column {
        Column::Created | Column::Updated => {
            Timestamp::parse(text).map(|moment| Place::Number(moment.0))
        }
        Column::State | Column::Id | Column::Identity => Some(Place::Text(text.to_owned())),
    }
}

/// A value of a column as links have it.
fn shown(column: Column, instance: &Instance) -> String {
    match Place::of(column, instance) {
        Place::Number(moment) => Timestamp(moment).to_string(),
        Place::Text(text) => text,
    }
}

fn sets(args: &Args, name: &str) -> Result<Vec<&'static str>, ApiError> {
    let texts = conditions(args, name)?;
    let sets = texts.iter().map(|text| match text.as_str() {
        "candidate_attributes" => Ok("candidate"),
        "active_attributes" => Ok("active"),
        "rollback_attributes" => Ok("rollback"),
        other => Err(ApiError::bad_request(format!(
            "`{other}` is no attribute set; there are candidate_attributes, active_attributes and rollback_attributes"
        ))),
    });
    sets.collect()
}

fn search(entity: &str, args: &Args) -> Result<InstanceSearch, ApiError> {
    args.only_filters(&[
        "state",
        "deleted",
        "attribute_set_empty",
        "attribute_set_not_empty",
        "id_or_service_identity",
        "service_entity_version",
    ])?;
    let is_deleted = match args.text("filter.deleted")?.filter(|text| !text.is_empty()) {
        Some(_) => Some(args.flag("filter.deleted", false)?),
        None if args.flag("include_deleted", false)? => None,
        None => Some(false),
    };
    Ok(InstanceSearch {
        entity: entity.to_owned(),
        is_deleted,
        states: args.filter("state")?,
        empty: sets(args, "attribute_set_empty")?,
        not_empty: sets(args, "attribute_set_not_empty")?,
        words: conditions(args, "id_or_service_identity")?,
        versions: bounds(args, "service_entity_version", |text| text.parse().ok())?,
    })
}

/// How many rows the list has, and how many are before these. If nothing but counting says it, no more than [`COUNTED`] are
/// counted on either side; `has_more`: there are more where the page ends.
async fn around(
    app: &App,
    environment: EnvironmentId,
    search: &InstanceSearch,
    all: InstanceSpan,
    (rows, keyset, has_more): (&[Instance], &Keyset, bool),
) -> Result<Around, ApiError> {
    let (n_rows, known_before) = (rows.len() as i64, keyset.known_before(rows.len()));
    if keyset.has_no_boundary() && !has_more {
        return Ok(Around {
            total: n_rows,
            before: 0,
        });
    }
    let total = app.store.service_count(environment, search, &all).await?;
    let before = match (known_before, rows.first()) {
        (Some(before), _) => before,
        (None, None) => 0,
        (None, Some(first)) => {
            let here = Some((Place::of(all.column, first), Some(first.id.to_string())));
            let (greater, smaller) = if all.is_descending {
                (here, None)
            } else {
                (None, here)
            };
            let span = InstanceSpan {
                greater,
                smaller,
                ..all
            };
            app.store.service_count(environment, search, &span).await?
        }
    };
    if !search.is_narrow() || total < COUNTED {
        return Ok(Around { total, before });
    }
    let is_followed = has_more || keyset.is_backwards();
    let least = before + n_rows + i64::from(is_followed);
    let total = if is_followed { total.max(least) } else { least };
    Ok(Around { total, before })
}

async fn list_instances(entity: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let catalog = app.store.service_catalog(environment).await?;
    if catalog.versions(&entity.0).is_none() {
        return Err(ApiError::not_found(format!("service entity {}", entity.0)));
    }
    let (name, is_descending) = sorting(&args, "created_at.desc")?;
    let column = column(&name).ok_or_else(|| {
        ApiError::bad_request(format!(
            "instances are not sorted by `{name}`; they are by created_at, last_updated, state, id or identity"
        ))
    })?;
    let search = search(&entity.0, &args)?;
    let keyset = Keyset::of(&args, is_descending)?;
    let [greater, smaller] = keyset.bounds(|text| place(column, text))?;
    let all = InstanceSpan {
        column,
        is_descending,
        greater: None,
        smaller: None,
        limit: COUNTED,
    };
    let span = InstanceSpan {
        is_descending: keyset.reads_descending(),
        greater,
        smaller,
        // One more, to see whether there is one.
        limit: keyset.n_read() + 1,
        ..all.clone()
    };
    let mut rows = app.store.service_page(environment, &search, &span).await?;
    let has_more = rows.len() as i64 > keyset.n_read();
    rows.truncate(usize::try_from(keyset.n_read()).unwrap_or(usize::MAX));
    let rows = keyset.in_order(rows);
    let place = (rows.as_slice(), &keyset, has_more);
    let around = around(&app, environment, &search, all, place).await?;
    let wanted = Wanted {
        progress: args.flag("include_deployment_progress", false)?,
        ..Wanted::default()
    };
    let mut extras = BTreeMap::new();
    for instance in rows.iter().filter(|_| wanted.progress) {
        let of_it = wanted.extras(&app, environment, instance).await?;
        extras.insert(instance.id, of_it);
    }
    let path = format!("/lsm/v1/service_inventory/{}", entity.0);
    let key = |instance: &Instance| (shown(column, instance), instance.id.to_string());
    let nothing = Extras::default();
    let shape =
        |instance: &Instance| record(instance, extras.get(&instance.id).unwrap_or(&nothing));
    Ok(keyset.answer(&args, &path, (&rows, &around), key, shape))
}

async fn shape(
    app: &App,
    args: &Args,
    environment: EnvironmentId,
    instance: &Instance,
) -> Result<Answer, ApiError> {
    assert_version(args, instance)?;
    let extras = Wanted::of(args)?.extras(app, environment, instance).await?;
    Ok(Answer::Data(record(instance, &extras)))
}

async fn details(entity: Segment, id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let instance = find(&app, environment, &entity.0, &id).await?;
    shape(&app, &args, environment, &instance).await
}

async fn by_id(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let id: Option<Uuid> = args.parsed("service_id")?;
    let id = id.ok_or_else(|| ApiError::bad_request("Field 'service_id' is required"))?;
    let found = app.store.service_fetch(environment, id).await?;
    let instance = found.ok_or_else(|| no_instance(&id.to_string()))?;
    shape(&app, &args, environment, &instance).await
}

async fn create(entity: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let creation = Creation {
        entity: entity.0,
        version: args.parsed("service_entity_version")?,
        id: args.parsed("service_instance_id")?,
        attributes: required_object(&args, "attributes")?,
        initial_state: args.text("initial_state")?,
        config: match args.value("config") {
            Some(_) => switches(&args, "config")?,
            None => BTreeMap::new(),
        },
        correlation_id: None,
    };
    let created = app.services.create(environment, &creation).await?;
    Ok(Answer::Data(record(&created.instance, &Extras::default())))
}
