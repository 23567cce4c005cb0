//! A client of the tests that kill the server ([`crate::service_crashes`]) that orders changes to several instances in one call:
//! every order that was acknowledged ends, and its items say what has become of their instances.
//! Source: docs/reference/lsm.md § 5.10.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::Rng;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::DEADLINE;
use crate::service_crashes::{Client, INVENTORY, Own};

/// What the model refuses.
const REFUSED: i64 = 666;

/// One item of an order.
struct Item {
    id: String,
    request: Value,
    /// The bandwidth that it orders; `None`: a deletion.
    wanted: Option<i64>,
    /// Where it is among the client's own; `None`: it is new, with this site.
    own: Result<usize, String>,
}

impl Client {
    /// Orders until it is stopped, with at most this many instances.
    pub(crate) fn run_orders(mut self, is_over: &AtomicBool, most: usize) -> Self {
        while !is_over.load(Ordering::Relaxed) {
            let items = self.items(most);
            if items.is_empty() {
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
            let order = self.place(&items);
            let outcomes = self.ended(&order);
            for (item, outcome) in items.into_iter().zip(outcomes) {
                self.note(item, &outcome);
            }
        }
        self
    }

    /// Some new ones, of which the model may refuse one, and changes to some of its own that are up.
    fn items(&mut self, most: usize) -> Vec<Item> {
        let mut items = Vec::new();
        let n_new = self
            .random
            .random_range(0..3)
            .min(most.saturating_sub(self.own.len()));
        for n in 0..n_new {
            let id = Uuid::new_v4().to_string();
            let site = format!("o{}-{}-{n}", self.number, self.n_done);
            let mbps = match self.random.random_bool(0.2) {
                true => REFUSED,
                false => self.random.random_range(1..600),
            };
            let attributes = json!({"site": site, "mbps": mbps});
            let request = json!({"instance_id": id, "service_entity": "link", "action": "create", "attributes": attributes});
            items.push(Item {
                id,
                request,
                wanted: Some(mbps),
                own: Err(site),
            });
        }
        for at in 0..self.own.len() {
            let Own { path, wanted, .. } = &self.own[at];
            if wanted.is_none()
                || !self.random.random_bool(0.3)
                || self.instance(path)["state"] != "up"
            {
                continue;
            }
            let id = path.rsplit('/').next().unwrap().to_owned();
            let mut request =
                json!({"instance_id": id, "service_entity": "link", "action": "delete"});
            let mut wanted = None;
            if self.random.random_bool(0.7) {
                let mbps: i64 = self.random.random_range(1..600);
                let edit = json!({"edit_id": "1", "operation": "replace", "target": "mbps", "value": mbps});
                request["action"] = json!("update");
                request["edits"] = json!([edit]);
                wanted = Some(mbps);
            }
            items.push(Item {
                id,
                request,
                wanted,
                own: Ok(at),
            });
        }
        items
    }

    /// With an id of the client's own, the same order sent twice is one order.
    fn place(&mut self, items: &[Item]) -> String {
        let order = Uuid::new_v4().to_string();
        let requests: Vec<&Value> = items.iter().map(|item| &item.request).collect();
        let body = json!({"id": order, "description": "", "service_order_items": requests});
        let (status, answer) = self.ask("POST", "/lsm/v2/order", &body);
        assert!([200, 409].contains(&status), "{status} {answer}");
        self.n_done += 1;
        order
    }

    /// What has become of each item when the order has ended.
    fn ended(&self, order: &str) -> Vec<Value> {
        let deadline = Instant::now() + 3 * DEADLINE;
        loop {
            let (status, answer) = self.ask("GET", &format!("/lsm/v2/order/{order}"), &json!({}));
            assert_eq!(status, 200, "the order was acknowledged: {answer}");
            let order = &answer["data"];
            if order["status"]["state"] != "in_progress" {
                let items = order["service_order_items"].as_array().unwrap().iter();
                return items.map(|item| item["status"].clone()).collect();
            }
            assert!(Instant::now() < deadline, "it never ended: {order:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Takes note of where the instance of an item shall be by its outcome. A deployment that was cut off is a failure of the
    /// item, and is tried again by itself: then the instance arrives later.
    fn note(&mut self, item: Item, outcome: &Value) {
        let text = |name: &str| outcome[name].as_str().unwrap_or_default();
        let path = format!("{INVENTORY}/{}", item.id);
        match (text("state"), text("failure_type")) {
            ("completed", _) | ("failed", "EXECUTION_FAILED") => {
                assert_ne!(item.wanted, Some(REFUSED), "{outcome:#}");
                match item.own {
                    Ok(at) => self.own[at].wanted = item.wanted,
                    Err(site) => self.own.push(Own {
                        path,
                        site,
                        wanted: item.wanted,
                    }),
                }
            }
            ("failed", "VALIDATION_COMPILE_FAILED") => {
                assert_eq!(item.wanted, Some(REFUSED), "{outcome:#}");
                assert_eq!(self.instance(&path)["state"], "rejected");
            }
            // A deployment that was cut off after it was asked where it is: its state takes no change.
            ("failed", "INVALID_ORDER_ITEM") => {
                assert!(
                    item.own.is_ok() && text("reason").contains("failed"),
                    "{outcome:#}"
                );
            }
            _ => panic!("{outcome:#}"),
        }
    }
}
