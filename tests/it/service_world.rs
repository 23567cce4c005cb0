//! A server with services, for tests: the model `LINKS`, or any other, and calls to it.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{DEADLINE, Host, Repo, Running, wait_until};

/// A service whose instances are a file each, named after their site, with their bandwidth in it. 666 is refused by the model.
pub const LINKS: &str = r#"import lsm
import lsm::fsm
import fs

entity Link extends lsm::ServiceEntity:
    """ A link to a site.

    :attr site: what it leads to, and how people name it
    :attr mbps: its bandwidth
    """
    string site
    int mbps = 100
    lsm::attribute_modifier mbps__modifier = "rw+"
    int? vlan = null
    lsm::attribute_modifier vlan__modifier = "r"
end

index Link(site)

root = std::get_env("ROOT")
host = std::Host(name="localhost", os=std::linux)

implementation deploy for Link:
    self.resources += fs::File(
        host=host,
        path="{{root}}/{{self.site}}",
        content="{{self.mbps}}\n",
        purged=self.purge_resources,
        send_event=true,
        requires=self.requires,
        provides=self.provides,
    )
    self.owned_resources += self.resources
end

implementation refused for Link:
    self.mbps = 667
end

implement Link using deploy, parents
implement Link using refused when mbps == 666

links = lsm::ServiceEntityBindingV2(
    service_entity="__config__::Link",
    service_entity_name="link",
    lifecycle=lsm::fsm::simple,
    service_identity="site",
)

for i in lsm::all(links):
    Link(instance_id=i["id"], entity_binding=links, **i["attributes"])
end
"#;

/// A server with services, and calls to it.
pub struct World {
    pub repo: Repo,
    pub host: Host,
    pub running: Running,
}

impl World {
    /// With the service `link` of [`LINKS`].
    pub fn new() -> Self {
        Self::with(LINKS, &[], "link")
    }

    /// With a model, settings `name=value`, and a service that the model has.
    pub fn with(main: &str, settings: &[&str], service: &str) -> Self {
        Self::start(Repo::new(main), settings, service)
    }

    /// With a project of `fixtures/services`.
    pub fn fixture(name: &str, settings: &[&str], service: &str) -> Self {
        let repo = Repo::new("");
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/services");
        let mut copy = Command::new("cp");
        copy.arg("-r")
            .arg(from.join(name).join("."))
            .arg(repo.path());
        assert!(copy.status().unwrap().success());
        repo.commit("the services");
        Self::start(repo, settings, service)
    }

    /// With a repository of its own.
    pub fn start(repo: Repo, settings: &[&str], service: &str) -> Self {
        let host = Host::new();
        let mut command = host.up(repo.path());
        for setting in settings {
            command.args(["--set", setting]);
        }
        let running = Running::start(command);
        let world = Self {
            repo,
            host,
            running,
        };
        wait_until("the service is in the catalog", || {
            let (status, _) = world.get(&format!("/lsm/v1/service_catalog/{service}"));
            status == 200
        });
        world
    }

    /// Ends the server as a crash would, and starts it again on the same data.
    pub fn crashes(&mut self, settings: &[&str]) {
        self.is_killed();
        self.starts_again(settings);
    }

    /// Ends the server as a crash would.
    pub fn is_killed(&mut self) {
        let _ = self.running.child.kill();
        let _ = self.running.child.wait();
    }

    /// Starts the server again on the same data.
    pub fn starts_again(&mut self, settings: &[&str]) {
        let mut command = self.host.up(self.repo.path());
        for setting in settings {
            command.args(["--set", setting]);
        }
        self.running = Running::start(command);
    }

    pub fn get(&self, path: &str) -> (u16, Value) {
        self.running.get(path)
    }

    #[track_caller]
    pub fn call(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.running.call(method, path, Some(&body));
        assert_eq!(status, 200, "{method} {path} {body}: {answer}");
        answer["data"].clone()
    }

