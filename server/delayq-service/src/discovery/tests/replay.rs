//! The recording of a real registry, exchange by exchange: the client asks what was asked, and
//! makes of the answers what they mean.

use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use delayq_endpoint::EurekaError;

use super::*;

/// Exchanges that no client of delayq has, by group and name, and why.
const LEFT_OUT: [(&str, &str, &str); 24] = [
    ("read", "xml is the default", "it asks for JSON"),
    ("read", "all, gzip", "it asks for no compression"),
    ("read", "all, compact", "it needs the metadata"),
    ("read", "unknown application", ONE),
    ("read", "one application", ONE),
    ("read", "lower case", ONE),
    ("read", "unknown instance", ONE),
    ("read", "one instance", ONE),
    ("read", "instance without application", ONE),
    ("read", "unknown vip", VIP),
    ("read", "by vip", VIP),
    ("read", "by secure vip", VIP),
    ("read", "by vip of one that is starting", VIP),
    ("status", "out of service", STATUS),
    ("status", "shown", ONE),
    ("status", "vip leaves it out", VIP),
    ("status", "back", STATUS),
    ("status", "shown back", ONE),
    ("status", "of an unknown one", STATUS),
    ("metadata", "set", "it registers again with other metadata"),
    ("metadata", "shown", ONE),
    ("lease", "there", ONE),
    ("lease", "gone after it (2 x duration)", ONE),
    ("deregister", "left", ONE),
];
const ONE: &str = "it reads all applications, and never a single one";
const VIP: &str = "it knows applications by their names";
const STATUS: &str = "it overrides no status";

/// A registry that answers one exchange after the other, and what it was asked last.
#[derive(Clone, Default)]
struct Recorded {
    step: Arc<Mutex<Value>>,
    asked: Arc<Mutex<Option<Asked>>>,
}

#[derive(Debug)]
struct Asked {
    method: String,
    path: String,
    headers: HeaderMap,
    body: Value,
}

async fn replay(
    State(recorded): State<Recorded>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    *recorded.asked.lock().unwrap() = Some(Asked {
        method: method.to_string(),
        path: uri.path().to_owned(),
        headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    });
    let step = recorded.step.lock().unwrap();
    let status = u16::try_from(step["status"].as_u64().unwrap()).unwrap();
    let body = match (&step["rjson"], &step["rtext"]) {
        (Value::Null, Value::String(text)) => text.clone(),
        (Value::Null, _) => String::new(),
        (json, _) => json.to_string(),
    };
    (StatusCode::from_u16(status).unwrap(), body).into_response()
}

impl Recorded {
    /// The one request of a step.
    fn taken(&self) -> Asked {
        self.asked.lock().unwrap().take().expect("nothing is asked")
    }
}

/// The instance of a path and an id such as `host-a:order-app:8081`. A client cannot have another
/// form of id; one of another form has the answers to it all the same.
fn instance_of(app: &str, id: &str) -> EurekaInstance {
    let parts: Vec<_> = id.split(':').collect();
    let address = match parts.as_slice() {
        [host, _, port] => format!("http://{host}:{port}"),
        _ => format!("http://{id}"),
    };
    EurekaInstance::new(app, &address).unwrap()
}

fn object(value: &Value) -> &serde_json::Map<String, Value> {
    value.as_object().unwrap()
}

/// What a registration says, beside what was recorded of one.
fn check_document(step: &Value, asked: &Value, place: &str) {
    let least = steps().find(|step| step["name"] == "as little as is taken");
    let document = |step: &Value| -> Value {
        let text = step["body"]["text"].as_str().unwrap();
        serde_json::from_str(text).unwrap_or_default()
    };
    let (own, recorded) = (&asked["instance"], document(step));
    for field in object(&document(&least.unwrap())["instance"]).keys() {
        assert!(!own[field].is_null(), "{place}: no {field}");
    }
    if step["status"] != 204 || own["instanceId"] != recorded["instance"]["instanceId"] {
        return;
    }
    for (field, value) in object(&recorded["instance"]) {
        let is_own = ["ipAddr", "status", "metadata", "leaseInfo", "securePort"];
        let is_time = field.ends_with("Timestamp");
        let is_page = ["statusPageUrl", "healthCheckUrl"].contains(&field.as_str());
        if is_own.contains(&field.as_str()) || is_time {
            assert!(!own[field].is_null(), "{place}: no {field}");
        } else {
            assert!(is_page || own[field] == *value, "{place}: {field}");
        }
    }
}

