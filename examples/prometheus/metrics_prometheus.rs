//! Metrics for Prometheus: one line installs the exporter, one option lets the plugin count. Open
//! the address that it prints, and end it with Ctrl-C. An argument is another address to listen on.
#![allow(clippy::print_stdout, reason = "an example talks to whoever runs it")]

use std::error::Error;
use std::net::SocketAddr;

use delayq_plugin::{DelayQueuePlugin, SECONDS_BUCKETS, TaskContext, TaskResult, task_worker};
use metrics_exporter_prometheus::PrometheusBuilder;

/// About every third attempt fails, to be seen in the counts.
#[task_worker(type = "order.remind", retry(max = 3, backoff = fixed, base = "1s"))]
async fn remind(order: &str, cx: &TaskContext) -> TaskResult {
    if cx.fence().is_multiple_of(3) {
        return Err(std::io::Error::other("the mail server is away").into());
    }
    println!("reminded of {order}, {:?} late", cx.lateness());
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1);
    let address: SocketAddr = address.as_deref().unwrap_or("127.0.0.1:9464").parse()?;
    // The one line, before the plugin starts.
    PrometheusBuilder::new()
        .set_buckets(SECONDS_BUCKETS)?
        .with_http_listener(address)
        .install()?;
    println!("http://{address}/metrics");

    let builder = DelayQueuePlugin::builder().url("memory:?durability=memory");
    let plugin = builder.metrics().start().await?;
    let tasks = plugin.submit_service();
    for second in 0..60 {
        let job = remind::job(&format!("order {second}"))?;
        tasks
            .send(job.after(delayq_plugin::seconds(second)))
            .await?;
    }
    plugin.run_until_signal().await?;
    Ok(())
}
