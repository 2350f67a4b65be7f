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
