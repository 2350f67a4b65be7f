//! `instances`: the running instances, and their work in the last minutes.

use std::time::Duration;

use clap::Args;
use delayq_plugin::store::Figures;
use delayq_plugin::{Clock, InstanceInfo, SystemClock, TaskSubmitService, TaskType};

use super::figures::below;
use crate::answer::{CommandResult, Report};
use crate::failure::Failure;
use crate::paging::{self, Paging};
use crate::span::{per_time, relative};
use crate::table::{Table, column};
use crate::text::{BAD, STRONG, one_line, styled};

/// Minimum time for showing a rate.
const LEAST_SPAN: Duration = Duration::from_secs(1);

/// The page of the list.
#[derive(Debug, Args)]
pub(crate) struct InstancesArgs {
    #[command(flatten)]
    paging: Paging,
}

/// Runs the command.
pub(super) async fn run(
    tasks: &TaskSubmitService,
    args: &InstancesArgs,
) -> Result<CommandResult, Failure> {
    let instances = tasks.instances().await?;
    if instances.is_empty() {
        let text = "no instance runs on this store and namespace";
        return CommandResult::new(text, instances);
    }
    let (instances, next) = args.paging.page(instances, |one| one.id.to_string());
    let mut table = Table::new(&[
        column("INSTANCE"),
        column("HOST"),
        column("PID").minor(3),
        column("DELAYQ").wide(),
        column("STARTED").wide(),
        column("SEEN").minor(4),
        column("DONE").minor(1),
        column("FAILED").minor(2),
        column("LATE p50").wide(),
        column("LATE p99").wide(),
        column("TYPES").text(),
    ]);
    let now = SystemClock.now();
    for one in &instances {
        let types: Vec<_> = one.types.iter().map(TaskType::as_str).collect();
        let more = match one.type_count.saturating_sub(one.types.len()) {
            0 => String::new(),
            more => format!(", {more} more"),
        };
        let [done, failed, half, most] = work(one);
        table.row([
            styled(STRONG, &one.id),
            one_line(&one.host),
            one.pid.to_string(),
            one_line(&one.version),
            one.started_at.to_string(),
            relative(one.seen_at, now),
            done,
            failed,
            half,
            most,
            format!("{}{more}", types.join(", ")),
        ]);
    }
    let report = match &next {
        Some(next) => Report::from(table).lines(paging::more(next)),
        None => Report::from(table),
    };
    CommandResult::new(report, instances)
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
