//! The files, and databases of before.

use std::collections::BTreeMap;

use sqlx::{PgPool, SqlitePool};

use super::*;
use crate::domain::{EnvironmentId, VersionNumber};
use crate::store::Store;

#[test]
fn every_file_of_the_folder_is_a_migration_in_the_order_of_the_names() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let files = std::fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> = files
        .map(|file| {
            file.path()
                .file_stem()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    names.sort();
    let common = FILES.iter().map(|(name, _)| (*name).to_owned());
    let postgres = POSTGRES.iter().map(|(name, _)| format!("{name}.postgres"));
    let sqlite = SQLITE.iter().map(|(name, _)| format!("{name}.sqlite"));
    let mut embedded: Vec<_> = common.chain(postgres).chain(sqlite).collect();
    embedded.sort();
    assert_eq!(names, embedded);
    for dialect in [Dialect::Sqlite, Dialect::Postgres] {
        let numbers: Vec<i64> = migrator(dialect).iter().map(|step| step.version).collect();
        assert_eq!(numbers, (1..=24).collect::<Vec<_>>());
    }
}

/// Servers that ran a migration refuse to start when its text is another, be it by a comment.
#[test]
fn the_text_of_a_migration_that_servers_have_run_never_changes() {
    let digests = |desired_state,
                   undefined_resources,
                   history_at_scale,
                   lists,
                   first_deployments| {
        [
            "abf13f5abb48f94d82616a24c3c074eb6ec9a9c10dda3370bfc33f02e6e8f6480bb563fed7d3b58919dcaf73e3a12289",
            "b67140330e02190e6b7095d0ed5cc90e26d036c39a038844cb45b02ffb9d5efce5b0aafd29d051499393928d0ab8010d",
            "4f4d75d19cd74ffeb7ceacec4630c756ae40e0611a1137b83b966a2a57595cb5b0748db8c2dfd2bbe526f98057ccc403",
            desired_state,
            "5833ba45e2607c719cf5b81ed30764ad2be79de08ea11ea60e820675cc04ad5090197833fbbbb89d01ac81bc435b9672",
            "0d122eeb7f8d1cb3938323e0f21f9fa4f77c6e31c6bad802ee3548f7a25c179588f5365c363a8cf486be306cf82d7cc9",
            "c1b245d6c692e75af2f065a9ffd55eb90ec9517deb2acdf593df8a949a973d055c3130e19910d706cbaec1a5651ae1d0",
            "c6fa5cd19beeadcf9a7988964ff2b75c6c293e1d79e7ba6e1b9995fd005a8d883ebd3c63cff4a0e6fa0b8820d80130d2",
            "853150bfd52a7260a4befcbe8e2febea535c09c54f85844cfe9b6e1a1adaf12046ca32198d60fe1a885d092fe7464df3",
            "de96f7d2210166138555bdbf3970cb4f656c4dbace7503092dfc7a30b22138c80e8a49a22a3abe3df1d49b189090a1bb",
            "c4cb6fed67d3b3195ae4ea07fa932fa303dde9e20b9f8c4ec34dbba6dc3cddd4ebde043163feb8c9e5f59629160aad8c",
            "39d9665ff26d6e39999b4ff0c194c7016a9c52bcfde2d4c2a429bb635ea052e33abe55bbf49909a0e122a65c132f550c",
            "66a320bb6ef832327809e2c2363bea7deebff84db70f8edcc3ce553121660ddb26051546d4a3785815a05d9cdd211718",
            undefined_resources,
            "55497fdac59bc82794e5cb873d1d60635d0caf7c8b4b4806f733048b4a3a79dcbea00573659ae0e79571af2f75cdaacd",
            history_at_scale,
            "dac8e56563a6a1b0c98ce3de682930d418c4732c30446c6d2dc52b93b9431b22930b4f78ba7254ef52209af94eae3f3c",
            "afb1fa9ae6c38d23555a04302406a18edfac0f1685fc55430651fe72944880317e3e84cf14321d3db9cf04aa58577c4f",
            "c044ff5bfbf347ecd4f68062b02e0cbfd501e2ac548ee00714a342229c8fabc534710b2cb0494e5006ef8e27a6c677f8",
            "beee19507f2d440c001afbb57fe0015c6a3908c1771890963f9f9e81b1582e310135ffdb080c31872ef516935697dcf3",
            "81731b04332440aacc8efbf477fbd84e326f45d3225ed87dcdb9ac2545315dcddb66a820826199582d75604d05f0f9ca",
            lists,
            "b387290c9f9be4d746e318d7f1dd217468469de9440b85cac89d3272a1d61e70e27201d873e2726cde51ca072d18bf63",
            first_deployments,
        ]
    };
    let sqlite = digests(
        "3c204bc2a6b22204627fc1876a63925466c0c7d2b8733b7748c67c5f852a526eeda52492cb9e658384ee07a4155db884",
        "6dcd7b7471212d143033749ca0824ecd1b451620a0dbfb27c59d697e69faab1346a754a5f8b534d31e7ebefd7cc2a8ab",
        "61f0341deac34e7f82d8f44ec2eb8222468cf62368fe34a43edb62549650c6939dac559c6f7e814ec3da6803f0969e2f",
        "f1fabaeb21a71ab425bf41a69385f9fc21327fbc4da5cbf9f8c152c435c5ff9e96222af1bd42a413b62b2ddb4582cc08",
        "aa6ddb49904c7d242118b5cad8483987c7ba94d6e779f45e82699299388d608a4d761c9b579bf9d6f8b0c1064f414235",
    );
    let postgres = digests(
        "14ec9d45b4265e71be53cb74340b1c188c76d2f57462326ca47ed71e2ba37e57b55083ce265654f74162460126aa2a27",
        "7dc5bc7befc56fca97946ac727bc778b046bd36ce74ebbefd74211b373e870a54467e1889197dd951a5df5dd1d7965e7",
        "f01d1f0c7adbf681a1ac8b83c18f0a1af9ec839adbb5f2a915a9980827704f03950cb780f3984fe73abce761ebf35f33",
        "a6aaed61c7e1030ca7a80a811b0c48f0faa097d05184939bb40a53f5e19c39a1fe615074e9ee2ff9f197464241497a8d",
        "1df218ff1cb4bbd8546912a3f29cc04e87b9c0169588b052a0273f84e50fd51ab3c46771b51e1973ba12e5e60ce3e4a3",
    );
    for (dialect, digests) in [(Dialect::Sqlite, sqlite), (Dialect::Postgres, postgres)] {
        assert_eq!(digests.len(), FILES.len());
        for (step, digest) in migrator(dialect).iter().zip(digests) {
            assert_eq!(hex::encode(&step.checksum), digest, "{}", step.description);
        }
    }
}

/// Content and set of each resource of a version.
type Model = BTreeMap<String, (String, String)>;

/// Rows of the schema before migration 4: a version as revisions of sets.
fn before_4(environment: &str, versions: &[Model]) -> String {
    let mut sql = format!(
        "INSERT INTO project (id, name, created_us) VALUES ('p', 'p', 0);
         INSERT INTO environment (id, project_id, name, last_version, created_us) VALUES ('{environment}', 'p', 'e', {}, 0);",
        versions.len()
    );
    let mut contents = BTreeMap::new();
    let mut revisions: BTreeMap<(String, Vec<String>), String> = BTreeMap::new();
    let mut open: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let mut intervals = Vec::new();
    for (n, model) in versions.iter().enumerate() {
        let mut sets: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, (value, set)) in model {
            let digest = format!("d-{name}-{value}");
            contents.insert(digest.clone(), name.clone());
            sets.entry(set.clone()).or_default().push(digest);
        }
        let mut now: BTreeMap<String, String> = BTreeMap::new();
        for (set, members) in sets {
            let next = format!("rev{}", revisions.len());
            let revision = revisions.entry((set.clone(), members)).or_insert(next);
            now.insert(set, revision.clone());
        }
        let ended: Vec<String> = open
            .iter()
            .filter(|(set, (_, revision))| now.get(*set) != Some(revision))
            .map(|(set, _)| set.clone())
            .collect();
        for set in ended {
            if let Some((from, revision)) = open.remove(&set) {
                intervals.push((set, from, Some(n + 1), revision));
            }
        }
        for (set, revision) in now {
            open.entry(set).or_insert((n + 1, revision));
        }
        sql += &format!(
            "INSERT INTO version (environment_id, number, created_us, metadata, n_resources) \
             VALUES ('{environment}', {}, 0, '{{}}', {});",
            n + 1,
            model.len()
        );
    }
    intervals.extend(
        open.into_iter()
            .map(|(set, (from, revision))| (set, from, None, revision)),
    );
    for (digest, name) in contents {
        sql += &format!(
            "INSERT INTO resource VALUES ('{environment}', '{digest}', '{name}', 't', 'a', 'n', 'v', '{{}}', 'h', '[]', FALSE, 5);"
        );
    }
    for ((set, members), revision) in revisions {
        sql += &format!(
            "INSERT INTO set_revision VALUES ('{revision}', '{environment}', '{set}', '{}', {});",
            members.join("+"),
            members.len()
        );
        for (position, digest) in members.iter().enumerate() {
            sql +=
                &format!("INSERT INTO set_member VALUES ('{revision}', {position}, '{digest}');");
        }
    }
    for (set, from, to, revision) in intervals {
        let to = to.map_or("NULL".to_owned(), |to| to.to_string());
        sql += &format!(
            "INSERT INTO set_interval VALUES ('{environment}', '{set}', {from}, {to}, '{revision}');"
        );
    }
    sql += &format!(
        "INSERT INTO resource_state (environment_id, resource_id, resource_type, agent, id_value, created_us, is_undefined, \
         is_deploying, blocked, intent_hash, last_run, last_status) VALUES ('{environment}', 'a', 't', 'a', 'v', 0, FALSE, \
         FALSE, 'not_blocked', 'h', 'new', 'available');"
    );
    sql
}

