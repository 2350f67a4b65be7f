//! Assertions on the tasks of a [`TestQueue`].

use delayq_core::{IntoDelay, TaskInfo, TaskState, TaskType, Timestamp};
use jiff::SignedDuration;

use super::TestQueue;

/// The required due time of a task.
#[derive(Clone, Copy, Debug)]
pub struct Due(Option<Timestamp>);

impl Due {
    /// Any time.
    #[must_use]
    pub fn any() -> Self {
        Self(None)
    }

    /// `span` after the queue's present time.
    ///
    /// # Panics
    /// If `span` is not a delay.
    #[must_use]
    pub fn after(queue: &TestQueue, span: impl IntoDelay) -> Self {
        match span.into_delay() {
            Ok(span) => Self(Some(queue.now().plus(span))),
            Err(error) => panic!("{error}"),
        }
    }

    /// This time.
    #[must_use]
    pub fn at(time: impl Into<Timestamp>) -> Self {
        Self(Some(time.into()))
    }
}

/// The task, if it is scheduled and has the required due time.
///
/// # Errors
/// The text of the failed assertion, with what was found instead.
pub async fn check_scheduled(
    queue: &TestQueue,
    task_type: &str,
    id: &str,
    due: Due,
) -> Result<TaskInfo, String> {
    let task = in_state(queue, task_type, id, TaskState::Scheduled).await?;
    match due.0 {
        Some(due) if due != task.at => Err(format!(
            "task {id} of type {task_type} is due {}, expected {}",
            when(queue, task.at),
            when(queue, due)
        )),
        _ => Ok(task),
    }
}

/// Passes if the task, or without an id every task of the type, is not scheduled.
///
/// # Errors
/// As [`check_scheduled`].
pub async fn check_not_scheduled(
    queue: &TestQueue,
    task_type: &str,
    id: Option<&str>,
) -> Result<(), String> {
    let scheduled = queue.scheduled(task_type).await;
    let found = scheduled
        .iter()
        .find(|task| id.is_none_or(|id| task.id.as_str() == id));
    match found {
        Some(task) => Err(format!(
            "task {} of type {task_type} is scheduled, due {}; expected that it is not",
            task.id,
            when(queue, task.at)
        )),
        None => Ok(()),
    }
}

/// The task, if it is dead and its last error contains `text`.
///
/// # Errors
/// As [`check_scheduled`].
pub async fn check_dead(
    queue: &TestQueue,
    task_type: &str,
    id: &str,
    text: &str,
) -> Result<TaskInfo, String> {
    let task = in_state(queue, task_type, id, TaskState::Dead).await?;
    let error = task.history.last_error.as_deref().unwrap_or_default();
    if error.contains(text) {
        return Ok(task);
    }
    Err(format!(
        "task {id} of type {task_type} is dead with the error {error:?}, which does not contain \
         {text:?}"
    ))
}

/// Passes if the task is done, even if its retention is over.
///
/// # Errors
/// As [`check_scheduled`].
pub async fn check_done(queue: &TestQueue, task_type: &str, id: &str) -> Result<(), String> {
    let found = queue.find(task_type, id).await;
    let is_elsewhere = found.is_some_and(|task| task.state != TaskState::Done);
    if !is_elsewhere && queue.is_done(task_type, id) {
        return Ok(());
    }
    Err(missed(queue, task_type, id, TaskState::Done).await)
}

async fn in_state(
    queue: &TestQueue,
    task_type: &str,
    id: &str,
    state: TaskState,
) -> Result<TaskInfo, String> {
    match queue.find(task_type, id).await {
        Some(task) if task.state == state => Ok(task),
        _ => Err(missed(queue, task_type, id, state).await),
    }
}

/// A description of what was found instead of a task in `expected`.
async fn missed(queue: &TestQueue, task_type: &str, id: &str, expected: TaskState) -> String {
    let is = match queue.find(task_type, id).await {
        Some(task) => described(queue, &task),
        None if queue.is_done(task_type, id) => "is done, longer ago than the retention".to_owned(),
        None => "is not known".to_owned(),
    };
    let others = others(queue, task_type, id).await;
    format!("task {id} of type {task_type} {is}, expected {expected}; {others}")
}

