//! Trace context: an attempt is linked to the span that sent its task.

use delayq_plugin::{DelayQueueJob, Error, TraceContext, task_worker};
use delayq_testing::{Fault, TestQueue, assert_scheduled};
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tracing::{Instrument, info_span};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

#[task_worker(type = "job")]
async fn job(_message: &str) {}

/// Collects the spans of this thread.
fn collect() -> (InMemorySpanExporter, tracing::subscriber::DefaultGuard) {
    let spans = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(spans.clone())
        .build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("tests"));
    let layer = layer.with_filter(LevelFilter::INFO);
    (
        spans,
        tracing_subscriber::registry().with(layer).set_default(),
    )
}

fn named(spans: &InMemorySpanExporter, name: &str) -> Vec<SpanData> {
    let mut spans = spans.get_finished_spans().expect("it works");
    spans.retain(|span| span.name == name);
    spans
}

async fn queue(context: TraceContext) -> TestQueue {
    TestQueue::start(|builder| builder.middleware(context))
        .await
        .expect("it works")
}

#[tokio::test]
async fn an_attempt_is_linked_to_the_span_of_the_send() {
    let (spans, _guard) = collect();
    let queue = queue(TraceContext::new()).await;
    for (name, id) in [("sent", None), ("own", Some("own"))] {
        let sent = job::job("x").unwrap().after("1h");
        let sent = id.map_or(sent.clone(), |id| sent.id(id));
        queue
            .send(sent)
            .instrument(info_span!("request", name))
            .await
            .unwrap();
    }
    queue
        .send(job::job("x").unwrap().after("2h"))
        .await
        .unwrap();
    queue.advance("3h").await;

    let request = named(&spans, "request").remove(0).span_context;
    let attempts = named(&spans, "attempt");
    let links = attempts
        .iter()
        .map(|attempt| attempt.links.iter().collect::<Vec<_>>());
    let links = links.filter(|links| !links.is_empty()).collect::<Vec<_>>();
    assert_eq!(attempts.len(), 3);
    assert_eq!(
        links.len(),
        1,
        "one has an id of its own, one was sent from no span"
    );
    let link = &links[0][0].span_context;
    assert_eq!(
        (link.trace_id(), link.span_id()),
        (request.trace_id(), request.span_id())
    );
    let other = |attempt: &SpanData| attempt.span_context.trace_id() != request.trace_id();
    assert!(
        attempts.iter().all(other),
        "an attempt is a trace of its own"
    );
}

#[tokio::test]
async fn a_job_is_recognised_when_it_is_sent_again_from_another_span() {
    let (_spans, _guard) = collect();
    let queue = queue(TraceContext::new().with_own_ids()).await;
    let first = DelayQueueJob::raw("job", "x").id("a").after("1h");
    queue.fail_next("submit", Fault::AnswerLost);
    let lost = queue
        .send(first.clone())
        .instrument(info_span!("first"))
        .await;
    assert!(lost.is_err_and(|error| error.is_indeterminate()));
    queue
        .send(first)
        .instrument(info_span!("second"))
        .await
        .unwrap();
    assert!(
        assert_scheduled!(queue, "job", "a")
            .headers
            .contains_key("traceparent")
    );

    let another = DelayQueueJob::raw("job", "x").id("a").after("1h");
    let another = queue.send(another).instrument(info_span!("third")).await;
    assert!(
        matches!(another, Err(Error::Conflict { .. })),
        "as documented"
    );
}
