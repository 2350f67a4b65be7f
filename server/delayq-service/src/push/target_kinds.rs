//! Kinds of targets, each with its options.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::uri::PathAndQuery;
use serde::{Deserialize, Serialize};
use url::Url;
use utoipa::ToSchema;

use super::secret::{HeaderSet, Hidden, Signer, has_hidden_query, shown_url};
use super::{Guard, PushConfig};
use crate::span::Span;

/// The largest number of secrets: the current one and those being rotated out.
const MAX_SECRETS: usize = 5;
/// The supported methods.
const METHODS: [&str; 5] = ["POST", "PUT", "PATCH", "DELETE", "GET"];

/// An HTTP request for each task, with its message as the body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpTarget {
    /// The URL. Its query is never shown again, as it may contain a secret. `***` is shown instead,
    /// and keeps the current query when sent back with the same place.
    pub url: String,
    /// `POST` (default), `PUT`, `PATCH`, `DELETE`, or `GET`, which has no body.
    #[serde(default = "post")]
    pub method: String,
    /// Additional headers. Their values are never shown again. `***` is shown instead, and keeps
    /// the current value when sent back.
    #[serde(default, skip_serializing_if = "HeaderSet::is_empty")]
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    pub headers: HeaderSet,
    /// The content type of the message. The default is the task's header `content-type`, or else
    /// JSON, text or bytes, depending on the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Standard Webhooks secrets, at most 5: each is `whsec_` and 24 to 64 bytes in base64. Each
    /// request is signed with all of them. They are never shown again. If absent, the target keeps
    /// its secrets, or gets a new one that is shown once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    pub secrets: Option<Vec<Hidden>>,
    /// Sends the task as a CloudEvent 1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_events: Option<CloudEvents>,
}

/// The form in which a CloudEvent is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CloudEvents {
    /// The message is the body; the attributes are headers `ce-..`.
    Binary,
    /// One JSON document, `application/cloudevents+json`.
    Structured,
}

/// Returns true if two URLs name the same origin. Hidden values are never sent to another origin.
pub(super) fn goes_to_the_same_place(one: &str, other: &str) -> bool {
    let origin = |text: &str| Url::parse(text).map(|url| url.origin()).ok();
    origin(one).is_some_and(|one| one.is_tuple() && Some(one) == origin(other))
}

fn post() -> String {
    "POST".to_owned()
}

impl HttpTarget {
    /// Refuses what cannot be, or may not be called.
    pub fn check(&self, guard: &Guard) -> Result<(), String> {
        guard
            .url(&self.url)
            .map_err(|reason| format!("url: {reason}"))?;
        if has_hidden_query(&self.url) {
            return Err("url: give its query: none is kept for this place".to_owned());
        }
        if !METHODS.contains(&self.method.as_str()) {
            return Err(format!("method: use one of {}", METHODS.join(", ")));
        }
        if let Some(content_type) = &self.content_type
            && axum::http::HeaderValue::from_str(content_type).is_err()
        {
            return Err("content_type: it is no visible ASCII".to_owned());
        }
        let secrets = self.secrets.as_deref().unwrap_or_default();
        if secrets.len() > MAX_SECRETS {
            return Err(format!("secrets: at most {MAX_SECRETS}"));
        }
        if secrets.iter().any(Hidden::is_stars) {
            return Err("secrets: give them, or leave them out: none is kept".to_owned());
        }
        Signer::new(secrets)?;
        self.headers.check()
    }

    /// Hides all secrets.
    pub(super) fn hide(&mut self) {
        self.url = shown_url(&self.url);
        self.headers.hide();
        let secrets = self.secrets.iter_mut().flatten();
        secrets.for_each(|secret| *secret = Hidden::stars());
    }

    /// Fills placeholders and missing secrets from the previous target.
    pub(super) fn keep_from(&mut self, before: Option<&Self>) {
        if let Some(before) = before.filter(|before| self.url == shown_url(&before.url)) {
            self.url.clone_from(&before.url);
        }
        let same = before.filter(|before| goes_to_the_same_place(&self.url, &before.url));
        self.headers.keep_from(same.map(|before| &before.headers));
        let present = before.and_then(|before| before.secrets.clone());
        let are_meant =
            |secrets: &Vec<Hidden>| !secrets.is_empty() && secrets.iter().all(Hidden::is_stars);
        let is_absent = self.secrets.is_none();
        if is_absent || (present.is_some() && self.secrets.as_ref().is_some_and(are_meant)) {
            self.secrets = present;
        }
    }
}

