//! Resources with their state and history. Source: docs/reference/rest.md § 1.6.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::api::environments::scope;
use crate::api::http::args::{Args, Segment};
use crate::api::http::cut::{self, Cut};
use crate::api::http::error::ApiError;
use crate::api::http::order::{Ranges, Sort};
use crate::api::http::page;
use crate::api::http::principal::EnvironmentAccess;
use crate::api::routes::routes;
use crate::api::versions::{BY_ID, contains, search};
use crate::api::{Answer, wire};
use crate::app::App;
use crate::domain::{
    ActionKind, Change, EnvironmentId, LogLevel, ResourceId, ResourceStatus, SUMMARY_STATES,
    Timestamp, VersionNumber,
};
use crate::store::{
    Action, ActionFrom, ActionSearch, IdPart, Key, Narrowed, Part, ResourceState, Search, Span,
    StateOrder, StoredResource,
};

routes! {
    Get "/api/v2/resource" Environment "the resources and their states" => Query list_resources();
    Get "/api/v2/resource/<rid>" Environment "a resource and its state" => Query details(rid);
    Get "/api/v2/resource/<rid>/explain" Environment "why a resource is not deployed" => Query explanation(rid);
    Get "/api/v2/resource/<rid>/history" Environment "the contents that a resource had" => Query history_of(rid);
    Get "/api/v2/resource/<rid>/logs" Environment "what handlers logged for a resource" => Query logs_of(rid);
    Get "/api/v2/resource_actions" Environment "what was done to resources" => Query actions_of();
}

async fn list_resources(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    args.only_filters(&["resource_type", "agent", "resource_id_value", "status"])?;
    let counts = app.store.state_counts(environment.id).await?;
    let search = Search {
        statuses: statuses_of(&args)?,
        ..search(&args)?
    };
    let columns = [BY_ID, "resource_id", "agent", "resource_id_value", "status"];
    let sort = Sort::of(&args, &columns, Sort::descending(BY_ID))?;
    let mut answer = if [BY_ID, "resource_id"].contains(&sort.column) {
        by_id(&app, &environment, &args, &search, &counts, sort).await?
    } else {
        by_value(&app, &environment, &args, &search, &counts, sort).await?
    };
    if args.flag("deploy_summary", false)?
        && let Answer::Body(whole) = &mut answer
    {
        whole["metadata"]["deploy_summary"] = summary(&counts);
    }
    Ok(answer)
}

/// A resource of the list.
fn listed(state: &ResourceState, version: VersionNumber, requires: &[ResourceId]) -> Value {
    json!({
        "resource_id": state.resource_id,
        "resource_version_id": format!("{},v={}", state.resource_id, state.orphaned_after.unwrap_or(version)),
        "id_details": wire::id_details(&state.resource_id),
        "requires": requires,
        "status": state.status(),
        "compliance": state.compliance(),
        "last_deploy": state.last_run_at.map(|at| at.to_string()),
    })
}

/// What each of them requires: an orphan what it did in its last version.
async fn requires_of(
    app: &App,
    environment: &EnvironmentAccess,
    rows: impl Iterator<Item = &ResourceState>,
) -> Result<HashMap<ResourceId, Vec<ResourceId>>, ApiError> {
    let active = environment.active_version.unwrap_or_default();
    let version_of = |row: &ResourceState| row.orphaned_after.unwrap_or(active);
    let wanted: Vec<(&ResourceId, VersionNumber)> = rows
        .map(|row| (&row.resource_id, version_of(row)))
        .collect();
    let found = app.store.resource_requires_in(environment.id, &wanted);
    Ok(found.await?)
}

/// A page in the order of another column.
async fn by_value(
    app: &App,
    environment: &EnvironmentAccess,
    args: &Args,
    search: &Search,
    counts: &BTreeMap<ResourceStatus, i64>,
    sort: Sort,
) -> Result<Answer, ApiError> {
    let version = environment.active_version.unwrap_or_default();
    let (id, store) = (environment.id, &app.store);
    let order = match sort.column {
        "agent" => StateOrder::Part(IdPart::Agent),
        "status" => StateOrder::Status,
        _ => StateOrder::Part(IdPart::Value),
    };
    let cut = Cut::of(args, &Key::texts(2), sort.is_descending)?;
    let rows = store
        .state_page_by(id, search, counts, order, &cut.span())
        .await?;
    let count =
        |span: Span| async move { store.state_count_by(id, search, counts, order, &span).await };
    let found = cut.counts(rows.len(), search.is_narrow(), count).await?;
    let requires = requires_of(app, environment, rows.iter().map(|(_, row)| row)).await?;
    let shape = |state: &ResourceState| {
        let requires = requires.get(&state.resource_id);
        listed(state, version, requires.map_or(&[][..], Vec::as_slice))
    };
    Ok(cut.answer(args, "/api/v2/resource", rows, &found, shape))
}

