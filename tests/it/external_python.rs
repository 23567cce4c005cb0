//! Handlers in Python on other machines: their code goes there, by digest.

use std::io::Read;
use std::net::{Shutdown, TcpListener, TcpStream};

use crate::agentless::Far;
use crate::external::{World, statuses};
use crate::harness::{wait_patiently, wait_until};
use crate::serve::Served;

/// A module with a handler that says where it runs, and whether it has an `_io`.
pub const CODE: &str = r#"
import os
import sys
from inmanta.agent.handler import CRUDHandler, ResourcePurged, provider
from inmanta.resources import PurgeableResource, resource

@resource("row::Row", agent="agent", id_attribute="path")
class Row(PurgeableResource):
    fields = ("path", "value")

@provider("row::Row")
class RowHandler(CRUDHandler[Row]):
    def read_resource(self, ctx, resource):
        with open(resource.path, "w") as file:
            file.write(f"{resource.value} {self._io} {__file__}")
    def create_resource(self, ctx, resource): ...
    def update_resource(self, ctx, changes, resource): ...
    def delete_resource(self, ctx, resource): ...
"#;

pub const MODEL: &str = "entity Row extends std::PurgeableResource:\n    string path\n    string agent\n    int value = 0\nend\n\
                     implement Row using std::none\n";

pub const MAIN: &str = "import row\nroot = std::get_env(\"ROOT\")\nrow::Row(path=\"{{root}}/row\", agent=\"localhost\", value=7)\n";

fn add_module(world: &World) {
    let repo = &world.repo;
    repo.write_module("row", MODEL, CODE);
    repo.write("main.cf", MAIN);
    repo.commit("a module");
}

#[test]
fn the_code_of_a_handler_goes_to_its_agent_and_runs_there() {
    let world = World::new("", "agent_map: {localhost: 'external:'}");
    add_module(&world);
    let served = world.serve();
    let _agent = world.agent(&served.api, "localhost", "agent");
    wait_until("it is deployed", || {
        statuses(&served).to_string().contains("deployed")
    });
    let said = world.host.read("row");
    let place = world.dir.path().join("agent/code");
    assert!(said.starts_with("7 None "), "{said}");
    assert!(said.contains(&place.display().to_string()), "{said}");
}

/// Given: an agent that has old code, and code that is as old and still needed. Expected: when a commit brings other code, the
/// first is gone, and the new code runs.
#[test]
fn an_agent_does_not_keep_code_that_no_run_needs() {
    let world = World::new("", "agent_map: {localhost: 'external:'}");
    add_module(&world);
    let served = world.serve();
    let agent = world.agent(&served.api, "localhost", "agent");
    wait_until("it is deployed", || {
        statuses(&served).to_string().contains("deployed")
    });
    drop(agent);
    let data = world.dir.path().join("agent");
    let old = data.join("code").join("0".repeat(32));
    let content = data.join("files/ab").join(format!("ab{}", "0".repeat(38)));
    std::fs::create_dir_all(&old).unwrap();
    std::fs::create_dir_all(content.parent().unwrap()).unwrap();
    std::fs::write(&content, "x = 1\n").unwrap();
    let long_ago = std::fs::metadata(&content).unwrap().modified().unwrap()
        - std::time::Duration::from_secs(8 * 24 * 3600);
    let all = std::fs::read_dir(data.join("code")).unwrap();
    let all = all.map(|entry| entry.unwrap().path());
    for path in all.chain([content.clone()]) {
        let file = std::fs::File::open(path).unwrap();
        file.set_modified(long_ago).unwrap();
    }
    let _agent = world.agent(&served.api, "localhost", "agent");
    world
        .repo
        .write_module("row", MODEL, &format!("{CODE}\n# another\n"));
    world
        .repo
        .write("main.cf", &MAIN.replace("value=7", "value=8"));
    world.repo.commit("other code");
    wait_until("the other code has run", || {
        world.host.read("row").starts_with("8 None ")
    });
    assert!(!old.exists() && !content.exists());
}

/// Given: a line that is cut while the code of a handler is on its way. Expected: over the next line the code comes, and the
/// run begins. An agent that asked on by itself would ask for what the server has not told it of there, and be cut off.
#[test]
fn code_that_was_cut_off_on_its_way_comes_over_the_next_line() {
    let world = World::new("", "agent_map: {localhost: 'external:'}");
    let letters = (0..400_000_u64).map(|n| char::from(b'a' + (n * n % 23) as u8));
    let large = format!("{CODE}\n# {}\n", letters.collect::<String>());
    world.repo.write_module("row", MODEL, &large);
    world.repo.write("main.cf", MAIN);
    world.repo.commit("a module");
    let served = world.serve();
    // Longer than what a connection says before, shorter than the code.
    let line = cut_once(&served.api, 100_000);
    let _agent = world.agent(&line, "localhost", "agent");
    wait_until("it is deployed", || {
        statuses(&served).to_string().contains("deployed")
    });
    assert!(world.host.read("row").starts_with("7 None "));
}