/// A unary gRPC call for each task. The message is the encoded protobuf request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrpcTarget {
    /// The server, such as `https://billing.example.org`.
    pub url: String,
    /// The full name of the service, such as `billing.v1.Orders`.
    pub service: String,
    /// The method, such as `Cancel`.
    pub method: String,
    /// Additional text metadata. The values are never shown again, as those of HTTP headers.
    #[serde(default, skip_serializing_if = "HeaderSet::is_empty")]
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    pub metadata: HeaderSet,
}

impl GrpcTarget {
    /// Refuses what cannot be, or may not be called.
    pub fn check(&self, guard: &Guard) -> Result<(), String> {
        let url = guard
            .url(&self.url)
            .map_err(|reason| format!("url: {reason}"))?;
        if url.path() != "/" || url.query().is_some() {
            return Err("url: a server of gRPC has no path: give service and method".to_owned());
        }
        self.path()?;
        self.metadata.check()
    }

    /// The path of the call.
    pub fn path(&self) -> Result<PathAndQuery, String> {
        let is_name = |text: &str| {
            let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
            !text.is_empty() && text.len() <= 200 && text.bytes().all(is_word)
        };
        if !is_name(&self.service) {
            return Err("service: use its full name, such as billing.v1.Orders".to_owned());
        }
        if !is_name(&self.method) || self.method.contains('.') {
            return Err("method: use its name, such as Cancel".to_owned());
        }
        let path = format!("/{}/{}", self.service, self.method);
        path.parse().map_err(|error| format!("service: {error}"))
    }

    /// Hides all values.
    pub(super) fn hide(&mut self) {
        self.metadata.hide();
    }

    /// Fills placeholders from the previous target.
    pub(super) fn keep_from(&mut self, before: Option<&Self>) {
        let same = before.filter(|before| goes_to_the_same_place(&self.url, &before.url));
        self.metadata.keep_from(same.map(|before| &before.metadata));
    }
}

/// The longest name of a topic, in bytes.
const MAX_TOPIC_BYTES: usize = 249;

/// A record in a Kafka topic for each task, with its message as the value. The task is done when
/// the broker has acknowledged the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KafkaTarget {
    /// The cluster, by its name in the server's configuration: `push.kafka.NAME`.
    pub cluster: String,
    /// The topic.
    pub topic: String,
    /// The key of the record; `{id}` stands for the id of the task. Default: the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Additional headers of the record.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

impl KafkaTarget {
    /// Refuses a cluster that this server cannot write to.
    pub(super) fn allowed(&self, config: &PushConfig) -> Result<(), String> {
        if !cfg!(feature = "kafka") {
            return Err(
                "kafka: this server was built without it: use one with the feature kafka"
                    .to_owned(),
            );
        }
        if !config.kafka.contains_key(&self.cluster) {
            let text = "cluster: there is no such one: add push.kafka.NAME.brokers to the \
                        configuration of the server";
            return Err(text.to_owned());
        }
        Ok(())
    }

    /// Refuses an invalid target.
    pub fn check(&self, config: &PushConfig) -> Result<(), String> {
        self.allowed(config)?;
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_name = !self.topic.is_empty() && self.topic.bytes().all(is_word);
        if !is_name || self.topic.len() > MAX_TOPIC_BYTES || [".", ".."].contains(&&*self.topic) {
            return Err("topic: use 1 to 249 of A-Z a-z 0-9 . _ -".to_owned());
        }
        Ok(())
    }
}

/// The time an instance may take to settle a task later, if the target names none.
const SETTLE_WITHIN: Duration = Duration::from_mins(10);
/// The allowed times.
const BOUNDS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_hours(24);

/// An instance of an application that serves the type. It is found in a registry, in the
/// configuration, or because it announced itself to the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceTarget {
    /// The time that an instance may take to settle a task that it accepted with `202` and
    /// `delayq-settle: later`; 1 s to 24 h, default 10 min.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle_within: Option<Span>,
}

impl ServiceTarget {
    /// Refuses what cannot be.
    pub(super) fn check(&self) -> Result<(), String> {
        if BOUNDS.contains(&self.settle_within()) {
            return Ok(());
        }
        Err("settle_within: 1 s to 24 h".to_owned())
    }

    /// The time an instance may take to settle a task later.
    pub(super) fn settle_within(&self) -> Duration {
        self.settle_within.map_or(SETTLE_WITHIN, |span| span.0)
    }
}
