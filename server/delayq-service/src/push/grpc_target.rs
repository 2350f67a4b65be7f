//! A target that is called over gRPC.

use axum::http::uri::PathAndQuery;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Guard;
use super::header_set::HeaderSet;
use super::http_target::goes_to_the_same_place;

/// A unary gRPC call for each task. The message is the request as it stands: encoded protobuf.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrpcTarget {
    /// The server, such as `https://billing.example.org`.
    pub url: String,
    /// The full name of the service, such as `billing.v1.Orders`.
    pub service: String,
    /// The method, such as `Cancel`.
    pub method: String,
    /// Further metadata, of text. The values are never shown again, as those of HTTP headers.
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

    /// Shows no value any more.
    pub(super) fn hide(&mut self) {
        self.metadata.hide();
    }

    /// Takes the present values where they are meant.
    pub(super) fn keep_from(&mut self, before: Option<&Self>) {
        let same = before.filter(|before| goes_to_the_same_place(&self.url, &before.url));
        self.metadata.keep_from(same.map(|before| &before.metadata));
    }
}
