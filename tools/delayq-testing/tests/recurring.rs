//! Recurring tasks in a `TestQueue`, inline and not.

use async_trait::async_trait;
use delayq_plugin::{
    CancelOutcome, DelayQueuePluginBuilder, Recurring, TaskContext, TaskResult, TaskWorker,
    WorkerOptions,
};
use delayq_testing::{TestQueue, assert_done, assert_scheduled};

type TestResult = Result<(), Box<dyn std::error::Error>>;

struct Nothing;

#[async_trait]
impl TaskWorker for Nothing {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        Ok(())
    }
}

fn daily(builder: DelayQueuePluginBuilder) -> DelayQueuePluginBuilder {
    builder
        .without_registered_workers()
        .worker("report", WorkerOptions::DEFAULT, Nothing)
        .recurring(Recurring::new("report", "0 9 * * *").expect("a schedule"))
}

#[tokio::test]
async fn inline_an_occurrence_waits_for_its_time() -> TestResult {
    let queue = TestQueue::inline(daily).await?;
    assert_scheduled!(queue, "report", "@2026-01-01T09:00:00Z", after = "9h");
    queue.advance("1d").await;
    assert_done!(queue, "report", "@2026-01-01T09:00:00Z");
    assert_scheduled!(queue, "report", "@2026-01-02T09:00:00Z", after = "9h");
    Ok(())
}

#[tokio::test]
async fn after_a_cancelled_occurrence_the_next_ones_come_at_their_times() -> TestResult {
    let queue = TestQueue::start(daily).await?;
    let first = "@2026-01-01T09:00:00Z";
    let cancelled = queue.tasks().cancel("report", first).await?;
    assert_eq!(cancelled, CancelOutcome::Cancelled);
    queue.advance("3d").await;
    for day in [2, 3] {
        assert_done!(queue, "report", format!("@2026-01-0{day}T09:00:00Z"));
    }
    assert_scheduled!(queue, "report", "@2026-01-04T09:00:00Z", after = "9h");
    Ok(())
}
