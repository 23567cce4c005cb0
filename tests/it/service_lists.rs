//! Lists of services: instances, versions and events. Source: docs/reference/lsm.md § 5.1, § 5.4, § 5.7.

use std::collections::BTreeSet;

use serde_json::json;

use crate::service_world::World;

//: lsm 95, 96, 97
#[test]
fn lists_are_paged_filtered_and_counted() {
    let world = World::new();
    let mut ids = BTreeSet::new();
    for n in 0..7 {
        let path = world.create(&format!("s{n}"), if n == 3 { 666 } else { n });
        ids.insert(path.rsplit('/').next().unwrap().to_owned());
        world.reaches(&path, if n == 3 { "rejected" } else { "up" });
    }
    for sort in [
        "created_at.desc",
        "created_at.asc",
        "state.asc",
        "id.desc",
        "identity.asc",
    ] {
        let (mut seen, mut next) = (
            Vec::new(),
            format!("/lsm/v1/service_inventory/link?limit=2&sort={sort}"),
        );
        let mut last;
        loop {
            last = world.running.get_ok(&next);
            assert_eq!(last["metadata"]["before"], json!(seen.len()), "{sort}");
            let rows = last["data"].as_array().unwrap().iter();
            seen.extend(rows.map(|row| row["id"].as_str().unwrap().to_owned()));
            assert_eq!(last["metadata"]["total"], 7);
            match last["links"]["next"].as_str() {
                Some(link) => next = link.to_owned(),
                None => break,
            }
        }
        assert_eq!(seen.len(), 7, "{sort}: {seen:?}");
        assert_eq!(seen.iter().cloned().collect::<BTreeSet<_>>(), ids);
        let mut back = vec![last["data"].clone()];
        while let Some(link) = last["links"]["prev"].as_str() {
            last = world.running.get_ok(link);
            back.insert(0, last["data"].clone());
        }
        let back = back.iter().flat_map(|page| page.as_array().unwrap());
        let back: Vec<_> = back
            .map(|row| row["id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(back, seen, "{sort}");
    }
    let count = |query: &str| {
        let path = format!("/lsm/v1/service_inventory/link?{query}");
        world.running.get_ok(&path)["metadata"]["total"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(count("filter.state=up"), 6);
    assert_eq!(count("filter.state=up&filter.state=rejected"), 7);
    assert_eq!(count("filter.attribute_set_empty=active_attributes"), 1);
    assert_eq!(
        count("filter.attribute_set_not_empty=candidate_attributes"),
        1
    );
    assert_eq!(count("filter.id_or_service_identity=S3"), 1);
    assert_eq!(count("filter.service_entity_version=ge:1"), 0);
    assert_eq!(
        count("filter.service_entity_version=le:0&filter.deleted=False&&"),
        7
    );
    for wrong in [
        "filter.colour=red",
        "sort=colour.asc",
        "limit=1001",
        "limit=0",
        "filter.service_entity_version=x",
    ] {
        let path = format!("/lsm/v1/service_inventory/link?{wrong}");
        assert_eq!(world.get(&path).0, 400, "{wrong}");
    }
    let catalog = world
        .running
        .get_ok("/lsm/v1/service_catalog?instance_summary=true");
    let summary = &catalog["data"][0]["instance_summary"];
    assert_eq!(
        (&summary["total"], &summary["by_state"]["up"]),
        (&json!(7), &json!(6))
    );
    assert_eq!(
        (
            &summary["by_label"]["success"],
            &summary["by_label"]["danger"]
        ),
        (&json!(6), &json!(1))
    );
}

//: lsm 99
#[test]
fn history_says_what_happened_in_which_version() {
    let world = World::new();
    let path = world.create("a", 1);
    world.reaches(&path, "up");
    let log = world
        .running
        .get_ok(&format!("{path}/log?filter.version=ge:3"));
    let versions: Vec<_> = log["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["version"].clone())
        .collect();
    assert_eq!(versions, [json!(4), json!(3)]);
    let events = world
        .running
        .get_ok(&format!("{path}/events?sort=timestamp.asc&limit=100"));
    let events = events["data"].as_array().unwrap().clone();
    let created: Vec<_> = events
        .iter()
        .filter(|one| one["event_type"] == "CREATE_TRANSITION")
        .collect();
    assert!(!created.is_empty());
    assert!(
        created
            .iter()
            .all(|one| one["service_instance_version"] == 0),
        "{created:?}"
    );
    let validating: Vec<_> = events
        .iter()
        .filter(|one| {
            one["event_type"] == "AUTO_TRANSITION" && one["service_instance_version"] == 1
        })
        .collect();
    let ids: BTreeSet<_> = validating
        .iter()
        .map(|one| one["event_correlation_id"].to_string())
        .collect();
    assert_eq!(
        ids.len(),
        1,
        "one trigger, one correlation id: {validating:#?}"
    );
    assert!(
        validating
            .iter()
            .any(|one| one["id_compile_report"].is_string())
    );
    let some = world.running.get_ok(&format!(
        "{path}/events?filter.destination=up&filter.event_type=RESOURCE_TRANSITION"
    ));
    assert!(!some["data"].as_array().unwrap().is_empty());
    assert_eq!(
        world.get(&format!("{path}/events?filter.colour=red")).0,
        400
    );
    let first = world.running.get_ok(&format!("{path}/events?limit=1"));
    let next = first["links"]["next"].as_str().unwrap();
    assert_ne!(
        world.running.get_ok(next)["data"][0]["id"],
        first["data"][0]["id"]
    );
}