    /// The status of a call that is refused, and what it says.
    #[track_caller]
    pub fn refused(&self, method: &str, path: &str, body: Value) -> (u16, String) {
        let (status, answer) = self.running.call(method, path, Some(&body));
        assert_ne!(status, 200, "{method} {path} {body}: {answer}");
        let message = answer["message"].as_str().unwrap_or_default();
        (status, message.to_owned())
    }

    /// Creates a link; gives its path.
    #[track_caller]
    pub fn create(&self, site: &str, mbps: i64) -> String {
        self.order("link", json!({"site": site, "mbps": mbps}))
    }

    /// Creates an instance of a service; gives its path.
    #[track_caller]
    pub fn order(&self, service: &str, attributes: Value) -> String {
        let body = json!({"attributes": attributes});
        let path = format!("/lsm/v1/service_inventory/{service}");
        let instance = self.call("POST", &path, body);
        assert_eq!(
            (&instance["version"], &instance["state"]),
            (&json!(1), &json!("start"))
        );
        path_of(&instance)
    }

    /// Edits an instance as it is now.
    #[track_caller]
    pub fn edit(&self, path: &str, edits: &[(&str, &str, Value)]) -> (u16, Value) {
        let edit = |(at, (operation, target, value)): (usize, &(&str, &str, Value))| json!({"edit_id": at.to_string(), "operation": operation, "target": target, "value": value});
        let edits: Vec<Value> = edits.iter().enumerate().map(edit).collect();
        let version = self.instance(path)["version"].clone();
        let patch = uuid::Uuid::new_v4();
        let body = json!({"patch_id": patch, "current_version": version, "edit": edits});
        self.running.call("PATCH", &v2(path), Some(&body))
    }

    /// Deletes an instance as it is now.
    #[track_caller]
    pub fn delete(&self, path: &str) {
        let version = self.instance(path)["version"].clone();
        self.call(
            "DELETE",
            &format!("{path}?current_version={version}"),
            json!({}),
        );
    }

    #[track_caller]
    pub fn instance(&self, path: &str) -> Value {
        self.running.get_ok(path)["data"].clone()
    }

    /// Waits for a state; gives the instance in it.
    #[track_caller]
    pub fn reaches(&self, path: &str, state: &str) -> Value {
        self.comes_to(path, state, 0)
    }

    /// Waits for a state in this version or a later one; gives the instance in it.
    #[track_caller]
    pub fn comes_to(&self, path: &str, state: &str, version: u64) -> Value {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let instance = self.instance(path);
            if instance["state"] == state && instance["version"].as_u64() >= Some(version) {
                return instance;
            }
            if Instant::now() > deadline {
                let events = self.get(&format!("{path}/events?limit=50")).1;
                let reports = self.get("/api/v2/compilereport?limit=5").1;
                panic!("never {state}: {instance:#}\n{events:#}\n{reports:#}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The states that an instance went through, by version.
    pub fn states(&self, path: &str) -> Vec<String> {
        let log = self
            .running
            .get_ok(&format!("{path}/log?sort=version.asc&limit=1000"));
        let log = log["data"].as_array().unwrap().iter();
        let states = log.enumerate().map(|(at, item)| {
            assert_eq!(
                item["version"],
                json!(at + 1),
                "no version is skipped or repeated"
            );
            item["state"].as_str().unwrap().to_owned()
        });
        states.collect()
    }

    /// The newest events of an instance, the newest first.
    pub fn events(&self, path: &str) -> Vec<Value> {
        let events = self.running.get_ok(&format!("{path}/events?limit=1000"));
        events["data"].as_array().unwrap().clone()
    }
}

pub fn path_of(instance: &Value) -> String {
    format!(
        "/lsm/v1/service_inventory/{}/{}",
        instance["service_entity"].as_str().unwrap(),
        instance["id"].as_str().unwrap()
    )
}

pub fn id_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap()
}

pub fn v2(path: &str) -> String {
    path.replace("/lsm/v1/", "/lsm/v2/")
}

pub fn bandwidth(mbps: i64, version: &Value, patch: &str) -> Value {
    let edit = json!({"edit_id": "1", "operation": "replace", "target": "mbps", "value": mbps});
    json!({"patch_id": patch, "current_version": version, "edit": [edit]})
}
