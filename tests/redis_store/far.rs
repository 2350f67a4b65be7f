//! Packed far tasks: the same answers, and less memory.

use delayq_core::job::When;
use delayq_core::operate::Cursor;
use delayq_core::store::{CancelOutcome, ChangeOutcome};
use delayq_core::{Error, Timestamp, minutes};
use delayq_tests::redis_server::Persistence;
use delayq_tests::redis_user;
use tokio::sync::mpsc;

#[cfg(feature = "soak")]
use std::time::Instant;

use super::*;

mod damage;

/// Tasks sent in one call.
const BULK: usize = 2_000;
/// The tasks that stay unpacked.
const LEAST: usize = 10_000;
const META: &str = "delayq:{default/order.cancel}:meta";
const STEM: &str = "delayq:{default/order.cancel}:far";

fn id(number: usize) -> TaskId {
    TaskId::new(format!("order-{number:010}")).unwrap()
}

/// A task with a message of 100 bytes, due in 30 days, evenly, from ten minutes on.
fn far(number: usize, count: usize) -> NewTask {
    let message = format!("{number:0>100}");
    let wait = 600_000 + number as u64 * 7_919 % count as u64 * (2_592_000_000 / count as u64);
    let job = DelayQueueJob::raw(TYPE, message).id(id(number).as_str());
    task(job.after(Duration::from_millis(wait)))
}

async fn load(store: &RedisStore, count: usize) {
    let bulks = (0..count).step_by(BULK);
    for first in bulks {
        let tasks = first..count.min(first + BULK);
        send(store, tasks.map(|number| far(number, count))).await;
    }
}

async fn send(store: &RedisStore, tasks: impl Iterator<Item = NewTask>) {
    for outcome in store.submit(tasks.collect()).await {
        assert!(
            matches!(outcome, Ok(SubmitOutcome::Accepted { .. })),
            "{outcome:?}"
        );
    }
}

/// A task with a message of 100 bytes, due at this time.
fn due_at(number: usize, at: Timestamp) -> NewTask {
    let job = DelayQueueJob::raw(TYPE, format!("{number:0>100}"));
    task(job.id(id(number).as_str()).at(at))
}

/// The present time of the server, at the beginning of an hour.
async fn hour(store: &RedisStore) -> Timestamp {
    let now = store.stats(&task_type()).await.unwrap().now;
    Timestamp::from_millis(now.as_millis() / 3_600_000 * 3_600_000)
}

/// A store that packs every task.
async fn packing_all(server: &RedisServer) -> Arc<RedisStore> {
    let url = format!("{}?pack=all", server.url());
    RedisStore::connect(&url, options()).await.unwrap()
}

async fn packing(server: &RedisServer) -> Arc<RedisStore> {
    RedisStore::connect(&server.url(), options()).await.unwrap()
}

async fn packed(redis: &mut MultiplexedConnection) -> usize {
    let count: Option<usize> = run(redis, &format!("HGET {META} far")).await;
    count.unwrap_or(0)
}

async fn audited(store: &RedisStore, checked: u64) {
    let report = store.audit(&task_type(), false).await.unwrap();
    assert_eq!(report.problems, []);
    assert_eq!(report.checked, checked);
}

