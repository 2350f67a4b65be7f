//! For stores whose data a test can damage: the audit finds the damage, and it blocks nothing.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::TaskState;
use delayq_core::operate::AuditReport;
use delayq_core::store::{EndCause, StoreOptions};

use super::rig::{LONG, Rig, id, job, usual_type};
use super::{Damage, Damageable};

/// A store with three scheduled tasks; a test damages `2`.
#[derive(Debug)]
pub struct Damaged<H> {
    harness: Arc<H>,
    rig: Rig,
}

#[async_trait::async_trait]
impl<H: Damageable> super::StoreUnderTest for DamagedHarness<H> {
    async fn open(&self, options: StoreOptions) -> Arc<dyn delayq_core::Store> {
        self.0.open(options).await
    }

    async fn advance(&self, span: Duration) {
        self.0.advance(span).await;
    }
}

/// The harness, also held by the test that damages its data.
struct DamagedHarness<H>(Arc<H>);

impl<H: Damageable> Damaged<H> {
    /// Opens the harness' store with the three tasks.
    pub async fn open(harness: H) -> Self {
        let harness = Arc::new(harness);
        let rig = Rig::open(DamagedHarness(harness.clone())).await;
        for id in ["1", "2", "3"] {
            rig.accept(job(id).after(LONG)).await;
        }
        Self { harness, rig }
    }

    async fn damage(&self, damage: Damage) {
        let options = self.rig.options();
        self.harness
            .damage(options, &usual_type(), &id("2"), damage)
            .await;
    }

    async fn audit(&self, repair: bool) -> AuditReport {
        self.rig.store().audit(&usual_type(), repair).await.unwrap()
    }

    /// Asserts that the audit finds the damage, mends it, and then finds nothing.
    async fn is_found_and_mended(&self) {
        let found = self.audit(false).await;
        let is_it = |report: &AuditReport, repaired: bool| {
            let mut problems = report.problems.iter();
            problems.len() > 0 && problems.all(|p| p.id == "2" && p.repaired == repaired)
        };
        assert!(is_it(&found, false), "{found:?}");
        let mended = self.audit(true).await;
        assert!(is_it(&mended, true), "{mended:?}");
        assert_eq!(self.audit(false).await.problems, []);
    }

    /// Asserts that the undamaged tasks run as usual.
    async fn others_run(&self) {
        for id in ["1", "3"] {
            self.rig.run_now(id).await;
        }
        let claimed = self.rig.claim().await;
        claimed.assert_order(&["1", "3"]);
    }

    /// The end of every test.
    pub async fn finish(self) {
        self.rig.finish().await;
    }
}

pub async fn the_audit_finds_a_task_that_has_lost_its_place<H: Damageable>(store: &Damaged<H>) {
    store.damage(Damage::Place).await;
    store.is_found_and_mended().await;
    assert_eq!(
        store.rig.state("2").await,
        Some(TaskState::Scheduled),
        "no task is lost"
    );
    store.others_run().await;
}

pub async fn the_audit_finds_a_place_without_a_task<H: Damageable>(store: &Damaged<H>) {
    store.damage(Damage::Record).await;
    store.is_found_and_mended().await;
    assert_eq!(store.rig.find("2").await, None);
    store.others_run().await;
}

pub async fn the_audit_finds_a_flipped_bit<H: Damageable>(store: &Damaged<H>) {
    store.damage(Damage::Message).await;
    store.is_found_and_mended().await;
    let stats = store.rig.store().stats(&usual_type()).await.unwrap();
    assert_eq!(
        (stats.scheduled, stats.dead),
        (2, 1),
        "what cannot run is dead"
    );
    let why = store.rig.info("2").await.history.last_error.unwrap();
    assert!(why.starts_with("corrupt: "), "{why}");
    store.others_run().await;
}

pub async fn a_corrupt_task_goes_to_dead_and_blocks_nothing<H: Damageable>(store: &Damaged<H>) {
    for id in ["1", "2", "3"] {
        store.rig.run_now(id).await;
    }
    store.damage(Damage::Message).await;
    let claimed = store.rig.claim().await;
    claimed.assert_order(&["1", "3"]);
    assert_eq!(claimed.ended.len(), 1);
    assert_eq!(
        (&claimed.ended[0].id, claimed.ended[0].cause),
        (&id("2"), EndCause::Corrupt)
    );
    let stats = store.rig.store().stats(&usual_type()).await.unwrap();
    assert_eq!((stats.running, stats.dead), (2, 1));
    store.audit(true).await;
}

pub async fn a_place_without_a_task_blocks_no_claim<H: Damageable>(store: &Damaged<H>) {
    for id in ["1", "2", "3"] {
        store.rig.run_now(id).await;
    }
    store.damage(Damage::Record).await;
    let claimed = store.rig.claim().await;
    claimed.assert_order(&["1", "3"]);
    assert_eq!(store.rig.claim().await.tasks, []);
    store.audit(true).await;
}
