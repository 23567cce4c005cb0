//! Calls that go around the lifecycle, for who knows what they do. Source: docs/reference/lsm.md § 3.14, § 5.8.

use serde_json::json;
use steward_lsm::attributes;
use steward_lsm::definition::{Operation, SetName};
use steward_lsm::lifecycle::Trigger;

use super::modify::{apply, edits, update_id};
use super::record::{Extras, record};
use crate::api::Answer;
use crate::api::environments::scope;
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::routes::routes;
use crate::app::App;

routes! {
    Post "/lsm/v1/service_inventory/<entity>/<id>/expert/state" Environment "puts an instance into a state, whatever its lifecycle says" => Body force_state(entity, id);
    Patch "/lsm/v2/service_inventory/<entity>/<id>/expert" Environment "edits an attribute set, whatever the modifiers say" => Body force_attributes(entity, id);
    Delete "/lsm/v2/service_inventory/<entity>/<id>/expert" Environment "removes the record of an instance" => Body force_delete(entity, id);
}

/// The operation on attribute sets that a client names.
fn operation(args: &Args) -> Result<Option<Operation>, ApiError> {
    let Some(text) = args.text("operation")?.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let all = [
        Operation::Promote,
        Operation::Rollback,
        Operation::ClearCandidate,
        Operation::ClearActive,
        Operation::ClearRollback,
    ];
    let mut all = all.into_iter();
    let found = all.find(|one| json!(one) == text.as_str());
    found.map(Some).ok_or_else(|| {
        ApiError::bad_request(format!(
            "`{text}` is no operation; there are promote, rollback, clear candidate, clear active and clear rollback"
        ))
    })
}

async fn force_state(
    entity: Segment,
    id: Segment,
    app: App,
    args: Args,
) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let trigger = Trigger::ForceState {
        target: args.required("target_state")?,
        operation: operation(&args)?,
        message: args.required("message")?,
    };
    let happened = (trigger, args.parsed("current_version")?);
    let changed = apply(&app, environment, (&entity, &id), None, happened).await?;
    Ok(Answer::Data(record(&changed.instance, &Extras::default())))
}

async fn force_attributes(
    entity: Segment,
    id: Segment,
    app: App,
    args: Args,
) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let name = args.required("attribute_set_name")?;
    let set = match name.strip_suffix("_attributes").unwrap_or(&name) {
        "candidate" => SetName::Candidate,
        "active" => SetName::Active,
        "rollback" => SetName::Rollback,
        _ => {
            return Err(ApiError::bad_request(format!(
                "`{name}` is no attribute set; there are candidate_attributes, active_attributes and rollback_attributes"
            )));
        }
    };
    let trigger = Trigger::ForceAttributes {
        set,
        edits: edits(&args)?,
        comment: args.text("comment")?,
    };
    let update = Some(update_id(&args, "patch_id")?);
    let happened = (trigger, args.parsed("current_version")?);
    let changed = apply(&app, environment, (&entity, &id), update, happened).await?;
    let mut body = json!({"data": record(&changed.instance, &Extras::default())});
    let edited = changed.instance.set(set);
    let wrong = edited.map(|edited| attributes::problems(&changed.definition.entity, edited));
    if let Some(wrong) = wrong.filter(|wrong| !wrong.0.is_empty()) {
        let warning = format!(
            "this was done, and the definition of the service does not allow what the {} attributes are now: {wrong}",
            set.as_str()
        );
        body["metadata"] = json!({"warnings": [warning]});
    }
    Ok(Answer::Body(body))
}

async fn force_delete(
    entity: Segment,
    id: Segment,
    app: App,
    args: Args,
) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    // The web console sends the reason in a header.
    let header = args.headers.get("message");
    let header = header.and_then(|value| value.to_str().ok());
    let message = match args.text("message")? {
        Some(message) => message,
        None => header.unwrap_or_default().to_owned(),
    };
    let version = args.parsed("current_version")?;
    let happened = (Trigger::ForceDeleted { message }, version);
    apply(&app, environment, (&entity, &id), None, happened).await?;
    Ok(Answer::Empty)
}
