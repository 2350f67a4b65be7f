//! `instances`: the running instances, and their work in the last minutes.

use std::time::Duration;

use delayq_plugin::store::Figures;
use delayq_plugin::{InstanceInfo, TaskSubmitService, TaskType};

use super::figures::below;
use crate::answer::CommandResult;
use crate::failure::Failure;
use crate::span::per_time;
use crate::text::{BAD, STRONG, one_line, styled, table};

/// Minimum time for showing a rate.
const LEAST_SPAN: Duration = Duration::from_secs(1);

/// Runs the command.
pub(super) async fn run(tasks: &TaskSubmitService) -> Result<CommandResult, Failure> {
    let instances = tasks.instances().await?;
    let heads = [
        "INSTANCE", "HOST", "PID", "DELAYQ", "STARTED", "SEEN", "DONE", "FAILED", "LATE p50",
        "p99", "TYPES",
    ];
    let mut table = table(&heads);
    for one in &instances {
        let types: Vec<_> = one.types.iter().map(TaskType::as_str).collect();
        let more = match one.type_count.saturating_sub(one.types.len()) {
            0 => String::new(),
            more => format!(", {more} more"),
        };
        let [done, failed, half, most] = work(one);
        table.add_row([
            styled(STRONG, &one.id),
            one_line(&one.host),
            one.pid.to_string(),
            one_line(&one.version),
            one.started_at.to_string(),
            one.seen_at.to_string(),
            done,
            failed,
            half,
            most,
            format!("{}{more}", types.join(", ")),
        ]);
    }
    let text = if instances.is_empty() {
        "no instance runs on this store and namespace".to_owned()
    } else {
        table.to_string()
    };
    CommandResult::new(text, instances)
}

/// An instance's work in its last minutes: rate of done tasks, failed attempts, and lateness of
/// starts. Dashes if the instance reports none.
fn work(instance: &InstanceInfo) -> [String; 4] {
    let dash = || "-".to_owned();
    let Some(recent) = &instance.recent else {
        return [dash(), dash(), dash(), dash()];
    };
    let mut sum = Figures::default();
    recent.types.iter().for_each(|work| sum += &work.figures);
    let late = |q| sum.lateness.quantile(q).map_or_else(dash, below);
    let span = instance.seen_at.since(recent.since);
    let done = f64::from(u32::try_from(sum.done).unwrap_or(u32::MAX));
    let pace = match span {
        span if span < LEAST_SPAN => dash(),
        span => per_time(done / span.as_secs_f64()),
    };
    let failed = match sum.failed {
        0 => "0".to_owned(),
        failed => styled(BAD, failed),
    };
    [pace, failed, late(0.5), late(0.99)]
}
