//! The two stores of a tier, and what every operation needs of them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use delayq_core::time::Sleep;
use delayq_core::{
    Clock, Error, Result, Store, SystemClock, TaskId, TaskInfo, TaskState, TaskType, Timestamp,
    When, millis, seconds,
};

use tokio::sync::Notify;

use crate::counts::{Count, Counts};
use crate::marks::Marks;
use crate::options::TierOptions;
use crate::trouble::Trouble;

/// The longest pause between two looks at a task that is being moved.
const LONGEST_LOOK: Duration = millis(50);

/// How long cold is not asked for a type without far tasks, after it could not be asked.
const AWAY: Duration = seconds(1);

/// The stores, and what is known of them.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) hot: Arc<dyn Store>,
    pub(crate) cold: Arc<dyn Store>,
    pub(crate) options: TierOptions,
    pub(crate) counts: Counts,
    pub(crate) marks: Marks,
    pub(crate) trouble: Trouble,
    /// Wakes the promoters of this instance.
    pub(crate) hurry: Notify,
    /// When cold could not be asked.
    pub(crate) away: Mutex<Option<Duration>>,
}

/// Ends after `span` on the real clock.
pub(crate) fn pause(span: Duration) -> Sleep {
    SystemClock.sleep_until(SystemClock.elapsed() + span)
}

/// True for a task that has not ended.
pub(crate) fn is_live(info: &TaskInfo) -> bool {
    !info.state.is_ended()
}

/// True if a promoter may have submitted this task of cold to hot already: the next one finds out.
pub(crate) fn may_be_moved(task: &TaskInfo) -> bool {
    task.history.failures + task.history.lock_expiries > 0
}

/// A failed question as the error of a change: nothing was changed.
pub(crate) fn unasked(error: Error) -> Error {
    match error {
        Error::Indeterminate { store, detail } => Error::Unavailable { store, detail },
        other => other,
    }
}

impl Parts {
    /// The name of the tier, for errors.
    pub(crate) fn name(&self) -> String {
        format!("tiered({}, {})", self.hot.name(), self.cold.name())
    }

    /// What cold has of a type, as of a moment ago.
    ///
    /// # Errors
    /// Cold cannot be asked, and may have tasks of the type.
    pub(crate) async fn count(&self, task_type: &TaskType) -> Result<Count> {
        let is_marked = async || self.marks.has(&*self.hot, task_type).await;
        let count = self.counts.of(&*self.cold, task_type, is_marked).await;
        count.map_err(unasked)
    }

    /// The answer of cold to a question or a change of a type. `None` if cold cannot be asked and
    /// hot knows that the type has no far tasks.
    ///
    /// # Errors
    /// Those of cold.
    pub(crate) async fn far<T>(
        &self,
        task_type: &TaskType,
        answer: impl Future<Output = Result<T>>,
    ) -> Result<Option<T>> {
        let has_none = async || !self.marks.has(&*self.hot, task_type).await;
        if self.is_away() && has_none().await {
            return Ok(None);
        }
        match answer.await {
            Err(error) if error.is_transient() && has_none().await => {
                let now = SystemClock.elapsed();
                *self.away.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
                Ok(None)
            }
            answer => answer.map(Some),
        }
    }

    /// True if cold could not be asked a moment ago.
    fn is_away(&self) -> bool {
        let away = *self.away.lock().unwrap_or_else(PoisonError::into_inner);
        away.is_some_and(|since| SystemClock.elapsed() < since + AWAY)
    }

    /// The error for a task that is on its way between the stores.
    pub(crate) fn moving(&self, task_type: &TaskType, id: &TaskId) -> Error {
        let detail = format!("task {id} of type {task_type} is being moved: ask again");
        Error::unavailable(self.name(), detail)
    }

    /// The error of a change that was begun in cold.
    pub(crate) fn doubt(&self, error: &Error) -> Error {
        Error::indeterminate(self.name(), error.to_string())
    }

    pub(crate) fn lead(&self) -> Duration {
        self.options.lead
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.options.clock.now()
    }

    /// True for a time beyond the horizon.
    pub(crate) fn is_far(&self, when: When) -> bool {
        let delay = match when {
            When::After(delay) => delay,
            When::At(time) => time.since(self.now()),
        };
        delay > self.options.horizon
    }

    /// When a call that begins now waits no longer, on the clock of elapsed time.
    pub(crate) fn end(&self) -> Duration {
        SystemClock.elapsed() + self.options.patience
    }

    /// Waits until the task is not being moved any more, up to `end`. Answers its state in cold
    /// then.
    ///
    /// # Errors
    /// `Unavailable` if that takes longer.
    pub(crate) async fn moved(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        end: Duration,
    ) -> Result<Option<TaskState>> {
        let is_over = |state| state != TaskState::Running;
        self.until(task_type, id, is_over, end).await
    }

    /// Waits until cold has moved the task, which is due there, up to `end`. Answers its state in
    /// cold then.
    ///
    /// # Errors
    /// As [`moved`](Self::moved).
    pub(crate) async fn arrived(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        end: Duration,
    ) -> Result<Option<TaskState>> {
        self.hurry.notify_one();
        let is_there = |state| !matches!(state, TaskState::Running | TaskState::Scheduled);
        self.until(task_type, id, is_there, end).await
    }

    async fn until(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        is_over: fn(TaskState) -> bool,
        end: Duration,
    ) -> Result<Option<TaskState>> {
        let mut look = millis(1);
        loop {
            let found = self.cold.find(task_type, id).await.map_err(unasked)?;
            let state = found.map(|task| task.state);
            if state.is_none_or(is_over) {
                return Ok(state);
            }
            if SystemClock.elapsed() + look >= end {
                return Err(self.moving(task_type, id));
            }
            pause(look).await;
            look = (look * 2).min(LONGEST_LOOK);
        }
    }
}
