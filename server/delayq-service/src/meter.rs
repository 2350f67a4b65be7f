//! Metrics of the process, in Prometheus format.

use std::sync::OnceLock;
use std::time::Duration;

use delayq_plugin::SECONDS_BUCKETS;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::server_metric::describe_all;

/// How often samples are moved into buckets, so that unread samples do not use up memory.
const UPKEEP: Duration = Duration::from_secs(5);

/// The metrics of this process: one recorder for all servers in it.
static HANDLE: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// The metrics of this process. Cheap to clone.
#[derive(Clone, Copy, Debug)]
pub struct Meter(Option<&'static PrometheusHandle>);

impl Meter {
    /// Installs the recorder, unless the process already has another.
    pub fn install() -> Self {
        let handle = HANDLE.get_or_init(|| {
            let builder = PrometheusBuilder::new().set_buckets(SECONDS_BUCKETS).ok()?;
            let handle = builder.install_recorder().ok()?;
            describe_all();
            Some(handle)
        });
        Self(handle.as_ref())
    }

    /// All metrics as text; `None` if the process has another recorder.
    pub fn render(self) -> Option<String> {
        Some(self.0?.render())
    }

    /// Moves samples into buckets regularly; never returns.
    pub async fn follow(self) {
        loop {
            tokio::time::sleep(UPKEEP).await;
            if let Some(handle) = self.0 {
                handle.run_upkeep();
            }
        }
    }
}