/// A page in the order of the ids.
async fn by_id(
    app: &App,
    environment: &EnvironmentAccess,
    args: &Args,
    search: &Search,
    counts: &BTreeMap<ResourceStatus, i64>,
    sort: Sort,
) -> Result<Answer, ApiError> {
    let version = environment.active_version.unwrap_or_default();
    let (id, store) = (environment.id, &app.store);
    let cut = Cut::of(args, &Key::texts(1), sort.is_descending)?;
    let rows = store.state_page(id, search, counts, &cut.span()).await?;
    let count = |span: Span| async move { store.state_count(id, search, counts, &span).await };
    let found = cut.counts(rows.len(), search.is_narrow(), count).await?;
    let requires = requires_of(app, environment, rows.iter()).await?;
    let shape = |state: &ResourceState| {
        let requires = requires.get(&state.resource_id);
        listed(state, version, requires.map_or(&[][..], Vec::as_slice))
    };
    let keyed = |state: ResourceState| (Key::of(state.resource_id.as_str()), state);
    let rows = rows.into_iter().map(keyed).collect();
    Ok(cut.answer(args, "/api/v2/resource", rows, &found, shape))
}

/// Included words are alternatives, `!word` excludes; `None`: any status.
/// Statuses that clients know and that no resource has here.
const OTHER_STATUSES: [&str; 2] = ["cancelled", "processing_events"];

fn statuses_of(args: &Args) -> Result<Option<Vec<ResourceStatus>>, ApiError> {
    let words = [&ResourceStatus::words()[..], &OTHER_STATUSES].concat();
    let excluded: Vec<String> = words.iter().map(|word| format!("!{word}")).collect();
    let all: Vec<&str> = words
        .iter()
        .copied()
        .chain(excluded.iter().map(String::as_str))
        .collect();
    let filters = args.filter_of("status", &all)?;
    if filters.is_empty() {
        return Ok(None);
    }
    let is_included = |word: &str| {
        let mut included = filters.iter().filter(|filter| !filter.starts_with('!'));
        let mut excluded = filters.iter().filter_map(|filter| filter.strip_prefix('!'));
        let is_any = included.clone().next().is_none();
        !excluded.any(|excluded| excluded == word) && (is_any || included.any(|one| one == word))
    };
    let words = ResourceStatus::words().into_iter();
    let statuses = words.filter(|word| is_included(word));
    Ok(Some(statuses.filter_map(ResourceStatus::parse).collect()))
}

fn summary(counts: &BTreeMap<ResourceStatus, i64>) -> Value {
    let mut by_state: BTreeMap<&str, i64> =
        SUMMARY_STATES.iter().map(|state| (*state, 0)).collect();
    let mut total = 0;
    for (status, n_resources) in counts {
        if *status != ResourceStatus::Orphaned && *n_resources > 0 {
            total += n_resources;
            *by_state.entry(status.as_str()).or_default() += n_resources;
        }
    }
    json!({"total": total, "by_state": by_state})
}

async fn state_of(
    app: &App,
    args: &Args,
    id: &Segment,
) -> Result<(EnvironmentAccess, ResourceState), ApiError> {
    let environment = scope(app, args).await?;
    let state = app
        .store
        .state_fetch(environment.id, &id.resource_id())
        .await?;
    let state = state.ok_or_else(|| ApiError::not_found(format!("resource {}", id.0)))?;
    Ok((environment, state))
}