async fn others(queue: &TestQueue, task_type: &str, id: &str) -> String {
    let mut others = Vec::new();
    for state in [TaskState::Scheduled, TaskState::Running, TaskState::Dead] {
        for task in queue.list(task_type, state).await {
            if task.id.as_str() != id {
                others.push(format!("{} {}", task.id, described(queue, &task)));
            }
        }
    }
    if let Ok(task_type) = TaskType::new(task_type) {
        let done = queue.done.ids(&task_type).into_iter();
        let done = done.filter(|other| other.as_str() != id);
        others.extend(done.map(|other| format!("{other} is done")));
    }
    if !others.is_empty() {
        return format!("others of its type: {}", others.join(", "));
    }
    let types = queue.tasks().types().await.unwrap_or_default();
    let types: Vec<_> = types.iter().map(TaskType::as_str).collect();
    format!("no others of its type; the types are {}", types.join(", "))
}

fn described(queue: &TestQueue, task: &TaskInfo) -> String {
    match task.state {
        TaskState::Scheduled => {
            let failed = failed(task);
            format!("is scheduled, due {}{failed}", when(queue, task.at))
        }
        TaskState::Dead => format!("is dead{}", failed(task)),
        state => format!("is {state}"),
    }
}

fn failed(task: &TaskInfo) -> String {
    let error = task.history.last_error.as_ref();
    error.map_or_else(String::new, |error| {
        format!(" after attempt {}: {error}", task.attempt)
    })
}

/// A time relative to the queue's present time, for messages.
fn when(queue: &TestQueue, time: Timestamp) -> String {
    let now = queue.now();
    let span = |span| SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX);
    if time < now {
        return format!("{:#} ago", span(now.since(time)));
    }
    format!("in {:#}", span(time.since(now)))
}

/// Asserts that a task is scheduled, and returns its [`TaskInfo`](delayq_core::TaskInfo). It
/// awaits, so use it in an async function.
///
/// `assert_scheduled!(queue, "order.cancel", "order-42", after = "30m")`: due 30 minutes after the
/// queue's present time, to the millisecond. Use `at = timestamp` instead for an absolute time, or
/// neither for any time.
#[macro_export]
macro_rules! assert_scheduled {
    ($queue:expr, $task_type:expr, $id:expr $(,)?) => {
        $crate::assert_scheduled!(@ $queue, $task_type, $id, $crate::__kit::Due::any())
    };
    ($queue:expr, $task_type:expr, $id:expr, after = $span:expr $(,)?) => {
        $crate::assert_scheduled!(
            @ $queue, $task_type, $id, $crate::__kit::Due::after(&$queue, $span)
        )
    };
    ($queue:expr, $task_type:expr, $id:expr, at = $time:expr $(,)?) => {
        $crate::assert_scheduled!(@ $queue, $task_type, $id, $crate::__kit::Due::at($time))
    };
    (@ $queue:expr, $task_type:expr, $id:expr, $due:expr) => {
        match $crate::__kit::check_scheduled(&$queue, &$task_type, &$id, $due).await {
            ::core::result::Result::Ok(task) => task,
            ::core::result::Result::Err(found) => ::core::panic!("{found}"),
        }
    };
}

/// Asserts that a task is not scheduled or, without an id, that no task of the type is.
#[macro_export]
macro_rules! assert_not_scheduled {
    ($queue:expr, $task_type:expr $(,)?) => {
        $crate::assert_not_scheduled!(@ $queue, $task_type, ::core::option::Option::None)
    };
    ($queue:expr, $task_type:expr, $id:expr $(,)?) => {
        $crate::assert_not_scheduled!(@ $queue, $task_type, ::core::option::Option::Some(&$id))
    };
    (@ $queue:expr, $task_type:expr, $id:expr) => {
        if let ::core::result::Result::Err(found) =
            $crate::__kit::check_not_scheduled(&$queue, &$task_type, $id).await
        {
            ::core::panic!("{found}")
        }
    };
}

/// Asserts that a task is dead, and with `contains = "text"` that its last error contains this
/// text. Returns its [`TaskInfo`](delayq_core::TaskInfo).
#[macro_export]
macro_rules! assert_dead {
    ($queue:expr, $task_type:expr, $id:expr $(,)?) => {
        $crate::assert_dead!($queue, $task_type, $id, contains = "")
    };
    ($queue:expr, $task_type:expr, $id:expr, contains = $text:expr $(,)?) => {
        match $crate::__kit::check_dead(&$queue, &$task_type, &$id, &$text).await {
            ::core::result::Result::Ok(task) => task,
            ::core::result::Result::Err(found) => ::core::panic!("{found}"),
        }
    };
}

/// Asserts that a task is done, however long ago.
#[macro_export]
macro_rules! assert_done {
    ($queue:expr, $task_type:expr, $id:expr $(,)?) => {
        if let ::core::result::Result::Err(found) =
            $crate::__kit::check_done(&$queue, &$task_type, &$id).await
        {
            ::core::panic!("{found}")
        }
    };
}
