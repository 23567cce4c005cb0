//! Python modules of a repository, from their plugins to their handlers.

use crate::harness::{Host, Repo, Running};

const MODEL: &str = r#"
entity Copy extends std::PurgeableResource:
    string path
    string text
    string agent = "internal"
end
index Copy(path)
implement Copy using std::none
"#;

const CODE: &str = r#"
import os
from inmanta.agent.handler import CRUDHandler, ResourcePurged, provider
from inmanta.plugins import plugin
from inmanta.resources import PurgeableResource, resource

# Of the process that imported this.
IMPORTED_BY = os.getpid()

@plugin
def imported_by() -> "string":
    print("plugins may print")
    return str(IMPORTED_BY)

@resource("copies::Copy", agent="agent", id_attribute="path")
class Copy(PurgeableResource):
    fields = ("path", "digest")

    @staticmethod
    def get_digest(exporter, model):
        return exporter.upload_file(model.text)

@provider("copies::Copy")
class CopyHandler(CRUDHandler[Copy]):
    def read_resource(self, ctx, resource):
        if not os.path.exists(resource.path):
            raise ResourcePurged()
        from inmanta.util import hash_file
        with open(resource.path, "rb") as file:
            resource.digest = hash_file(file.read())
    def create_resource(self, ctx, resource):
        self.write(resource)
        ctx.set_created()
    def update_resource(self, ctx, changes, resource):
        self.write(resource)
        ctx.set_updated()
    def delete_resource(self, ctx, resource): ...
    def write(self, resource):
        with open(resource.path, "wb") as file:
            file.write(self.get_file(resource.digest))
"#;

fn main_cf(text: &str) -> String {
    format!(
        r#"
import copies
root = std::get_env("ROOT")
copies::Copy(path="{{{{root}}}}/copy", text="{text} ")
by = copies::imported_by()
std::print("imported by {{{{by}}}}")
"#
    )
}

//: sdk 10, 43
#[test]
fn contents_that_getters_upload_reach_handlers_and_modules_are_imported_once() {
    let repo = Repo::new("");
    let host = Host::new();
    repo.write_module("copies", MODEL, CODE);
    repo.write("main.cf", &main_cf("first"));
    repo.commit("a module");
    let mut running = Running::start(host.up(repo.path()));
    running.settled(1);
    assert_eq!(host.read("copy"), "first ");
    repo.write("main.cf", &main_cf("second"));
    repo.commit("another text");
    running.settled(2);
    assert_eq!(host.read("copy"), "second ");
    // The code is the same, so both compiles are of one import.
    let reports = running.get_ok("/api/v2/compilereport");
    let mut imports = Vec::new();
    for report in reports["data"].as_array().expect("reports") {
        let id = report["id"].as_str().expect("an id");
        let text = running
            .get_ok(&format!("/api/v2/compilereport/{id}"))
            .to_string();
        assert!(text.contains("plugins may print"), "{text}");
        let by = text.split("imported by ").nth(1).expect("the line");
        imports.push(
            by.chars()
                .take_while(char::is_ascii_digit)
                .collect::<String>(),
        );
    }
    assert_eq!(imports.len(), 2);
    assert_eq!(imports[0], imports[1], "the modules were imported twice");
    let kept = std::fs::read_dir(host.data().join("files")).expect("the file store");
    // Two contents, and the code of the handler.
    assert_eq!(kept.count(), 3);
    running.stop();
}