fn steps() -> impl Iterator<Item = Value> {
    RECORDED
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
}

/// Has the client ask what a step asked; `None`: nothing that it ever asks.
async fn ask(
    client: &EurekaClient,
    step: &Value,
    copy: &mut Registry,
    place: &str,
) -> Option<(String, bool)> {
    let path = step["path"].as_str().unwrap();
    let parts: Vec<_> = path.strip_prefix("/eureka/").unwrap().split('/').collect();
    let status = step["status"].as_u64().unwrap();
    let whole = || (path.trim_end_matches('/').to_owned(), true);
    Some(match (step["method"].as_str().unwrap(), parts.as_slice()) {
        ("POST", ["apps", app]) => {
            let body = step["body"]["text"].as_str().unwrap();
            let body: Value = serde_json::from_str(body).unwrap_or_default();
            let id = body["instance"]["instanceId"].as_str().unwrap_or("none");
            let instance = instance_of(app, id);
            let done = client.register(&instance, SystemClock.now()).await;
            let said = step["rtext"].as_str().or(step["rjson"]["error"].as_str());
            match (done, status) {
                (Ok(()), 204) => {}
                (
                    Err(EurekaError::Refused {
                        status: 400,
                        reason,
                    }),
                    400,
                ) => {
                    assert!(reason.contains(said.unwrap()), "{place}: {reason}");
                }
                (done, _) => panic!("{place}: {done:?}"),
            }
            whole()
        }
        ("PUT", ["apps", app, id]) => {
            let instance = instance_of(app, id);
            let is_known = client.heartbeat(&instance).await.unwrap();
            assert_eq!(is_known, status == 200, "{place}");
            (path.to_owned(), instance.id() == *id)
        }
        ("DELETE", ["apps", app, id]) => {
            let instance = instance_of(app, id);
            // One that is not on the list any more is off it as well.
            client.deregister(&instance).await.unwrap();
            (path.to_owned(), instance.id() == *id)
        }
        ("GET", ["apps"] | ["apps", ""]) => {
            let document = client.apps().await.unwrap();
            assert_eq!(document, step["rjson"], "{place}");
            *copy = Registry::of(&document);
            whole()
        }
        ("GET", ["apps", "delta"]) => {
            let document = client.delta().await.unwrap();
            assert_eq!(document, step["rjson"], "{place}");
            assert!(copy.apply(&document), "{place}: the copy is another one");
            whole()
        }
        _ => return None,
    })
}

#[tokio::test]
async fn every_recorded_exchange_that_concerns_a_client_means_the_same_to_it() {
    let recorded = Recorded::default();
    let app = Router::new().fallback(replay).with_state(recorded.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/eureka", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    let client = EurekaClient::new([&url]).unwrap();
    let (mut copy, mut replayed, mut left_out) = (Registry::default(), 0, Vec::new());
    let mut sizes = Vec::new();
    for step in steps() {
        let (group, name) = (
            step["group"].as_str().unwrap(),
            step["name"].as_str().unwrap(),
        );
        let place = format!("{group}/{name}");
        let known = LEFT_OUT.iter().find(|one| (one.0, one.1) == (group, name));
        if let Some((group, name, _)) = known {
            left_out.push((*group, *name));
            continue;
        }
        *recorded.step.lock().unwrap() = step.clone();
        let asked = ask(&client, &step, &mut copy, &place).await;
        let (path, is_its_own) = asked.unwrap_or_else(|| panic!("{place}: give it a reason"));
        let asked = recorded.taken();
        let json = Some("application/json");
        let header = |name| {
            asked
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        assert_eq!(
            (asked.method.as_str(), header(ACCEPT)),
            (step["method"].as_str().unwrap(), json)
        );
        assert!(!is_its_own || asked.path == path, "{place}: {}", asked.path);
        match asked.method.as_str() {
            "POST" => {
                assert_eq!(header(CONTENT_TYPE), json, "{place}");
                check_document(&step, &asked.body, &place);
            }
            "GET" => sizes.push(copy.all().count()),
            _ => {}
        }
        replayed += 1;
    }
    assert_eq!((replayed, left_out.len()), (31, LEFT_OUT.len()));
    // Nobody at first, then all; one whose lease ended, and one that was taken off, are gone.
    assert_eq!(sizes, [0, 0, 4, 4, 4, 3, 0]);
}
