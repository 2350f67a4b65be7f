//! What operators do by calls of their own, in the log of actions under the name of their token.

use std::future::Future;

use delayq_core::chronicle::{Action, ActionEnd};
use delayq_plugin::{Result, TaskType};
use tracing::warn;

use super::call::Call;

/// The metadata with which the remote store says that its application logs actions itself.
pub(super) const LOGS_ITSELF: &str = "delayq-logs-itself";

/// What an operator does.
#[derive(Debug)]
pub(super) struct Deed<'a> {
    /// Such as `pause`.
    pub(super) verb: &'static str,
    pub(super) task_type: &'a TaskType,
    /// Which tasks, in words; empty for the type itself.
    pub(super) target: String,
}

impl Deed<'_> {
    /// Does it, and logs it. One on many tasks that cannot be logged is not done.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn log<T>(
        self,
        call: &Call,
        doing: impl Future<Output = Result<T>>,
        count: impl FnOnce(&T) -> Option<u64>,
    ) -> Result<T> {
        if call.logs_itself {
            return doing.await;
        }
        let token = &call.caller.token;
        let actor = format!("{} ({})", token.name, token.id);
        let (origin, task_type) = (&call.caller.origin, self.task_type.as_str());
        let action = Action::new(actor, origin, self.verb, task_type).on(&self.target);
        if !self.target.is_empty() {
            let begun = action.clone().ended(ActionEnd::Begun, "");
            call.store().log_action(&begun).await?;
        }
        let done = doing.await;
        let mut action = match &done {
            Ok(_) => action,
            Err(error) => action.ended(ActionEnd::Failed, error.to_string()),
        };
        action.count = done.as_ref().ok().and_then(count);
        if let Err(error) = call.store().log_action(&action).await {
            warn!(verb = self.verb, task_type, %error, "an action is not in the log");
        }
        done
    }
}

/// One type, and no tasks in particular.
pub(super) fn of_type<'a>(verb: &'static str, task_type: &'a TaskType) -> Deed<'a> {
    Deed {
        verb,
        task_type,
        target: String::new(),
    }
}
