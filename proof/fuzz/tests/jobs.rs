//! Jobs, retry policies, announcements: nothing panics, and what is taken keeps its limits.

use std::time::Duration;

use bolero::{check, produce};
use delayq_core::presence::{InstanceId, InstanceInfo, decode, encode};
use delayq_core::retry::{Backoff, RetryPolicy};
use delayq_core::time::MAX_DELAY;
use delayq_core::{DelayQueueJob, Limits, TaskType, Timestamp, When};
use delayq_fuzz::{Reach, bytes, damage, list, spell, text, words};

const WORDS: [&str; 6] = ["order.cancel", "mail", "a", "-", " ", "\u{e4}"];

#[test]
fn a_job_that_is_taken_keeps_every_limit() {
    let reach = Reach::at_least(10);
    let names = (words(3), bytes(2), bytes(56));
    let times = (produce::<u64>(), produce::<i64>(), produce::<bool>());
    check!().with_generator((names, times)).for_each(
        |((task_type, id, message), (delay, now, is_absolute))| {
            let limits = Limits {
                max_message_bytes: 48,
                ..Limits::default()
            };
            // Most of the delays are possible.
            let delay = Duration::from_millis(delay >> (24 + delay % 40));
            let now = Timestamp::from_millis(now % 4_000_000_000_000);
            let job = DelayQueueJob::raw(spell(task_type, &WORDS), message.clone());
            let job = job.id(spell(id, &WORDS)).header("shop", "berlin");
            let job = if *is_absolute {
                job.at(now.plus(delay))
            } else {
                job.after(delay)
            };
            let taken = job.clone().into_task(&limits, now);
            reach.count(taken.is_ok());
            match taken {
                Ok(task) => {
                    assert!(task.message.len() <= limits.max_message_bytes);
                    assert_eq!(task.task_type.as_str(), job.task_type());
                    assert_eq!(task.id.as_str(), job.task_id());
                    let wait = match task.when {
                        When::After(wait) => wait,
                        When::At(time) => time.since(now),
                    };
                    assert!(wait <= MAX_DELAY, "{wait:?}");
                }
                Err(error) => assert!(error.to_string().chars().count() < 600, "{error}"),
            }
        },
    );
}

#[test]
fn a_wait_is_no_longer_than_its_cap_with_its_jitter() {
    let numbers = (produce::<u32>(), produce::<u32>(), produce::<u64>());
    let more = (produce::<u64>(), produce::<u8>(), produce::<bool>());
    check!().with_generator((numbers, more)).for_each(
        |((attempt, most, base), (cap, jitter, doubles))| {
            let policy = RetryPolicy {
                max_attempts: *most,
                backoff: if *doubles {
                    Backoff::Exponential
                } else {
                    Backoff::Fixed
                },
                base: Duration::from_millis(*base),
                cap: Duration::from_millis(*cap),
                jitter_percent: *jitter,
            };
            let wait = policy.wait_after(*attempt);
            assert_eq!(wait.is_some(), attempt < most);
            let longest = policy.cap.min(MAX_DELAY).saturating_mul(2);
            assert!(wait.is_none_or(|wait| wait <= longest), "{wait:?}");
        },
    );
}

#[test]
fn an_announcement_is_read_as_it_was_written_and_after_damage_read_or_left_out() {
    let reach = Reach::at_least(10);
    let types = list(4, produce::<u8>());
    let accidents = list(3, produce::<(u16, u8, u8)>());
    check!()
        .with_generator((text(12), types, accidents))
        .for_each(|(host, types, accidents)| {
            let id = InstanceId::stored("01JDAY0000000000000000000A".to_owned());
            let types: Vec<_> = types
                .iter()
                .filter_map(|number| TaskType::new(format!("t{number}")).ok())
                .collect();
            let seen_at = Timestamp::from_millis(7);
            let instance = InstanceInfo::new(id.clone(), host.as_str(), 17, seen_at);
            let mut instance = instance.serving(&types);
            instance.seen_at = seen_at;
            let mut stored = encode(&instance).into_bytes();
            let again = decode(id.to_string(), seen_at, &stored);
            assert_eq!(again.as_ref(), Some(&instance));
            damage(&mut stored, accidents);
            let damaged = decode(id.to_string(), seen_at, &stored);
            reach.count(damaged.is_some());
        });
}
