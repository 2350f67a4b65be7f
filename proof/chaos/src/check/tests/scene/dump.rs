//! What is done to all tasks of a scene, and what the store shows at its end.

use delayq_core::TaskState;

use super::{Scene, name, real};
use crate::event::{StoredTask, TypeChange, What};

impl Scene {
    /// What the store shows at the end: state, its time, attempts.
    pub(in crate::check::tests) fn stored(
        &mut self,
        id: &str,
        state: TaskState,
        (at, attempt): (i64, u32),
    ) {
        self.store(id, state, (at, attempt), None);
    }

    /// The same, with failures, lock expiries, releases and requeues.
    pub(in crate::check::tests) fn stored_with(
        &mut self,
        id: &str,
        state: TaskState,
        at: (i64, u32),
        trail: (u32, u32, u32, u32),
    ) {
        self.store(id, state, at, Some(trail));
    }

    fn store(
        &mut self,
        id: &str,
        state: TaskState,
        (at, attempt): (i64, u32),
        trail: Option<(u32, u32, u32, u32)>,
    ) {
        let stored = What::Stored(StoredTask {
            task: name(id),
            state,
            at: real(at),
            attempt,
            trail,
        });
        let end = self.end;
        self.at(end, "driver", stored);
    }

    pub(in crate::check::tests) fn change_type(
        &mut self,
        ms: i64,
        change: TypeChange,
        removed: u64,
    ) {
        let call = self.next_call();
        let task_type = "mail".to_owned();
        let invoked = What::TypeInvoked {
            call,
            task_type,
            change,
        };
        self.call(ms, "s", invoked, Some(What::TypeAnswered { call, removed }));
    }

    pub(in crate::check::tests) fn audited(&mut self, id: &str, what: &str) {
        let task_type = "mail".to_owned();
        let problems = vec![(id.to_owned(), what.to_owned())];
        let end = self.end;
        let audited = What::Audited {
            task_type,
            problems,
        };
        self.at(end, "driver", audited);
    }
}
