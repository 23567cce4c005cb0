//! The queue of compiles that services ask for.

use std::time::Duration;

use serde_json::json;
use steward_compiler::ServicePurpose;
use uuid::Uuid;

use super::{CompileBatches, Lane, ServiceCompile};
use crate::domain::{CompileId, EnvironmentId, Timestamp, VersionNumber};
use crate::store::macros::write;
use crate::store::tests::{check, environment, store_version};
use crate::store::{Compile, CompileEnd, Outcome, Store};

fn production(instances: &[&str], removed: &[&str], at: i64) -> ServiceCompile {
    ServiceCompile {
        purpose: ServicePurpose::Production,
        instances: texts(instances),
        removed_sets: texts(removed),
        is_partial: true,
        correlation_id: Uuid::new_v4(),
        metadata: json!({"type": "lsm_export", "message": "a transfer"}),
        requested_at: Timestamp(at),
        made_at: Timestamp(0),
    }
}

fn validation(instance: &str, version: u64, at: i64) -> ServiceCompile {
    ServiceCompile {
        purpose: ServicePurpose::Validation {
            instance: instance.to_owned(),
            version,
        },
        instances: texts(&[instance]),
        ..production(&[], &[], at)
    }
}

fn texts(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

async fn request(store: &Store, id: EnvironmentId, asked: &ServiceCompile) -> CompileId {
    store.compile_request_services(id, asked).await.unwrap()
}

fn asked_for(claimed: &[Compile]) -> (Vec<String>, Vec<String>) {
    let services = claimed[0].joined_with(&claimed[1..]).services.unwrap();
    (services.instances, services.removed_sets)
}

#[tokio::test]
//: lsm 93
async fn queued_partial_compiles_become_one_with_all_ids_where_batching_is_on() {
    check(|store| async move {
        let id = environment(&store).await;
        for (at, instance) in ["a", "b", "a"].into_iter().enumerate() {
            let asked = production(&[instance], &[&format!("gone-{at}")], at as i64);
            request(&store, id, &asked).await;
        }
        let one = store.compile_claim(id, Lane::Exports, None).await.unwrap();
        assert_eq!(one.len(), 2, "the same instance was asked for twice");
        assert_eq!(
            asked_for(&one),
            (texts(&["a"]), texts(&["gone-0", "gone-2"]))
        );
        store
            .compile_requeue_interrupted(id, Lane::Exports)
            .await
            .unwrap();
        let batch = store
            .compile_claim(id, Lane::Exports, Some(&CompileBatches::default()))
            .await
            .unwrap();
        assert_eq!(batch.len(), 3);
        let (instances, _) = asked_for(&batch);
        assert_eq!(instances, texts(&["a", "b"]));
        let reported = store.compile_fetch(batch[0].id).await.unwrap().unwrap();
        assert_eq!(reported.services.unwrap().instances, instances);
    })
    .await;
}

/// Given: a batch of five that fails whenever the fourth is part of it. Expected: each half is claimed alone until that one is
/// alone, each compile asks for its own again, and none has used up an attempt but the last ones.
#[tokio::test]
//: lsm 93
async fn a_batch_that_failed_is_split_until_one_is_alone() {
    check(|store| async move {
        let id = environment(&store).await;
        for (at, instance) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
            request(&store, id, &production(&[instance], &[], at as i64)).await;
        }
        let mut batches = CompileBatches::default();
        let mut tried = Vec::new();
        loop {
            let claim = store.compile_claim(id, Lane::Exports, Some(&batches));
            let batch = claim.await.unwrap();
            let Some((first, served)) = batch.split_first() else {
                break;
            };
            let (instances, _) = asked_for(&batch);
            assert_eq!(first.attempts, 1, "{instances:?}");
            tried.push(instances.concat());
            if instances.len() > 1 && instances.contains(&"d".to_owned()) {
                batches.split(&batch);
                store.compile_split(&batch).await.unwrap();
                continue;
            }
            batches.forget(&batch);
            let end = CompileEnd {
                served: served.iter().map(|compile| compile.id).collect(),
                ..end_of(first.id, Outcome::Compiled)
            };
            store.compile_finish(&end).await.unwrap();
        }
        assert_eq!(tried, ["abcde", "ab", "cde", "c", "de", "d", "e"]);
        // What comes later is made one again.
        for instance in ["a", "d"] {
            request(&store, id, &production(&[instance], &[], 9)).await;
        }
        let claim = store.compile_claim(id, Lane::Exports, Some(&batches));
        assert_eq!(claim.await.unwrap().len(), 2);
    })
    .await;
}

