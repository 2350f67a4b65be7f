//! What is done to a scene.

use super::Scene;
use crate::event::{Explains, Phase, Target, What};

impl Scene {
    pub(in crate::check::tests) fn fault(
        &mut self,
        span: (i64, i64),
        kind: &str,
        target: &Target,
        what: Explains,
    ) {
        self.fault_that(span, kind, target, &[what]);
    }

    pub(in crate::check::tests) fn fault_that(
        &mut self,
        span: (i64, i64),
        kind: &str,
        target: &Target,
        explains: &[Explains],
    ) {
        self.faults += 1;
        for (ms, phase) in [(span.0, Phase::Begun), (span.1, Phase::Ended)] {
            let fault = What::Fault {
                id: self.faults,
                kind: kind.to_owned(),
                target: target.clone(),
                phase,
                explains: explains.to_vec(),
            };
            self.at(ms, "driver", fault);
        }
    }

    /// The master is lost, sentinels agree on another one, and all is well again.
    pub(in crate::check::tests) fn fail_over(&mut self, (struck, agreed, ended): (i64, i64, i64)) {
        self.faults += 1;
        let phases = [Phase::Begun, Phase::Struck, Phase::Ended];
        for (ms, phase) in [struck, struck, ended].into_iter().zip(phases) {
            let fault = What::Fault {
                id: self.faults,
                kind: "kill-master".to_owned(),
                target: Target::Store,
                phase,
                explains: vec![Explains::LostLock],
            };
            self.at(ms, "driver", fault);
        }
        self.at(agreed, "driver", What::FailedOver);
    }

    /// A process is not run for a time.
    pub(in crate::check::tests) fn stalls(&mut self, (from, to): (i64, i64), process: &str) {
        let since_ns = from.unsigned_abs() * 1_000_000;
        self.at(to, process, What::Stalled { since_ns });
    }

    /// The store is not run for a time.
    pub(in crate::check::tests) fn stalls_store(&mut self, (from, to): (i64, i64)) {
        let since_ns = from.unsigned_abs() * 1_000_000;
        self.at(to, "w2", What::StoreStalled { since_ns });
    }

    /// The disk of the store is silent for a time.
    pub(in crate::check::tests) fn stalls_disk(&mut self, (from, to): (i64, i64)) {
        let since_ns = from.unsigned_abs() * 1_000_000;
        self.at(to, "driver", What::DiskStalled { since_ns });
    }

    /// The processes of the run use so much of `processors` processors, in percent of one, and
    /// write so many bytes a millisecond.
    pub(in crate::check::tests) fn uses(
        &mut self,
        (from, to): (i64, i64),
        percent: u64,
        written: u64,
    ) {
        self.plan.processors = 2;
        let length_ms = (to - from).unsigned_abs();
        let usage = What::Usage {
            since_ns: from.unsigned_abs() * 1_000_000,
            processor_ns: length_ms * 10_000 * percent,
            written_bytes: length_ms * written,
        };
        self.at(to, "driver", usage);
    }

    /// Kills a process, which is back a second later.
    pub(in crate::check::tests) fn kill(&mut self, ms: i64, process: &str) {
        let target = Target::Process(process.to_owned());
        self.fault((ms, ms + 1_000), "kill", &target, Explains::LostLock);
        let up = What::Up {
            name: process.to_owned(),
            pid: 1,
            incarnation: u32::try_from(self.faults + 1).unwrap(),
            namespace: "default".to_owned(),
        };
        self.at(ms + 1_000, process, up);
    }

    /// The store is back at `ms` with what it had `window_ms` before.
    pub(in crate::check::tests) fn roll_back(&mut self, ms: i64, window_ms: u64) {
        let explains = Explains::Rollback { window_ms };
        self.fault((ms, ms + 1), "power loss", &Target::Store, explains);
    }

    /// The same, told in parts: it begins ..
    pub(in crate::check::tests) fn begin_rollback(&mut self, ms: i64, window_ms: u64) {
        self.faults += 1;
        self.rollback(ms, window_ms, Phase::Begun);
    }

    /// .. has struck, and is over.
    pub(in crate::check::tests) fn end_rollback(&mut self, struck: i64, ended: i64) {
        self.rollback(struck, 0, Phase::Struck);
        self.rollback(ended, 0, Phase::Ended);
    }

    fn rollback(&mut self, ms: i64, window_ms: u64, phase: Phase) {
        let fault = What::Fault {
            id: self.faults,
            kind: "power loss".to_owned(),
            target: Target::Store,
            phase,
            explains: vec![Explains::Rollback { window_ms }],
        };
        self.at(ms, "driver", fault);
    }
}
