//! What a compile says whose worker was killed.

use crate::harness::Repo;
use crate::sandbox::{first_report, server_of};
use crate::serve::serve;

/// The report of the compile of a model with 1 GiB of memory.
#[track_caller]
fn report(model: &str) -> String {
    let home = tempfile::tempdir().unwrap();
    let repo = Repo::new(model);
    let (_, config) = server_of(home.path(), &repo);
    let config = format!("{config}compile: {{ memory_mib: 1024 }}\n");
    let served = serve(home.path(), &config);
    let report = first_report(&served);
    assert!(report.contains("limited to 1024 MiB"), "{report}");
    report
}

/// Input: a model that constructs instances without end (issue 16.low). Answer: the compile fails, and its error names file and line of what was constructed.
#[test]
fn a_model_that_takes_all_memory_is_told_where_it_was() {
    let model = "entity Thing:\n    list texts\nend\nimplement Thing using std::none\n\n\
                 for i in std::sequence(2000):\n    for j in std::sequence(4000):\n        \
                 Thing(texts=[\"{{i}}\", \"{{j}}\", \"{{i}} {{j}}\"])\n    end\nend\n";
    let report = report(model);
    assert!(report.contains("it was at main.cf:8"), "{report}");
}

/// Input: a plugin of the std module that is asked for more than there is memory (issue 16.low). Answer: the error names the line of the call.
#[test]
fn a_call_that_takes_all_memory_is_named() {
    let model = "x = 1\n\nnumbers = std::sequence(200000000)\n";
    let report = report(model);
    assert!(report.contains("it was at main.cf:3"), "{report}");
}
