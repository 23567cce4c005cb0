//! Tokens of environments over the API, and what the API says of itself. Source: docs/reference/rest.md § 0.9, § 1.13.

use serde_json::{Value, json};

use crate::environments::{Logged, configure};
use crate::harness::send;

/// A server with two environments that nothing is compiled for.
struct Server {
    served: Logged,
    ids: [String; 2],
    _dir: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let served = Logged::start(&configure(dir.path(), "environments: []\n"));
        let made = served.call("PUT", "/api/v2/project", "", &json!({"name": "p"}));
        let project = made.1["data"]["id"].clone();
        let ids = ["one", "two"].map(|name| {
            let body = json!({"name": name, "project_id": project});
            let (status, made) = served.call("PUT", "/api/v2/environment", "", &body);
            assert_eq!(status, 200, "{made}");
            made["data"]["id"].as_str().unwrap().to_owned()
        });
        Self {
            served,
            ids,
            _dir: dir,
        }
    }

    #[track_caller]
    fn token(&self, body: &Value) -> String {
        let path = "/api/v2/environment_auth";
        let (status, made) = self.served.call("POST", path, &self.ids[0], body);
        assert_eq!(status, 200, "{made}");
        made["data"].as_str().unwrap().to_owned()
    }

    /// The status of a call with a token, and what is said.
    fn call(&self, token: &str, method: &str, path: &str, environment: &str) -> (u16, String) {
        let mut headers = vec![("Authorization".to_owned(), format!("Bearer {token}"))];
        if !environment.is_empty() {
            headers.push(("X-Inmanta-tid".to_owned(), environment.to_owned()));
        }
        let url = format!("{}{path}", self.served.api);
        let (status, body) = send(method, &url, &headers, &[]);
        (status, body.to_string())
    }
}

#[test]
fn a_token_of_an_environment_is_good_for_that_and_for_its_client_types() {
    let server = Server::start();
    let [one, two] = &server.ids;
    let token = server.token(&json!({"client_types": ["api"]}));
    let of_environment = format!("/api/v2/environment/{one}");
    let of_other = format!("/api/v2/environment/{two}");
    let notify_other = format!("/api/v1/notify/{two}");
    let content = format!("/api/v1/file/{}", "a".repeat(40));
    for (method, path, environment, expected) in [
        ("GET", "/api/v2/desiredstate", one.as_str(), 200),
        ("GET", "/api/v2/desiredstate", two, 403),
        ("GET", "/api/v2/desiredstate", "", 400),
        ("GET", &of_environment, "", 200),
        ("GET", &of_other, "", 403),
        ("GET", &notify_other, "", 403),
        ("HEAD", &notify_other, "", 403),
        ("GET", &content, "", 404),
        ("GET", "/api/v2/project", "", 403),
        ("GET", "/api/v1/serverstatus", "", 403),
        ("GET", "/", "", 403),
        ("POST", "/api/v2/reserve_version", one, 403),
        ("GET", "/no/such/path", one, 404),
    ] {
        let (status, said) = server.call(&token, method, path, environment);
        assert_eq!(status, expected, "{method} {path} {environment}: {said}");
    }
    for path in ["/api/v2/environment", "/api/v1/environment"] {
        let (status, listed) = server.call(&token, "GET", path, "");
        assert_eq!(status, 200, "{path}: {listed}");
        assert!(listed.contains(one) && !listed.contains(two), "{listed}");
    }
    // Of compilers: they reserve versions, and read no lists.
    let compiler = server.token(&json!({"client_types": ["compiler"]}));
    let reserve = server.call(&compiler, "POST", "/api/v2/reserve_version", one);
    assert_eq!(reserve.0, 200, "{reserve:?}");
    let list = server.call(&compiler, "GET", "/api/v2/desiredstate", one);
    assert_eq!(list.0, 403, "{list:?}");
}

