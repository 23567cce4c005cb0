//! Batches of runs, on each database.

use std::slice;

use super::*;
use crate::domain::LastRun;
use crate::store::Db;
use crate::store::batch::Batches;
use crate::store::tests::{check, check_on_postgres, environment, state};

/// A run of a resource that changed nothing, with the state behind it.
fn run(name: &str, started: i64) -> (ActionStart, ActionEnd) {
    let after = ResourceState {
        deployed_hash: Some(state(name).intent_hash),
        last_run: LastRun::Successful,
        last_run_at: Some(Timestamp(started + 1)),
        last_status: ResourceStatus::Deployed,
        ..state(name)
    };
    let start = ActionStart {
        id: ActionId::generate(),
        action: ActionKind::Deploy,
        version: VersionNumber::new(1),
        resource_id: after.resource_id.clone(),
        started: Timestamp(started),
    };
    let end = ActionEnd {
        id: start.id,
        finished: Timestamp(started + 1),
        status: ResourceStatus::Deployed,
        change: Change::NoChange,
        changes: "{}".into(),
        messages: "[]".into(),
        resource_id: after.resource_id.clone(),
        state: Some(after),
        facts: vec![],
        discovered: vec![],
    };
    (start, end)
}

/// Given: many runs that go on, where PostgreSQL believes that all have ended, and a batch of ends. Expected: it reads the runs that
/// end, and no others: else it would look at each that goes on for each of the batch.
#[tokio::test]
async fn the_end_of_a_run_is_written_without_looking_at_the_runs_that_go_on() {
    check_on_postgres(async |url| {
        let store = Store::open_postgres(&url).await.unwrap();
        let id = environment(&store).await;
        let Db::Postgres { pool, .. } = &store.db else {
            panic!("it is PostgreSQL");
        };
        let of = |names: std::ops::Range<i64>| -> (Vec<_>, Vec<_>) {
            names.map(|n| run(&format!("x{n}"), n)).unzip()
        };
        let (starts, ends) = of(0..3000);
        store.action_write(id, &starts, &ends).await.unwrap();
        let analyzed = sqlx::query("ANALYZE resource_action").execute(pool).await;
        analyzed.unwrap();
        let (starts, ends) = of(3000..6000);
        store.action_write(id, &starts, &[]).await.unwrap();
        let mut tx = pool.begin().await.unwrap();
        assert!(tx.begin_batch(&id.to_string()).await.unwrap());
        let ended: Vec<&ActionEnd> = ends[..10].iter().collect();
        tx.end_actions(&ended).await.unwrap();
        const READ: &str = "SELECT seq_tup_read + COALESCE(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables \
                            WHERE relname = 'resource_action'";
        let read = sqlx::query_scalar::<_, i64>(READ).fetch_one(&mut *tx).await;
        let read = read.unwrap();
        assert!((10..100).contains(&read), "{read} rows");
        tx.commit().await.unwrap();
        let history = store.action_list(id, None, 6000).await.unwrap();
        let ended = history.iter().filter(|one| one.finished.is_some());
        assert_eq!(ended.count(), 3010);
    })
    .await;
}

/// A connection that breaks in a commit leaves open whether the batch is there; what is written again may have grown.
#[tokio::test]
async fn a_batch_that_is_written_again_adds_the_runs_that_are_not_there_yet() {
    check(|store| async move {
        let id = environment(&store).await;
        let states = [state("x"), state("y")];
        store
            .version_activate(id, VersionNumber::new(1), &states, &[], &[])
            .await
            .unwrap();
        let ((start, end), (next_start, next_end)) = (run("x", 5), run("y", 7));
        let (start, end) = ([start], [end]);
        store.action_write(id, &start, &end).await.unwrap();
        let more_starts = [start[0].clone(), next_start];
        let more_ends = [end[0].clone(), next_end];
        for _ in 0..2 {
            store
                .action_write(id, &more_starts, &more_ends)
                .await
                .unwrap();
            let history = store.action_list(id, None, 10).await.unwrap();
            let ids: Vec<ActionId> = history.iter().map(|action| action.id).collect();
            assert_eq!(ids, [more_starts[1].id, more_starts[0].id]);
            let counts = store.state_counts(id).await.unwrap();
            assert_eq!(counts[&ResourceStatus::Deployed], 2);
        }
    })
    .await;
}

