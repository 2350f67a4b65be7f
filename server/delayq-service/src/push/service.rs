//! Service mode: calls an instance for a task, and reads its answer.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::{CONTENT_TYPE, USER_AGENT};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use delayq_core::log_limit::LogLimit;
use delayq_endpoint::{SpringJob, spelled_id, spelled_type};
use delayq_plugin::store::Reply;
use delayq_plugin::{Clock, SystemClock, TaskError, TaskResult};
use http_body_util::Full;
use tracing::warn;

use super::answer::{HttpAnswer, shown};
use super::board::Board;
use super::parcel::Parcel;
use super::secret::{Signer, shown_url};
use super::{Target, http, later};
use crate::discovery::{Form, Instance};

/// How long a task waits if no instance took it. The wait costs no attempt.
const NOBODY: Duration = Duration::from_secs(2);
/// The largest number of instances tried in one attempt.
const MOST: usize = 16;

/// The header with the time that a task's sender gave it. A retry does not change it.
pub const SPRING_TIME: &str = "spring-delay-time";
/// The headers with the id and the type as a caller of the Spring form wrote them, where those of
/// the task are [spelled](delayq_endpoint::spelled_id).
pub const SPRING_ID: &str = "spring-task-id";
pub const SPRING_TYPE: &str = "spring-task-type";

/// Limits log lines about tasks that no instance took.
static UNTAKEN: LogLimit = LogLimit::new();

/// Lets an instance run a task. If no instance takes it, the task is released, which costs no
/// attempt.
pub(super) async fn push(board: &Board, target: &Target, parcel: &Parcel<'_>) -> TaskResult {
    let mut refusals = Vec::new();
    let mut wait = NOBODY;
    let instances = board.instances(parcel.cx.task_type());
    for instance in instances.iter().take(MOST) {
        let called = call(board, target, parcel, instance).await;
        match called {
            Called::Ended(result) => {
                board.courier.services.discovery.trust(instance);
                return result.map(drop);
            }
            Called::Replied(reply) => {
                board.courier.services.discovery.trust(instance);
                if target.keep_answer != Some(false) {
                    parcel.cx.reply_with(reply)?;
                }
                return Ok(());
            }
            Called::Later => return later::settled(board, target, parcel).await,
            Called::InDoubt(error) => {
                // The task may be running, so no other instance gets it in this attempt.
                board.courier.services.discovery.doubt(instance, &error);
                return Err(TaskError::retry(error));
            }
            Called::Unreached(error) => {
                board.courier.services.discovery.doubt(instance, &error);
                refusals.push(error);
            }
            Called::Refused { error, after } => {
                wait = after.unwrap_or(wait);
                refusals.push(error);
            }
        }
    }
    if let Some(left_out) = UNTAKEN.admit() {
        let (task_type, id) = (parcel.cx.task_type(), parcel.cx.id());
        let said = if refusals.is_empty() {
            "there is none".to_owned()
        } else {
            refusals.join("; ")
        };
        warn!(%task_type, %id, left_out, "no instance took the task; it waits: {said}");
    }
    Err(TaskError::release(wait))
}

async fn call(
    board: &Board,
    target: &Target,
    parcel: &Parcel<'_>,
    instance: &Arc<Instance>,
) -> Called {
    let courier = &board.courier;
    let url = match courier.services.guard(instance).url(&instance.url) {
        Ok(url) => url,
        Err(reason) => {
            let place = shown_url(&instance.url);
            return Called::Unreached(format!("{place}: {reason}"));
        }
    };
    let place = format!("POST {}{}", url.authority(), url.path());
    let request = match request(board, parcel, instance) {
        Ok(request) => request,
        Err(error) => return Called::Ended(Err(error)),
    };
    let limit = target.timeout();
    let answering = async {
        let response = match courier.service_client(instance).request(request).await {
            Ok(response) => response,
            Err(error) => {
                let text = http::unreached(&place, &error);
                let is_unreached = error.is_connect();
                return Err(if is_unreached {
                    Called::Unreached(text)
                } else {
                    Called::InDoubt(text)
                });
            }
        };
        let (head, body) = response.into_parts();
        let read = http::read(body).await;
        let (body, is_cut) = read.map_err(|error| Called::InDoubt(format!("{place}: {error}")))?;
        Ok(HttpAnswer {
            status: head.status,
            headers: head.headers,
            body,
            is_cut,
        })
    };
    match tokio::time::timeout(limit, answering).await {
        Ok(Ok(answer)) => Called::of(&answer, &instance.form, &place),
        Ok(Err(called)) => called,
        Err(_) => Called::InDoubt(format!("{place} did not answer within {limit:?}")),
    }
}

