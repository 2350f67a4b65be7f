//! The sentence of an explanation.

use super::{Cause, Explanation, OldestRun};
use crate::span::said;
use delayq_plugin::{ClockSkew, Timestamp, WaitsFor};

/// One English sentence, without line breaks.
pub(super) fn sentence(explained: &Explanation) -> String {
    let Explanation { task_type, id, .. } = explained;
    let late = explained.late.map(said);
    let due = late.as_ref().map_or_else(
        || "is due".to_owned(),
        |late| format!("has been due for {late}"),
    );
    let predicate = match &explained.cause {
        Cause::Paused { until } => {
            let until = until.map_or("somebody resumes it".to_owned(), |time| time.to_string());
            format!("{due} and waits, as its type is paused until {until}")
        }
        Cause::Unserved { instances: 0 } => {
            format!("{due} and waits, as no running instance is announced on this store")
        }
        Cause::Unserved { instances: 1 } => {
            format!("{due} and waits, as the one announced instance does not serve its type")
        }
        Cause::Unserved { instances } => format!(
            "{due} and waits, as none of the {instances} announced instances serves its type"
        ),
        Cause::ConcurrencyFull { .. } | Cause::RateReached { .. } => {
            format!("{due} and waits, as {}", limit(&explained.cause))
        }
        Cause::Backlog { .. } | Cause::Next { .. } => {
            format!("{due} and waits, as {}", line(&explained.cause))
        }
        Cause::Running { .. } | Cause::LockOrphaned { .. } => {
            run(&explained.cause, late.as_deref())
        }
        Cause::NotDue { .. } | Cause::Retry { .. } | Cause::ClocksDiffer { .. } => {
            ahead(&explained.cause)
        }
        _ => end(&explained.cause),
    };
    format!("{task_type} {id} {predicate}.")
}

/// Explains a task held back by a fleet limit.
fn limit(cause: &Cause) -> String {
    match cause {
        Cause::ConcurrencyFull {
            limit,
            running,
            oldest,
        } => {
            let limit = limit.map_or_else(
                || "the fleet concurrency of its workers is".to_owned(),
                |limit| format!("the fleet concurrency of {limit} is"),
            );
            let oldest = since(oldest.as_ref());
            format!("{limit} reached: {running} run{oldest}")
        }
        Cause::RateReached { limit: Some(rate) } => {
            format!("the fleet rate of {rate} allows no start now")
        }
        _ => "the fleet rate of its workers allows no start now".to_owned(),
    }
}

/// The text about the oldest running task.
fn since(oldest: Option<&OldestRun>) -> String {
    let said = |oldest: &OldestRun| format!(" (the oldest, {}, since {})", oldest.id, oldest.since);
    oldest.map_or_else(String::new, said)
}

/// Explains a task in the line of due tasks.
fn line(cause: &Cause) -> String {
    match cause {
        Cause::Backlog {
            ahead,
            is_exact,
            running,
            oldest,
            pace,
            wait,
        } => {
            let at_most = if *is_exact { "" } else { "up to " };
            let stand = if *ahead == 1 {
                "task stands"
            } else {
                "tasks stand"
            };
            let pace = match (pace, wait) {
                (Some(_), Some(wait)) => {
                    format!(", which takes about {} at the present pace", said(*wait))
                }
                (Some(pace), None) => {
                    format!(", and none ended within the last {}", said(pace.over))
                }
                _ => String::new(),
            };
            let oldest = since(oldest.as_ref());
            format!("{at_most}{ahead} {stand} before it and {running} run{oldest}{pace}")
        }
        Cause::Next {
            instances,
            running,
            oldest,
        } => {
            let busy = if *instances == 1 {
                "one instance that serves its type is busy or has".to_owned()
            } else {
                format!("{instances} instances that serve its type are busy or have")
            };
            let oldest = since(oldest.as_ref());
            format!(
                "it is the first in line, {running} run{oldest}, and the {busy} yet to notice it"
            )
        }
        _ => String::new(),
    }
}

fn run(cause: &Cause, late: Option<&str>) -> String {
    match cause {
        Cause::LockOrphaned {
            holder,
            until,
            is_expired,
            ..
        } => {
            let then = if *is_expired {
                format!("has expired at {until}, and the next claim takes it")
            } else {
                format!("lasts until {until}; then another instance takes it")
            };
            format!("is locked by {holder}, which is no longer announced, and the lock {then}")
        }
        Cause::Running {
            since,
            attempt,
            holder,
            cancel_requested,
        } => {
            let since = since.map_or(String::new(), |since| format!(" since {since}"));
            let holder = holder
                .as_ref()
                .map_or(String::new(), |one| format!(" {one}"));
            let late = late.map_or(String::new(), |late| {
                format!("; it started {late} after its due time")
            });
            let asked = if *cancel_requested {
                ", and is asked to stop"
            } else {
                ""
            };
            format!("runs{since}{holder}, attempt {attempt}{asked}{late}")
        }
        _ => String::new(),
    }
}

fn ahead(cause: &Cause) -> String {
    match cause {
        Cause::NotDue { due_at, wait, from } => {
            let from = match from {
                WaitsFor::Release => "it was given back, by its worker or by a shutdown",
                WaitsFor::Requeue => "an operator took it out of dead",
                _ => "the time that it was sent for or moved to",
            };
            format!("is not due until {due_at}, in {}: {from}", said(*wait))
        }
        Cause::Retry {
            due_at,
            wait,
            attempt,
            error,
            ..
        } => {
            let error = error.as_deref().unwrap_or("an error that is not stored");
            let error = one_line(error);
            format!(
                "waits until {due_at}, {} from now, for its retry, as attempt {attempt} failed \
                 with: {error}",
                said(*wait)
            )
        }
        Cause::ClocksDiffer { due_at, skew } => {
            let who = match skew {
                ClockSkew::StoreBehind(_) => "is due by this host's clock and not by the store's",
                _ => "is due by the store's clock and not by this host's",
            };
            format!("{who}: {skew}, and it is due at {due_at}")
        }
        _ => String::new(),
    }
}

fn end(cause: &Cause) -> String {
    let with = |error: &Option<String>| {
        let error = error.as_deref().map(one_line);
        error.map_or(String::new(), |error| format!(": {error}"))
    };
    match cause {
        Cause::Done { at, error: None } => format!("was done at {at}"),
        Cause::Done { at, error } => {
            format!(
                "was given out once and failed, and ended at {at}{}",
                with(error)
            )
        }
        Cause::Cancelled { at } => format!("was cancelled, at {at}"),
        Cause::Expired { at } => {
            format!("expired at {at}: it was too late to be worth its start")
        }
        Cause::Dead { at, attempt, error } => {
            format!("died at {at} after {attempt} attempts{}", with(error))
        }
        Cause::Unknown {
            is_listed: false, ..
        } => "is unknown, and so is its type: nothing of it was sent to this store and namespace, \
              or the type was dropped"
            .to_owned(),
        Cause::Unknown {
            remembered_since, ..
        } => unknown(*remembered_since),
        _ => String::new(),
    }
}

fn unknown(remembered_since: Option<Timestamp>) -> String {
    remembered_since.map_or_else(
        || "is unknown: it was never sent here, or it ended and is forgotten".to_owned(),
        |since| {
            format!(
                "is unknown: it was never sent here, or it ended before {since} and is forgotten, \
                 or was purged or discarded"
            )
        },
    )
}

/// An error without its line breaks and without its final full stop.
fn one_line(error: &str) -> String {
    let words: Vec<_> = error.split_whitespace().collect();
    words.join(" ").trim_end_matches('.').to_owned()
}