#[tokio::test]
//: lsm 59
async fn full_compiles_that_wait_become_one_whatever_instance_asked() {
    check(|store| async move {
        let id = environment(&store).await;
        for at in 0..5 {
            let mut asked = production(&[&format!("i{at}")], &[], at);
            asked.is_partial = false;
            request(&store, id, &asked).await;
        }
        let claimed = store.compile_claim(id, Lane::Exports, None).await.unwrap();
        assert_eq!(claimed.len(), 5);
    })
    .await;
}

#[tokio::test]
//: lsm 49, 60
async fn validations_are_their_own_and_one_that_is_known_is_not_queued_again() {
    check(|store| async move {
        let id = environment(&store).await;
        let first = validation("a", 1, 1);
        let known = request(&store, id, &first).await;
        assert_eq!(request(&store, id, &first).await, known);
        let other = request(&store, id, &validation("b", 1, 2)).await;
        request(&store, id, &production(&["a"], &[], 0)).await;
        let batches = CompileBatches::default();
        let claim = |lane| store.compile_claim(id, lane, Some(&batches));
        let ids = |claimed: Vec<Compile>| -> Vec<CompileId> {
            claimed.iter().map(|compile| compile.id).collect()
        };
        assert_eq!(ids(claim(Lane::Validations).await.unwrap()), [known]);
        assert_eq!(ids(claim(Lane::Validations).await.unwrap()), [other]);
        assert_eq!(ids(claim(Lane::Validations).await.unwrap()), []);
        // What runs in the one lane is not taken for interrupted by the other.
        store
            .compile_requeue_interrupted(id, Lane::Exports)
            .await
            .unwrap();
        assert_eq!(ids(claim(Lane::Validations).await.unwrap()), []);
        assert_eq!(claim(Lane::Exports).await.unwrap().len(), 1);
        store
            .compile_requeue_interrupted(id, Lane::Validations)
            .await
            .unwrap();
        assert_eq!(ids(claim(Lane::Validations).await.unwrap()), [known]);
    })
    .await;
}

#[tokio::test]
async fn what_services_export_says_nothing_of_the_newest_commit() {
    check(|store| async move {
        let id = environment(&store).await;
        store_version(&store, id, vec![]).await;
        let compile = request(&store, id, &production(&["a"], &[], 1)).await;
        store.compile_claim(id, Lane::Exports, None).await.unwrap();
        let end = end_of(compile, Outcome::Rejected("no".to_owned()));
        store.compile_finish(&end).await.unwrap();
        let last = store.compile_last_judged(id).await.unwrap().unwrap();
        assert_ne!(last.id, compile);
    })
    .await;
}

#[tokio::test]
async fn a_verdict_of_before_the_clock_was_set_back_is_not_the_newest() {
    check(|store| async move {
        let id = environment(&store).await;
        store_version(&store, id, vec![]).await;
        let ahead = store.compile_last_judged(id).await.unwrap().unwrap();
        let tomorrow = Timestamp::now().plus(Duration::from_secs(86_400));
        end_at(&store, ahead.id, tomorrow).await.unwrap();
        let only = store.compile_last_judged(id).await.unwrap().unwrap();
        assert_eq!(only.id, ahead.id);
        store_version(&store, id, vec![]).await;
        let newest = store.compile_last_judged(id).await.unwrap().unwrap();
        assert_ne!(newest.id, ahead.id);
    })
    .await;
}

/// The compile ended at that time.
async fn end_at(store: &Store, id: CompileId, at: Timestamp) -> crate::store::Result<()> {
    write!(store.db, pool => {
        sqlx::query("UPDATE compile SET completed_us = $2 WHERE id = $1")
            .bind(id.to_string())
            .bind(at.0)
            .execute(pool)
            .await?
            .rows_affected()
    });
    Ok(())
}

fn end_of(id: CompileId, outcome: Outcome) -> CompileEnd {
    CompileEnd {
        id,
        served: vec![],
        outcome,
        diagnostics: json!([]),
        commit_id: None,
        tree_id: None,
        inputs_digest: None,
        result_digest: None,
    }
}

