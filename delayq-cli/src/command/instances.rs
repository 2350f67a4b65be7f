//! `instances`: who runs tasks now.

use delayq_plugin::{TaskSubmitService, TaskType};

use crate::answer::Answer;
use crate::failure::Failure;
use crate::text::{STRONG, one_line, styled, table};

/// Runs the command.
pub(super) async fn run(tasks: &TaskSubmitService) -> Result<Answer, Failure> {
    let instances = tasks.instances().await?;
    let heads = [
        "INSTANCE", "HOST", "PID", "DELAYQ", "STARTED", "SEEN", "TYPES",
    ];
    let mut table = table(&heads);
    for one in &instances {
        let types: Vec<_> = one.types.iter().map(TaskType::as_str).collect();
        let more = match one.type_count.saturating_sub(one.types.len()) {
            0 => String::new(),
            more => format!(", {more} more"),
        };
        table.add_row([
            styled(STRONG, &one.id),
            one_line(&one.host),
            one.pid.to_string(),
            one_line(&one.version),
            one.started_at.to_string(),
            one.seen_at.to_string(),
            format!("{}{more}", types.join(", ")),
        ]);
    }
    let text = if instances.is_empty() {
        "no instance runs on this store and namespace".to_owned()
    } else {
        table.to_string()
    };
    Answer::new(text, instances)
}
