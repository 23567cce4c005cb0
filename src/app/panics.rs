//! A panic in the engine of one environment.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::app::App;
use crate::deploy::{DeployKind, RequestError};
use crate::domain::{
    ActionId, ActionKind, EnvironmentId, ResourceId, ResourceStatus, Timestamp, VersionNumber,
};
use crate::store::ActionStart;

/// Given: two environments, one of which deploys something. When its engine panics: the other one answers as before; the run that
/// was cut off is closed as unavailable, the engine answers again, and a notification of this environment says what has happened.
#[tokio::test]
async fn an_engine_that_panics_starts_again_says_so_and_disturbs_no_other() {
    let data = tempfile::tempdir().unwrap();
    let app = App::alone(data.path()).await.unwrap();
    let store = app.store.clone();
    let broken = EnvironmentId::named("p", "e");
    let other = app.add_other(BTreeMap::new()).await.unwrap();
    for id in [broken, other] {
        let environment = store.environment_fetch(id).await.unwrap().unwrap();
        app.environment_start(&environment).await;
    }
    let answers = async |id| {
        let engine = app.engine(id).unwrap();
        let asked = engine.deploy(DeployKind::Deploy, None).await;
        matches!(asked, Err(RequestError::NothingReleased))
    };
    assert!(answers(broken).await && answers(other).await);
    let start = ActionStart {
        id: ActionId::generate(),
        action: ActionKind::Deploy,
        version: VersionNumber::new(1),
        resource_id: ResourceId::new("t::R[a,name=x]"),
        started: Timestamp::now(),
    };
    for id in [broken, other] {
        let start = ActionStart {
            id: ActionId::generate(),
            ..start.clone()
        };
        store.action_write(id, &[start], &[]).await.unwrap();
    }
    app.engine(broken).unwrap().panic();
    assert!(answers(other).await);
    let n_notified = async |id| store.notification_list(id).await.unwrap().len();
    for _ in 0..1000 {
        if n_notified(broken).await > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let notified = store.notification_list(broken).await.unwrap();
    assert_eq!(notified.len(), 1);
    assert!(notified[0].message.contains("a test wants it so"));
    let status = async |id| store.action_list(id, None, 1).await.unwrap()[0].status;
    assert_eq!(status(broken).await, Some(ResourceStatus::Unavailable));
    assert_eq!((status(other).await, n_notified(other).await), (None, 0));
    // It goes on, and what it is asked meanwhile waits for it.
    assert!(answers(broken).await && answers(other).await);
    app.end().await;
}
