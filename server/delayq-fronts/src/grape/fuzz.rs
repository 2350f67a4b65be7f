//! Entrances of the fuzz targets: queries, ids and notes of Grape.

use delayq_core::task::Headers;
use delayq_plugin::{AttemptHistory, TaskId};

use super::asked::{Params, job_id, task_id};
use super::course::{Course, DELAY, EXECUTIONS, TIME};
use super::job::SEEN;
use super::produce::delay;

/// A query of a job, as a query again; `None`: its tube, id, delay or time is refused.
///
/// # Panics
/// If more jobs are asked for than an answer has.
#[must_use]
pub fn grape_query(query: &str) -> Option<String> {
    let params = Params::read(query);
    let (tube, id) = (params.tube().ok()?, params.id().ok()?);
    let (dtr, ttr) = (params.delay().ok()?, params.time().ok()?);
    let (most, wait) = (params.most(SEEN), params.wait().as_millis());
    assert!((1..=SEEN).contains(&most));
    assert_eq!(delay(dtr).as_millis(), u128::try_from(dtr).unwrap_or(0));
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.append_pair("tube", tube)
        .append_pair("jid", &job_id(&id));
    for (name, number) in [("dtr", dtr), ("ttr", ttr)] {
        form.append_pair(name, &number.to_string());
    }
    form.append_pair("max", &most.to_string());
    Some(form.append_pair("wait", &wait.to_string()).finish())
}

/// The id of a job as that of its task, and back.
#[must_use]
pub fn grape_id(jid: &str) -> Option<String> {
    Some(job_id(&task_id(jid).ok()?).into_owned())
}

/// The id of any task as that of a job.
#[must_use]
pub fn grape_shown_id(id: &str) -> Option<String> {
    Some(job_id(&TaskId::new(id).ok()?).into_owned())
}

/// The course of a task with these headers and this note of a release, and the executions of it
/// once it is released again.
///
/// # Panics
/// If a release is no further execution.
#[must_use]
pub fn grape_course(numbers: [&str; 3], note: &str) -> (i64, u64) {
    let headers = [DELAY, TIME, EXECUTIONS].into_iter().zip(numbers);
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let (headers, mut history) = (headers.collect::<Headers>(), AttemptHistory::default());
    (history.failures, history.lock_expiries) = (u32::MAX, 7);
    history.note = Some(note.to_owned());
    let course = Course::of(&headers, &history);
    history.succeeded = vec![note.to_owned()];
    assert_eq!(Course::of(&headers, &history), course);
    history.succeeded.clear();
    history.note = Some(course.note(course.dtr));
    let next = Course::of(&headers, &history);
    assert!(next.noe > course.noe || next.noe == u64::MAX);
    assert_eq!((next.dtr, next.ttr), (course.dtr, course.ttr));
    assert!(course.time().as_secs() >= 1);
    (course.dtr, next.noe)
}
