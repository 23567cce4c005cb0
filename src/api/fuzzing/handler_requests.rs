//! For fuzzing: what handlers ask of the API.

use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::{folder, runtime};
use crate::api::handler_requests::answer;
use crate::app::App;
use crate::deploy::ApiRequest;
use crate::domain::EnvironmentId;
use crate::store::{self, DiscoveredOrder, DiscoveredSearch, Span};

/// So many requests find what those before them left in the database; then there is a new one.
const REQUESTS_A_SITE: usize = 10_000;
/// Stands in the other environment alone.
const CANARY: &str = "of-the-other-environment-0c6f6deb1de5";

static SITE: Mutex<Option<Site>> = Mutex::new(None);

/// Lines: `here` or `elsewhere`, which is where the handler runs; method and path; the environment that it names; and then the
/// body as JSON. The request is that of a handler of the environment `e` of the project `p`. Answered, but not with 500; what
/// the environment beside it holds is in no answer, and stays as it is; from elsewhere nothing is done but reading.
pub fn handler_requests(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut place = SITE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(old) = place.take_if(|site| site.n_requests >= REQUESTS_A_SITE) {
        old.end();
    }
    if place.is_none() {
        *place = Site::start();
    }
    let site = place.as_mut();
    assert!(site.is_some(), "the fuzzer has no database");
    if let Some(site) = site {
        site.n_requests += 1;
        site.ask(&text);
    }
}

/// A server's app with the environment of the handler and one beside it.
struct Site {
    runtime: Runtime,
    app: App,
    /// What the environment beside it holds.
    beside: Beside,
    n_requests: usize,
    _folder: tempfile::TempDir,
}

impl Site {
    fn start() -> Option<Self> {
        let (runtime, folder) = (runtime()?, folder()?);
        let canary = || CANARY.to_owned();
        let started: Result<_, store::Error> = runtime.block_on(async {
            let app = App::alone(folder.path()).await?;
            let other = app.add_other([(canary(), canary())].into()).await?;
            app.store
                .setting_set(other, "autostart_agent_deploy_interval", &CANARY.into())
                .await?;
            let beside = Beside::read(&app, other).await?;
            Ok((app, beside))
        });
        let (app, beside) = started.ok()?;
        Some(Self {
            runtime,
            app,
            beside,
            n_requests: 0,
            _folder: folder,
        })
    }

    fn end(self) {
        self.runtime.block_on(self.app.end());
    }

    /// Asks, and looks at the answer and at what it did. Tells the status.
    fn ask(&self, text: &str) -> Option<u16> {
        let (reply, answered) = oneshot::channel();
        let request = request_of(text, reply)?;
        let is_reading = matches!(request.verb.as_str(), "GET" | "HEAD");
        let is_from_here = request.is_from_here;
        let (status, body) = self.runtime.block_on(async {
            answer(self.app.clone(), request).await;
            answered.await.ok()
        })?;
        assert_ne!(status, 500, "{body}");
        let is_secret = body.to_string().contains(CANARY) && !text.contains(CANARY);
        assert!(!is_secret, "of another environment: {body}");
        let is_done = status < 400;
        assert!(
            is_from_here || is_reading || !is_done,
            "done from elsewhere: {body}"
        );
        if is_done && !is_reading {
            let now = self
                .runtime
                .block_on(Beside::read(&self.app, self.beside.id));
            assert!(
                now.is_ok_and(|now| now == self.beside),
                "another environment was changed"
            );
        }
        Some(status)
    }
}

/// The rows of an environment that a request could change.
#[derive(PartialEq)]
struct Beside {
    id: EnvironmentId,
    environment: String,
    settings: String,
    facts: String,
    discovered: String,
    tokens: String,
    compiles: String,
}

impl Beside {
    async fn read(app: &App, id: EnvironmentId) -> Result<Self, store::Error> {
        let (search, all) = (DiscoveredSearch::default(), Span::first(i64::MAX));
        let index = app
            .store
            .discovered_page(id, &search, DiscoveredOrder::Id, &all)
            .await?;
        let found = index.iter().map(|(_, entry)| &entry.resource_id);
        let mut found = app.store.discovered_some(id, found).await?;
        found.sort_by(|a, b| a.resource_id.cmp(&b.resource_id));
        Ok(Self {
            id,
            environment: format!("{:?}", app.store.environment_fetch(id).await?),
            settings: format!("{:?}", app.store.settings_fetch(id).await?),
            facts: format!("{:?}", app.store.fact_list(id).await?),
            discovered: format!("{found:?}"),
            tokens: format!("{:?}", app.store.token_list(id).await?),
            compiles: format!("{:?}", app.store.compile_list(id, 10).await?),
        })
    }
}

/// `None`: there are too few lines.
fn request_of(text: &str, reply: oneshot::Sender<(u16, Value)>) -> Option<ApiRequest> {
    let mut lines = text.splitn(4, '\n');
    let place = lines.next()?;
    let (verb, path) = lines.next()?.split_once(' ')?;
    let named = lines.next()?;
    let body = lines.next().unwrap_or_default();
    let body: Map<String, Value> = serde_json::from_str(body).unwrap_or_default();
    Some(ApiRequest {
        environment: EnvironmentId::named("p", "e"),
        is_from_here: place == "here",
        verb: verb.to_owned(),
        path: path.to_owned(),
        named: (!named.is_empty()).then(|| named.to_owned()),
        body,
        reply,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_the_fuzzer_asks_comes_to_the_handlers() {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/seeds/handler_requests");
        let site = Site::start().unwrap();
        for (name, expected) in [
            ("environment", 200),
            ("setting", 200),
            ("notify", 200),
            ("catalog", 200),
            ("discovered_post", 200),
            ("other", 403),
            ("project_put", 403),
            ("elsewhere_settings", 200),
            ("elsewhere_notify", 403),
        ] {
            let seed = std::fs::read_to_string(seeds.join(name)).unwrap();
            assert_eq!(site.ask(&seed), Some(expected), "{name}");
        }
        site.end();
    }
}
