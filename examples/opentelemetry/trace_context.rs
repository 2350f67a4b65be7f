//! The span of a request and that of an attempt an hour later, linked by the W3C trace context that
//! the task carries. The spans are collected in memory; a service exports them to its collector.
#![allow(clippy::print_stdout, reason = "an example talks to whoever runs it")]

use std::error::Error;

use delayq_plugin::{TaskResult, TraceContext, task_worker};
use delayq_testing::TestQueue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use tracing::{Instrument, info_span};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

#[task_worker(type = "order.remind")]
async fn remind(order: &str) -> TaskResult {
    println!("reminded of {order}");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let spans = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(spans.clone())
        .build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("shop"));
    tracing_subscriber::registry()
        .with(layer.with_filter(LevelFilter::INFO))
        .init();

    // An application writes DelayQueuePlugin::builder()..middleware(TraceContext::new()).
    let queue = TestQueue::start(|builder| builder.middleware(TraceContext::new())).await?;
    let place = async { queue.send(remind::job("the lamp")?.after("1h")).await };
    place.instrument(info_span!("POST /orders")).await?;
    queue.advance("1h").await;

    for span in spans.get_finished_spans()? {
        let (trace, id) = (span.span_context.trace_id(), span.span_context.span_id());
        println!("{:<12} trace {trace} span {id}", span.name);
        for link in span.links.iter() {
            let (trace, id) = (link.span_context.trace_id(), link.span_context.span_id());
            println!("  linked to  trace {trace} span {id}");
        }
    }
    Ok(())
}
