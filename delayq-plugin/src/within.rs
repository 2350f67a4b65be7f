//! Calls in a transaction of the application: a statement with a request in JSON, which the
//! database answers with outcomes in JSON.

use delayq_core::store::{CancelOutcome, ChangeOutcome, SqlPlace, SubmitOutcome};
use delayq_core::{Error, NewTask, Result, Store, TaskContext, TaskId, TaskType, When};
use delayq_transaction::DynTransaction;

mod answer;
mod request;

use self::answer::{Answers, Outcome};
use self::request::Body;

/// The most tasks that one call sends.
const MAX_TASKS: usize = 10_000;

/// An open transaction of the application, and the place of the tasks in its database.
pub(crate) struct Within<'t> {
    place: SqlPlace,
    statement: String,
    tx: &'t mut dyn DynTransaction,
}

impl<'t> Within<'t> {
    /// # Errors
    /// `InvalidInput` for a store whose tasks are not in a SQL database.
    pub(crate) fn new(store: &dyn Store, tx: &'t mut dyn DynTransaction) -> Result<Self> {
        let place = store.sql_place().ok_or_else(|| {
            let reason = format!(
                "{} is not in a SQL database: only tasks in PostgreSQL (postgres://) can be part \
                 of a transaction of the application",
                store.name()
            );
            Error::invalid("transaction", reason)
        })?;
        Ok(Self::at(place, tx))
    }

    /// The same for a place that is known, such as an outbox.
    pub(crate) fn at(place: SqlPlace, tx: &'t mut dyn DynTransaction) -> Self {
        Self {
            statement: place.statement(),
            place,
            tx,
        }
    }

    /// Sends tasks; one result for each, in order.
    ///
    /// # Errors
    /// `Transaction`.
    pub(crate) async fn send(&mut self, tasks: &[NewTask]) -> Result<Vec<Result<SubmitOutcome>>> {
        let mut results = Vec::with_capacity(tasks.len());
        for some in tasks.chunks(MAX_TASKS) {
            let bodies: Vec<_> = some.iter().map(Body::task).collect();
            let request = Body::new("send").with("tasks", bodies);
            let outcomes = self.call(request, some.len()).await?;
            for (outcome, task) in outcomes.into_iter().zip(some) {
                results.push(outcome.of_submit(&task.task_type)?);
            }
        }
        Ok(results)
    }

    /// # Errors
    /// `Transaction`.
    pub(crate) async fn cancel(
        &mut self,
        task_type: &TaskType,
        id: &TaskId,
    ) -> Result<CancelOutcome> {
        let request = Body::new("cancel").of_each(task_type, id);
        self.call_one(request).await?.of_cancel()
    }

    /// # Errors
    /// `Transaction`.
    pub(crate) async fn reschedule(
        &mut self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        let request = Body::new("reschedule").of_each(task_type, id).when(when);
        self.call_one(request).await?.of_change()
    }

    /// # Errors
    /// `Transaction`.
    pub(crate) async fn update(
        &mut self,
        task_type: &TaskType,
        id: &TaskId,
        message: &[u8],
    ) -> Result<ChangeOutcome> {
        let request = Body::new("update").of(task_type, id).message(message);
        self.call_one(request).await?.of_change()
    }

    /// Ends the attempt of this context as done.
    ///
    /// # Errors
    /// `LockLost`, `Transaction`.
    pub(crate) async fn settle(&mut self, cx: &TaskContext) -> Result<()> {
        let (task_type, id) = (cx.task_type(), cx.id());
        self.statement = self.place.done_statement();
        let request = Body::new("settle").of(task_type, id);
        let request = request.with("fence", cx.fence());
        let reason = match self.call_one(request).await?.name() {
            "done" => return Ok(()),
            "settled" => "this attempt has been settled before",
            "lock_lost" => "another attempt has its lock, or it has ended",
            other => return Err(answer::unknown(other)),
        };
        Err(Error::LockLost {
            task_type: task_type.to_string(),
            id: id.to_string(),
            reason,
        })
    }

    async fn call_one(&mut self, request: Body) -> Result<Outcome> {
        let outcome = self.call(request, 1).await?.pop();
        outcome.ok_or_else(|| answer::unknown("none"))
    }

    async fn call(&mut self, request: Body, expected: usize) -> Result<Vec<Outcome>> {
        let namespace = self.place.namespace.as_str();
        let request = request.with("namespace", namespace).into_text();
        let answered = self.tx.call_dyn(&self.statement, &request).await;
        let answer = answered.map_err(|error| Error::transaction(chain(&*error)))?;
        let answers: Answers = serde_json::from_str(&answer)
            .map_err(|error| answer::unknown(&format!("{error}: {answer}")))?;
        let found = answers.outcomes.len();
        if found == expected {
            return Ok(answers.outcomes);
        }
        Err(answer::unknown(&format!("{found} outcomes of {expected}")))
    }
}

/// An error and its sources, each said once.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
