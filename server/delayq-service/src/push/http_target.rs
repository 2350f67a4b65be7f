//! A target that is called over HTTP.

use serde::{Deserialize, Serialize};
use url::Url;
use utoipa::ToSchema;

use super::Guard;
use super::header_set::HeaderSet;
use super::hidden::Hidden;
use super::signature::Signer;

/// Most secrets: the present one, and those that are being rotated away.
const MAX_SECRETS: usize = 5;
/// The methods that there are.
const METHODS: [&str; 5] = ["POST", "PUT", "PATCH", "DELETE", "GET"];

/// An HTTP request for each task, with its message as the body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpTarget {
    /// The URL.
    pub url: String,
    /// `POST` (default), `PUT`, `PATCH`, `DELETE`, or `GET`, which has no body.
    #[serde(default = "post")]
    pub method: String,
    /// Further headers. Their values are never shown again: `***` stands for them, and means the
    /// present value when it is sent.
    #[serde(default, skip_serializing_if = "HeaderSet::is_empty")]
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    pub headers: HeaderSet,
    /// The content type of the message; else that of the header `content-type` of the task, else
    /// JSON, text or bytes, by what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Secrets of Standard Webhooks, such as `whsec_..`; each request is signed with all of them.
    /// They are never shown again. Absent: those that the target has, or a new one, shown once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    pub secrets: Option<Vec<Hidden>>,
    /// Sends the task as a CloudEvent 1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_events: Option<CloudEvents>,
}

/// How a CloudEvent is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CloudEvents {
    /// The message as the body, the attributes as headers `ce-..`.
    Binary,
    /// All as one JSON document, `application/cloudevents+json`.
    Structured,
}

/// Whether two URLs lead to the same server: values that are never shown go to no other one.
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

    /// Shows no secret any more.
    pub(super) fn hide(&mut self) {
        self.headers.hide();
        let secrets = self.secrets.iter_mut().flatten();
        secrets.for_each(|secret| *secret = Hidden::stars());
    }

    /// Takes the present secrets and values where they are meant.
    pub(super) fn keep_from(&mut self, before: Option<&Self>) {
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