async fn details(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let (environment, state) = state_of(&app, &args, &id).await?;
    let version = state
        .orphaned_after
        .or(environment.active_version)
        .unwrap_or_default();
    let resource = app
        .store
        .resource_fetch(environment.id, version, &id.resource_id())
        .await?;
    let resource = resource.ok_or_else(|| ApiError::not_found(format!("resource {}", id.0)))?;
    let states = app.store.state_some(environment.id, &resource.requires);
    let states: BTreeMap<ResourceId, ResourceStatus> = states
        .await?
        .into_iter()
        .map(|state| (state.resource_id.clone(), state.status()))
        .collect();
    let status_of = |id| states.get(id).copied().unwrap_or(ResourceStatus::Undefined);
    let requires_status: Map<String, Value> = resource
        .requires
        .iter()
        .map(|require| (require.to_string(), json!(status_of(require))))
        .collect();
    Ok(Answer::Data(json!({
        "resource_id": resource.resource_id,
        "resource_type": resource.resource_type,
        "agent": resource.agent,
        "id_attribute": resource.id_attribute,
        "id_attribute_value": resource.id_value,
        "attributes": wire::attributes(&resource),
        "last_deploy": state.last_run_at.map(|at| at.to_string()),
        "first_generated_time": state.created.to_string(),
        "status": state.status(),
        "compliance": state.compliance(),
        "last_handler_run": state.last_run.as_str(),
        "n_failures": state.n_failures,
        "requires_status": requires_status,
    })))
}

/// Beyond the reference. Source: docs/reference/rest.md § 1.6.
async fn explanation(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let found = crate::deploy::explain(&app.store, &environment, &id.resource_id()).await?;
    let mut found = found.ok_or_else(|| ApiError::not_found(format!("resource {}", id.0)))?;
    if let Some(root) = crate::deploy::root_that_deploys(&found)
        && let Some(engine) = app.engine(environment.id)
    {
        // While it is busy, the rest is explained.
        let asked = tokio::time::timeout(ENGINE_PATIENCE, engine.waiting_for(root));
        if let Ok(Some(waiting)) = asked.await {
            crate::deploy::add_waiting(&mut found, waiting);
        }
    }
    Ok(Answer::Data(found))
}

/// How long an explanation waits for what only the engine knows.
const ENGINE_PATIENCE: Duration = Duration::from_millis(500);

async fn history_of(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let sort = Sort::of(&args, &["date"], Sort::descending("date"))?;
    let history = app
        .store
        .resource_history(environment.id, &id.resource_id())
        .await?;
    let path = format!(
        "/api/v2/resource/{}/history",
        percent_encoding::utf8_percent_encode(&id.0, percent_encoding::NON_ALPHANUMERIC)
    );
    let shape = |content: &StoredResource| {
        json!({
            "resource_id": content.resource_id,
            "date": content.created.to_string(),
            "attributes": wire::attributes(content),
            "attribute_hash": content.attribute_hash,
            "requires": content.requires,
        })
    };
    let key = |content: &StoredResource| {
        Key(vec![
            Part::Moment(content.created),
            Part::text(&content.digest),
        ])
    };
    let by = (&Key::moment_and_id(), key);
    cut::of_rows(&args, &path, history, by, sort.is_descending, shape)
}

/// Actions that clients know and that are not in a history here.
const OTHER_ACTIONS: [&str; 3] = ["push", "pull", "other"];

async fn logs_of(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    args.only_filters(&["minimal_log_level", "timestamp", "message", "action"])?;
    let sort = Sort::of(&args, &["timestamp"], Sort::descending("timestamp"))?;
    let moments = Ranges::of_moments(&args, "timestamp")?;
    let minimal = args.filter("minimal_log_level")?;
    let minimal = minimal.first().map(|name| {
        LogLevel::parse(&name.to_uppercase()).ok_or_else(|| {
            let mut levels = LogLevel::words();
            levels.reverse();
            ApiError::bad_request(format!(
                "`{name}` is no log level; there are {}",
                levels.join(", ")
            ))
        })
    });
    let minimal = minimal.transpose()?.unwrap_or(LogLevel::Trace);
    // The most serious is the least; what is no level is the least serious.
    let level_of = |line: &Value| LogLevel::parse(line["level"].as_str().unwrap_or_default());
    let known = [&ActionKind::words()[..], &OTHER_ACTIONS].concat();
    let (texts, kinds) = (args.filter("message")?, args.filter_of("action", &known)?);
    let actions = app
        .store
        .action_history(environment.id, &id.resource_id(), 10_000)
        .await?;
    // The key of a line, and the line: lines of one moment keep the order of their run.
    let lines_of = |action| {
        let keyed = |(index, line): (usize, Value)| {
            let action = line["action_id"].as_str().unwrap_or_default();
            let key = [
                Part::Moment(Timestamp(moment_of(&line))),
                Part::text(action),
                Part::Number(index as i64),
            ];
            (Key(key.into()), line)
        };
        let lines: Vec<(Key, Value)> = wire::messages(action).enumerate().map(keyed).collect();
        lines
    };
    let mut lines: Vec<(Key, Value)> = actions.iter().flat_map(lines_of).collect();
    lines.retain(|(_, line)| {
        level_of(line).unwrap_or(LogLevel::Trace) <= minimal
            && (moments.is_empty() || moments.hold(moment_of(line)))
            && contains(&texts, line["msg"].as_str().unwrap_or_default())
            && (kinds.is_empty() || kinds.iter().any(|kind| line["action"] == json!(kind)))
    });
    let path = format!(
        "/api/v2/resource/{}/logs",
        percent_encoding::utf8_percent_encode(&id.0, percent_encoding::NON_ALPHANUMERIC)
    );
    let kind = Key([Key::moment_and_id().0, vec![Part::Number(0)]].concat());
    let by = (&kind, |(key, _): &(Key, Value)| key.clone());
    let shape = |(_, line): &(Key, Value)| line.clone();
    cut::of_rows(&args, &path, lines, by, sort.is_descending, shape)
}

