//! What comes of the deployment of an instance's resources, of its validation, and of who is told.
//! Source: docs/reference/lsm.md § 3.2.1, § 3.6, § 3.7, § 3.13.

use serde_json::{Value, json};

use crate::harness::{segment, wait_until};
use crate::service_world::{World, id_of};

/// Services of one file each, whose kind says what stands in its way.
const THINGS: &str = r#"import fs
import lsm
import lsm::fsm

entity Thing extends lsm::ServiceEntity:
    string name
    string kind = "plain"
    string _text
end
Thing.file [1] -- fs::File

root = std::get_env("ROOT")
host = std::Host(name="localhost", os=std::linux)
# Nobody waits for it but who requires it.
gate = fs::File(host=host, path="{{ root }}/gate/open", content="x", send_event=true)
source = fs::File(host=host, path="{{ root }}/source", content="x")

implementation deploy for Thing:
    self.file = fs::File(
        host=host, path="{{ root }}/{{ self.name }}", content=self._text, send_event=true,
        purged=self.purge_resources, requires=self.requires, provides=self.provides,
    )
    self.resources += self.file
    self.owned_resources += self.resources
end
implementation plain for Thing:
    self._text = "x"
end
implementation gated for Thing:
    self.file.requires += gate
end
implementation unknown for Thing:
    self._text = std::getfact(source, "serial")
end
implementation broken for Thing:
    self.resources += fs::File(
        host=host, path="{{ root }}/none/{{ self.name }}", content="x", requires=self.requires, provides=self.provides,
        purged=self.purge_resources,
    )
end
implement Thing using deploy, parents
implement Thing using plain when self.kind != "unknown"
implement Thing using gated when self.kind == "gated" or self.kind == "both"
implement Thing using broken when self.kind == "broken" or self.kind == "both"
implement Thing using unknown when self.kind == "unknown"

things = lsm::ServiceEntityBindingV2(service_entity="__config__::Thing", service_entity_name="thing", lifecycle=lsm::fsm::simple)
for i in lsm::all(things):
    Thing(instance_id=i["id"], entity_binding=things, **i["attributes"])
end
"#;

fn transfer_state(world: &World, path: &str) -> Value {
    let id = format!(
        "lsm::LifecycleTransfer[internal,instance_id={}]",
        id_of(path)
    );
    let (_, found) = world.get(&format!("/api/v2/resource/{}", segment(&id)));
    found["data"]["status"].clone()
}

fn reports(world: &World, path: &str) -> usize {
    let events = world.events(path);
    let events = events.iter();
    events
        .filter(|event| {
            event["event_type"] == "RESOURCE_TRANSITION" && event["destination"].is_string()
        })
        .count()
}

//: lsm 65, 66, 67
#[test]
fn what_is_put_off_reports_nothing_a_failure_counts_more_and_all_that_is_deployed_reports_success()
{
    let world = World::with(THINGS, &["autostart_agent_deploy_interval=600"], "thing");
    let gated = world.order("thing", json!({"name": "gated", "kind": "gated"}));
    world.reaches(&gated, "creating");
    wait_until("its transfer is skipped", || {
        transfer_state(&world, &gated) == "skipped"
    });
    let both = world.order("thing", json!({"name": "both", "kind": "both"}));
    world.reaches(&both, "failed");
    assert_eq!(world.instance(&gated)["state"], "creating");
    assert_eq!((reports(&world, &gated), reports(&world, &both)), (0, 1));
    let progress = world.instance(&format!("{gated}?include_deployment_progress=true"));
    assert_eq!(
        progress["deployment_progress"],
        json!({"total": 1, "failed": 0, "deployed": 0, "waiting": 1})
    );
    let waiting = world.running.get_ok(&format!("{gated}/diagnose"))["data"]["waiting"].clone();
    let chain = waiting["chain"].as_array().unwrap();
    let root = chain.last().unwrap()["resource_id"].as_str().unwrap();
    assert!(chain.len() > 1 && !root.starts_with("lsm::"), "{waiting:#}");
    let ended = world.running.get_ok(&format!("{both}/diagnose"))["data"]["waiting"].clone();
    assert_eq!(ended, Value::Null, "it has failed, and waits for nothing");
    // What stands in the way goes away.
    std::fs::create_dir(world.host.file("gate")).unwrap();
    std::fs::create_dir(world.host.file("none")).unwrap();
    let all = json!({"agent_trigger_method": "push_full_deploy"});
    world.call("POST", "/api/v1/deploy", all);
    world.reaches(&gated, "up");
    world.reaches(&both, "up");
    // The instance hears of it before the database does.
    wait_until("its transfer is deployed", || {
        transfer_state(&world, &gated) == "deployed"
    });
    assert_eq!(reports(&world, &gated), 1);
    assert_eq!(world.host.read("gated"), "x");
}