/// The request: the content of a push, and the lock.
fn request(
    board: &Board,
    parcel: &Parcel<'_>,
    instance: &Instance,
) -> Result<Request<Full<Bytes>>, TaskError> {
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static(http::AGENT));
    parcel.put_into(&mut headers);
    let (content_type, body) = match &instance.form {
        Form::Own => (
            parcel.content_type(None).into_owned(),
            parcel.message.to_vec(),
        ),
        Form::Spring { app } => (
            "application/json;charset=UTF-8".to_owned(),
            spring_body(parcel, app)?,
        ),
    };
    if let Ok(value) = HeaderValue::from_str(&content_type) {
        headers.insert(CONTENT_TYPE, value);
    }
    let signer = Signer::new(&board.courier.services.secrets).map_err(TaskError::retry)?;
    let (id, timestamp) = (parcel.push_id(), SystemClock.now().as_millis() / 1_000);
    let mut stamps = vec![
        ("delayq-lock", parcel.lock()),
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
    let mut request = Request::new(Full::new(Bytes::from(body)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = instance.url.parse().map_err(TaskError::from)?;
    *request.headers_mut() = headers;
    Ok(request)
}

/// The body in the form of the Spring delay queue.
fn spring_body(parcel: &Parcel<'_>, app: &str) -> Result<Vec<u8>, TaskError> {
    let text = std::str::from_utf8(parcel.message).map_err(|_| {
        TaskError::dead("its message is no text, and applications of the Spring form take text")
    })?;
    let (task_type, cx) = (parcel.cx.task_type().as_str(), parcel.cx);
    let task = task_type
        .strip_prefix(&*spelled_type(app))
        .and_then(|rest| rest.strip_prefix('-'));
    let (task, id) = (task.unwrap_or(task_type), cx.id().as_str());
    // Anybody may send these headers: they count only for what the task is.
    let written = cx
        .header(SPRING_TYPE)
        .filter(|name| spelled_type(name) == task);
    let written_id = cx.header(SPRING_ID).filter(|name| spelled_id(name) == id);
    let mut job = SpringJob::default();
    job.task_id = Some(written_id.unwrap_or(id).to_owned());
    job.task_type = Some(written.unwrap_or(task).to_owned());
    let sent = cx.header(SPRING_TIME).and_then(|text| text.parse().ok());
    job.delay_time = sent.unwrap_or(cx.due_at().as_millis());
    job.params = Some(text.to_owned());
    job.app_name = Some(app.to_owned());
    serde_json::to_vec(&job).map_err(TaskError::from)
}

/// The header that reports the outcome of the task.
const OUTCOME: &str = "delayq-outcome";
/// The header with the wait before the next attempt, in milliseconds.
const AFTER_MS: &str = "delayq-after-ms";
/// The header that announces a settlement by a later request.
const SETTLE: &str = "delayq-settle";
/// The longest wait that an instance may request.
const LONGEST: Duration = Duration::from_hours(24);

/// The result of a call.
#[derive(Debug)]
pub(super) enum Called {
    /// The attempt ended.
    Ended(TaskResult),
    /// The task is done, with this reply for callers that wait for it.
    Replied(Reply),
    /// The instance settles the task with a separate request.
    Later,
    /// The task was certainly not started.
    Refused {
        /// The reason.
        error: String,
        /// The wait before the next try.
        after: Option<Duration>,
    },
    /// No connection was made, so the task was certainly not started.
    Unreached(String),
    /// The task may have started, or may even be done.
    InDoubt(String),
}

impl Called {
    /// Interprets an answer. `place` names the instance in errors.
    pub(super) fn of(answer: &HttpAnswer, form: &Form, place: &str) -> Self {
        let header = |name: &str| answer.headers.get(name).and_then(|one| one.to_str().ok());
        let after = header(AFTER_MS).and_then(|text| text.parse().ok());
        let after = after.map(|ms| Duration::from_millis(ms).min(LONGEST));
        let body = shown(&String::from_utf8_lossy(&answer.body));
        let status = answer.status;
        let error = match body.as_str() {
            "" => format!("{place} answered {status}"),
            body => format!("{place} answered {status}: {body}"),
        };
        match header(OUTCOME) {
            Some("retry") => {
                return Self::Ended(Err(match after {
                    Some(after) => TaskError::retry_after(after, error),
                    None => TaskError::retry(error),
                }));
            }
            Some("release") => {
                let after = after.unwrap_or(Duration::from_secs(1));
                return Self::Ended(Err(TaskError::release(after)));
            }
            Some("dead") => return Self::Ended(Err(TaskError::dead(error))),
            Some("refused") => return Self::Refused { error, after },
            _ => {}
        }
        match status {
            StatusCode::ACCEPTED if header(SETTLE) == Some("later") => Self::Later,
            StatusCode::NOT_FOUND
            | StatusCode::MISDIRECTED_REQUEST
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::SERVICE_UNAVAILABLE => Self::Refused { error, after },
            _ => match (answer.verdict(place), form) {
                (Err(error), _) => Self::Ended(Err(error)),
                // The Spring delay queue sends this text with every success, so it is not a
                // worker's reply.
                (Ok(()), Form::Spring { .. }) if answer.body == b"accepted" => Self::Ended(Ok(())),
                (Ok(()), _) => answer.reply().map_or(Self::Ended(Ok(())), Self::Replied),
            },
        }
    }
}