/// The states of most runs are there already, and those of some are not: all are written, and counted once.
#[tokio::test]
async fn states_behind_runs_are_written_and_counted_whether_they_were_there_or_not() {
    check(|store| async move {
        let id = environment(&store).await;
        let known: Vec<ResourceState> = (0..3).map(|n| state(&format!("known{n}"))).collect();
        store
            .version_activate(id, VersionNumber::new(1), &known, &[], &[])
            .await
            .unwrap();
        let names = ["known0", "new", "known2"];
        let (starts, ends): (Vec<_>, Vec<_>) = names.iter().map(|name| run(name, 5)).unzip();
        store.action_write(id, &starts, &ends).await.unwrap();
        for end in &ends {
            let stored = store.state_fetch(id, &end.resource_id).await.unwrap();
            assert_eq!(stored, end.state);
        }
        let untouched = store.state_fetch(id, &known[1].resource_id).await.unwrap();
        assert_eq!(untouched.as_ref(), Some(&known[1]));
        let mut counts = store.state_counts(id).await.unwrap();
        counts.retain(|_, n| *n != 0);
        let expected = [(ResourceStatus::Deployed, 3), (known[1].status(), 1)];
        assert_eq!(counts, expected.into());
    })
    .await;
}

/// Given: the end of a run in one batch with the beginning of the next run of its resource, as after a change of what is
/// wanted or an event. Expected: it is being deployed, and a crash of the server closes that run.
#[tokio::test]
async fn a_resource_that_runs_again_at_once_is_being_deployed() {
    check(|store| async move {
        let id = environment(&store).await;
        let known = [state("x")];
        store
            .version_activate(id, VersionNumber::new(1), &known, &[], &[])
            .await
            .unwrap();
        let ((first, end), (again, end_again)) = (run("x", 5), run("x", 6));
        store.action_write(id, &[first], &[]).await.unwrap();
        store.action_write(id, &[again], &[end]).await.unwrap();
        let now = async || store.state_fetch(id, &known[0].resource_id).await.unwrap();
        let deploying = now().await.unwrap();
        assert_eq!(deploying.status(), ResourceStatus::Deploying);
        assert_eq!(deploying.last_run, LastRun::Successful);
        let mut counts = store.state_counts(id).await.unwrap();
        counts.retain(|_, n| *n != 0);
        assert_eq!(counts, [(ResourceStatus::Deploying, 1)].into());
        store
            .action_write(id, &[], slice::from_ref(&end_again))
            .await
            .unwrap();
        assert_eq!(now().await, end_again.state);
        let (third, _) = run("x", 8);
        store
            .action_write(id, &[third], &[end_again])
            .await
            .unwrap();
        assert_eq!(store.action_close_interrupted(None).await.unwrap(), 1);
        let closed = now().await.unwrap();
        assert_eq!(
            (closed.is_deploying, closed.last_run),
            (false, LastRun::Failed)
        );
    })
    .await;
}

/// A resource that is verified every few minutes has many runs of a new version soon.
#[tokio::test]
async fn what_was_done_in_a_version_is_found_whatever_came_after() {
    check(|store| async move {
        let id = environment(&store).await;
        let mut starts = Vec::new();
        for at in 0..20 {
            let (mut start, end) = run("x", 2 * at);
            start.version = VersionNumber::new(if at < 3 { 1 } else { 2 });
            if at == 2 {
                start.action = ActionKind::DryRun;
            }
            let batch = [start];
            store.action_write(id, &batch, &[end]).await.unwrap();
            starts.extend(batch);
        }
        let (resource, first) = (&starts[0].resource_id, VersionNumber::new(1));
        let found = async |kind, limit| {
            let actions = store.action_of_version(id, resource, first, kind, limit);
            let ids = actions.await.unwrap().into_iter().map(|action| action.id);
            ids.collect::<Vec<ActionId>>()
        };
        let ids: Vec<ActionId> = starts.iter().map(|start| start.id).collect();
        assert_eq!(found(None, 10).await, [ids[2], ids[1], ids[0]]);
        assert_eq!(found(Some(ActionKind::Deploy), 10).await, [ids[1], ids[0]]);
        assert_eq!(found(None, 1).await, [ids[2]]);
    })
    .await;
}

/// PostgreSQL does not look up the environment of each run: the store does, and a trigger deletes them.
#[tokio::test]
async fn the_history_goes_with_its_environment_and_nothing_is_added_afterwards() {
    check(|store| async move {
        let (id, other) = (environment(&store).await, environment(&store).await);
        let (start, end) = run("x", 5);
        let (start, end) = ([start], [end]);
        store.action_write(id, &start, &end).await.unwrap();
        let (kept, kept_end) = run("x", 5);
        store
            .action_write(other, &[kept], &[kept_end])
            .await
            .unwrap();

        store.environment_clear(id).await.unwrap();
        assert!(store.action_list(id, None, 10).await.unwrap().is_empty());
        store.action_write(id, &start, &end).await.unwrap();
        let project = store
            .environment_fetch(id)
            .await
            .unwrap()
            .unwrap()
            .project_id;
        assert!(store.project_delete(project).await.unwrap());
        assert!(store.action_list(id, None, 10).await.unwrap().is_empty());
        let late = store.action_write(id, &start, &end).await;
        assert!(matches!(late, Err(Error::NotFound(_))), "{late:?}");
        assert!(store.action_list(id, None, 10).await.unwrap().is_empty());
        assert_eq!(store.action_list(other, None, 10).await.unwrap().len(), 1);

        assert!(store.environment_delete(other).await.unwrap());
        assert!(store.action_list(other, None, 10).await.unwrap().is_empty());
    })
    .await;
}

