//! What a lock entitles its holder to.

use super::*;

#[test]
fn a_lock_that_does_not_hold_the_task_settles_and_extends_nothing() {
    let stale = Settling::NotHeld(SettleOutcome::LockLost);
    let repeated = Settling::NotHeld(SettleOutcome::Settled);
    for task in [scheduled(), running(), running().died(at(20))] {
        assert_eq!(settle_at_20(&task, 6, &retry(5)), stale);
        assert_eq!(extend(&task, 6, at(90)), ExtendOutcome::LockLost);
        // 0 is no fence, though it stands where there is none.
        assert_eq!(settle_at_20(&task, 0, &retry(5)), stale);
    }
    let settled = Bookkeeping {
        settled: settled_by(EndKind::Retry),
        ..scheduled()
    };
    assert_eq!(extend(&settled, 7, at(90)), ExtendOutcome::LockLost);
    assert_eq!(settle_at_20(&settled, 7, &retry(6)), repeated);
    for another in [AttemptEnd::Done, AttemptEnd::Expired, dead(), release()] {
        assert_eq!(settle_at_20(&settled, 7, &another), stale, "{another:?}");
    }
    let ended = settled.ended(TaskState::Cancelled, at(20));
    for (fence, end, outcome) in [
        (7, EndKind::Retry, SettleOutcome::Settled),
        (7, EndKind::Release, SettleOutcome::LockLost),
        (8, EndKind::Retry, SettleOutcome::LockLost),
    ] {
        assert_eq!(settle_ended(&ended, fence, end), outcome);
    }
    // An earlier release does not say how it has settled a lock: any end may be its repeat.
    let unknown = Bookkeeping {
        settled: Settled { fence: 7, by: None },
        ..scheduled()
    };
    assert_eq!(settle_at_20(&unknown, 7, &AttemptEnd::Done), repeated);
}

#[test]
fn each_end_of_an_attempt_leads_where_it_says() {
    let ended = |state, by| {
        Settling::Ended(Ended {
            state,
            at: at(20),
            attempt: 1,
            settled: settled_by(by),
        })
    };
    assert_eq!(
        settle_at_20(&running(), 7, &AttemptEnd::Done),
        ended(TaskState::Done, EndKind::Done)
    );
    assert_eq!(
        settle_at_20(&running(), 7, &AttemptEnd::Expired),
        ended(TaskState::Expired, EndKind::Expired)
    );
    let settled = |by| Bookkeeping {
        settled: settled_by(by),
        ..running()
    };
    let changed = |end: &AttemptEnd, task: Bookkeeping| match settle_at_20(&running(), 7, end) {
        Settling::Changed {
            task: found,
            error,
            succeeded,
        } => {
            assert_eq!(found, task, "{end:?}");
            (error.map(str::len), succeeded.len())
        }
        other => panic!("{end:?}: {other:?}"),
    };
    let failed = |by| Bookkeeping {
        failures: 1,
        ..settled(by)
    };
    let retried = failed(EndKind::Retry);
    assert_eq!(changed(&retry(5), retried.put_back(at(25))), (Some(2), 1));
    assert_eq!(changed(&retry(0), retried.put_back(at(20))), (Some(2), 1));
    let released = Bookkeeping {
        releases: 1,
        ..settled(EndKind::Release)
    };
    assert_eq!(changed(&release(), released.put_back(at(25))), (None, 0));
    let died = failed(EndKind::Dead).died(at(20));
    assert_eq!(changed(&dead(), died), (Some(1_024), 0));
}

#[test]
fn after_a_cancel_request_only_done_expired_and_dead_are_not_cancelled() {
    let asked = running().with_cancel_request();
    assert_eq!(
        extend(&asked, 7, at(90)),
        ExtendOutcome::CancelRequested(at(90))
    );
    for (end, state) in [
        (AttemptEnd::Done, TaskState::Done),
        (AttemptEnd::Expired, TaskState::Expired),
        (retry(5), TaskState::Cancelled),
        (release(), TaskState::Cancelled),
    ] {
        match settle_at_20(&asked, 7, &end) {
            Settling::Ended(ended) => assert_eq!(ended.state, state),
            other => panic!("{end:?}: {other:?}"),
        }
    }
    match settle_at_20(&asked, 7, &dead()) {
        Settling::Changed { task, .. } => {
            assert_eq!(task.state, TaskState::Dead);
            assert!(!task.cancel_requested);
        }
        other => panic!("{other:?}"),
    }
}
