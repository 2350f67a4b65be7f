//! Spans of time in JSON.

use std::time::Duration;

use delayq_plugin::IntoDelay;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A span: milliseconds as a number, or a text such as `30s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
enum Written {
    Millis(u64),
    Text(String),
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        match Written::deserialize(deserializer) {
            Ok(Written::Millis(ms)) => Ok(Self(Duration::from_millis(ms))),
            Ok(Written::Text(text)) => text
                .as_str()
                .into_delay()
                .map(Self)
                .map_err(D::Error::custom),
            Err(_) => Err(D::Error::custom(
                "use milliseconds, or a span such as \"30s\"",
            )),
        }
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