/// A resource with an attribute beside the one in its id.
fn described(name: &str, text: &str) -> crate::store::StoredResource {
    crate::store::StoredResource {
        attributes: serde_json::json!({"name": name, "text": text, "n": 15, "flag": true})
            .to_string(),
        ..crate::store::tests::resource(name, "1", "")
    }
    .with_digest()
}

/// Given: a resource whose text was `first` in version 1 and `second` in version 2, run for both, and one that stays the same.
/// Expected: a search by an attribute finds what was done while it was so, by what its value begins with; with it the stored
/// versions; what the id says is found alike.
#[tokio::test]
async fn the_history_is_searched_by_attributes_as_they_were_then() {
    use crate::store::tests::store_version;
    check(|store| async move {
        let id = environment(&store).await;
        let same = described("same_1", "50% off");
        let mut numbers = Vec::new();
        for text in ["first", "second"] {
            let resources = vec![described("x", text), same.clone()];
            numbers.push(store_version(&store, id, resources).await.0);
        }
        let mut ids = Vec::new();
        for (name, version) in [("x", 0), ("x", 1), ("same_1", 1)] {
            let (mut start, mut end) = run(name, Timestamp::now().0);
            start.version = numbers[version];
            (start.resource_id, end.state) = (described(name, "").resource_id, None);
            end.resource_id = start.resource_id.clone();
            ids.push(start.id);
            store.action_write(id, &[start], &[end]).await.unwrap();
        }
        let found = async |attribute: Option<(&str, &str)>, agent: Option<&str>| {
            let search = ActionSearch {
                agent: agent.map(str::to_owned),
                attribute: attribute.map(|(name, begin)| (name.to_owned(), begin.to_owned())),
                ..ActionSearch::default()
            };
            let plan = store.action_plan(id, search).await.unwrap();
            let found = store.action_search(id, &plan, ActionFrom::Newest, 10).await;
            let fitting = store
                .action_fitting(id, &plan, found.unwrap())
                .await
                .unwrap();
            let runs = fitting
                .iter()
                .filter_map(|one| ids.iter().position(|id| *id == one.id));
            let stored = fitting.iter().filter(|one| one.action == ActionKind::Store);
            let stored: Vec<i64> = stored.map(|one| one.version.get()).collect();
            (runs.collect::<Vec<_>>(), stored)
        };
        assert_eq!(found(None, None).await, (vec![2, 1, 0], vec![2, 1]));
        assert_eq!(found(None, Some("a")).await, (vec![2, 1, 0], vec![2, 1]));
        assert_eq!(found(None, Some("b")).await, (vec![], vec![]));
        let by = async |name, begin| found(Some((name, begin)), Some("a")).await;
        assert_eq!(by("name", "x").await, (vec![1, 0], vec![2, 1]));
        assert_eq!(by("name", "same_").await, (vec![2], vec![2, 1]));
        assert_eq!(by("name", "same%").await, (vec![], vec![]));
        assert_eq!(by("text", "second").await, (vec![1], vec![2]));
        assert_eq!(by("text", "sec").await, (vec![1], vec![2]));
        assert_eq!(by("text", "ec").await, (vec![], vec![]));
        assert_eq!(by("text", "50%").await, (vec![2], vec![2, 1]));
        assert_eq!(by("n", "1").await, (vec![2, 1, 0], vec![2, 1]));
        assert_eq!(by("flag", "true").await, (vec![2, 1, 0], vec![2, 1]));
        assert_eq!(by("other", "x").await, (vec![], vec![]));
        let x = described("x", "").resource_id;
        let history = store.action_history(id, &x, 10).await.unwrap();
        let kinds: Vec<(ActionKind, i64)> = history
            .iter()
            .map(|one| (one.action, one.version.get()))
            .collect();
        let (deploy, stored) = (ActionKind::Deploy, ActionKind::Store);
        assert_eq!(kinds, [(deploy, 2), (deploy, 1), (stored, 2), (stored, 1)]);
        let brought = store.action_stored_ids(id, &numbers).await.unwrap();
        assert_eq!(brought[&numbers[0]], [same.resource_id.clone(), x.clone()]);
        let stored = store
            .action_store_of(id, numbers[1])
            .await
            .unwrap()
            .unwrap();
        assert!(stored.has_brought(&x) && stored.action.version == numbers[1]);
        let none = store.action_store_of(id, VersionNumber::new(9)).await;
        assert!(none.unwrap().is_none());
    })
    .await;
}

