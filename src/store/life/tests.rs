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

/// The session that has the lock on the database, and ends it if it is told to.
async fn lock_of(url: &str, end: bool) -> i32 {
    let admin = sqlx::PgPool::connect(url).await.unwrap();
    let sql = format!(
        "SELECT l.pid, CASE WHEN {end} THEN pg_terminate_backend(l.pid) ELSE FALSE END FROM pg_locks l \
         WHERE l.locktype = 'advisory' AND l.granted AND l.objid = (5773651884212 & 4294967295)::oid \
         AND l.database = (SELECT oid FROM pg_database WHERE datname = CURRENT_DATABASE())"
    );
    let (pid, _): (i32, bool) = sqlx::query_as(&sql).fetch_one(&admin).await.unwrap();
    admin.close().await;
    pid
}

/// Input: a server whose session with the lock on PostgreSQL has ended, and another one that takes the lock before the first notices (docs/reference/security.md § 3.40, § 4.9). Answer: nothing that the first one writes from then on is taken.
#[tokio::test]
async fn who_takes_the_database_over_ends_all_that_the_server_before_it_writes() {
    crate::store::tests::check_on_postgres(async |url| {
        let first = Store::open_postgres(&url).await.unwrap();
        assert!(first.acquire_single_server_lock().await.unwrap());
        let id = environment(&first).await;
        let second = Store::open_postgres(&url).await.unwrap();
        assert!(!second.acquire_single_server_lock().await.unwrap());
        // A transaction of the first one is open meanwhile.
        let Db::Postgres { pool, .. } = &first.db else {
            unreachable!()
        };
        let mut open = pool.begin().await.unwrap();
        const WRITE: &str = "UPDATE environment SET description = 'by the first one'";
        sqlx::query(WRITE).execute(&mut *open).await.unwrap();
        lock_of(&url, true).await;
        while !second.acquire_single_server_lock().await.unwrap() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        open.commit().await.unwrap_err();
        let value = serde_json::json!(false);
        let refused = first.setting_set(id, "auto_deploy", &value).await;
        assert!(refused.is_err());
        assert!(first.setting_set(id, "auto_deploy", &value).await.is_err());
        assert!(now(&first).await.is_err());
        let found = second.environment_fetch(id).await.unwrap().unwrap();
        assert_eq!(found.description, "");
        second.setting_set(id, "auto_deploy", &value).await.unwrap();
        now(&second).await.unwrap();
    })
    .await;
}

/// Stands before PostgreSQL. What is connected when it is frozen neither hears nor says anything any more, and neither end
/// is told.
async fn freezer(port: u16) -> (u16, tokio::sync::watch::Sender<u32>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().port();
    let (sender, receiver) = tokio::sync::watch::channel(0);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut frozen = receiver.clone();
            frozen.mark_unchanged();
            tokio::spawn(async move {
                let database = tokio::net::TcpStream::connect(("127.0.0.1", port));
                let mut database = database.await.unwrap();
                let both = tokio::io::copy_bidirectional(&mut client, &mut database);
                tokio::select! {
                    _ = both => {}
                    _ = frozen.changed() => std::future::pending::<()>().await,
                }
            });
        }
    });
    (own, sender)
}

/// Input: a connection to PostgreSQL that is cut without a word, whose session goes on at the other end and keeps the lock (docs/reference/security.md § 4.9). Answer: the server ends that session, and has the lock again.
#[tokio::test]
async fn a_lock_that_an_own_session_keeps_whose_line_is_dead_is_taken_again() {
    crate::store::tests::check_on_postgres(async |url| {
        let address = url.rsplit_once('@').unwrap().1;
        let (place, name) = address.split_once('/').unwrap();
        let port: u16 = place.rsplit_once(':').unwrap().1.parse().unwrap();
        let (own, freeze) = freezer(port).await;
        let through = format!("postgres://postgres@127.0.0.1:{own}/{name}");
        let store = Store::open_postgres(&through).await.unwrap();
        assert!(store.acquire_single_server_lock().await.unwrap());
        let id = environment(&store).await;
        now(&store).await.unwrap();
        let before = lock_of(&url, false).await;
        freeze.send(1).unwrap();
        let began = Instant::now();
        while now(&store).await.is_err() {
            assert!(began.elapsed() < Duration::from_secs(40), "it stays lost");
        }
        assert_ne!(lock_of(&url, false).await, before);
        let value = serde_json::json!(false);
        store.setting_set(id, "auto_deploy", &value).await.unwrap();
        // Somebody else's lock is left alone.
        let other = Store::open_postgres(&url).await.unwrap();
        assert!(!other.acquire_single_server_lock().await.unwrap());
    })
    .await;
}
