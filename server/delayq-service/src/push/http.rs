//! Push over HTTP, optionally as a CloudEvent.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::http::header::{CONTENT_TYPE, USER_AGENT};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use delayq_core::error::readable_tls;
use delayq_plugin::store::{MAX_REPLY_BYTES, Reply};
use delayq_plugin::{Clock, SystemClock, TaskError};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Serialize;
use serde_json::value::RawValue;

use super::Guard;
use super::answer::HttpAnswer;
use super::barred::{Forbidden, give_back};
use super::connector::HttpClient;
use super::parcel::Parcel;
use super::secret::Signer;
use super::target_kinds::{CloudEvents, HttpTarget};

/// The value of the `User-Agent` header.
pub(super) const AGENT: &str = concat!("delayq-server/", env!("CARGO_PKG_VERSION"));

/// Makes one request. Returns the target's answer as the reply of the task.
pub(super) async fn push(
    client: &HttpClient,
    guard: &Guard,
    target: &HttpTarget,
    parcel: &Parcel<'_>,
) -> Result<Option<Reply>, TaskError> {
    // The worker has asked whether this server may call it.
    let url = guard.url(&target.url).map_err(TaskError::retry)?;
    let place = format!("{} {}{}", target.method, url.authority(), url.path());
    let mut request = Request::new(Full::new(Bytes::new()));
    let method = Method::from_bytes(target.method.as_bytes());
    *request.method_mut() = method.map_err(TaskError::from)?;
    *request.uri_mut() = url.as_str().parse().map_err(TaskError::from)?;
    let body = fill(request.headers_mut(), target, parcel)?;
    *request.body_mut() = Full::new(Bytes::from(body));
    let answered = client.request(request).await;
    let response = answered.map_err(|error| match Forbidden::of(&error) {
        Some(forbidden) => give_back(parcel.cx, &format!("{place}: {forbidden}")),
        None => TaskError::retry(unreached(&place, &error)),
    })?;
    let (head, body) = response.into_parts();
    let read = read(body).await;
    let (body, is_cut) = read.map_err(|error| TaskError::retry(format!("{place}: {error}")))?;
    let answer = HttpAnswer {
        status: head.status,
        headers: head.headers,
        body,
        is_cut,
    };
    answer.verdict(&place)?;
    Ok(answer.reply())
}

/// Sets the headers and returns the body. The signature covers the body as sent.
fn fill(
    headers: &mut HeaderMap,
    target: &HttpTarget,
    parcel: &Parcel<'_>,
) -> Result<Vec<u8>, TaskError> {
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    let content_type = parcel.content_type(target.content_type.as_deref());
    let is_empty = target.method == "GET";
    if let (false, Ok(value)) = (is_empty, HeaderValue::from_str(&content_type)) {
        headers.insert(CONTENT_TYPE, value);
    }
    target.headers.put_into(headers);
    parcel.put_into(headers);
    let body = match target.cloud_events {
        Some(form) => put_into(headers, form, parcel, &content_type),
        None => parcel.message.to_vec(),
    };
    let body = if is_empty { Vec::new() } else { body };
    let secrets = target.secrets.as_deref().unwrap_or_default();
    let signer = Signer::new(secrets).map_err(TaskError::retry)?;
    let (id, timestamp) = (parcel.push_id(), SystemClock.now().as_millis() / 1_000);
    let mut stamps = vec![
        ("webhook-id", id.clone()),
        ("webhook-timestamp", timestamp.to_string()),
    ];
    if !signer.is_empty() {
        stamps.push(("webhook-signature", signer.sign(&id, timestamp, &body)));
    }
    for (name, value) in stamps {
        let value = HeaderValue::from_str(&value).map_err(TaskError::from)?;
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(body)
}

/// Reads the body of an answer up to the limit. Returns true if there was more.
pub(super) async fn read(mut body: Incoming) -> Result<(Vec<u8>, bool), hyper::Error> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame?;
        let Some(data) = frame.data_ref() else {
            continue;
        };
        let room = MAX_REPLY_BYTES - bytes.len();
        bytes.extend(data.iter().take(room));
        if data.len() > room {
            return Ok((bytes, true));
        }
    }
    Ok((bytes, false))
}

/// An error with its causes, as one text.
pub(super) fn unreached(place: &str, error: &dyn std::error::Error) -> String {
    let mut text = format!("{place}: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    readable_tls(&text).into_owned()
}

/// Characters that the CloudEvents HTTP binding encodes in header values.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// A part of a CloudEvent in JSON.
#[derive(Serialize)]
#[serde(untagged)]
enum EventValue<'a> {
    Text(Cow<'a, str>),
    /// A message in JSON, exactly as it was sent: a parser would round its numbers.
    Written(&'a RawValue),
}

/// Returns the body of a request and sets its headers.
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
            let attributes = attributes.map(|(name, value)| (name, EventValue::Text(value.into())));
            let mut event: BTreeMap<&str, EventValue<'_>> = attributes.into_iter().collect();
            event.insert("datacontenttype", EventValue::Text(content_type.into()));
            let is_json = content_type.contains("json");
            let written = serde_json::from_slice(parcel.message).ok();
            let (name, data) = match (
                written.filter(|_: &&RawValue| is_json),
                std::str::from_utf8(parcel.message),
            ) {
                (Some(data), _) => ("data", EventValue::Written(data)),
                (None, Ok(text)) if !is_json => ("data", EventValue::Text(text.into())),
                _ => {
                    let data = STANDARD.encode(parcel.message);
                    ("data_base64", EventValue::Text(data.into()))
                }
            };
            event.insert(name, data);
            // Texts and JSON that was read have a JSON form.
            serde_json::to_vec(&event).unwrap_or_default()
        }
    }
}
