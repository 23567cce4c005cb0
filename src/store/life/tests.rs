use std::path::PathBuf;

use super::*;
use crate::domain::EnvironmentId;
use crate::store::tests::{check, environment};

async fn opened() -> (tempfile::TempDir, PathBuf, Store) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("steward.db");
    let store = Store::open_sqlite(&path).await.unwrap();
    assert!(store.acquire_single_server_lock().await.unwrap());
    store.check().await.unwrap();
    (dir, path, store)
}

/// The results of checks are kept for a moment.
async fn now(store: &Store) -> std::result::Result<(), String> {
    tokio::time::sleep(FRESH + Duration::from_millis(50)).await;
    store.check().await
}

async fn assert_refused(store: &Store, why: &str) {
    let found = now(store).await.unwrap_err();
    assert!(found.contains(why), "{found}");
    let value = serde_json::json!(1);
    let refused = store.setting_set(EnvironmentId::generate(), "a", &value);
    let refused = refused.await.unwrap_err();
    assert!(
        matches!(&refused, Error::Lost(text) if text.contains(why)),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_good_database_is_well_on_both_kinds() {
    check(|store| async move {
        assert!(store.acquire_single_server_lock().await.unwrap());
        environment(&store).await;
        store.check().await.unwrap();
        now(&store).await.unwrap();
    })
    .await;
}

/// Input: the SQLite file is deleted, or moved away and back, under the running server (docs/reference/security.md § 4.9). Answer: health is bad and writes are refused at once; the same file put back is taken up again.
#[tokio::test]
async fn a_deleted_file_refuses_writes_and_the_same_one_put_back_is_good_again() {
    let (dir, path, store) = opened().await;
    let away = dir.path().join("away");
    std::fs::rename(&path, &away).unwrap();
    assert_refused(&store, "is not there any more").await;
    std::fs::rename(&away, &path).unwrap();
    now(&store).await.unwrap();
    environment(&store).await;
    std::fs::remove_file(&path).unwrap();
    assert_refused(&store, "is not there any more").await;
}

/// Input: another file in the place of the SQLite file (docs/reference/security.md § 4.9). Answer: writes are refused, a restart is asked for.
#[tokio::test]
async fn a_replaced_file_asks_for_a_restart() {
    let (dir, path, store) = opened().await;
    let copy = dir.path().join("copy");
    std::fs::copy(&path, &copy).unwrap();
    std::fs::rename(&copy, &path).unwrap();
    assert_refused(&store, "restart the server to use that file").await;
}

/// Input: the SQLite file is overwritten or emptied in place (docs/reference/security.md § 4.9). Answer: writes are refused, a backup is asked for.
#[tokio::test]
async fn an_overwritten_file_is_noticed_though_it_has_the_same_inode() {
    for content in [&b""[..], &[b'x'; 8192], b"SQLite format 3\0"] {
        let (_dir, path, store) = opened().await;
        std::fs::write(&path, content).unwrap();
        assert_refused(&store, "was overwritten").await;
    }
    // An older state of the same database.
    let (_dir, path, store) = opened().await;
    environment(&store).await;
    store.close().await;
    let backup = std::fs::read(&path).unwrap();
    let store = Store::open_sqlite(&path).await.unwrap();
    store.acquire_single_server_lock().await.unwrap();
    std::fs::write(&path, backup).unwrap();
    assert_refused(&store, "was overwritten").await;
}

/// Input: the write-ahead log is deleted under the running server (docs/reference/security.md § 4.9). Answer: the database does not give back what was written, so nothing more is.
#[tokio::test]
async fn a_deleted_write_ahead_log_is_noticed() {
    let (dir, _, store) = opened().await;
    environment(&store).await;
    for name in ["steward.db-wal", "steward.db-shm"] {
        std::fs::remove_file(dir.path().join(name)).unwrap();
    }
    let found = now(&store).await.unwrap_err();
    assert!(
        found.contains("does not give back") || found.contains("database"),
        "{found}"
    );
    assert!(store.is_usable().is_err() || now(&store).await.is_err());
}

/// Input: another process holds the SQLite file locked (docs/reference/security.md § 4.9). Answer: health is bad, and good when it is free again.
#[tokio::test]
async fn a_file_that_somebody_holds_locked_is_not_well_until_it_is_free() {
    let (_dir, path, store) = opened().await;
    let other = SqliteConnectOptions::new().filename(&path);
    let mut other = other.connect().await.unwrap();
    sqlx::query("BEGIN IMMEDIATE")
        .execute(&mut other)
        .await
        .unwrap();
    let found = now(&store).await.unwrap_err();
    assert!(found.contains("locked"), "{found}");
    // Nothing is lost: who writes waits.
    store.is_usable().unwrap();
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    now(&store).await.unwrap();
}

/// Input: a long write of our own while health is asked for (docs/reference/security.md § 4.9). Answer: that is no fault of the database.
#[tokio::test]
async fn a_long_transaction_of_our_own_is_no_bad_health() {
    let (_dir, _, store) = opened().await;
    let Db::Sqlite { write, .. } = &store.db else {
        unreachable!()
    };
    let mut ours = write.acquire().await.unwrap();
    sqlx::query("BEGIN IMMEDIATE")
        .execute(&mut *ours)
        .await
        .unwrap();
    now(&store).await.unwrap();
    sqlx::query("ROLLBACK").execute(&mut *ours).await.unwrap();
}

/// Input: the PostgreSQL database is restored from a backup, or another server takes it, under the running server (docs/reference/security.md § 4.9). Answer: writes are refused, a restart is asked for.
#[tokio::test]
async fn rows_that_are_not_ours_any_more_stop_all_writes() {
    check(|store| async move {
        store.acquire_single_server_lock().await.unwrap();
        environment(&store).await;
        const RESTORED: &str = "DELETE FROM server_start";
        match &store.db {
            Db::Sqlite { write, .. } => drop(sqlx::query(RESTORED).execute(write).await.unwrap()),
            Db::Postgres { pool, .. } => drop(sqlx::query(RESTORED).execute(pool).await.unwrap()),
        }
        assert_refused(&store, "does not give back what this server wrote").await;
    })
    .await;
}
