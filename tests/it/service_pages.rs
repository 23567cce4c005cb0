//! What describes the services of a catalog for people and programs: diagrams, schemas, OpenAPI, and the page of all of them.
//! Source: docs/reference/lsm.md § 5.13.

use serde_json::{Value, json};

use crate::harness::{Host, Repo, Running, wait_until};
use crate::serve::serve;
use crate::service_world::{LINKS, World};

/// Status, headers (`name: value` lines) and text of an answer that is no JSON.
fn document(url: &str, headers: &[(&str, &str)]) -> (u16, String, String) {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(crate::harness::DEADLINE))
        .build()
        .into();
    let mut request = agent.get(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut response = request.call().unwrap();
    let lines = response.headers().iter();
    let lines = lines.map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()));
    let head = lines.collect();
    let text = response.body_mut().read_to_string().unwrap();
    (response.status().as_u16(), head, text)
}

#[test]
fn a_service_is_drawn_and_described_for_people_and_programs() {
    let world = World::new();
    let base = "/lsm/v1/service_catalog/link";
    let environment = world.running.environment();
    let read = |path: &str, known: &str| {
        let headers = [
            ("X-Inmanta-tid", environment.as_str()),
            ("If-None-Match", known),
        ];
        document(&format!("{}{path}", world.running.api), &headers)
    };
    for (query, kind, begin) in [
        ("", "image/svg+xml", "<svg "),
        ("?format=svg&state=up", "image/svg+xml", "<svg "),
        (
            "?format=mermaid",
            "text/vnd.mermaid; charset=utf-8",
            "stateDiagram-v2\n",
        ),
        (
            "?format=dot",
            "text/vnd.graphviz; charset=utf-8",
            "digraph ",
        ),
    ] {
        let path = format!("{base}/diagram{query}");
        let (status, head, body) = read(&path, "");
        assert_eq!(status, 200, "{head}");
        assert!(head.contains(&format!("content-type: {kind}\n")), "{head}");
        assert!(
            head.contains("content-security-policy: default-src 'none'"),
            "{head}"
        );
        assert!(
            body.starts_with(begin) && body.contains("update_inprogress"),
            "{body}"
        );
        // A client that has it already gets none.
        let tag = head
            .lines()
            .find_map(|line| line.strip_prefix("etag: "))
            .unwrap();
        let (status, _, body) = read(&path, tag);
        assert_eq!((status, body.as_str()), (304, ""));
    }
    let marked = read(&format!("{base}/diagram?state=up"), "").2;
    assert!(marked.contains("font-weight=\"bold\">up<"), "{marked}");
    let version = read("/lsm/v2/service_catalog/link/0/diagram?format=dot", "");
    assert_eq!(version.0, 200);
    for (path, status) in [
        (format!("{base}/diagram?format=png"), 400),
        (format!("{base}/diagram?state=nowhere"), 400),
        (format!("{base}/schema?purpose=lunch"), 400),
        ("/lsm/v1/service_catalog/none/diagram".to_owned(), 404),
        ("/lsm/v1/service_catalog/none/openapi".to_owned(), 404),
        ("/lsm/v2/service_catalog/link/7/openapi".to_owned(), 404),
    ] {
        assert_eq!(world.get(&path).0, status, "{path}");
    }
    let create = world
        .running
        .get_ok(&format!("{base}/schema?purpose=create"))["data"]
        .clone();
    assert_eq!(create["required"], json!(["site"]));
    assert_eq!(create["properties"].get("vlan"), None);
    let update = world
        .running
        .get_ok(&format!("{base}/schema?purpose=update"))["data"]
        .clone();
    assert_eq!(update["properties"].as_object().unwrap().len(), 1);
    let openapi = world.running.get_ok(&format!("{base}/openapi"));
    assert_eq!(openapi["openapi"], "3.1.0");
    assert!(openapi["paths"]["/lsm/v1/service_inventory/link"]["post"].is_object());
}

