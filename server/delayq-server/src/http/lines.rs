//! Answers in lines, each a JSON value, streamed while the work goes on.

use std::convert::Infallible;
use std::future::Future;

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use futures_util::stream;
use serde::Serialize;
use tokio::sync::mpsc;

/// The media type of JSON lines.
pub(super) const NDJSON: &str = "application/x-ndjson";

/// The number of parts buffered for a client that does not read.
const MOST_WAITING: usize = 256;

/// Sends the lines of an answer.
#[derive(Clone, Debug)]
pub(super) struct Lines(mpsc::Sender<Bytes>);

/// The client has stopped reading.
#[derive(Debug)]
pub(super) struct Gone;

impl Lines {
    /// Sends lines; waits until there is room.
    pub(super) async fn send<T: Serialize>(&self, lines: &[T]) -> Result<(), Gone> {
        self.0.send(text(lines)).await.map_err(|_| Gone)
    }

    /// Sends a line only if there is room; for progress reports.
    pub(super) fn try_send<T: Serialize>(&self, line: &T) {
        self.0.try_send(text(std::slice::from_ref(line))).ok();
    }

    /// Completes when the client has stopped reading.
    pub(super) async fn gone(&self) {
        self.0.closed().await;
    }
}

fn text<T: Serialize>(lines: &[T]) -> Bytes {
    let mut text = Vec::with_capacity(lines.len() * 96);
    for line in lines {
        match serde_json::to_vec(line) {
            Ok(json) => text.extend(json),
            Err(error) => tracing::error!(%error, "cannot write a line as JSON"),
        }
        text.push(b'\n');
    }
    text.into()
}

/// An answer whose lines `produce` sends. It ends early if the client stops reading.
pub(super) fn answer<F>(produce: impl FnOnce(Lines) -> F) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(MOST_WAITING);
    let lines = Lines(sender);
    let work = produce(lines.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = work => {}
            () = lines.gone() => {}
        }
    });
    let parts = stream::unfold(receiver, async |mut receiver: mpsc::Receiver<Bytes>| {
        let part = receiver.recv().await?;
        Some((Ok::<_, Infallible>(part), receiver))
    });
    let mut response = Response::new(Body::from_stream(parts));
    let kind = HeaderValue::from_static(NDJSON);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
