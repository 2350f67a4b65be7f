//! Entry points of the fuzz targets for queries, ids and notes of Grape.

use delayq_core::task::Headers;
use delayq_plugin::{AttemptHistory, TaskId};

use super::asked::{Params, job_id, task_id};
use super::course::{Course, DELAY, EXECUTIONS, TIME};
use super::job::SEEN;
use super::produce::delay;

/// Parses the query of a job and writes it again; `None` if its tube, id, delay or time is refused.
///
/// # Panics
/// If it asks for more jobs than an answer may have.
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

/// Converts a job id to a task id and back.
#[must_use]
pub fn grape_id(jid: &str) -> Option<String> {
    Some(job_id(&task_id(jid).ok()?).into_owned())
}

/// Converts a task id to a job id.
#[must_use]
pub fn grape_shown_id(id: &str) -> Option<String> {
    Some(job_id(&TaskId::new(id).ok()?).into_owned())
}

/// Reads the history of a task from headers and a release note. Returns its delay and the number of
/// executions after another release.
///
/// # Panics
/// If a release does not count as an execution.
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
