//! A task to create, and its target.

use std::collections::BTreeMap;

use delayq_core::job::{check_json, is_json_type};
use delayq_proto::pb::tasks::{
    CreateGrpcTaskRequest, CreateHttpTaskRequest, CreateKafkaTaskRequest, Retry, TaskOptions,
};
use delayq_service::config::Config;
use delayq_service::problem::Problem;
use serde_json::{Map, Value, json};

/// The largest number of retries.
const MAX_RETRIES: u32 = 999;
/// The longest wait between attempts, in seconds: a day.
const MAX_INTERVAL: u32 = 86_400;

/// A task to create.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) options: TaskOptions,
    /// `http`, `grpc` or `kafka`.
    pub(super) kind: &'static str,
    /// The target of the task, in the format of push.
    pub(super) target: String,
}

impl Wanted {
    fn new(
        task: Option<TaskOptions>,
        kind: &'static str,
        target: impl FnOnce(&TaskOptions) -> Result<Value, Problem>,
    ) -> Result<Self, Problem> {
        let options = task.unwrap_or_default();
        let mut whole = Map::new();
        whole.insert(kind.to_owned(), target(&options)?);
        whole.insert("retry".to_owned(), retry(options.retry)?);
        whole.insert("keep_answer".to_owned(), json!(false));
        whole.insert("keep_task".to_owned(), json!(true));
        if options.timeout > 0 {
            whole.insert("timeout".to_owned(), json!(options.timeout));
        }
        Ok(Self {
            options,
            kind,
            target: Value::Object(whole).to_string(),
        })
    }

    /// An HTTP request.
    pub(super) fn http(request: CreateHttpTaskRequest) -> Result<Self, Problem> {
        Self::new(request.task, "http", |options| {
            let method = match request.method.to_ascii_uppercase() {
                none if none.is_empty() => "POST".to_owned(),
                method => method,
            };
            let mut http = json!({"url": request.url, "method": method});
            set(&mut http, "headers", some(&request.headers));
            set(&mut http, "content_type", content_type(&options.format)?);
            Ok(http)
        })
    }

    /// A gRPC call.
    pub(super) fn grpc(request: CreateGrpcTaskRequest, config: &Config) -> Result<Self, Problem> {
        Self::new(request.task, "grpc", |options| {
            if !["", "protobuf", "proto", "binary"].contains(&options.format.as_str()) {
                let text = "format: the body of a gRPC call is its encoded request: use protobuf";
                return Err(Problem::bad_request(text));
            }
            let scheme = if config.push.allow_http {
                "http"
            } else {
                "https"
            };
            let url = match request.target {
                url if url.contains("://") => url,
                address => format!("{scheme}://{address}"),
            };
            let (service, method) = (request.service, request.method);
            let mut grpc = json!({"url": url, "service": service, "method": method});
            set(&mut grpc, "metadata", some(&request.metadata));
            Ok(grpc)
        })
    }

    /// A record of Kafka.
    pub(super) fn kafka(request: CreateKafkaTaskRequest, config: &Config) -> Result<Self, Problem> {
        Self::new(request.task, "kafka", |_| {
            let mut clusters = config.push.kafka.keys();
            let cluster = match (request.cluster, clusters.next(), clusters.next()) {
                (none, Some(only), None) if none.is_empty() => only.clone(),
                (none, ..) if none.is_empty() => {
                    let text = "cluster: there is not one alone: name one of push.kafka of the \
                                configuration";
                    return Err(Problem::bad_request(text));
                }
                (named, ..) => named,
            };
            let mut kafka = json!({"cluster": cluster, "topic": request.topic});
            let key = Some(request.key).filter(|key| !key.is_empty());
            set(&mut kafka, "key", key.map(Value::String));
            set(&mut kafka, "headers", some(&request.headers));
            Ok(kafka)
        })
    }
}

fn set(target: &mut Value, name: &str, value: Option<Value>) {
    if let (Some(fields), Some(value)) = (target.as_object_mut(), value) {
        fields.insert(name.to_owned(), value);
    }
}

fn some(headers: &BTreeMap<String, String>) -> Option<Value> {
    (!headers.is_empty()).then(|| json!(headers))
}

/// The retry options of a target: one attempt and `count` more.
fn retry(retry: Option<Retry>) -> Result<Value, Problem> {
    let Retry { count, interval } = retry.unwrap_or_default();
    if count > MAX_RETRIES || interval > MAX_INTERVAL {
        let text = format!("retry: count up to {MAX_RETRIES}, interval up to {MAX_INTERVAL} s");
        return Err(Problem::bad_request(text));
    }
    let ms = u64::from(interval) * 1_000;
    Ok(json!({"attempts": count + 1, "wait": ms, "max_wait": ms, "is_fixed": true}))
}

/// Refuses a body that is said to be JSON and that a target could not read.
pub(super) fn check_format(options: &TaskOptions) -> Result<(), Problem> {
    let is_json = options.format == "json" || is_json_type(&options.format);
    if !is_json || options.body.is_empty() {
        return Ok(());
    }
    let checked = check_json(&options.body);
    checked.map_err(|reason| Problem::bad_request(format!("body: it is no JSON: {reason}")))
}

/// The content type of a format; `None` lets push choose it from the body.
fn content_type(format: &str) -> Result<Option<Value>, Problem> {
    let known = match format {
        "" => return Ok(None),
        "json" => "application/json",
        "text" => "text/plain; charset=utf-8",
        "form" => "application/x-www-form-urlencoded",
        "xml" => "application/xml",
        "binary" => "application/octet-stream",
        other if other.contains('/') => other,
        _ => {
            let text = "format: use json, text, form, xml, binary, or a media type";
            return Err(Problem::bad_request(text));
        }
    };
    Ok(Some(json!(known)))
}