/// Input: tokens that were revoked, have expired or were changed (docs/reference/security.md § 4.10). Answer: 403.
#[test]
fn a_token_ends_when_it_is_revoked_or_expires_and_one_that_lasts_is_always_the_same() {
    let server = Server::start();
    let [one, two] = &server.ids;
    let brief = server.token(&json!({"client_types": ["api"], "expire": 1}));
    let token = server.token(&json!({"client_types": ["api", "agent"], "idempotent": false}));
    let list = "/api/v2/desiredstate";
    assert_eq!(server.call(&token, "GET", list, one).0, 200);
    let tokens = server.served.get("/api/v2/environment_auth", one);
    let tokens = tokens["data"].as_array().unwrap();
    assert_eq!(tokens.len(), 2);
    let known = &tokens[0];
    assert_eq!(known["client_types"], json!(["api", "agent"]), "{known}");
    assert_eq!(known["environment"], json!(one));
    assert!(known["last_used"].is_string() && known["revoked_at"].is_null());
    assert!(tokens[1]["expires_at"].is_string(), "{}", tokens[1]);
    let path = format!(
        "/api/v2/environment_auth/{}",
        known["jti"].as_str().unwrap()
    );
    let revoke = |environment: &str| {
        let answer = server
            .served
            .call("DELETE", &path, environment, &Value::Null);
        answer.0
    };
    assert_eq!(revoke(two), 404, "another environment does not have it");
    assert_eq!((revoke(one), revoke(one)), (200, 200));
    let (status, said) = server.call(&token, "GET", list, one);
    assert_eq!(status, 403);
    assert!(said.contains("revoked"), "{said}");
    crate::harness::wait_until("it has expired", || {
        server.call(&brief, "GET", list, one).1.contains("expired")
    });
    let lasting = json!({"client_types": ["api"], "idempotent": true});
    let token = server.token(&lasting);
    assert_eq!(token, server.token(&lasting));
    assert_eq!(server.call(&token, "GET", list, one).0, 200);
    let changed = token.replacen('.', ".e", 1);
    assert_eq!(server.call(&changed, "GET", list, one).0, 403);
    for (body, part) in [
        (json!({"client_types": ["nobody"]}), "nobody"),
        (json!({}), "client_types"),
        (json!({"client_types": ["api"], "expire": 0}), "expire"),
        (json!({"client_types": ["api"], "expire": "x"}), "expire"),
        (
            json!({"client_types": ["api"], "expire": 5, "idempotent": true}),
            "idempotent",
        ),
    ] {
        let path = "/api/v1/environment_auth";
        let (status, said) = server.served.call("POST", path, one, &body);
        assert_eq!(status, 400, "{body}");
        assert!(said.to_string().contains(part), "{body}: {said}");
    }
}

/// Input: a token for one client type, or one that expires, is shown to have another one made that is for more or lasts longer
/// (docs/reference/security.md § 3.36). Answer: 403; no more is had by it than what it is for.
#[test]
fn no_token_makes_one_that_may_do_more_or_lasts_longer() {
    let server = Server::start();
    let [one, _] = &server.ids;
    let make = |token: &str, body: &Value| {
        let headers = [
            ("Authorization".to_owned(), format!("Bearer {token}")),
            ("X-Inmanta-tid".to_owned(), one.clone()),
            ("Content-Type".to_owned(), "application/json".to_owned()),
        ];
        let url = format!("{}/api/v2/environment_auth", server.served.api);
        let (status, said) = send("POST", &url, &headers, body.to_string().as_bytes());
        (status, said.to_string())
    };
    let compiler = server.token(&json!({"client_types": ["compiler"]}));
    let api = server.token(&json!({"client_types": ["api"]}));
    let short = server.token(&json!({"client_types": ["api"], "expire": 100}));
    for (token, body, expected) in [
        (&compiler, json!({"client_types": ["api"]}), 403),
        (&compiler, json!({"client_types": ["agent", "api"]}), 403),
        (&compiler, json!({"client_types": ["agent"]}), 200),
        (&compiler, json!({"client_types": ["compiler"]}), 200),
        (
            &api,
            json!({"client_types": ["api", "compiler", "agent"]}),
            200,
        ),
        (
            &api,
            json!({"client_types": ["api"], "idempotent": true}),
            200,
        ),
        (&short, json!({"client_types": ["api"]}), 403),
        (
            &short,
            json!({"client_types": ["agent"], "idempotent": true}),
            403,
        ),
        (
            &short,
            json!({"client_types": ["api"], "expire": 1000}),
            403,
        ),
        (&short, json!({"client_types": ["api"], "expire": 10}), 200),
    ] {
        let (status, said) = make(token, &body);
        assert_eq!(status, expected, "{body}: {said}");
    }
    // One that always has the same text ends with the token that it was made with.
    let lasting = json!({"client_types": ["compiler"], "idempotent": true});
    let (_, said) = make(&compiler, &lasting);
    assert_eq!(make(&compiler, &lasting).1, said);
    let said: Value = serde_json::from_str(&said).unwrap();
    let made = said["data"].as_str().unwrap();
    assert_eq!(make(made, &json!({"client_types": ["agent"]})).0, 200);
    let tokens = server.served.get("/api/v2/environment_auth", one);
    for token in tokens["data"].as_array().unwrap() {
        let path = format!(
            "/api/v2/environment_auth/{}",
            token["jti"].as_str().unwrap()
        );
        let (status, said) = server.served.call("DELETE", &path, one, &Value::Null);
        assert_eq!(status, 200, "{said}");
    }
    assert_eq!(make(made, &json!({"client_types": ["agent"]})).0, 403);
}

#[test]
fn the_api_describes_itself_and_what_its_scheduler_knows() {
    let server = Server::start();
    let one = &server.ids[0];
    let docs = server.served.get("/api/v2/docs?format=openapi", "");
    let path = &docs["data"]["paths"]["/api/v2/resource/{rid}"]["get"];
    assert_eq!(path["parameters"][0]["name"], "rid", "{path}");
    let url = format!(
        "{}/api/v2/docs?token={}",
        server.served.api,
        crate::environments::TOKEN
    );
    let (status, page) = send("GET", &url, &[], &[]);
    assert_eq!(status, 200);
    assert!(page.to_string().contains("/api/v2/scheduler_status"));
    let status = server.served.get("/api/v2/scheduler_status", one);
    assert_eq!(status["data"]["discrepancies"], json!({}), "{status}");
    assert_eq!(status["data"]["resource_states"], json!({}), "{status}");
}
