//! W3C trace context, carried from the send of a task to its attempts.

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

/// Middleware that links each attempt of a task to the span that was current when the task was
/// sent, using the W3C headers `traceparent` and `tracestate`. Feature `opentelemetry`.
///
/// It adds a link, not a parent: an attempt begins its own trace, as the request's trace has ended
/// long before.
///
/// A job and its clones carry the context of their first send, so that sending a clone again after
/// a lost answer is safe from any span. Another job with the same id, built by a later request,
/// would carry different headers and thus count as a different task: a conflict while the first one
/// waits, and a second run once it has ended. So jobs with an id of the application's own carry no
/// context, unless you ask for that [`with_own_ids`](Self::with_own_ids).
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
    /// Only for jobs with a generated id.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Also for jobs with an id of your own. Resend such a job only as a clone: a rebuilt one
    /// carries another trace header and is a conflict.
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

/// The current span of tracing, or else of OpenTelemetry; invalid if there is none.
fn current() -> SpanContext {
    let context = Span::current().context();
    let span = context.span().span_context().clone();
    if span.is_valid() {
        return span;
    }
    let context = opentelemetry::Context::current();
    context.span().span_context().clone()
}

/// The headers for a span; none for an invalid span.
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

/// The span in these headers; `None` if it is absent or malformed.
fn read(headers: &Headers) -> Option<SpanContext> {
    let mut parts = headers.get(TRACEPARENT)?.split('-');
    let version = parts.next().filter(|version| version.len() == 2)?;
    let trace = parts.next().filter(|trace| trace.len() == 32)?;
    let span = parts.next().filter(|span| span.len() == 16)?;
    let flags = parts.next().filter(|flags| flags.len() == 2)?;
    // A later version may have more parts; version ff is invalid.
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
