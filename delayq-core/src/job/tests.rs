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