/// A line whose first connection ends when the server has sent so many bytes.
fn cut_once(server: &str, n_bytes: u64) -> String {
    let server = server.trim_start_matches("http://").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut limit = n_bytes;
        for client in listener.incoming() {
            let (Ok(client), Ok(far)) = (client, TcpStream::connect(&server)) else {
                continue;
            };
            let (back, there) = (client.try_clone().unwrap(), far.try_clone().unwrap());
            carry(client, there, u64::MAX);
            carry(far, back, limit);
            limit = u64::MAX;
        }
    });
    url
}

fn carry(from: TcpStream, mut to: TcpStream, limit: u64) {
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from.take(limit), &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
}

#[test]
fn the_code_of_a_handler_goes_over_ssh_and_leaves_nothing_behind() {
    let Some(far) = Far::new("", "known_hosts") else {
        return;
    };
    add_module(&far.world);
    let mut served = far.world.serve();
    wait_patiently("it is deployed", || {
        statuses(&served).to_string().contains("deployed")
    });
    let said = far.world.host.read("row");
    let place = far.folder.path().display().to_string();
    assert!(said.contains(&place), "{said}");
    served.child.kill().unwrap();
    served.child.wait().unwrap();
    wait_until("the other side has cleaned up", || far.left() == 0);
}

/// A handler that writes what the exporter has uploaded, and says whether it can have what no resource names.
const DOCUMENT: &str = r#"
import hashlib
from inmanta.agent.handler import CRUDHandler, provider
from inmanta.resources import PurgeableResource, resource

@resource("doc::Doc", agent="agent", id_attribute="path")
class Doc(PurgeableResource):
    fields = ("path", "hash", "foreign")

    @staticmethod
    def get_hash(exporter, doc):
        return exporter.upload_file(doc.text)

    @staticmethod
    def get_foreign(exporter, doc):
        exporter.upload_file("of nobody")
        return hashlib.sha1(b"of nobody").hexdigest()[::-1]

@provider("doc::Doc")
class DocHandler(CRUDHandler[Doc]):
    def read_resource(self, ctx, resource):
        foreign = self.get_file(resource.foreign[::-1])
        missing = self.get_file("0" * 40)
        ctx.info("there: %(there)s, foreign: %(foreign)s, missing: %(missing)s", there=self.stat_file(resource.hash),
                 foreign=foreign is not None, missing=missing is not None)
        with open(resource.path, "wb") as file:
            file.write(self.get_file(resource.hash))
    def create_resource(self, ctx, resource): ...
    def update_resource(self, ctx, changes, resource): ...
    def delete_resource(self, ctx, resource): ...
"#;

fn add_document(world: &World) {
    let model = "entity Doc extends std::PurgeableResource:\n    string path\n    string agent\n    string text\n    \
                 string hash = \"\"\n    string foreign = \"\"\nend\nimplement Doc using std::none\n";
    let main = "import doc\nroot = std::get_env(\"ROOT\")\n\
                doc::Doc(path=\"{{root}}/doc\", agent=\"localhost\", text=\"a long text\")\n";
    world.repo.write_module("doc", model, DOCUMENT);
    world.repo.write("main.cf", main);
    world.repo.commit("a document");
}

#[track_caller]
fn wait_for_document(world: &World, served: &Served, has_foreign: bool) {
    let actions = || {
        let environment = served.environment("prod");
        served
            .get(&environment, "/api/v2/resource_actions")
            .to_string()
    };
    wait_patiently("it is deployed", || {
        statuses(served).to_string().contains("deployed") || actions().contains("ERROR")
    });
    assert_eq!(world.host.read("doc"), "a long text", "{}", actions());
    let is = |is: bool| if is { "True" } else { "False" };
    let said = format!("there: True, foreign: {}, missing: False", is(has_foreign));
    assert!(actions().contains(&said), "{}", actions());
}

/// Input: a handler on another machine asks for contents of the file store that no resource of its agents names, and for one that is
/// not there (docs/reference/security.md § 3.43). Answer: it has none of them; those that its resource names it has.
#[test]
fn a_handler_elsewhere_gets_the_files_that_its_resource_names_and_no_others() {
    let world = World::new("", "agent_map: {localhost: 'external:'}");
    add_document(&world);
    let served = world.serve();
    let _agent = world.agent(&served.api, "localhost", "agent");
    wait_for_document(&world, &served, false);
}

#[test]
fn a_handler_over_ssh_gets_the_files_that_its_resource_names_and_no_others() {
    let Some(far) = Far::new("", "known_hosts") else {
        return;
    };
    add_document(&far.world);
    let served = far.world.serve();
    wait_for_document(&far.world, &served, false);
}

/// On the machine of the server the file store is at hand.
#[test]
fn a_handler_beside_the_server_gets_all_files() {
    let world = World::new("", "");
    add_document(&world);
    let served = world.serve();
    wait_for_document(&world, &served, true);
}
