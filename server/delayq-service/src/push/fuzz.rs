//! Entry points of the fuzz targets for targets, URLs and answers.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::answer::HttpAnswer;
use super::config::KafkaConfig;
use super::own_target::KeptTask;
use super::secret::Hidden;
use super::secret::Signer;
use super::service::Called;
use super::{Guard, PushConfig, Target};
use crate::discovery::Form;

/// A permissive configuration, so that inputs get past its checks.
fn config() -> PushConfig {
    PushConfig {
        allow_networks: vec!["10.0.0.0/8".to_owned(), "fd00::/8".to_owned()],
        allow_ports: vec![22],
        allow_http: true,
        kafka: BTreeMap::from([("main".to_owned(), KafkaConfig::default())]),
        ..PushConfig::default()
    }
}

/// Reads the URL of a target.
#[must_use]
pub fn url(text: &str) -> Option<String> {
    let guard = Guard::new(&config()).ok()?;
    guard.url(text).ok().map(String::from)
}

/// Reads a target of a type or of one task.
///
/// # Panics
/// If the worker's time limit is shorter than that of its push.
#[must_use]
pub fn target(bytes: &[u8]) -> Option<String> {
    let target: Target = serde_json::from_slice(bytes).ok()?;
    let guard = Guard::new(&config()).ok()?;
    let of_task = target.check_of_task(&guard, &config());
    let of_type = target.check(&guard, &config());
    // A target that is valid for a task must be valid for its type.
    of_task
        .and(of_type)
        .or_else(|_| target.check(&guard, &config()))
        .ok()?;
    let mut merged = target.shown();
    merged.keep_from(Some(&target));
    assert!(target.options().timeout > target.timeout() && !target.place().is_empty());
    serde_json::to_string(&target).ok()
}

/// Reads an answer of a target. Returns its verdict and its reply as text.
#[must_use]
pub fn answer(status: u16, header: &[u8], body: &[u8]) -> Option<String> {
    let mut headers = HeaderMap::new();
    let value = HeaderValue::from_bytes(header).ok()?;
    headers.insert(RETRY_AFTER, value.clone());
    headers.insert(CONTENT_TYPE, value);
    let answer = HttpAnswer {
        status: StatusCode::from_u16(status).ok()?,
        headers,
        body: body.to_vec(),
        is_cut: false,
    };
    let reply = answer.reply();
    let verdict = answer.verdict("POST https://example.org/");
    Some(format!(
        "{verdict:?} {:?}",
        reply.map(|reply| reply.check().is_ok())
    ))
}

/// Reads an answer of an instance and returns its meaning for the task as text.
///
/// # Panics
/// If it makes the task wait for more than a day.
#[must_use]
pub fn instance_answer(
    status: u16,
    headers: &[(&[u8], &[u8])],
    body: &[u8],
    app: Option<&str>,
) -> Option<String> {
    let mut all = HeaderMap::new();
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name).ok()?;
        all.insert(name, HeaderValue::from_bytes(value).ok()?);
    }
    let answer = HttpAnswer {
        status: StatusCode::from_u16(status).ok()?,
        headers: all,
        body: body.to_vec(),
        is_cut: false,
    };
    let form = app.map_or(Form::Own, |app| Form::Spring {
        app: app.to_owned(),
    });
    let called = Called::of(&answer, &form, "POST http://10.0.0.1/");
    if let Called::Refused { after, .. } = &called {
        assert!(after.is_none_or(|after| after <= Duration::from_hours(24)));
    }
    Some(format!("{called:?}"))
}

/// The signature of a call; `None` if the secret is invalid.
#[must_use]
pub fn signature(secret: &str, id: &str, timestamp: i64, body: &[u8]) -> Option<String> {
    let secret: Hidden = serde_json::from_value(secret.into()).ok()?;
    let signer = Signer::new(&[secret]).ok()?;
    Some(signer.sign(id, timestamp, body))
}

/// Reads a task kept as a reply. Returns its JSON and the length of its message.
#[must_use]
pub fn kept_task(reply: &[u8]) -> Option<(String, usize)> {
    let kept = KeptTask::read(reply)?;
    Some((serde_json::to_string(&kept).ok()?, kept.message().len()))
}