async fn listed(store: &RedisStore) -> Vec<(Timestamp, TaskId)> {
    let (mut all, mut after) = (Vec::new(), None::<Cursor>);
    loop {
        let page = store
            .list(&task_type(), TaskState::Scheduled, after.as_ref(), 128)
            .await
            .unwrap();
        all.extend(page.tasks.into_iter().map(|task| (task.at, task.id)));
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn far_tasks_of_a_large_type_are_packed_and_answer_as_before() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = packing(&server).await;
    let mut redis = raw(&server).await;
    let (count, of_type) = (LEAST + 4_000, task_type());
    load(&store, count).await;
    let packed_first = packed(&mut redis).await;
    assert!(
        (2_000..=4_000).contains(&packed_first),
        "{packed_first} are packed"
    );
    let layout: String = run(&mut redis, "HGET delayq:{default}:layouts order.cancel").await;
    assert_eq!(layout, "2 0:1", "an earlier release refuses this version");
    let stats = store.stats(&of_type).await.unwrap();
    assert_eq!(stats.scheduled, count as u64);
    audited(&store, count as u64).await;

    // Sent again, it is known.
    let last = count - 1;
    let again = submit(&store, far_job(last, minutes(10))).await;
    assert!(
        matches!(again, Ok(SubmitOutcome::Conflict { .. })),
        "{again:?}"
    );
    let found = store.find(&of_type, &id(last)).await.unwrap().unwrap();
    assert_eq!(found.state, TaskState::Scheduled);
    assert_eq!(found.message.unwrap(), format!("{last:0>100}").into_bytes());
    // Updated and moved, it is packed again; cancelled, it is gone.
    let changed = store
        .update(&of_type, &id(last), b"other".to_vec())
        .await
        .unwrap();
    assert_eq!(changed, ChangeOutcome::Changed { due_at: found.at });
    let later = When::At(found.at.plus(minutes(90)));
    let moved = store.reschedule(&of_type, &id(last), later).await.unwrap();
    assert!(matches!(moved, ChangeOutcome::Changed { .. }), "{moved:?}");
    let found = store.find(&of_type, &id(last)).await.unwrap().unwrap();
    assert_eq!(found.message.unwrap(), b"other");
    assert_eq!(packed(&mut redis).await, packed_first);
    for number in last - 9..=last {
        let cancelled = store.cancel(&of_type, &id(number)).await.unwrap();
        assert_eq!(cancelled, CancelOutcome::Cancelled);
    }
    assert_eq!(packed(&mut redis).await, packed_first - 10);
    audited(&store, count as u64 - 10).await;

    let all = listed(&store).await;
    assert_eq!(all.len(), count - 10);
    assert!(all.is_sorted(), "pages are in order");
    let (from, to) = (stats.now, stats.now.plus(minutes(60 * 24 * 31)));
    let counts = store.due_histogram(&of_type, from, to, 31).await.unwrap();
    let mut expected = vec![0; 31];
    for (at, _) in &all {
        let share = (at.as_millis() - from.as_millis()) * 31 / (to.as_millis() - from.as_millis());
        expected[usize::try_from(share).unwrap()] += 1;
    }
    assert_eq!(counts, expected);

    unpacks_ahead(&store, &mut redis).await;
    audited(&store, count as u64 - 10).await;

    // A store that packs nothing handles what is packed, and removes all of it.
    let other = RedisStore::connect(&server.url(), options()).await.unwrap();
    let purged = other.purge(&of_type, TaskState::Scheduled).await.unwrap();
    assert_eq!(purged, count as u64 - 10);
    let left: Vec<String> = run(&mut redis, "KEYS *:far:*").await;
    assert_eq!(left, [""; 0], "nothing is left of the packed ones");
    assert_eq!(packed(&mut redis).await, 0);
    audited(&other, 0).await;
}

/// A claim unpacks the first chunk when its time comes within two minutes, and takes none of it.
async fn unpacks_ahead(store: &RedisStore, redis: &mut MultiplexedConnection) {
    let first = format!("ZRANGE {STEM}:hours 0 0 WITHSCORES");
    let (chunk, _): (u64, u64) = run(redis, &first).await;
    let of_chunk: usize = run(redis, &format!("LLEN {STEM}:{chunk}")).await;
    let before = packed(redis).await;
    // It is not in the slot of its time any more.
    run::<i32>(redis, &format!("DEL {STEM}:open")).await;
    for (ahead, left) in [(180_000, before), (60_000, before - of_chunk / 2)] {
        let now = store.stats(&task_type()).await.unwrap().now.as_millis();
        let soon = format!("ZADD {STEM}:hours {} {chunk}", now + ahead);
        run::<i32>(redis, &soon).await;
        let claimed = claim(store).await.unwrap();
        assert_eq!(claimed.taken(), 0);
        let latest = Duration::from_millis(60_001);
        assert!(left < before || claimed.next_in.unwrap() <= latest);
        assert_eq!(packed(redis).await, left, "{ahead} ms ahead");
    }
}

/// The task numbers of one type, all packed.
const FEW: usize = 300;

/// A page of those that are not packed ends early, at 4 MiB.
#[tokio::test(flavor = "multi_thread")]
async fn a_listing_has_every_task_though_large_ones_are_among_the_packed_ones() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = packing_all(&server).await;
    let mut sent = BTreeSet::new();
    for number in 0..240 {
        let size = if number % 2 == 0 { 100 } else { 100_000 };
        let job = DelayQueueJob::raw(TYPE, vec![b'x'; size]);
        let later = minutes(60) + Duration::from_secs(7 * number as u64);
        accept(&store, job.id(id(number).as_str()).after(later)).await;
        sent.insert(id(number));
    }
    let all = listed(&store).await;
    assert!(all.is_sorted(), "pages are in order");
    assert_eq!(all.len(), sent.len(), "each once");
    assert_eq!(
        all.into_iter().map(|(_, id)| id).collect::<BTreeSet<_>>(),
        sent
    );
}