#[tokio::test]
async fn a_compile_that_the_server_could_not_do_is_queued_again_and_one_that_was_refused_is_not() {
    check(|store| async move {
        let id = environment(&store).await;
        let compile = request(&store, id, &validation("a", 3, 1)).await;
        store
            .compile_claim(id, Lane::Validations, None)
            .await
            .unwrap();
        let aborted = end_of(compile, Outcome::Aborted("no memory".to_owned()));
        store.compile_finish(&aborted).await.unwrap();
        assert!(store.compile_try_again(compile).await.unwrap());
        assert!(store.compile_unhandled(id).await.unwrap().is_empty());
        let again = store
            .compile_claim(id, Lane::Validations, None)
            .await
            .unwrap();
        assert_eq!((again[0].id, again[0].attempts), (compile, 2));
        assert_eq!(again[0].reason, None);
        let refused = end_of(compile, Outcome::Rejected("no".to_owned()));
        store.compile_finish(&refused).await.unwrap();
        assert!(!store.compile_try_again(compile).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn the_end_of_a_compile_of_services_is_reported_until_somebody_has_taken_note_of_it() {
    check(|store| async move {
        let id = environment(&store).await;
        let compile = request(&store, id, &validation("a", 3, 1)).await;
        assert!(store.compile_unhandled(id).await.unwrap().is_empty());
        store.compile_claim(id, Lane::Exports, None).await.unwrap();
        let end = end_of(compile, Outcome::Rejected("no".to_owned()));
        store.compile_finish(&end).await.unwrap();
        let open = store.compile_unhandled(id).await.unwrap();
        let services = open[0].services.clone().unwrap();
        assert_eq!((open.len(), open[0].id), (1, compile));
        let purpose = ServicePurpose::Validation {
            instance: "a".to_owned(),
            version: 3,
        };
        assert_eq!(services.purpose, purpose);
        store.compile_handled(compile).await.unwrap();
        assert!(store.compile_unhandled(id).await.unwrap().is_empty());
    })
    .await;
}

//: deploy 143
#[tokio::test]
async fn reports_without_a_version_go_when_they_are_old_and_the_newest_stays() {
    check(|store| async move {
        let id = environment(&store).await;
        store_version(
            &store,
            id,
            vec![crate::store::tests::resource("x", "1", "")],
        )
        .await;
        let mut ended = Vec::new();
        for _ in 0..3 {
            let request = crate::store::CompileRequest {
                environment_id: id,
                do_export: true,
                update: true,
                metadata: json!({"type": "test"}),
                variables: Default::default(),
            };
            let compile = store.compile_request(&request).await.unwrap();
            store.compile_claim(id, Lane::Exports, None).await.unwrap();
            let end = CompileEnd {
                id: compile,
                served: Vec::new(),
                outcome: Outcome::Rejected("it is wrong".to_owned()),
                diagnostics: json!([]),
                commit_id: None,
                tree_id: None,
                inputs_digest: None,
                result_digest: None,
            };
            store.compile_finish(&end).await.unwrap();
            ended.push(compile);
        }
        let left = async |before: i64| {
            store
                .version_purge(id, 100, Timestamp(before))
                .await
                .unwrap();
            let all = store.compile_list(id, 10).await.unwrap().into_iter();
            all.map(|one| (one.id, one.version.is_some()))
                .collect::<Vec<_>>()
        };
        assert_eq!(left(0).await.len(), 4, "none is that old");
        let kept = left(i64::MAX).await;
        assert_eq!(kept.len(), 2, "{kept:?}");
        assert_eq!(kept[0], (ended[2], false), "the newest one");
        assert!(kept[1].1, "the one that made a version");
        let made = kept[1].0;
        let resources = vec![crate::store::tests::resource("x", "2", "")];
        let (second, _) = store_version(&store, id, resources).await;
        assert_eq!(second, VersionNumber::new(2));
        let first = VersionNumber::new(1);
        store.version_delete(id, first).await.unwrap();
        let kept = left(i64::MAX).await;
        assert!(
            kept.iter().all(|(one, _)| *one != made),
            "its version is gone: {kept:?}"
        );
    })
    .await;
}

/// Given: an automatic transfer that asks for its validation, under an id that is made of the instance and its version; then
/// the lifecycle changes, and in the same version another transfer asks. Expected: each is validated once.
#[tokio::test]
async fn a_validation_is_known_by_its_transfer_too() {
    check(|store| async move {
        let id = environment(&store).await;
        let to = |target: &str| json!({"source": "start", "target": target, "error": "rejected"});
        let first = ServiceCompile {
            metadata: json!({"type": "lsm", "edge": to("acknowledged")}),
            ..validation("a", 1, 5)
        };
        let next = ServiceCompile {
            metadata: json!({"type": "lsm", "edge": to("checked")}),
            ..first.clone()
        };
        let asked = request(&store, id, &first).await;
        assert_eq!(request(&store, id, &first).await, asked);
        let other = request(&store, id, &next).await;
        assert_ne!(other, asked);
        assert_eq!(request(&store, id, &next).await, other);
        assert_eq!(request(&store, id, &first).await, asked);
    })
    .await;
}
