//! Waits until there is nothing left to do, for tests.

use std::time::Duration;

use tracing::debug;

use super::shared::Shared;
use crate::handler::Idleness;
use crate::submit::ensure_all;

/// Waits until no handler has anything to do at the present time. Returns the time, by
/// `Clock::elapsed`, of the next thing to do, other than polls.
///
/// It asks the handlers until two rounds of answers agree. Then each handler was idle in both
/// rounds, its claims between them found nothing, and the last of these was sent after the second
/// question. So nothing has run here since the first answers, and nothing can have been sent from
/// here to a handler that had already answered.
pub(super) async fn until_idle(shared: &Shared) -> Option<Duration> {
    let mut before = None;
    loop {
        shared.serve_all().await;
        // Maintenance does this only once a minute, but a test's clock may jump by days.
        if let Err(error) = ensure_all(&shared.tasks).await {
            debug!(%error, "the next occurrence of a recurring task is not sent yet");
        }
        let now = answers(shared).await;
        let claims = now.iter().map(|one| one.fruitful_claims);
        let claims = claims.collect::<Vec<_>>();
        if before.as_ref() == Some(&claims) {
            return now.iter().filter_map(|one| one.next_at).min();
        }
        before = Some(claims);
    }
}

/// The report of each handler once it is idle and has claimed after the question.
async fn answers(shared: &Shared) -> Vec<Idleness> {
    let (question, handlers) = shared.ask();
    let mut answers = Vec::with_capacity(handlers.len());
    for mut handler in handlers {
        let is_answer = |said: &Idleness| said.is_idle && said.answers >= question;
        // A handler that has ended reports nothing more.
        if let Ok(said) = handler.wait_for(is_answer).await {
            answers.push(*said);
        }
    }
    answers
}
