//! Instances from a registry, addresses and names.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use delayq_endpoint::{EurekaClient, EurekaInstance};
use delayq_plugin::{Clock, SystemClock, TaskType};
use serde_json::{Value, json};

use super::eureka::instances;
use super::registry::Registry;
use super::*;

mod names;
#[cfg(feature = "soak")]
mod real_registry;
mod replay;

const RECORDED: &str = include_str!("../../../../tests/exchanges/eureka/eureka.jsonl");

/// The answer of a real registry in the recording.
fn recorded(group: &str, name: &str) -> Value {
    let mut steps = RECORDED
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let found = steps.find(|step: &Value| step["group"] == group && step["name"] == name);
    found.unwrap()["rjson"].clone()
}

/// Status and body of the next answers to a request.
type Answers = HashMap<String, Vec<(u16, Value)>>;

/// A registry that answers as a real one did, and what it was asked.
#[derive(Clone, Default)]
struct Scripted {
    asked: Arc<Mutex<Vec<(String, Value)>>>,
    answers: Arc<Mutex<Answers>>,
}

async fn answer(
    State(registry): State<Scripted>,
    method: Method,
    uri: Uri,
    body: Bytes,
) -> Response {
    let asked = format!("{method} {}", uri.path());
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    registry.asked.lock().unwrap().push((asked.clone(), body));
    let mut answers = registry.answers.lock().unwrap();
    let Some(answers) = answers.get_mut(&asked) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let (status, body) = match answers.len() {
        1 => answers[0].clone(),
        _ => answers.remove(0),
    };
    (StatusCode::from_u16(status).unwrap(), body.to_string()).into_response()
}

impl Scripted {
    fn answers(&self, asked: &str, answers: Vec<(u16, Value)>) {
        self.answers
            .lock()
            .unwrap()
            .insert(asked.to_owned(), answers);
    }

