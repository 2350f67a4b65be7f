//! Spans of time in JSON.

use std::time::Duration;

use delayq_plugin::IntoDelay;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::json::MillisOrText;

/// A span: milliseconds as a number, or a text such as `30s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "it is the schema of a span")]
enum Written {
    Millis(u64),
    Text(String),
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let span = match MillisOrText::deserialize(deserializer)? {
            MillisOrText::Millis(ms) => u64::try_from(ms)
                .map(Duration::from_millis)
                .map_err(|_| D::Error::custom("a span is not negative"))?,
            MillisOrText::Text(text) => text.as_str().into_delay().map_err(D::Error::custom)?,
        };
        Ok(Self(span))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ms = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        serializer.serialize_u64(ms)
    }
}

impl PartialSchema for Span {
    fn schema() -> RefOr<Schema> {
        Written::schema()
    }
}

impl ToSchema for Span {}
