//! Dropped types, and the parts of them that stay.

use delayq_core::operate::{TypeSettings, TypeStats};
use delayq_core::store::{AttemptEnd, CancelOutcome};
use delayq_core::{Error, Rate, TaskState};

use super::rig::{LONG, Rig, job, usual_type};

async fn stats(rig: &Rig) -> TypeStats {
    rig.store().stats(&usual_type()).await.unwrap()
}

async fn is_listed(rig: &Rig) -> bool {
    rig.store().types().await.unwrap().contains(&usual_type())
}

fn in_use(scheduled: u64, running: u64, dead: u64) -> Error {
    Error::TypeInUse {
        task_type: usual_type().to_string(),
        scheduled,
        running,
        dead,
    }
}

pub async fn a_dropped_type_leaves_nothing_but_its_largest_fence(rig: &Rig) {
    let settings = TypeSettings::default()
        .max_pending(Some(9))
        .fleet_concurrency(Some(3))
        .fleet_rate(Some(Rate::per_second(7)));
    let (store, task_type) = (rig.store(), usual_type());
    store.configure_type(&task_type, &settings).await.unwrap();
    let first = rig.run("1").await;
    rig.settled(&first.lock, AttemptEnd::Done).await;
    store.pause(&task_type, None).await.unwrap();
    store.drop_type(&task_type).await.unwrap();
    assert!(!is_listed(rig).await);
    let found = stats(rig).await;
    let settings = (found.max_pending, found.fleet_concurrency, found.fleet_rate);
    assert_eq!((settings, found.paused_until), ((None, None, None), None));
    assert_eq!(rig.find("1").await, None, "its end is not remembered");
    store.drop_type(&task_type).await.unwrap();
    let again = rig.run("1").await;
    assert!(is_listed(rig).await, "a submit lists it again");
    assert!(again.lock.fence > first.lock.fence);
}

pub async fn a_type_with_tasks_is_not_dropped(rig: &Rig) {
    let (store, task_type) = (rig.store(), usual_type());
    let running = rig.run("running").await;
    let drop = async || store.drop_type(&task_type).await;
    assert_eq!(drop().await, Err(in_use(0, 1, 0)));
    rig.bring("dead", TaskState::Dead).await;
    rig.accept(job("1").after(LONG)).await;
    rig.accept(job("2").after(LONG)).await;
    assert_eq!(drop().await, Err(in_use(2, 1, 1)));
    rig.settled(&running.lock, AttemptEnd::Done).await;
    assert_eq!(rig.cancel("1").await, CancelOutcome::Cancelled);
    assert_eq!(drop().await, Err(in_use(1, 0, 1)));
    assert!(is_listed(rig).await);
    assert_eq!(rig.state("2").await, Some(TaskState::Scheduled));
    let ended = rig.state("running").await;
    assert_eq!(ended, Some(TaskState::Done), "a refusal forgets nothing");
    store.purge(&task_type, TaskState::Scheduled).await.unwrap();
    store.purge(&task_type, TaskState::Dead).await.unwrap();
    assert_eq!(drop().await, Ok(()));
}

pub async fn an_unknown_type_can_be_dropped(rig: &Rig) {
    assert_eq!(rig.store().drop_type(&usual_type()).await, Ok(()));
    assert_eq!(rig.store().types().await, Ok(Vec::new()));
    rig.store().register_type(&usual_type()).await.unwrap();
    assert_eq!(rig.store().drop_type(&usual_type()).await, Ok(()));
    assert_eq!(rig.store().types().await, Ok(Vec::new()));
}

pub async fn a_task_submitted_while_its_type_is_dropped_is_kept_and_listed(rig: &Rig) {
    let task_type = usual_type();
    for round in 0..20 {
        let id = format!("{round}");
        let (submitted, dropped) = tokio::join!(
            rig.submit(job(&id).after(LONG)),
            rig.store().drop_type(&task_type)
        );
        assert!(
            matches!(dropped, Ok(()) | Err(Error::TypeInUse { .. })),
            "{submitted:?}, {dropped:?}"
        );
        assert_eq!(rig.state(&id).await, Some(TaskState::Scheduled));
        assert!(is_listed(rig).await, "{submitted:?}, {dropped:?}");
        assert_eq!(rig.cancel(&id).await, CancelOutcome::Cancelled);
    }
}

pub async fn a_store_that_has_sent_before_lists_a_dropped_type_again(rig: &Rig) {
    let other = rig.open_again().await;
    other.accept(job("1").after(LONG)).await;
    assert_eq!(rig.cancel("1").await, CancelOutcome::Cancelled);
    rig.store().drop_type(&usual_type()).await.unwrap();
    assert!(!is_listed(rig).await);
    other.accept(job("2").after(LONG)).await;
    assert!(is_listed(rig).await);
    assert_eq!(rig.state("2").await, Some(TaskState::Scheduled));
}
