//! Metrics of this process, for the recorder of the crate `metrics` that the application has
//! installed.

mod call_counts;
mod history_samples;
mod process;
mod run_counts;
mod sampler;
mod samples;
mod send_counts;
mod table;
mod type_labels;

pub(crate) use call_counts::CallCounts;
pub(crate) use history_samples::HistorySamples;
pub(crate) use process::Metrics;
pub(crate) use run_counts::{Outcome, RunCounts};
pub(crate) use sampler::{INTERVAL, Own, Sampler};
pub use table::{METRICS, Metric, MetricKind, SECONDS_BUCKETS};