    async fn open(&self) -> String {
        let app = Router::new().fallback(answer).with_state(self.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await });
        format!("http://{address}/eureka")
    }

    async fn until(&self, asked: &str, times: usize) {
        let wait = async {
            loop {
                let all = self.asked.lock().unwrap().clone();
                if all.iter().filter(|(one, _)| one == asked).count() >= times {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(20), wait).await;
        assert!(ended.is_ok(), "{asked}: {:?}", self.asked.lock().unwrap());
    }
}

fn types(discovery: &Discovery) -> Vec<String> {
    discovery.types().iter().map(ToString::to_string).collect()
}

async fn until_types(discovery: &Discovery, wanted: &[&str]) {
    let wait = async {
        while types(discovery) != wanted {
            tokio::task::yield_now().await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(20), wait).await;
    assert!(ended.is_ok(), "{:?}", types(discovery));
}

#[test]
fn one_that_has_missed_something_finds_out_by_the_hash() {
    let mut copy = Registry::of(&recorded("read", "all"));
    let known = recorded("read", "one application")["application"].clone();
    let mut part = Registry::of(&json!({"applications": {"application": [known]}}));
    let nothing = json!({"applications": {"apps__hashcode": "STARTING_1_UP_3_"}});
    assert!(copy.apply(&nothing) && !part.apply(&nothing));
}

#[test]
fn only_instances_that_are_up_are_taken_and_matched_exactly() {
    let all = Registry::of(&recorded("read", "all"));
    let found = all.all().flat_map(|record| instances(record, "task.types"));
    let found: Vec<_> = found.collect();
    let urls: Vec<_> = found.iter().map(|one| one.url.as_str()).collect();
    let wanted = [
        "http://host-a:8081/delayq/work",
        "http://host-b:8081/delayq/work",
    ];
    assert_eq!(urls, wanted, "host-c is starting, and mini names no type");
    let index = Index::new(found.into_iter().map(Arc::new));
    let of = |name: &str| index.of(&TaskType::new(name).unwrap()).len();
    assert_eq!(
        (of("order.cancel"), of("order.remind"), of("order")),
        (2, 1, 0)
    );
}

#[test]
fn an_application_of_the_spring_delay_queue_serves_types_with_its_name() {
    let record = json!({
        "instanceId": "a", "hostName": "10.0.0.5", "app": "SHOP", "vipAddress": "shop",
        "status": "UP", "port": {"$": 8080, "@enabled": "true"},
        "securePort": {"$": 443, "@enabled": "false"},
        "metadata": {"delay-queue:task": "task1, task10", "delayq.types": "mail"},
    });
    let found = instances(&record, "delayq.types");
    assert_eq!(found[0].url, "http://10.0.0.5:8080/delayq/work");
    assert_eq!(found[1].url, "http://10.0.0.5:8080/hf/delay_queue/work");
    let types: Vec<_> = found[1].types.iter().map(TaskType::as_str).collect();
    assert_eq!(types, ["shop-task1", "shop-task10"]);
    for host in ["user@10.0.0.5", "10.0.0.5/x", ""] {
        let mut record = record.clone();
        record["hostName"] = json!(host);
        assert!(instances(&record, "delayq.types").is_empty(), "{host}");
    }
}

#[tokio::test]
async fn an_instance_registers_again_when_its_heartbeat_is_not_known_and_leaves_the_list() {
    let registry = Scripted::default();
    let own = "/eureka/apps/SHOP/10.0.0.7:shop:8080";
    registry.answers("POST /eureka/apps/SHOP", vec![(204, Value::Null)]);
    let unknown = recorded("heartbeat", "unknown: register again");
    let beats = vec![(200, Value::Null), (404, unknown), (200, Value::Null)];
    registry.answers(&format!("PUT {own}"), beats);
    registry.answers(&format!("DELETE {own}"), vec![(200, Value::Null)]);
    let url = registry.open().await;
    // The first server does not answer.
    let client = EurekaClient::new(["http://127.0.0.1:9/eureka", &url]).unwrap();
    let instance = EurekaInstance::new("shop", "http://10.0.0.7:8080").unwrap();
    let instance = instance.metadata("delayq.types", "mail");
    let announced = Registration::registered(client, instance.heartbeat(Duration::ZERO));
    registry.until("POST /eureka/apps/SHOP", 2).await;
    registry.until(&format!("PUT {own}"), 3).await;
    announced.deregister().await;
    registry.until(&format!("DELETE {own}"), 1).await;
}

#[tokio::test]
async fn what_a_registry_lists_is_followed_by_what_changes_and_kept_while_it_is_silent() {
    let registry = Scripted::default();
    registry.answers("GET /eureka/apps", vec![(200, recorded("read", "all"))]);
    let deltas = vec![
        (200, recorded("read", "delta")),
        (500, Value::Null),
        (200, recorded("deregister", "delta")),
    ];
    registry.answers("GET /eureka/apps/delta", deltas);
    let mut config = ServiceConfig::default();
    config.eureka.urls = vec![registry.open().await];
    config.eureka.types_key = "task.types".to_owned();
    config.refresh_ms = 100;
    let discovery = Arc::new(Discovery::new(&config));
    let following = tokio::spawn(Arc::clone(&discovery).run());
    until_types(&discovery, &["order.cancel", "order.remind"]).await;
    // host-a, which alone served order.remind, has gone.
    until_types(&discovery, &["order.cancel"]).await;
    let asked = registry.asked.lock().unwrap().clone();
    let whole = asked.iter().filter(|(one, _)| one == "GET /eureka/apps");
    assert_eq!(whole.count(), 1, "the rest came by deltas");
    following.abort();
}

#[test]
fn instances_take_turns_and_one_that_did_not_answer_is_asked_last() {
    let mut config = ServiceConfig::default();
    let urls = [
        "http://10.0.0.1:80",
        "http://10.0.0.2:80",
        "http://10.0.0.3:80",
    ];
    let urls = urls.map(str::to_owned).to_vec();
    config.fixed.insert("mail".to_owned(), urls);
    let discovery = Discovery::new(&config);
    let of_mail = discovery
        .index()
        .of(&TaskType::new("mail").unwrap())
        .to_vec();
    let mut firsts = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let ordered = discovery.ordered(of_mail.clone());
        firsts.insert(ordered[0].url.clone());
    }
    assert_eq!(firsts.len(), 3);
    discovery.doubt(&of_mail[1], "silent");
    for _ in 0..3 {
        let ordered = discovery.ordered(of_mail.clone());
        assert_eq!(ordered[2].url, of_mail[1].url);
    }
    discovery.trust(&of_mail[1]);
    let lasts = (0..3).map(|_| discovery.ordered(of_mail.clone())[2].url.clone());
    assert_eq!(lasts.collect::<std::collections::BTreeSet<_>>().len(), 3);
}
