//! W3C trace context: carried from the send of a task to its attempts.

use std::str::FromStr;

use async_trait::async_trait;
use delayq_core::task::Headers;
use delayq_core::{DelayQueueJob, Result, TaskContext, TaskResult};
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::middleware::{Middleware, Next};

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// Middleware that links each attempt of a task to the span that was current when it was sent, by
/// the headers `traceparent` and `tracestate` of the W3C. Feature `opentelemetry`.
///
/// A link and not a parent: an attempt begins a trace of its own, as the one of the request has
/// ended long before.
///
/// Headers belong to a request. A job and its clones carry the context of their first send, so that
/// sending one again after a lost answer is safe from any span. Another job with the same id, made
/// by a later request, would be another request with it: a conflict while the task waits, and a
/// task that runs again once it has ended. So jobs with an id of the application's own carry none,
/// unless it asks for them [`with_own_ids`](Self::with_own_ids).
///
/// ```
/// use delayq_plugin::{DelayQueuePlugin, TraceContext};
///
/// let builder = DelayQueuePlugin::builder().middleware(TraceContext::new());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct TraceContext {
    own_ids: bool,
}

impl TraceContext {
    /// For jobs with a generated id.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// For all jobs: for applications that send no job a second time with an id of their own, but
    /// for a clone.
    #[must_use]
    pub fn with_own_ids(mut self) -> Self {
        self.own_ids = true;
        self
    }
}

#[async_trait]
impl Middleware for TraceContext {
    async fn on_submit(&self, job: DelayQueueJob) -> Result<DelayQueueJob> {
        if job.has_generated_id() || self.own_ids {
            return Ok(job.headers_of_first_send(|| written(&current())));
        }
        Ok(job)
    }

    async fn run(&self, message: &[u8], cx: &TaskContext, next: Next<'_>) -> TaskResult {
        if let Some(sender) = read(cx.headers()) {
            Span::current().add_link(sender);
        }
        next.run(message, cx).await
    }
}

/// The span that is current for tracing, or else for OpenTelemetry; invalid when there is none.
fn current() -> SpanContext {
    let context = Span::current().context();
    let span = context.span().span_context().clone();
    if span.is_valid() {
        return span;
    }
    let context = opentelemetry::Context::current();
    context.span().span_context().clone()
}

/// The headers that stand for a span; none for one that is not valid.
fn written(span: &SpanContext) -> Headers {
    let mut headers = Headers::new();
    if !span.is_valid() {
        return headers;
    }
    let (trace, id, flags) = (span.trace_id(), span.span_id(), span.trace_flags().to_u8());
    headers.insert(
        TRACEPARENT.to_owned(),
        format!("00-{trace}-{id}-{flags:02x}"),
    );
    let state = span.trace_state().header();
    if !state.is_empty() {
        headers.insert(TRACESTATE.to_owned(), state);
    }
    headers
}

/// The span that headers stand for; `None` without one, or when it is not of the form.
fn read(headers: &Headers) -> Option<SpanContext> {
    let mut parts = headers.get(TRACEPARENT)?.split('-');
    let version = parts.next().filter(|version| version.len() == 2)?;
    let trace = parts.next().filter(|trace| trace.len() == 32)?;
    let span = parts.next().filter(|span| span.len() == 16)?;
    let flags = parts.next().filter(|flags| flags.len() == 2)?;
    // A later version may have more parts; ff is none.
    let is_known = match u8::from_str_radix(version, 16).ok()? {
        0 => parts.next().is_none(),
        version => version != u8::MAX,
    };
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
    let state = headers.get(TRACESTATE);
    let state = state.and_then(|state| TraceState::from_str(state).ok());
    let span = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        flags,
        true,
        state.unwrap_or_default(),
    );
    (is_known && span.is_valid()).then_some(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn parsed(parent: &str) -> Option<SpanContext> {
        read(&Headers::from([(
            TRACEPARENT.to_owned(),
            parent.to_owned(),
        )]))
    }

    #[test]
    fn headers_are_read_as_they_were_written_and_others_are_no_span() {
        let mut headers = Headers::from([(TRACEPARENT.to_owned(), PARENT.to_owned())]);
        headers.insert(TRACESTATE.to_owned(), "a=1,b=2".to_owned());
        let span = read(&headers).unwrap();
        assert!(span.is_remote() && span.is_sampled());
        assert_eq!(written(&span), headers);
        assert!(parsed(&PARENT.replace("-01", "-00")).is_some_and(|span| !span.is_sampled()));
        assert!(parsed(&format!("01{}-later", &PARENT[2..])).is_some());
        let (unset, none) = ("0".repeat(32), "0".repeat(16));
        for bad in [
            String::new(),
            "00".to_owned(),
            PARENT.replace("00-", "ff-"),
            format!("{PARENT}-more"),
            PARENT.replace("0af7651916cd43dd8448eb211c80319c", &unset),
            PARENT.replace("b7ad6b7169203331", &none),
            PARENT.replace("b7ad", "b7az"),
            PARENT.replace("b7ad6b7169203331", "b7ad"),
        ] {
            assert!(parsed(&bad).is_none(), "{bad}");
        }
        assert!(written(&SpanContext::empty_context()).is_empty());
    }
}