/// Input: the token in the address of a page that a browser opens, wrong or of another path (docs/reference/security.md § 3.36). Answer: it counts for that page only; else 401 and 403.
#[test]
fn the_page_of_all_services_is_opened_by_its_address_alone() {
    let (repo, host) = (Repo::new(LINKS), Host::new());
    let config = format!(
        "api_token: a&b+0123456789abcdef\nenvironments:\n  - {{project: p, name: <prod>, repository: {}, branch: main, env: {{ROOT: {}}}}}\n",
        repo.path().display(),
        host.root().display()
    );
    let dir = tempfile::tempdir().unwrap();
    let served = serve(dir.path(), &config);
    let token = "a%26b%2B0123456789abcdef";
    let bearer = [("Authorization", "Bearer a&b+0123456789abcdef")];
    let (_, _, list) = document(&format!("{}/api/v2/environment", served.api), &bearer);
    let list: Value = serde_json::from_str(&list).unwrap();
    let page = format!(
        "{}/lsm/v1/service_catalog_docs?environment={}",
        served.api,
        list["data"][0]["id"].as_str().unwrap()
    );
    let shown = || document(&format!("{page}&token={token}"), &[]);
    wait_until("the service is on the page", || {
        shown().2.contains("id=\"link\"")
    });
    let (status, head, html) = shown();
    assert_eq!(status, 200);
    assert!(
        head.contains("content-type: text/html; charset=utf-8\n"),
        "{head}"
    );
    assert!(
        html.contains("<title>Services of &lt;prod&gt;</title>"),
        "{html}"
    );
    assert!(
        html.contains("/lsm/v1/service_inventory/link/{service_id}"),
        "{html}"
    );
    assert!(
        html.contains("its bandwidth") && html.contains("</svg>"),
        "{html}"
    );
    // For who uses the keyboard alone, or has the page read aloud.
    for part in [
        "<main><h1>",
        "<th scope=\"col\">",
        "<div class=\"picture\" tabindex=\"0\" role=\"group\" aria-label=\"picture of the lifecycle of link\"><svg ",
        "role=\"img\"",
        "<summary>the lifecycle of link as text</summary><pre tabindex=\"0\">stateDiagram-v2\n",
        "<summary>body of POST /lsm/v1/service_inventory/link</summary>",
        "marker-end=\"url(#:end)\"",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert_eq!(document(&page, &[]).0, 401);
    assert_eq!(document(&format!("{page}&token=wrong"), &[]).0, 403);
    // A browser that shows none is told how to, on the pages and on the one that leads to them, and nothing else.
    let browser = [("Accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")];
    for path in ["/", "/api/v2/docs", "/lsm/v1/service_catalog_docs"] {
        let (status, head, html) = document(&format!("{}{path}", served.api), &browser);
        assert_eq!(status, 401, "{path}");
        assert!(head.contains("content-type: text/html"), "{path}: {head}");
        assert!(
            html.contains("service_catalog_docs?token="),
            "{path}: {html}"
        );
        assert!(!html.contains("prod") && !html.contains("link\""), "{html}");
        let (status, head, _) = document(&format!("{}{path}", served.api), &[]);
        assert!(
            status == 401 && head.contains("application/json"),
            "{path}: {head}"
        );
    }
    let (_, head, _) = document(&format!("{}/api/v2/environment", served.api), &browser);
    assert!(head.contains("application/json"), "{head}");
    assert_eq!(document(&page, &bearer).0, 200);
    // Without an environment it asks which one, with links that bear the token.
    let all = format!("{}/lsm/v1/service_catalog_docs?token={token}", served.api);
    let (status, _, html) = document(&all, &[]);
    let id = list["data"][0]["id"].as_str().unwrap();
    let link = format!("<a href=\"?environment={id}&amp;token={token}\">p/&lt;prod&gt;</a>");
    assert!(status == 200 && html.contains(&link), "{status}: {html}");
    let other = format!("{}/api/v2/environment?token={token}", served.api);
    assert_eq!(
        document(&other, &[]).0,
        401,
        "a token in an address counts for the page only"
    );
}

#[test]
fn an_instance_of_the_example_with_uplinks_comes_up() {
    let repo = Repo::new("");
    let from = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/services/uplink");
    for file in [
        "main.cf",
        "project.yml",
        "libs/net/setup.cfg",
        "libs/net/model/_init.cf",
        "libs/net/inmanta_plugins/net/__init__.py",
    ] {
        repo.write(file, &std::fs::read_to_string(from.join(file)).unwrap());
    }
    repo.commit("the example");
    let host = Host::new();
    let running = Running::start(host.up(repo.path()));
    let world = World {
        repo,
        host,
        running,
    };
    wait_until("the service is in the catalog", || {
        world.get("/lsm/v1/service_catalog/uplink").0 == 200
    });
    let body = json!({"attributes": {"site": "ams1"}});
    let made = world.call("POST", "/lsm/v1/service_inventory/uplink", body);
    let path = format!(
        "/lsm/v1/service_inventory/uplink/{}",
        made["id"].as_str().unwrap()
    );
    let up = world.reaches(&path, "up");
    let vlan = up["active_attributes"]["vlan"].as_i64().unwrap();
    assert!((2000..=2002).contains(&vlan), "{vlan}");
}
