//! Changes of the history.

use delayq_plugin::Result;
use delayq_plugin::history::{Forget, Forgotten, TaskHistory};
use delayq_plugin::store::ActionEnd;

use super::Operator;
use super::deed::is_no_deed;

/// Removes lives from the history for good, such as those of a person, and logs that. See
/// [`TaskHistory::forget`].
///
/// # Errors
/// As [`TaskHistory::forget`].
pub async fn forget_history(
    operator: &Operator,
    history: &TaskHistory,
    whom: &Forget,
) -> Result<Forgotten> {
    let types = whom.task_type().map_or("*", |task_type| task_type.as_str());
    let action = operator
        .action("forget-history", types)
        .on(whom.to_string());
    let done = history.forget(whom).await;
    let action = match &done {
        Ok(forgotten) => {
            let lives = forgotten.lives;
            let action = action.counted(lives);
            action.ended(ActionEnd::Done, format!("{lives} lives were removed"))
        }
        Err(error) if is_no_deed(error) => return done,
        Err(error) => action.ended(ActionEnd::Failed, error.to_string()),
    };
    operator.record(&action).await;
    done
}