/// Resources change, move between sets, go and come back.
fn versions() -> Vec<Model> {
    let model = |text: &str| -> Model {
        let one = |part: &str| {
            let mut parts = part.split('-');
            let mut part = || parts.next().unwrap().to_owned();
            (part(), (part(), part()))
        };
        text.split_whitespace().map(one).collect()
    };
    let texts = [
        "a-1-s b-1-s c-1-t d-1-",
        "a-1-s b-2-s c-1-t d-1-",
        "a-1-s b-2-s d-1-",
        "a-1-t b-1-s c-1-t d-1-",
        "a-1-t b-1-s c-1-t d-1- e-1-u",
        "b-1-s c-2-t e-1-u",
    ];
    texts.map(model).to_vec()
}

async fn reads_as_before(store: &Store, environment: EnvironmentId) {
    for (n, model) in versions().into_iter().enumerate() {
        let number = VersionNumber::new(n as i64 + 1);
        let read = store.resource_list(environment, number).await.unwrap();
        let read: Model = read
            .into_iter()
            .map(|one| {
                let value = one.digest.rsplit('-').next().unwrap().to_owned();
                (one.resource_id.to_string(), (value, one.set_name))
            })
            .collect();
        assert_eq!(read, model, "version {number}");
    }
    let counts = store.state_counts(environment).await.unwrap();
    assert_eq!(counts.values().sum::<i64>(), 1);
    // What stays is one row: of `a` one for each of its sets, of `d` one.
    let a = crate::domain::ResourceId::new("a");
    let first = VersionNumber::new(1);
    store.version_release(environment, first).await.unwrap();
    assert_eq!(
        store.resource_history(environment, &a).await.unwrap().len(),
        1
    );
    store.close().await;
}

