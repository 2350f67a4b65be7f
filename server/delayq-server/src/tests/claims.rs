//! Claims of several types.

use delayq_proto::pb;
use delayq_service::access::Scope;
use delayq_service::config::NamespaceLimits;

use super::house::{Answer, Door, House};

/// Claims one task; its type, such as `b`.
async fn claim(house: &House, door: Door, types: &[&str], is_fair: bool) -> Result<String, Answer> {
    let answer = if door == Door::Http {
        let order = if is_fair { "fair" } else { "listed" };
        let path = format!("types/{}/claim?order={order}", types.join(","));
        house.v1("POST", &path, "").await
    } else {
        let request = pb::PullRequest {
            namespace: house.namespace.to_owned(),
            task_types: types.iter().map(ToString::to_string).collect(),
            order: i32::from(if is_fair {
                pb::PullOrder::Fair
            } else {
                pb::PullOrder::Listed
            }),
            ..pb::PullRequest::default()
        };
        house.grpc("Pull", &request).await
    };
    if answer.status != 200 {
        return Err(answer);
    }
    Ok(if door == Door::Http {
        let task = &answer.json()["tasks"][0]["type"];
        task.as_str().unwrap().to_owned()
    } else {
        let pulled: pb::PullResponse = answer.message();
        pulled.tasks[0].task_type.clone()
    })
}

#[tokio::test]
async fn types_are_claimed_in_the_order_of_the_list_or_in_turns_at_both_doors() {
    let mut house = House::open("walk-claims", NamespaceLimits::default()).await;
    for door in [Door::Http, Door::Grpc] {
        for task_type in ["b", "c", "a", "b", "c", "a", "a"] {
            let path = format!("types/{task_type}/tasks");
            assert_eq!(house.v1("POST", &path, "x").await.status, 201);
        }
        let types = ["a", "b", "c"];
        let first = claim(&house, door, &types, false).await.unwrap();
        assert_eq!(first, "a", "{door:?}");
        for round in 0..2 {
            let mut seen = Vec::new();
            for _ in types {
                seen.push(claim(&house, door, &types, true).await.unwrap());
            }
            seen.sort();
            assert_eq!(seen, types, "{door:?} {round}");
        }
    }
    let (name, whole) = (house.namespace, house.token.clone());
    house.token = house
        .server
        .new_token("a", &[Scope::Work], name, &["a"])
        .await;
    for door in [Door::Http, Door::Grpc] {
        let refused = claim(&house, door, &["a", "b"], false).await.unwrap_err();
        assert_eq!(refused.status, 403, "{door:?}: {refused:?}");
    }
    house.token = whole;
    for door in [Door::Http, Door::Grpc] {
        let twice = claim(&house, door, &["a", "a"], false).await.unwrap_err();
        assert_eq!(twice.status, 400, "{door:?}: {twice:?}");
    }
}
