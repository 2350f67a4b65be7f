//! Metrics through OpenTelemetry: a recorder of the same facade passes them to its SDK. They are
//! collected in memory; a service exports them to its collector.
#![allow(clippy::print_stdout, reason = "an example talks to whoever runs it")]

use std::error::Error;

use delayq_plugin::{DelayQueuePlugin, SECONDS_BUCKETS, TaskResult, seconds, task_worker};
use metrics_exporter_opentelemetry::Recorder;
use opentelemetry_sdk::metrics::data::{
    AggregatedMetrics, HistogramDataPoint, MetricData, ResourceMetrics, SumDataPoint,
};
use opentelemetry_sdk::metrics::{
    Aggregation, InMemoryMetricExporter, Instrument, InstrumentKind, PeriodicReader, Stream,
};

#[task_worker(type = "order.remind")]
async fn remind(order: &str) -> TaskResult {
    println!("reminded of {order}");
    Ok(())
}

/// The buckets of delayq for its histograms; the SDK's own are for milliseconds.
fn buckets(instrument: &Instrument) -> Option<Stream> {
    if instrument.kind() != InstrumentKind::Histogram || !instrument.name().starts_with("delayq_") {
        return None;
    }
    let aggregation = Aggregation::ExplicitBucketHistogram {
        boundaries: SECONDS_BUCKETS.to_vec(),
        record_min_max: true,
    };
    Stream::builder().with_aggregation(aggregation).build().ok()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let collected = InMemoryMetricExporter::default();
    let reader = PeriodicReader::builder(collected.clone()).build();
    let recorder = Recorder::builder("shop");
    let recorder =
        recorder.with_meter_provider(|provider| provider.with_reader(reader).with_view(buckets));
    let (provider, _recorder) = recorder.install()?;

    let builder = DelayQueuePlugin::builder().url("memory:?durability=memory");
    let plugin = builder.metrics().start().await?;
    let mut events = plugin.events();
    let tasks = plugin.submit_service();
    tasks.send(remind::job("the lamp")?).await?;
    while let Some(event) = events.next().await {
        if matches!(event.kind, delayq_plugin::TaskEventKind::Succeeded { .. }) {
            break;
        }
    }
    plugin.shutdown(seconds(1)).await;

    provider.force_flush()?;
    for scope in collected
        .get_finished_metrics()?
        .iter()
        .flat_map(ResourceMetrics::scope_metrics)
    {
        for metric in scope.metrics() {
            println!(
                "{} [{}] {}",
                metric.name(),
                metric.unit(),
                values(metric.data())
            );
        }
    }
    Ok(())
}

fn values(data: &AggregatedMetrics) -> String {
    match data {
        AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
            let counts = histogram.data_points().map(HistogramDataPoint::count);
            format!("{} values", counts.sum::<u64>())
        }
        AggregatedMetrics::U64(MetricData::Sum(sum)) => {
            format!(
                "{}",
                sum.data_points().map(SumDataPoint::value).sum::<u64>()
            )
        }
        AggregatedMetrics::F64(MetricData::Gauge(gauge)) => {
            format!("{} series", gauge.data_points().count())
        }
        _ => "other values".to_owned(),
    }
}
