//! Push over HTTP.

use axum::body::Bytes;
use axum::http::header::{CONTENT_TYPE, USER_AGENT};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use delayq_plugin::store::{MAX_REPLY_BYTES, Reply};
use delayq_plugin::{Clock, SystemClock, TaskError};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;

use super::Guard;
use super::answer::HttpAnswer;
use super::cloud_event;
use super::connector::HttpClient;
use super::http_target::HttpTarget;
use super::parcel::Parcel;
use super::signature::Signer;

/// Who asks.
pub(super) const AGENT: &str = concat!("delayq-server/", env!("CARGO_PKG_VERSION"));

/// Makes one request. Returns what the target says to whoever waits for the task.
pub(super) async fn push(
    client: &HttpClient,
    guard: &Guard,
    target: &HttpTarget,
    parcel: &Parcel<'_>,
) -> Result<Option<Reply>, TaskError> {
    // The configuration may be another one than when the target was stored.
    let url = guard.url(&target.url).map_err(TaskError::retry)?;
    let place = format!("{} {}{}", target.method, url.authority(), url.path());
    let mut request = Request::new(Full::new(Bytes::new()));
    let method = Method::from_bytes(target.method.as_bytes());
    *request.method_mut() = method.map_err(TaskError::from)?;
    *request.uri_mut() = url.as_str().parse().map_err(TaskError::from)?;
    let body = fill(request.headers_mut(), target, parcel)?;
    *request.body_mut() = Full::new(Bytes::from(body));
    let answered = client.request(request).await;
    let response = answered.map_err(|error| TaskError::retry(unreached(&place, &error)))?;
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

/// Sets the headers, and returns the body. The signature is over the body as it goes out.
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
        Some(form) => cloud_event::put_into(headers, form, parcel, &content_type),
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

/// The body of an answer up to its bound, and whether there was more.
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

/// An error with its causes.
pub(super) fn unreached(place: &str, error: &dyn std::error::Error) -> String {
    let mut text = format!("{place}: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
