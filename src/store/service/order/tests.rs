//! Orders as they are stored.

use super::*;
use crate::store::tests::{check, environment};

fn order(number: u128, n_items: u128) -> Order {
    let item = |at: u128| OrderItem {
        instance: Uuid::from_u128(at),
        entity: "link".to_owned(),
        action: Action::Delete,
        request: json!({}),
        dependencies: Vec::new(),
        correlation_id: Uuid::from_u128(number),
        state: ItemState::Acknowledged,
        base_version: None,
        outcome: ItemOutcome::default(),
    };
    Order {
        id: Uuid::from_u128(number),
        description: String::new(),
        created: Timestamp(number as i64),
        completed: None,
        items: (0..n_items).map(item).collect(),
    }
}

/// Given: three orders with 4 000 items each, and one with more than a page takes.
/// Expected: pages of whole orders, which lead through all of them.
#[tokio::test]
async fn a_page_has_as_many_orders_as_have_not_too_many_items() {
    check(async |store| {
        let environment = environment(&store).await;
        for (number, n_items) in [(1, 4_000), (2, 4_000), (3, 4_000), (4, 10_001)] {
            let order = order(number, n_items);
            store.order_create(environment, &order).await.unwrap();
        }
        let mut span = OrderSpan {
            limit: 1000,
            ..OrderSpan::default()
        };
        let mut seen = Vec::new();
        loop {
            let page = store.order_page(environment, &span).await.unwrap();
            let Some(last) = page.last() else { break };
            span.after = Some((last.created.0, last.id.to_string()));
            let sizes = page
                .iter()
                .map(|order| (order.created.0, order.items.len()));
            seen.push(sizes.collect::<Vec<_>>());
        }
        let expected = [
            vec![(1, 4_000), (2, 4_000)],
            vec![(3, 4_000)],
            vec![(4, 10_001)],
        ];
        assert_eq!(seen, expected);
    })
    .await;
}

#[tokio::test]
async fn an_item_is_read_and_written_at_its_place() {
    check(async |store| {
        let environment = environment(&store).await;
        for number in [1, 2] {
            let order = order(number, 3);
            store.order_create(environment, &order).await.unwrap();
        }
        let key = (environment, Uuid::from_u128(2));
        let mut item = store.order_item_fetch(key, 1).await.unwrap().unwrap();
        assert_eq!(item, order(2, 3).items[1]);
        item.state = ItemState::Failed;
        item.base_version = Some(7);
        item.outcome.failure = Some(Failure::Inconclusive);
        store.order_item_write(key, 1, &item).await.unwrap();
        let read = store.order_fetch(environment, key.1).await.unwrap();
        let mut expected = order(2, 3);
        expected.items[1] = item;
        assert_eq!(read, Some(expected));
        let other = store.order_fetch(environment, Uuid::from_u128(1)).await;
        assert_eq!(other.unwrap(), Some(order(1, 3)));
        assert_eq!(store.order_item_fetch(key, 3).await.unwrap(), None);
    })
    .await;
}

/// Given: more orders that have ended than one transaction removes, some of them not long ago, and one in progress.
/// Expected: those that ended before go, with their items.
#[tokio::test]
async fn orders_that_ended_long_ago_are_removed_and_others_are_not() {
    check(async |store| {
        let environment = environment(&store).await;
        for number in 1..=230 {
            let order = order(number, 2);
            store.order_create(environment, &order).await.unwrap();
            if number > 1 {
                let ended = Timestamp(1000 + number as i64);
                let id = Uuid::from_u128(number);
                store.order_complete(environment, id, ended).await.unwrap();
            }
        }
        let purge = async |time| store.order_purge(environment, Timestamp(time)).await;
        assert_eq!(purge(1225).await.unwrap(), 223);
        assert_eq!(purge(1225).await.unwrap(), 0);
        let span = OrderSpan {
            limit: 1000,
            ..OrderSpan::default()
        };
        let left = store.order_page(environment, &span).await.unwrap();
        let left: Vec<i64> = left.iter().map(|order| order.created.0).collect();
        assert_eq!(left, [1, 225, 226, 227, 228, 229, 230]);
        let key = (environment, Uuid::from_u128(2));
        assert_eq!(store.order_item_fetch(key, 0).await.unwrap(), None);
    })
    .await;
}
