//! What the results of an attempt mean for its task.

use std::time::Duration;

use delayq_core::store::AttemptEnd;
use delayq_core::{TaskError, TaskResult, Trail};
use tokio::task::JoinError;

use crate::roster::Crew;

/// What one worker of the crew returned, by its index.
pub(crate) type HandResult = (usize, TaskResult);

/// What a worker that did not return did instead.
pub(crate) fn describe(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => {
            let text = panic.downcast_ref::<&str>().map(ToString::to_string);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            format!("panicked: {}", text.as_deref().unwrap_or("(no message)"))
        }
        Err(_) => "the runtime was shut down".to_owned(),
    }
}

/// How the attempt ends, by what its workers returned.
///
/// All succeeded: done. One that says dead, or has no attempt left: dead. Else retried after the longest
/// wait that a failed one asks for; given back when nobody failed and somebody asked for it.
pub(crate) fn conclude(
    crew: &Crew,
    attempt: u32,
    trail: &Trail,
    results: Vec<HandResult>,
) -> AttemptEnd {
    let mut verdict = Verdict::default();
    let mut succeeded = trail.succeeded.clone();
    for (index, result) in results {
        let Some(hand) = crew.hands.get(index) else {
            continue;
        };
        let named = |error: String| match crew.hands.len() {
            1 => error,
            _ => format!("{}: {error}", hand.name),
        };
        match result {
            Ok(()) => succeeded.push(hand.name.to_string()),
            Err(TaskError::Release(wait)) => verdict.release(wait),
            Err(TaskError::Dead(error)) => verdict.fail(None, named(error)),
            Err(TaskError::RetryAfter(wait, error)) => {
                let left = attempt < hand.options.retry.max_attempts;
                verdict.fail(left.then_some(wait), named(error));
            }
            Err(TaskError::Retry(error)) => {
                verdict.fail(hand.options.retry.wait_after(attempt), named(error));
            }
            // TaskError may grow: an outcome of a newer core is retried.
            Err(other) => {
                verdict.fail(
                    hand.options.retry.wait_after(attempt),
                    named(format!("{other:?}")),
                );
            }
        }
    }
    verdict.end(succeeded)
}

/// How an attempt ends that was over its time limit.
pub(crate) fn time_is_up(crew: &Crew, attempt: u32, trail: &Trail, limit: Duration) -> AttemptEnd {
    let error = format!("timed out after {limit:?}");
    failed(crew, attempt, trail, &error)
}

/// How an attempt ends of which only one thing is known: the workers that have not succeeded failed.
pub(crate) fn failed(crew: &Crew, attempt: u32, trail: &Trail, error: &str) -> AttemptEnd {
    let mut verdict = Verdict::default();
    for (_, hand) in crew.open(trail) {
        verdict.judge(hand.options.retry.wait_after(attempt));
        verdict.errors = vec![error.to_owned()];
    }
    verdict.end(trail.succeeded.clone())
}

#[derive(Debug, Default)]
struct Verdict {
    dead: bool,
    retry: Option<Duration>,
    release: Option<Duration>,
    errors: Vec<String>,
}

impl Verdict {
    /// A worker failed; `wait` before the next attempt, `None`: there is none.
    fn fail(&mut self, wait: Option<Duration>, error: String) {
        self.errors.push(error);
        self.judge(wait);
    }

    fn judge(&mut self, wait: Option<Duration>) {
        match wait {
            Some(wait) => self.retry = self.retry.max(Some(wait)),
            None => self.dead = true,
        }
    }

    fn release(&mut self, wait: Duration) {
        self.release = self.release.max(Some(wait));
    }

    fn end(self, succeeded: Vec<String>) -> AttemptEnd {
        let error = self.errors.join("; ");
        match (self.dead, self.retry, self.release) {
            (true, ..) => AttemptEnd::Dead { error, succeeded },
            (_, Some(wait), released) => AttemptEnd::Retry {
                after: wait.max(released.unwrap_or(wait)),
                error,
                succeeded,
            },
            (_, None, Some(after)) => AttemptEnd::Release { after, succeeded },
            (_, None, None) => AttemptEnd::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use delayq_core::{RetryPolicy, TaskContext, TaskWorker, TypePattern, WorkerOptions, seconds};

    use super::*;
    use crate::roster::Hand;

    struct Nothing;

    #[async_trait]
    impl TaskWorker for Nothing {
        async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
            Ok(())
        }
    }

    fn crew(max_attempts: &[u32]) -> Crew {
        let hand = |(index, max_attempts): (usize, &u32)| Hand {
            name: format!("w{index}").into(),
            pattern: TypePattern::new("a").unwrap(),
            options: WorkerOptions {
                retry: RetryPolicy {
                    max_attempts: *max_attempts,
                    jitter_percent: 0,
                    ..RetryPolicy::DEFAULT
                },
                ..WorkerOptions::DEFAULT
            },
            worker: Arc::new(Nothing),
        };
        Crew {
            hands: max_attempts.iter().enumerate().map(hand).collect(),
        }
    }

    fn end(max_attempts: &[u32], attempt: u32, results: Vec<TaskResult>) -> AttemptEnd {
        let results = results.into_iter().enumerate().collect();
        conclude(&crew(max_attempts), attempt, &Trail::default(), results)
    }

    fn retry(after: u64, error: &str, succeeded: &[&str]) -> AttemptEnd {
        let succeeded = succeeded.iter().map(ToString::to_string).collect();
        AttemptEnd::Retry {
            after: seconds(after),
            error: error.into(),
            succeeded,
        }
    }

    #[test]
    fn the_last_attempt_is_the_last_one() {
        assert_eq!(
            end(&[2], 1, vec![Err(TaskError::retry("x"))]),
            retry(1, "x", &[])
        );
        let dead = AttemptEnd::Dead {
            error: "x".into(),
            succeeded: vec![],
        };
        assert_eq!(end(&[2], 2, vec![Err(TaskError::retry("x"))]), dead);
        assert_eq!(
            end(&[2], 2, vec![Err(TaskError::retry_after(seconds(9), "x"))]),
            dead
        );
        assert_eq!(
            end(&[2], 1, vec![Err(TaskError::retry_after(seconds(9), "x"))]),
            retry(9, "x", &[])
        );
        assert_eq!(end(&[9], 1, vec![Err(TaskError::dead("x"))]), dead);
    }

    #[test]
    fn a_release_burns_no_attempt_even_on_the_last_one() {
        let release = AttemptEnd::Release {
            after: seconds(3),
            succeeded: vec![],
        };
        assert_eq!(
            end(&[1], 1, vec![Err(TaskError::release(seconds(3)))]),
            release
        );
    }

    #[test]
    fn of_several_workers_the_failed_ones_are_retried_and_named() {
        assert_eq!(end(&[5, 5], 1, vec![Ok(()), Ok(())]), AttemptEnd::Done);
        let one_failed = end(&[5, 5], 1, vec![Ok(()), Err(TaskError::retry("x"))]);
        assert_eq!(one_failed, retry(1, "w1: x", &["w0"]));
        let one_dead = end(&[5, 5], 1, vec![Ok(()), Err(TaskError::dead("x"))]);
        let dead = AttemptEnd::Dead {
            error: "w1: x".into(),
            succeeded: vec!["w0".into()],
        };
        assert_eq!(one_dead, dead);
    }
}