#[test]
fn an_instance_that_waits_for_an_unknown_value_says_so_and_goes_on_when_it_is_known() {
    let world = World::with(THINGS, &[], "thing");
    let path = world.order("thing", json!({"name": "a", "kind": "unknown"}));
    world.reaches(&path, "creating");
    let warnings = || {
        let events = world.events(&path);
        let found = events
            .into_iter()
            .filter(|event| event["event_type"] == "RESOURCE_EVENT");
        found.collect::<Vec<_>>()
    };
    wait_until("it says that it waits", || !warnings().is_empty());
    let warning = warnings().remove(0);
    assert_eq!(warning["severity_text"], "WARNING");
    let message = warning["message"].as_str().unwrap();
    assert!(
        message.contains("/a]") && message.contains("creating"),
        "{message}"
    );
    let source = format!(
        "fs::File[localhost,path={}]",
        world.host.file("source").display()
    );
    let fact = json!({"value": "42", "source": "user", "resource_id": source, "recompile": true});
    world.call("PUT", "/api/v2/facts/serial", fact);
    world.reaches(&path, "up");
    assert_eq!(world.host.read("a"), "42");
    // It was told once for each desired state that waited.
    let told: Vec<_> = warnings()
        .iter()
        .map(|one| one["service_desired_state_version"].as_u64())
        .collect();
    let mut once = told.clone();
    once.dedup();
    assert_eq!(told, once);
}

/// A plugin that takes its time, so that validations overlap if they may.
const SLOW: &str = "import time\n\nfrom inmanta.plugins import plugin\n\n\n@plugin\ndef slow() -> \"int\":\n    time.sleep(0.6)\n    return 0\n";

#[test]
fn as_many_validations_run_at_once_as_the_setting_says() {
    let model = THINGS
        .replace("import fs\n", "import fs\nimport own\n")
        .replace(
            "self._text = \"x\"",
            "self._text = \"x{{ pause }}\"\n    pause = own::slow()",
        );
    let repo = crate::harness::Repo::new(&model);
    repo.write("project.yml", "name: slow\nmodulepath: libs\n");
    let setup = "[metadata]\nname = inmanta-module-own\nversion = 1.0.0\nlicense = X\n\n[options]\npackages = find_namespace:\n";
    repo.write("libs/own/setup.cfg", setup);
    repo.write("libs/own/model/_init.cf", "");
    repo.write("libs/own/inmanta_plugins/own/__init__.py", SLOW);
    repo.commit("slow");
    let settings = ["lsm_parallel_validations=3", "lsm_partial_compile=true"];
    let world = World::start(repo, &settings, "thing");
    let order = |at: usize| world.order("thing", json!({"name": format!("t{at}")}));
    let paths: Vec<String> = (0..3).map(order).collect();
    for path in &paths {
        world.reaches(path, "up");
    }
    let reports = world.running.get_ok("/api/v2/compilereport?limit=100")["data"].clone();
    let reports = reports.as_array().unwrap().iter();
    let spans: Vec<(&str, &str)> = reports
        .filter(|report| report["metadata"]["type"] == "lsm")
        .filter_map(|report| Some((report["started"].as_str()?, report["completed"].as_str()?)))
        .collect();
    assert_eq!(spans.len(), 3, "one for each: {spans:?}");
    // Moments are texts that sort as they are.
    let overlap = |one: &(&str, &str), other: &(&str, &str)| one.0 < other.1 && other.0 < one.1;
    let n_pairs = spans
        .iter()
        .enumerate()
        .flat_map(|(at, one)| {
            spans[at + 1..]
                .iter()
                .filter(move |other| overlap(one, other))
        })
        .count();
    assert!(n_pairs > 0, "no two ran at once: {spans:?}");
}

//: deploy 131
#[test]
fn a_full_compile_comes_as_often_as_its_cron_says_and_no_more_when_there_is_none() {
    let world = World::with(THINGS, &["lsm_partial_compile=true"], "thing");
    let path = world.order("thing", json!({"name": "a"}));
    world.reaches(&path, "up");
    let full = || {
        let reports = world.running.get_ok("/api/v2/compilereport?limit=1000")["data"].clone();
        let reports = reports.as_array().unwrap().iter();
        let full = reports.filter(|report| {
            report["partial"] == false && report["do_export"] == true && report["success"] == true
        });
        full.count()
    };
    let before = full();
    let setting = "/api/v2/environment_settings/auto_full_compile";
    world.call("POST", setting, json!({"value": "*/1 * * * * * *"}));
    wait_until("two came by themselves", || full() >= before + 2);
    world.call("POST", setting, json!({"value": ""}));
    let now = full();
    // One may be under way; no other follows, though its second passes.
    std::thread::sleep(std::time::Duration::from_millis(2200));
    assert!(full() <= now + 1, "{} after {now}", full());
}
