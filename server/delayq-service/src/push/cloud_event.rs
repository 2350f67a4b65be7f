//! CloudEvents 1.0 over HTTP.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Value, json};

use super::http_target::CloudEvents;
use super::parcel::Parcel;

/// What the binding for HTTP has encoded in the values of headers.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// The body of a request, and headers for it.
pub(super) fn put_into(
    headers: &mut HeaderMap,
    form: CloudEvents,
    parcel: &Parcel<'_>,
    content_type: &str,
) -> Vec<u8> {
    let attributes = [
        ("specversion", "1.0".to_owned()),
        ("id", parcel.push_id()),
        ("source", format!("/delayq/{}", parcel.namespace)),
        ("type", parcel.cx.task_type().to_string()),
        ("subject", parcel.cx.id().to_string()),
        ("time", parcel.cx.due_at().to_string()),
    ];
    match form {
        CloudEvents::Binary => {
            for (name, value) in attributes {
                let value = utf8_percent_encode(&value, ENCODED).to_string();
                let name = HeaderName::from_bytes(format!("ce-{name}").as_bytes());
                if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&value)) {
                    headers.insert(name, value);
                }
            }
            parcel.message.to_vec()
        }
        CloudEvents::Structured => {
            let json = HeaderValue::from_static("application/cloudevents+json");
            headers.insert(CONTENT_TYPE, json);
            let attributes = attributes.map(|(name, value)| (name.to_owned(), Value::from(value)));
            let mut event: serde_json::Map<String, Value> = attributes.into_iter().collect();
            event.insert("datacontenttype".to_owned(), content_type.into());
            let is_json = content_type.contains("json");
            let parsed = serde_json::from_slice(parcel.message).ok();
            match (
                parsed.filter(|_: &Value| is_json),
                std::str::from_utf8(parcel.message),
            ) {
                (Some(data), _) => event.insert("data".to_owned(), data),
                (None, Ok(text)) if !is_json => event.insert("data".to_owned(), text.into()),
                _ => {
                    let data = json!(STANDARD.encode(parcel.message));
                    event.insert("data_base64".to_owned(), data)
                }
            };
            Value::Object(event).to_string().into_bytes()
        }
    }
}
