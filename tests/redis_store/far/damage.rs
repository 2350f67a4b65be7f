//! Damage of packed tasks, and its repair.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_finds_damage_of_packed_tasks_and_repairs_it() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = packing_all(&server).await;
    load(&store, FEW).await;
    audited(&store, FEW as u64).await;
    let mut redis = raw(&server).await;
    for (damage, found) in [
        (
            format!("DEL {STEM}:i0"),
            "is packed and no mark leads to it",
        ),
        (
            format!("HSET {STEM}:i1 12345 999"),
            "marks a packed task that does not exist",
        ),
        (
            format!("HSET {META} far 2"),
            "has 300 packed tasks and counts 2",
        ),
        (
            format!("HDEL {META} far"),
            "has 300 packed tasks and counts 0",
        ),
        (
            format!("DEL {STEM}:hours"),
            "is packed and not among those to be unpacked",
        ),
        (
            format!("HDEL {META} far_buckets far_chunk"),
            "is packed and no mark leads to it",
        ),
        (
            format!("LSET {STEM}:2 1 nonsense"),
            "its packed record is damaged",
        ),
    ] {
        run::<redis::Value>(&mut redis, &damage).await;
        let report = store.audit(&task_type(), false).await.unwrap();
        assert!(!report.problems.is_empty(), "{damage}");
        for problem in report.problems {
            assert_eq!(problem.what, found, "{damage}");
        }
        store.audit(&task_type(), true).await.unwrap();
        let report = store.audit(&task_type(), false).await.unwrap();
        assert_eq!(report.problems, [], "{damage}");
        let stats = store.stats(&task_type()).await.unwrap();
        assert_eq!(stats.scheduled + stats.dead, FEW as u64, "{damage}");
        let far = store.find(&task_type(), &id(7)).await.unwrap();
        assert!(far.is_some(), "{damage}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_message_of_a_packed_task_goes_to_dead_and_no_chunk_gets_a_number_twice() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = packing_all(&server).await;
    load(&store, FEW).await;
    let mut redis = raw(&server).await;
    run::<i32>(&mut redis, &format!("HDEL {META} far_chunk")).await;
    accept(&store, far_job(FEW, minutes(60 * 24 * 40))).await;
    audited(&store, FEW as u64 + 1).await;
    // One bit of a message.
    let list = format!("{STEM}:4");
    let mut read = redis::cmd("LINDEX");
    let mut record: Vec<u8> = read
        .arg(&list)
        .arg(1)
        .query_async(&mut redis)
        .await
        .unwrap();
    *record.last_mut().unwrap() ^= 1;
    let mut write = redis::cmd("LSET");
    write.arg(&list).arg(1).arg(record);
    write.exec_async(&mut redis).await.unwrap();
    let report = store.audit(&task_type(), false).await.unwrap();
    assert_eq!(report.problems.len(), 1);
    let report = store.audit(&task_type(), true).await.unwrap();
    assert_eq!(report.problems.len(), 1);
    assert!(report.problems[0].repaired, "{report:?}");
    let stats = store.stats(&task_type()).await.unwrap();
    assert_eq!(
        (stats.dead, stats.scheduled),
        (1, FEW as u64),
        "the damaged one"
    );
}

/// A task more and one less: the count is the same, and the tasks that were seen need not be.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_beside_other_calls_finds_no_damage_and_repairs_nothing() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = packing_all(&server).await;
    load(&store, FEW).await;
    let (of_type, mut redis) = (task_type(), raw(&server).await);
    for round in 0..40 {
        let own = FEW + round;
        let audit = store.audit(&of_type, true);
        let change = async {
            for _ in 0..round % 10 {
                store.find(&of_type, &id(0)).await.unwrap();
            }
            accept(&store, far_job(own, minutes(60 + 900 * round as u64))).await;
            let former = store.cancel(&of_type, &id(own - 1)).await;
            assert_eq!(former, Ok(CancelOutcome::Cancelled));
        };
        let (report, ()) = tokio::join!(audit, change);
        assert_eq!(report.unwrap().problems, []);
        assert_eq!(packed(&mut redis).await, FEW, "round {round}");
    }
}
