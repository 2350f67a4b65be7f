//! Policies of types, for pushes.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use delayq_plugin::{DelayQueueJob, TaskState, TypePattern};
use serde_json::json;

use super::own::with_target;
use super::site::{Receiver, Site, near};

#[tokio::test]
async fn a_push_is_repeated_as_the_policy_of_its_type_says_unless_the_target_says_it() {
    let site = Site::open(&near());
    let policy = json!({"retry": {"attempts": 2, "wait": 1, "is_fixed": true}});
    let policy = serde_json::from_value(policy).unwrap();
    let shop = TypePattern::new("shop.*").unwrap();
    site.policies.set(&shop, policy).await.unwrap();
    let fails = || StatusCode::INTERNAL_SERVER_ERROR.into_response();
    let fails = (0..9).map(|_| fails()).collect();
    let target = Receiver::open(fails).await;
    let plain = json!({"http": {"url": target.url}});
    let own =
        json!({"http": {"url": target.url}, "retry": {"attempts": 3, "wait": 1, "is_fixed": true}});
    site.set("shop.*", plain.clone()).await;
    site.set("shop.own", own).await;
    for (task_type, attempts) in [("shop.a", 2), ("shop.own", 3)] {
        site.send(DelayQueueJob::raw(task_type, "x").id("1")).await;
        let dead = site.until(task_type, "1", TaskState::Dead).await;
        assert_eq!(dead.attempt, attempts, "{task_type}");
    }
    // A target of the task itself, without a retry and without a target of its type.
    assert!(site.push.remove(&shop).await.unwrap());
    let job = with_target(&site, "2", &plain).await.unwrap();
    let shop_of_job = TypePattern::new(job.task_type()).unwrap();
    site.policies.set(&shop_of_job, policy).await.unwrap();
    site.send(job).await;
    let dead = site
        .until(shop_of_job.to_string().as_str(), "2", TaskState::Dead)
        .await;
    assert_eq!(dead.attempt, 2);
    site.push.close(Duration::from_secs(5)).await;
}