fn until_3(dialect: Dialect) -> Migrator {
    let migrator = migrator(dialect);
    Migrator {
        migrations: migrator.iter().take(3).cloned().collect(),
        ..Migrator::DEFAULT
    }
}

#[tokio::test]
async fn versions_that_were_stored_before_migration_4_read_as_before_on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("steward.db");
    let environment = EnvironmentId::generate();
    let url = format!("sqlite://{}?mode=rwc", path.display());
    let pool = SqlitePool::connect(&url).await.unwrap();
    until_3(Dialect::Sqlite).run(&pool).await.unwrap();
    let sql = before_4(&environment.to_string(), &versions());
    sqlx::raw_sql(&sql).execute(&pool).await.unwrap();
    pool.close().await;
    reads_as_before(&Store::open_sqlite(&path).await.unwrap(), environment).await;
}

#[tokio::test]
async fn versions_that_were_stored_before_migration_4_read_as_before_on_postgresql() {
    let Ok(url) = std::env::var("STEWARD_TEST_POSTGRES") else {
        assert!(
            std::env::var("CI").is_err(),
            "CI must name a PostgreSQL server"
        );
        return;
    };
    let admin = PgPool::connect(&url).await.unwrap();
    let name = format!("steward_{}", uuid::Uuid::new_v4().simple());
    sqlx::query(&format!("CREATE DATABASE {name}"))
        .execute(&admin)
        .await
        .unwrap();
    let url = format!("{}/{name}", url.rsplit_once('/').unwrap().0);
    let environment = EnvironmentId::generate();
    let pool = PgPool::connect(&url).await.unwrap();
    until_3(Dialect::Postgres).run(&pool).await.unwrap();
    let sql = before_4(&environment.to_string(), &versions());
    sqlx::raw_sql(&sql).execute(&pool).await.unwrap();
    pool.close().await;
    reads_as_before(&Store::open_postgres(&url).await.unwrap(), environment).await;
    sqlx::query(&format!("DROP DATABASE {name} WITH (FORCE)"))
        .execute(&admin)
        .await
        .unwrap();
}
