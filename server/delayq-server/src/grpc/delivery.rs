//! Delivery of claimed tasks from an answer to the connection.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::Response;
use delayq_proto::pb;
use delayq_service::pull::Handover;
use hyper::body::{Frame, SizeHint};
use tonic::Response as Answer;

use super::work::work_task;

/// The tasks of an answer that the connection has not asked for yet. Dropping it releases them.
#[derive(Clone, Default)]
struct UndeliveredTasks(Arc<Mutex<Option<Handover>>>);

impl UndeliveredTasks {
    fn is_made(&self) {
        let handover = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handover) = handover {
            drop(handover.delivered());
        }
    }
}

impl fmt::Debug for UndeliveredTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Delivery")
    }
}

/// Attaches the claimed tasks to the answer, which then owns them.
pub(super) fn carried(claimed: Answer<Handover>) -> Answer<pb::PullResponse> {
    let handover = claimed.into_inner();
    let tasks = handover.tasks().iter();
    let tasks = tasks.map(|pulled| work_task(&pulled.bucket, pulled.task.clone()));
    let mut answer = Answer::new(pb::PullResponse {
        tasks: tasks.collect(),
    });
    let delivery = UndeliveredTasks(Arc::new(Mutex::new(Some(handover))));
    answer.extensions_mut().insert(delivery);
    answer
}

/// Marks the tasks of an answer as delivered once its body is requested. If the client is gone
/// before that, the tasks are released.
pub(super) async fn delivering(mut response: Response<Body>) -> Response<Body> {
    match response.extensions_mut().remove::<UndeliveredTasks>() {
        Some(delivery) => response.map(|body| Body::new(Delivering { body, delivery })),
        None => response,
    }
}

/// The body of an answer with tasks.
struct Delivering {
    body: Body,
    delivery: UndeliveredTasks,
}

impl HttpBody for Delivering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.delivery.is_made();
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
