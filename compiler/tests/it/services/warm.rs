//! Compiles for one instance after the other, with modules that were imported once. Source: docs/design.md § 4.2.

use std::sync::Arc;

use serde_json::json;
use steward_compiler::WarmHosts;

use super::{Project, id, validation};

const MAIN: &str = "
import own
std::print(own::seen())
";

/// What the model prints for the validations of instances 1 and 2: when the module was imported, and what it sees.
fn seen_by_two(code: &str) -> Vec<(String, String)> {
    let plugin = "
@plugin
def seen() -> 'string':
    return f'{IMPORTED} {own()}'
";
    let code = format!(
        "import os, time\nfrom inmanta.plugins import plugin\nIMPORTED = time.time_ns()\n{code}{plugin}"
    );
    let project = Project::new(MAIN).with_plugins(&code);
    let hosts: Arc<WarmHosts> = Arc::default();
    let seen = [1, 2].map(|number| {
        let run = project.run_among(&json!({"purpose": validation(number)}), Some(&hosts));
        run.check();
        let (imported, own) = run.printed[0].split_once(' ').expect("two words");
        (imported.to_owned(), own.to_owned())
    });
    seen.to_vec()
}

#[test]
fn a_module_is_imported_once_for_the_validations_of_many_instances() {
    let seen = seen_by_two("def own():\n    return os.environ['inmanta_instance_id']\n");
    assert_eq!(seen[0].0, seen[1].0, "it was imported again");
    assert_eq!((seen[0].1.clone(), seen[1].1.clone()), (id(1), id(2)));
}

#[test]
//: lsm 63
fn a_module_that_reads_the_instance_while_it_is_imported_is_imported_for_each() {
    for read in [
        "os.environ.get('inmanta_instance_id')",
        "os.environ['inmanta_instance_id'] if 'inmanta_instance_id' in os.environ else 'none'",
        "os.getenv('inmanta_instance_id')",
        "dict(os.environ)['inmanta_instance_id']",
    ] {
        let seen = seen_by_two(&format!("ID = {read}\ndef own():\n    return ID\n"));
        assert_ne!(seen[0].0, seen[1].0, "{read}");
        assert_eq!((seen[0].1.clone(), seen[1].1.clone()), (id(1), id(2)));
    }
}