/// More than an hour's chunks hold, so most are in the chunks of minutes.
#[tokio::test(flavor = "multi_thread")]
async fn packed_tasks_of_one_hour_are_listed_counted_and_run_from_a_sealed_shard_too() {
    let server = RedisServer::start(Persistence::None, &[]);
    let url = format!("{}?pack=all", server.url());
    // A shard that remembers no end is empty as soon as its last task has ended.
    let mut options = options();
    options.retention = Duration::ZERO;
    let store = RedisStore::connect(&url, options).await.unwrap();
    let (of_type, mut redis) = (task_type(), raw(&server).await);
    let hour = hour(&store).await.plus(minutes(120));
    let count = 1_000;
    // Scattered, so that the first due time of an open chunk becomes earlier.
    let due = |n: usize| hour.plus(Duration::from_secs(n as u64 * 7_919 % 3_600));
    send(&store, (0..count).map(|number| due_at(number, due(number)))).await;
    assert_eq!(packed(&mut redis).await, count);
    let of_minutes: usize = run(&mut redis, &format!("ZCARD {STEM}:minutes")).await;
    assert!(of_minutes > 30, "{of_minutes} chunks of minutes");
    audited(&store, count as u64).await;
    let mut expected: Vec<_> = (0..count).map(|number| (due(number), id(number))).collect();
    expected.sort();
    assert_eq!(listed(&store).await, expected);
    let counts = store.due_histogram(&of_type, hour, hour.plus(minutes(60)), 60);
    assert_eq!(counts.await.unwrap().iter().sum::<u64>(), count as u64);
    assert_eq!(
        store.stats(&of_type).await.unwrap().next_due,
        Some(expected[0].0)
    );

    shard(&store, 3).await;
    send(&store, (count..count + 300).map(|number| far(number, 300))).await;
    assert_eq!(listed(&store).await.len(), count + 300);
    assert_eq!(packed(&mut redis).await, count, "in the sealed one");
    assert_eq!(take_all(&store).await, BTreeSet::new());
    audited(&store, count as u64 + 300).await;
    let soon = When::After(Duration::from_millis(300));
    for number in 0..count + 300 {
        let moved = store.reschedule(&of_type, &id(number), soon).await.unwrap();
        assert!(matches!(moved, ChangeOutcome::Changed { .. }), "{moved:?}");
    }
    let mut taken = BTreeSet::new();
    while taken.len() < count + 300 {
        for own in take_all(&store).await {
            assert!(taken.insert(own.clone()), "{own} ran twice");
        }
    }
    audited(&store, 0).await;
    let left: Vec<String> = run(&mut redis, "KEYS *:far:*").await;
    assert_eq!(left, [""; 0], "nothing is left of the packed ones");
    for _ in 0..100 {
        take_all(&store).await;
        if store.buckets(&of_type).await.unwrap().len() == 3 {
            return;
        }
    }
    panic!("the sealed shard stays in the layout");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_of_an_earlier_release_is_packed_only_if_that_is_asked_for() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (store, mut redis) = (packing(&server).await, raw(&server).await);
    load(&store, 1).await;
    // An earlier release does not write this field.
    let born: u8 = run(&mut redis, &format!("HDEL {META} born")).await;
    assert_eq!(born, 1);
    let bulk = |from: usize| (from..from + BULK).map(|number| far(number, 10 * LEAST));
    for from in (1..LEAST + BULK).step_by(BULK) {
        send(&store, bulk(from)).await;
    }
    assert_eq!(packed(&mut redis).await, 0);
    let url = format!("{}?pack=on", server.url());
    let asked = RedisStore::connect(&url, options()).await.unwrap();
    for from in [2 * LEAST, 2 * LEAST + BULK] {
        send(&asked, bulk(from)).await;
    }
    assert!(packed(&mut redis).await >= BULK);
    // The mark counts for every process.
    let before = packed(&mut redis).await;
    send(&store, bulk(3 * LEAST)).await;
    send(&store, bulk(3 * LEAST + BULK)).await;
    assert!(packed(&mut redis).await >= before + BULK);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_the_rights_packs_nothing_and_the_one_of_the_guide_does() {
    let server = RedisServer::start(Persistence::None, &[]);
    let rights = redis_user::rights();
    let lesser = redis_user::add(&server, "lesser", &rights.replace("+lpos ", ""));
    let url = format!("{lesser}?pack=all");
    let store = RedisStore::connect(&url, options()).await.unwrap();
    let concerns = store.concerns().await.unwrap();
    assert!(
        concerns[0].found.contains("may not run lpos"),
        "{concerns:?}"
    );
    load(&store, FEW).await;
    let mut redis = raw(&server).await;
    assert_eq!(packed(&mut redis).await, 0);
    let url = format!("{}?pack=all", redis_user::add(&server, "app", rights));
    let store = RedisStore::connect(&url, options()).await.unwrap();
    assert_eq!(store.concerns().await.unwrap(), []);
    let late = far_job(FEW, minutes(1));
    accept(&store, late).await;
    assert_eq!(packed(&mut redis).await, 1);
    let (of_type, last, first) = (task_type(), id(FEW), id(0));
    let now = When::After(Duration::ZERO);
    let moved = store.reschedule(&of_type, &last, now).await.unwrap();
    assert!(matches!(moved, ChangeOutcome::Changed { .. }), "{moved:?}");
    let cancelled = store.cancel(&of_type, &first).await.unwrap();
    assert_eq!(cancelled, CancelOutcome::Cancelled);
    let log: Vec<redis::Value> = run(&mut redis, "ACL LOG").await;
    assert!(log.is_empty(), "something was refused: {log:?}");
    // A store that packs nothing, and may not unpack, leaves the packed ones whole.
    let late = far_job(FEW + 1, minutes(1));
    accept(&store, late).await;
    let lesser = redis_user::add(&server, "least", &rights.replace("+lrem ", ""));
    let other = RedisStore::connect(&lesser, options()).await.unwrap();
    let refused = other.cancel(&of_type, &id(FEW + 1)).await.unwrap_err();
    assert!(
        matches!(refused, Error::Misconfigured { .. }),
        "{refused:?}"
    );
    let found = store.find(&of_type, &id(FEW + 1)).await.unwrap();
    assert_eq!(found.unwrap().message.unwrap(), b"other");
    let report = store.audit(&of_type, false).await.unwrap();
    assert_eq!(report.problems, []);
}

/// The open chunk, which has the last tasks of its minute, gets one that is due before all others
/// while a page of the last ones is read in steps.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_complete_though_a_chunk_moves_to_an_earlier_time_meanwhile() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = packing_all(&server).await;
    let of_type = task_type();
    let minute = hour(&store).await.plus(minutes(180));
    let due = |number: usize| minute.plus(Duration::from_millis(20_000 + 8 * number as u64));
    let (count, of_page) = (4_000, 60);
    for first in (0..count).step_by(100) {
        send(
            &store,
            (first..first + 100).map(|number| due_at(number, due(number))),
        )
        .await;
    }
    let first = count - of_page;
    let cursor = Cursor::new(due(first - 1), id(first - 1));
    let expected: Vec<TaskId> = (first..count).map(id).collect();
    for round in 0..120 {
        let early = DelayQueueJob::raw(TYPE, "early")
            .id(format!("early-{round}"))
            .at(minute);
        let disturb = async {
            for _ in 0..round % 12 {
                store.find(&of_type, &id(0)).await.unwrap();
            }
            accept(&store, early).await;
        };
        let list = store.list(&of_type, TaskState::Scheduled, Some(&cursor), 128);
        let (page, ()) = tokio::join!(list, disturb);
        let listed: Vec<TaskId> = page
            .unwrap()
            .tasks
            .into_iter()
            .map(|task| task.id)
            .collect();
        assert_eq!(listed, expected, "round {round}");
        let early = TaskId::new(format!("early-{round}")).unwrap();
        let cancelled = store.cancel(&of_type, &early).await;
        assert_eq!(cancelled, Ok(CancelOutcome::Cancelled));
    }
}