fn excluded_changes(args: &Args) -> Result<Vec<String>, ApiError> {
    let given = args.list("exclude_changes")?.unwrap_or_default();
    match given.iter().find(|word| Change::parse(word).is_none()) {
        Some(word) => Err(ApiError::bad_request(format!(
            "`{word}` is no change that can be excluded; there are {}",
            Change::words().join(", ")
        ))),
        None => Ok(given),
    }
}

/// What of the history is wanted beside the resource.
struct ActionFilter {
    /// Only actions with a line of this level.
    level: Option<LogLevel>,
    /// The level that is asked for is none, so that no line has it.
    is_nothing: bool,
    /// Actions that ended with one of these are left out.
    without: Vec<String>,
}

impl ActionFilter {
    fn of(args: &Args) -> Result<Self, ApiError> {
        let asked = args.text("log_severity")?;
        let level = asked
            .as_deref()
            .and_then(|name| LogLevel::parse(&name.to_uppercase()));
        Ok(Self {
            level,
            is_nothing: asked.is_some() && level.is_none(),
            without: excluded_changes(args)?,
        })
    }

    fn passes(&self, action: &Action) -> bool {
        let has_level = |wanted: LogLevel| {
            wire::messages(action).any(|line| {
                let level = LogLevel::parse(line["level"].as_str().unwrap_or_default());
                level == Some(wanted)
            })
        };
        // What says nothing of a change is left out as soon as something is.
        let change = action
            .change
            .filter(|_| action.action != ActionKind::DryRun)
            .map(Change::as_str);
        let is_shown = self.without.is_empty()
            || change.is_some_and(|change| !self.without.iter().any(|one| one == change));
        is_shown && self.level.is_none_or(has_level)
    }
}

/// When a log line was written, in microseconds.
fn moment_of(line: &Value) -> i64 {
    let text = line["timestamp"].as_str().unwrap_or_default();
    Timestamp::parse(text).map_or(0, |moment| moment.0)
}

/// From where the history is wanted: what is later than `first_timestamp`, or earlier than `last_timestamp`, in both cases
/// from `action_id` on, if it is of that moment.
fn from_of(args: &Args) -> Result<ActionFrom, ApiError> {
    let moment = |name: &str| {
        let text = args.text(name)?;
        let refuse = || ApiError::bad_request(format!("Field '{name}' is no moment"));
        text.map(|text| Timestamp::parse(&text).ok_or_else(refuse))
            .transpose()
    };
    let id = args.parsed("action_id")?;
    match (moment("first_timestamp")?, moment("last_timestamp")?) {
        (Some(_), Some(_)) => Err(ApiError::bad_request(
            "first_timestamp and last_timestamp exclude each other",
        )),
        (Some(first), None) => Ok(ActionFrom::After(first, id)),
        (None, Some(last)) => Ok(ActionFrom::Before(last, id)),
        (None, None) if id.is_some() => Err(ApiError::bad_request(
            "action_id says from where on in a moment: give first_timestamp or last_timestamp, too",
        )),
        (None, None) => Ok(ActionFrom::Newest),
    }
}

