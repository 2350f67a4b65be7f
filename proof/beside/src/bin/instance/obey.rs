//! What each command does.

use std::fmt::Debug;
use std::time::Duration;

use delayq_beside::{Answer, Command, Known};
use delayq_plugin::{
    DeadFilter, DelayQueueJob, TaskFilter, TaskState, TaskSubmitService, TypeSettings, When, millis,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::desk::{Desk, Mood};

/// Most tasks of a page.
const PAGE: usize = 128;
/// The longest that a debounced task is put off.
const LONGEST_DEBOUNCE: &str = "30s";

/// Does what `command` says.
pub(crate) async fn obey(command: Command, tasks: &TaskSubmitService, desk: &Desk) -> Answer {
    match command {
        Command::Send { .. } => return send(command, tasks).await,
        Command::Mood { holds, dies } => {
            desk.set_mood(Mood { holds, dies });
            Ok(Value::Null)
        }
        Command::Find(kind, id) => shown(tasks.find(&kind, &id).await),
        Command::Cancel(kind, id) => told(tasks.cancel(&kind, &id).await),
        Command::Reschedule(kind, id, ms) => {
            told(tasks.reschedule(&kind, &id, When::After(millis(ms))).await)
        }
        Command::RunNow(kind, id) => told(tasks.run_now(&kind, &id).await),
        Command::Update(kind, id, message) => {
            told(tasks.update_raw(&kind, &id, message.into_bytes()).await)
        }
        of_type => return obey_of_type(of_type, tasks).await,
    }
}

/// Commands about a whole type, or all of them.
async fn obey_of_type(command: Command, tasks: &TaskSubmitService) -> Answer {
    match command {
        Command::Requeue(kind) => {
            let all = DeadFilter::all();
            shown(tasks.requeue_dead(&kind, &all, Duration::ZERO).await)
        }
        Command::Discard(kind) => shown(tasks.discard_dead(&kind, &DeadFilter::all()).await),
        Command::List(kind, state) => {
            let state: TaskState = serde_json::from_value(Value::String(state)).map_err(text)?;
            shown(tasks.list(&kind, state, None, PAGE).await)
        }
        Command::Count(kind, group) => {
            shown(tasks.count(&kind, &TaskFilter::new().group(group)).await)
        }
        Command::CancelAll(kind, group) => {
            let filter = TaskFilter::new().group(group);
            let report = tasks.cancel_all(&kind, &filter).await;
            shown(report.map(|report| report.changed))
        }
        Command::RescheduleAll(kind, group, ms) => {
            let filter = TaskFilter::new().group(group);
            let when = When::After(millis(ms));
            let report = tasks.reschedule_all(&kind, &filter, when).await;
            shown(report.map(|report| report.changed))
        }
        Command::Stats(kind) => shown(tasks.stats(&kind).await),
        Command::Pause(kind) => shown(tasks.pause(&kind, None).await.map(|met| met.len())),
        Command::Resume(kind) => shown(tasks.resume(&kind).await.map(|met| met.len())),
        Command::MaxPending(kind, most) => {
            let settings = TypeSettings::default().max_pending(most);
            shown(tasks.configure_type(&kind, &settings).await)
        }
        Command::Audit(kind) => {
            let report = tasks.audit(&kind, false).await.map_err(text)?;
            let problems = report
                .problems
                .iter()
                .map(|p| format!("{}: {}", p.id, p.what));
            Ok(json!(problems.collect::<Vec<_>>()))
        }
        Command::Types => shown(tasks.types().await),
        Command::Instances => shown(tasks.instances().await.map(|all| all.len())),
        Command::Recurring => told_all(tasks.recurring().await),
        other => Err(format!("{other:?} is no command to a type")),
    }
}

async fn send(command: Command, tasks: &TaskSubmitService) -> Answer {
    let Command::Send {
        kind,
        id,
        message,
        after_ms,
        known,
        group,
    } = command
    else {
        return Err("no task".to_owned());
    };
    let mut job = DelayQueueJob::raw(kind, message).id(id);
    if !group.is_empty() {
        job = job.group(group);
    }
    let delay = millis(after_ms);
    let job = match known {
        Known::Refuse => job.after(delay),
        Known::Replace => job.after(delay).replace(),
        Known::Debounce => job.debounce(delay, LONGEST_DEBOUNCE),
        Known::Again => job.after(delay).again_if_running(),
    };
    shown(tasks.send(job).await)
}

/// The JSON form of an answer.
fn shown<T: Serialize, E: ToString>(answer: Result<T, E>) -> Answer {
    answer
        .map_err(text)
        .and_then(|answer| serde_json::to_value(answer).map_err(text))
}

/// An answer that has no JSON form.
fn told<T: Debug, E: ToString>(answer: Result<T, E>) -> Answer {
    answer
        .map_err(text)
        .map(|answer| json!(format!("{answer:?}")))
}

fn told_all<T: Debug, E: ToString>(answer: Result<Vec<T>, E>) -> Answer {
    let all = answer.map_err(text)?;
    let all = all.iter().map(|one| format!("{one:?}"));
    Ok(json!(all.collect::<Vec<_>>()))
}

#[allow(clippy::needless_pass_by_value, reason = "the form of map_err")]
fn text(error: impl ToString) -> String {
    error.to_string()
}
