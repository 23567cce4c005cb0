//! Events as JSON objects, one a line, for programs.

use serde_json::json;

use super::Show;
use crate::observe::EventKind;

impl Show {
    pub(super) fn event_as_json(&mut self, what: &EventKind) {
        let value = match what {
            EventKind::Trouble { message } => json!({"event": "trouble", "message": message}),
            EventKind::FetchFailed { message } => {
                json!({"event": "fetch_failed", "message": message})
            }
            EventKind::UpToDate { commit, version } => {
                json!({"event": "up_to_date", "commit": commit, "version": version})
            }
            EventKind::CompileStarted {
                compile,
                commit,
                summary,
            } => {
                json!({"event": "compile_started", "compile": compile, "commit": commit, "summary": summary})
            }
            EventKind::StageBegan {
                compile,
                name,
                detail,
            } => json!({
                "event": "stage_started", "compile": compile, "name": name, "detail": detail,
            }),
            EventKind::StageDone {
                compile,
                name,
                duration,
                detail,
            } => json!({
                "event": "stage", "compile": compile, "name": name, "seconds": duration.as_secs_f64(), "detail": detail,
            }),
            EventKind::CompileDone(done) => json!({
                "event": "compiled",
                "compile": done.compile,
                "commit": done.commit,
                "success": done.failure.is_none(),
                "version": done.version,
                "failure": done.failure,
                "resources": done.n_resources,
                "seconds": done.duration.as_secs_f64(),
                "diagnostics": done.diagnostics.iter().map(|diagnostic| diagnostic.json.clone()).collect::<Vec<_>>(),
            }),
            EventKind::Activated {
                version,
                n_new,
                n_updated,
                n_removed,
                n_total,
            } => json!({
                "event": "released", "version": version, "new": n_new, "changed": n_updated, "removed": n_removed,
                "total": n_total,
            }),
            EventKind::ResourceDone(done) => json!({
                "event": "resource",
                "resource": done.resource_id,
                "version": done.version,
                "status": done.status,
                "change": done.change,
                "changes": done.changes,
                "reason": done.reason,
                "message": done.message,
                "seconds": done.duration.as_secs_f64(),
            }),
            EventKind::LongRun {
                resource_id,
                took,
                n_others,
            } => json!({
                "event": "long_run", "resource": resource_id, "seconds": took.as_secs(), "others": n_others,
            }),
            EventKind::Settled(summary) => json!({
                "event": "summary",
                "version": summary.version,
                "deployed": summary.deployed,
                "failed": summary.failed,
                "reported": summary.reported,
                "skipped": summary.skipped + summary.undefined,
                "unchanged": summary.unchanged,
                "total": summary.total,
                "seconds": summary.duration.as_secs_f64(),
            }),
        };
        self.json(&value);
    }
}