/// A part of the history, newest first, and the ways to older and newer ones, as the reference gives them: both stand there
/// as long as the part is not empty.
async fn actions_of(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let limit = page::limit(&args)?.unwrap_or(page::MAX_ROWS);
    let from = from_of(&args)?;
    let mut actions = actions_from(&app, environment.id, &args, from, limit).await?;
    let stored = stored_ids(&app, environment.id, &mut actions).await?;
    if from.is_ascending() {
        actions.reverse();
    }
    let shape = |action: &Action| {
        let ids = stored.get(&action.version).map_or(&[][..], Vec::as_slice);
        wire::action(json!(environment.id), action, ids)
    };
    let all = 0..actions.len();
    let (shown, data) = page::fitting(&actions, all, from.is_ascending(), shape);
    let base = format!(
        "/api/v2/resource_actions?limit={limit}{}",
        args.of_the_list()
    );
    let link = |name: &str, action: &Action| {
        let moment = action.started.to_string();
        // As the reference writes it; nothing else in it means something in a query.
        let moment = moment.replace(':', "%3A").replace('+', "%2B");
        json!(format!("{base}&{name}={moment}&action_id={}", action.id))
    };
    let mut links = json!({"self": base});
    if let (Some(newest), Some(oldest)) = (actions[shown.clone()].first(), actions[shown].last()) {
        links["next"] = link("last_timestamp", oldest);
        links["prev"] = link("first_timestamp", newest);
    }
    Ok(Answer::Body(json!({"data": data, "links": links})))
}

/// Resources of versions that one answer names: it has less actions then.
const MAX_STORED_IDS: usize = 20_000;

/// The resources that the stored versions among these actions brought. Actions that would name too many are left out at the end.
async fn stored_ids(
    app: &App,
    environment: EnvironmentId,
    actions: &mut Vec<Action>,
) -> Result<BTreeMap<VersionNumber, Vec<ResourceId>>, ApiError> {
    /// Versions that are looked at together.
    const SOME: usize = 20;
    let places: Vec<usize> = (0..actions.len())
        .filter(|place| actions[*place].action == ActionKind::Store)
        .collect();
    let (mut ids, mut n_ids) = (BTreeMap::new(), 0);
    for some in places.chunks(SOME) {
        if n_ids >= MAX_STORED_IDS {
            actions.truncate(some[0]);
            break;
        }
        let versions: Vec<VersionNumber> = some.iter().map(|at| actions[*at].version).collect();
        let stored = app.store.action_stored_ids(environment, &versions).await?;
        n_ids += stored.values().map(Vec::len).sum::<usize>();
        ids.extend(stored);
    }
    Ok(ids)
}

/// Actions that are read at once.
const MAX_BATCH: usize = 500;

/// At most `limit` actions that the request is about, in the direction that is read in.
async fn actions_from(
    app: &App,
    environment: EnvironmentId,
    args: &Args,
    mut from: ActionFrom,
    limit: usize,
) -> Result<Vec<Action>, ApiError> {
    let attribute = match (args.text("attribute")?, args.text("attribute_value")?) {
        (None, None) => None,
        (Some(name), Some(value)) => Some((name, value)),
        _ => {
            return Err(ApiError::bad_request(
                "attribute and attribute_value name resources together: give both, or neither",
            ));
        }
    };
    let wanted = ActionFilter::of(args)?;
    if wanted.is_nothing {
        return Ok(Vec::new());
    }
    let search = ActionSearch {
        resource_type: args.text("resource_type")?,
        agent: args.text("agent")?,
        attribute,
        narrowed: Narrowed {
            has_changed: wanted
                .without
                .iter()
                .any(|change| change == Change::NoChange.as_str()),
            level: wanted.level,
        },
    };
    // A batch at a time: the history is long, and the search finds a little more than is wanted, but for a search for all.
    let mut n_rows = if search.is_any() {
        limit
    } else {
        limit.max(100)
    };
    let plan = app.store.action_plan(environment, search).await?;
    let mut actions: Vec<Action> = Vec::new();
    loop {
        let batch = app
            .store
            .action_search(environment, &plan, from, n_rows as i64)
            .await?;
        let is_last = batch.len() < n_rows;
        if let Some(last) = batch.last() {
            from = from.behind(last);
        }
        let batch = app.store.action_fitting(environment, &plan, batch).await?;
        actions.extend(batch.into_iter().filter(|action| wanted.passes(action)));
        if is_last || actions.len() >= limit {
            actions.truncate(limit);
            return Ok(actions);
        }
        // Little of what is there is wanted.
        n_rows = n_rows.max((2 * n_rows).min(MAX_BATCH));
    }
}
