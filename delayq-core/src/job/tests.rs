//! Limits and options of jobs.

use super::*;
use crate::time::days;

const NOW: Timestamp = Timestamp::ZERO;

fn check(job: DelayQueueJob) -> Result<NewTask> {
    job.into_task(&Limits::default(), NOW)
}

fn job() -> DelayQueueJob {
    DelayQueueJob::new("a", &1).unwrap()
}

#[test]
fn a_job_keeps_its_id_when_cloned_so_that_sending_it_again_is_safe() {
    let job = job();
    assert_eq!(job.clone().task_id(), job.task_id());
    assert_ne!(self::job().task_id(), job.task_id());
}

#[test]
fn limits_hold_exactly() {
    let limits = Limits::default();
    assert!(check(DelayQueueJob::raw("a", vec![0; limits.max_message_bytes])).is_ok());
    let error = check(DelayQueueJob::raw(
        "a",
        vec![0; limits.max_message_bytes + 1],
    ))
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "message size in bytes is 262145, the limit is 262144"
    );
    assert!(check(job().after(MAX_DELAY)).is_ok());
    assert!(check(job().after(MAX_DELAY + Duration::from_nanos(1))).is_err());
    assert!(check(job().at(NOW.plus(days(3650)))).is_ok());
    assert!(check(job().at(NOW.plus(days(3651)))).is_err());
    assert!(check(job().expires_after(days(3651))).is_err());
}

#[test]
fn headers_are_bounded_and_named_well() {
    assert!(check(job().header("trace-id", "ä b")).is_ok());
    assert!(check(job().header("", "x")).is_err());
    assert!(check(job().header("a b", "x")).is_err());
    assert!(check(job().header("a", "x".repeat(MAX_HEADER_BYTES))).is_err());
}

#[test]
fn a_message_without_a_json_form_is_refused() {
    let map = std::collections::HashMap::from([((1, 2), 3)]);
    assert!(matches!(
        DelayQueueJob::new("a", &map),
        Err(Error::Serialize { .. })
    ));
}

fn refusal(job: DelayQueueJob) -> String {
    check(job).unwrap_err().to_string()
}

#[test]
fn a_debounced_job_has_its_delay_and_longest_wait() {
    let task = check(job().id("doc").debounce("5s", "1m")).unwrap();
    let max_wait = Duration::from_mins(1);
    assert_eq!(task.when, When::After(Duration::from_secs(5)));
    assert_eq!(task.on_conflict, OnConflict::Debounce { max_wait });
    for (job, expected) in [
        (
            job().debounce("5s", "1m"),
            "invalid debounce: it goes by the id, and this one is generated: write .id(..)",
        ),
        (
            job().id("doc").debounce("2m", "1m"),
            "invalid debounce: max_wait is 60s, shorter than the delay of 120s",
        ),
        (
            job().id("doc").debounce("5s", "1m").at(NOW.plus(days(1))),
            "invalid debounce: it counts a delay from each send: leave out .at(..)",
        ),
    ] {
        assert_eq!(refusal(job), expected);
    }
    assert!(refusal(job().id("doc").debounce("5s", "soon")).contains("\"soon\""));
    assert!(check(job().id("doc").debounce("5s", days(3651))).is_err());
}

#[test]
fn a_throttled_job_is_due_at_the_end_of_its_window_which_is_in_its_id() {
    let now = Timestamp::from_millis(1_767_225_600_000);
    let throttled = |now| {
        let job = job().id("doc").throttle("1h");
        job.into_task(&Limits::default(), now).unwrap()
    };
    let task = throttled(now);
    let end = now.plus(Duration::from_hours(1));
    assert_eq!(task.id.as_str(), "doc@2026-01-01T01:00:00.000Z");
    assert_eq!(
        (task.when, task.on_conflict),
        (When::At(end), OnConflict::Keep)
    );
    assert_eq!(throttled(end.minus(Duration::from_millis(1))), task);
    assert_eq!(throttled(end).id.as_str(), "doc@2026-01-01T02:00:00.000Z");
}

#[test]
fn a_throttle_that_cannot_hold_is_refused() {
    let doc = |id: &str| job().id(id).throttle("1h");
    let at_end = "the task is due at the end of its window: leave out .after(..) and .at(..)";
    let kept = "the first message of a window is kept: leave out .replace() and .debounce(..)";
    for (job, expected) in [
        (
            job().throttle("1h"),
            "it goes by the id, and this one is generated: write .id(..)",
        ),
        (
            job().id("doc").throttle("0s"),
            "the window is 0: write such as 1m",
        ),
        (doc("doc").after("5s"), at_end),
        (doc("doc").replace(), kept),
    ] {
        assert_eq!(refusal(job), format!("invalid throttle: {expected}"));
    }
    assert!(check(doc(&"x".repeat(103))).is_ok());
    assert_eq!(
        refusal(doc(&"x".repeat(104))),
        "length of the id of a throttled job, in bytes is 104, the limit is 103"
    );
    assert!(check(doc("doc").keep()).is_ok());
}

#[test]
fn a_version_travels_in_a_header_and_1_is_no_header() {
    let headers = |version| check(job().version(version)).map(|task| task.headers);
    assert_eq!(headers(1).unwrap(), Headers::new());
    assert_eq!(version_of(&headers(1).unwrap()), Ok(1));
    assert_eq!(version_of(&headers(7).unwrap()), Ok(7));
    assert!(headers(0).unwrap_err().to_string().contains("1 or more"));
    assert!(check(job().header(VERSION_HEADER, "two")).is_err());
    assert_eq!(
        check(job().version(2).version(1)).unwrap().headers,
        Headers::new()
    );
}

#[test]
fn a_job_and_its_clones_share_the_headers_of_their_first_send() {
    let named = |name: &str| Headers::from([(name.to_owned(), String::new())]);
    let sent = |job: &DelayQueueJob, name: &str| {
        let job = job.clone().headers_of_first_send(|| named(name));
        check(job).unwrap().headers
    };
    let (first, clone) = (job(), job());
    let other = clone.clone();
    assert_eq!(sent(&clone, "a"), named("a"));
    assert_eq!(
        (sent(&other, "b"), sent(&clone, "c")),
        (named("a"), named("a"))
    );
    assert_eq!(sent(&first, "d"), named("d"));
    assert!(first.has_generated_id() && !first.id("mine").has_generated_id());
}
