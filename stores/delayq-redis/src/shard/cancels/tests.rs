//! How cancels gather, and that nobody who waits is left behind.

use std::time::Duration;

use super::*;
use crate::scripts::change::Knowledge;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

fn id(name: &str) -> TaskId {
    TaskId::new(name).unwrap()
}

fn join(cancels: &Cancels, name: &str) -> (oneshot::Receiver<Answer>, bool) {
    cancels.join(id(name), soon())
}

fn names(batch: &Batch) -> Vec<&str> {
    batch.ids().iter().map(TaskId::as_str).collect()
}

#[test]
fn what_gathers_while_enough_calls_are_under_way_goes_with_the_next_one() {
    let cancels = Arc::new(Cancels::default());
    let told: Vec<bool> = ["a", "b", "c", "d", "c", "e"]
        .iter()
        .map(|name| join(&cancels, name).1)
        .collect();
    assert_eq!(told, [true, true, false, false, false, false]);
    let (mut first, mut second) = (cancels.turn(), cancels.turn());
    let batch = first.take().unwrap();
    // The same id twice: the second one learns what became of the first.
    assert_eq!(names(&batch), ["a", "b", "c", "d"]);
    assert_eq!(names(&second.take().unwrap()), ["c", "e"]);
    assert!(first.take().is_none());
    assert!(join(&cancels, "f").1, "a turn is free again");
    drop(second);
    assert!(
        join(&cancels, "g").1,
        "a turn that was dropped is free, too"
    );
    assert!(!join(&cancels, "h").1);
    drop(first);
    assert!(!join(&cancels, "i").1, "a turn ends once");
}

#[test]
fn a_batch_is_one_call() {
    let cancels = Arc::new(Cancels::default());
    for n in 0..=MAX_BATCH {
        drop(join(&cancels, &n.to_string()));
    }
    let mut turn = cancels.turn();
    assert_eq!(turn.take().unwrap().ids().len(), MAX_BATCH);
    assert_eq!(turn.take().unwrap().ids().len(), 1);
}

#[test]
fn everybody_gets_an_answer_of_their_own_and_who_came_too_late_is_not_sent() {
    let cancels = Arc::new(Cancels::default());
    let mut late = cancels.join(id("late"), Instant::now()).0;
    let (mut one, mut other) = (join(&cancels, "one").0, join(&cancels, "other").0);
    let mut batch = cancels.turn().take().unwrap();
    batch.refuse_late(|| Error::Closed("a test"));
    assert!(matches!(late.try_recv().unwrap(), Err(Error::Closed(_))));
    assert_eq!(names(&batch), ["one", "other"]);
    assert!(batch.deadline().is_some_and(|at| at > Instant::now()));
    let answer = |answer| Lookup {
        knowledge: Knowledge::Live,
        answer,
    };
    let answers = [CancelOutcome::Cancelled, CancelOutcome::Running].map(answer);
    batch.answer(Ok(answers.into()));
    assert_eq!(
        one.try_recv().unwrap().unwrap().answer,
        CancelOutcome::Cancelled
    );
    assert_eq!(
        other.try_recv().unwrap().unwrap().answer,
        CancelOutcome::Running
    );
}

#[test]
fn a_call_that_fails_fails_for_all_of_it() {
    let cancels = Arc::new(Cancels::default());
    let (mut one, mut other) = (join(&cancels, "one").0, join(&cancels, "other").0);
    let batch = cancels.turn().take().unwrap();
    batch.answer(Err(Error::Closed("a test")));
    assert!(one.try_recv().unwrap().is_err() && other.try_recv().unwrap().is_err());
}

#[test]
fn nobody_waits_for_a_call_that_never_comes() {
    let cancels = Arc::new(Cancels::default());
    let (mut one, mut other) = (join(&cancels, "one").0, join(&cancels, "other").0);
    drop(cancels.turn());
    for caller in [&mut one, &mut other] {
        assert_eq!(
            caller.try_recv().unwrap_err(),
            oneshot::error::TryRecvError::Closed
        );
    }
}