/// Given: a thousand runs, of which one changed something and complains. Expected: who asks for what changed, or for an error, gets
/// that one, and SQLite finds it by an index, whichever way the history is read.
#[tokio::test]
async fn what_changed_or_complained_is_found_without_reading_the_rest() {
    use crate::domain::LogLevel;
    use crate::store::macros::read;
    check(|store| async move {
        let id = environment(&store).await;
        let mut runs: Vec<_> = (0..1000).map(|n| run("x", n)).collect();
        let line = r#"[{"level":"ERROR","msg":"m","args":[],"kwargs":{},"timestamp":"2026-01-01T00:00:00"}]"#;
        runs[500].1.change = Change::Updated;
        runs[500].1.messages = line.to_owned();
        let meant = runs[500].0.id;
        let (starts, ends): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
        store.action_write(id, &starts, &ends).await.unwrap();
        let changed = Narrowed {
            has_changed: true,
            level: None,
        };
        let of = |level| Narrowed {
            has_changed: false,
            level: Some(level),
        };
        for (narrowed, index, expected) in [
            (changed, "resource_action_changed", &[meant][..]),
            (of(LogLevel::Error), "resource_action_error", &[meant]),
            (of(LogLevel::Critical), "resource_action_critical", &[]),
            (of(LogLevel::Warning), "resource_action_warning", &[]),
            (of(LogLevel::Trace), "resource_action_trace", &[]),
        ] {
            let search = ActionSearch {
                narrowed,
                ..ActionSearch::default()
            };
            let of_agent = ActionSearch {
                agent: Some("a".to_owned()),
                ..search.clone()
            };
            for search in [search, of_agent] {
                let plan = store.action_plan(id, search).await.unwrap();
                for from in [
                    ActionFrom::Newest,
                    ActionFrom::After(Timestamp(0), None),
                ] {
                    let found = store.action_search(id, &plan, from, 10).await.unwrap();
                    let ids: Vec<_> = found.iter().map(|one| one.id).collect();
                    assert_eq!(ids, expected, "{narrowed:?}");
                }
            }
            if store.is_sqlite() {
                let sql = format!(
                    "EXPLAIN QUERY PLAN SELECT id FROM resource_action WHERE environment_id = $1{} ORDER BY started_us, id",
                    narrowed.condition()
                );
                let rows: Vec<(i64, i64, i64, String)> = async {
                    Ok::<_, crate::store::Error>(read!(store.db, pool => {
                        sqlx::query_as(&sql).bind(id.to_string()).fetch_all(pool).await?
                    }))
                }
                .await
                .unwrap();
                assert!(rows[0].3.contains(index), "{rows:?}");
            }
        }
    })
    .await;
}

/// Given: runs of one of very many resources that are wanted, and newer ones of another. Expected: the database leaves out those of
/// the other, since ids say which are wanted; else all of a long history would be read.
#[tokio::test]
async fn the_history_of_many_resources_is_searched_by_what_ids_say() {
    check(|store| async move {
        let id = environment(&store).await;
        let mut states: Vec<ResourceState> =
            (0..2100).map(|n| state(&format!("many{n:04}"))).collect();
        states.push(state("other"));
        store
            .version_activate(id, VersionNumber::new(1), &states, &[], &[])
            .await
            .unwrap();
        let mut runs = vec![run("many0007", 1)];
        runs.extend((2..30).map(|at| run("other", at)));
        let wanted = runs[0].0.id;
        let (starts, ends): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
        store.action_write(id, &starts, &ends).await.unwrap();
        let search = ActionSearch {
            attribute: Some(("name".to_owned(), "many".to_owned())),
            ..ActionSearch::default()
        };
        let plan = store.action_plan(id, search).await.unwrap();
        let found = store.action_search(id, &plan, ActionFrom::Newest, 10).await;
        let ids: Vec<ActionId> = found.unwrap().iter().map(|one| one.id).collect();
        assert_eq!(ids, [wanted]);
    })
    .await;
}

/// Expected: what is asked for by its ids is not looked for among all actions of the environment.
#[tokio::test]
async fn actions_are_looked_for_by_their_ids() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open_sqlite(&dir.path().join("steward.db"))
        .await
        .unwrap();
    let sql = format!("EXPLAIN QUERY PLAN {}", super::search::by_ids(6));
    let rows: Vec<(i64, i64, i64, String)> = async {
        Ok::<_, crate::store::Error>(read!(store.db, pool => {
            let mut query = sqlx::query_as(&sql);
            for number in 0..7 {
                query = query.bind(number.to_string());
            }
            query.fetch_all(pool).await?
        }))
    }
    .await
    .unwrap();
    assert!(rows.len() == 1 && rows[0].3.contains("(id=?)"), "{rows:?}");
}