/// Sends, cancels and moves far tasks until `acknowledged` is dropped; each call until it is
/// answered. Returns how many there were: of every three the second is cancelled, the third is due.
async fn change_far_tasks(store: Arc<RedisStore>, acknowledged: mpsc::Sender<()>) -> usize {
    let of_type = task_type();
    for number in 0.. {
        let own = id(number);
        while !is_known(&submit(&store, far_job(number, minutes(60))).await) {}
        match number % 3 {
            1 => while store.cancel(&of_type, &own).await.is_err() {},
            2 => {
                let now = When::After(Duration::ZERO);
                while store.reschedule(&of_type, &own, now).await.is_err() {}
            }
            _ => {}
        }
        if number % 3 == 2 && acknowledged.send(()).await.is_err() {
            return number + 1;
        }
    }
    unreachable!("the numbers do not end")
}

fn is_known(outcome: &Result<SubmitOutcome>) -> bool {
    use SubmitOutcome::{Accepted, AlreadyExists};
    matches!(outcome, Ok(Accepted { .. } | AlreadyExists { .. }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_again_and_again_loses_no_packed_task_and_doubles_none() {
    let mut server = RedisServer::start(Persistence::Always, &[]);
    let store = packing_all(&server).await;
    let (acknowledged, mut acknowledgements) = mpsc::channel(1);
    let changes = tokio::spawn(change_far_tasks(Arc::clone(&store), acknowledged));
    for round in 0..8 {
        for _ in 0..20 + 7 * round {
            acknowledgements.recv().await.unwrap();
        }
        server.kill();
        server.restart();
    }
    drop(acknowledgements);
    let count = changes.await.unwrap();
    audited(&store, (count - count / 3) as u64).await;
    let of_type = task_type();
    let taken = take_all(&store).await;
    for number in 0..count {
        let own = id(number);
        let found = store.find(&of_type, &own).await.unwrap().unwrap();
        let expected = [TaskState::Scheduled, TaskState::Cancelled, TaskState::Done];
        assert_eq!(found.state, expected[number % 3], "{own}");
        assert_eq!(taken.contains(own.as_str()), number % 3 == 2, "{own}");
    }
    let mut redis = raw(&server).await;
    assert_eq!(packed(&mut redis).await, count / 3);
    audited(&store, count as u64 / 3).await;
}

fn far_job(number: usize, after: Duration) -> DelayQueueJob {
    DelayQueueJob::raw(TYPE, "other")
        .id(id(number).as_str())
        .after(after)
}

/// Calls by id whose times are compared.
#[cfg(feature = "soak")]
const CALLS: usize = 4_000;

/// The medians of a find and of a cancel of these tasks.
#[cfg(feature = "soak")]
async fn medians(store: &RedisStore, numbers: impl Iterator<Item = usize>) -> [Duration; 2] {
    let (mut finds, mut cancels) = (Vec::new(), Vec::new());
    for number in numbers {
        let (of_type, id) = (task_type(), id(number));
        let begun = Instant::now();
        let found = store.find(&of_type, &id).await.unwrap();
        finds.push(begun.elapsed());
        assert!(found.is_some_and(|found| found.message.is_some()));
        let begun = Instant::now();
        let cancelled = store.cancel(&of_type, &id).await.unwrap();
        cancels.push(begun.elapsed());
        assert_eq!(cancelled, CancelOutcome::Cancelled);
    }
    [finds, cancels].map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    })
}

/// The figures of the benchmarks: memory, and the time of a call by id beside that for a task which
/// is not packed.
#[cfg(feature = "soak")]
#[tokio::test(flavor = "multi_thread")]
async fn ten_million_far_tasks_take_less_than_two_gib() {
    let count = 10_000_000;
    let server = RedisServer::start(Persistence::None, &[]);
    let store = packing(&server).await;
    let mut redis = raw(&server).await;
    let begun = Instant::now();
    load(&store, count).await;
    let took = begun.elapsed();
    let memory: String = run(&mut redis, "INFO memory").await;
    let figure = |name: &str| -> u64 {
        let line = memory.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().parse().unwrap()
    };
    let (used, rss) = (figure("used_memory:"), figure("used_memory_rss:"));
    let packed_now = packed(&mut redis).await;
    println!("{count} tasks in {took:?}: used_memory {used}, rss {rss}, {packed_now} packed");
    assert!(packed_now > count - 2 * LEAST);
    assert!(used <= 2 << 30, "{used} bytes");
    let unpacked = medians(&store, 0..CALLS).await;
    let random = (0..CALLS).map(|n| 2 * LEAST + n * 2_399 % (count - 2 * LEAST));
    let of_packed = medians(&store, random).await;
    println!("find and cancel: {of_packed:?}, {unpacked:?} of tasks that are not packed");
    for (packed, unpacked) in of_packed.iter().zip(unpacked) {
        assert!(*packed <= 2 * unpacked, "{of_packed:?}, {unpacked:?}");
    }
}
