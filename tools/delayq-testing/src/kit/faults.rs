//! Planned faults of a test, call by call.

use std::sync::{Arc, Mutex, PoisonError};

use delayq_core::store::StoreCall;

use crate::faulty::Fault;

/// The calls that will fail. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults(Arc<Mutex<Vec<Planned>>>);

#[derive(Debug)]
struct Planned {
    operation: String,
    /// Number of calls of the operation that go through before it.
    before: usize,
    fault: Fault,
}

impl Faults {
    /// Makes the `nth` call of `operation` from now on fail.
    ///
    /// # Panics
    /// For 0, and for an unknown operation.
    pub(super) fn plan(&self, operation: &str, nth: usize, fault: Fault) {
        let names: Vec<_> = StoreCall::ALL.iter().map(|call| call.name()).collect();
        assert!(
            names.contains(&operation),
            "{operation:?} is no operation of a store: it is one of {}",
            names.join(", ")
        );
        assert!(
            nth > 0,
            "the first {operation} is number 1, and there is no number 0"
        );
        let mut planned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        planned.push(Planned {
            operation: operation.to_owned(),
            before: nth - 1,
            fault,
        });
    }

    /// The fault of a call.
    pub(super) fn of_call(&self, operation: &str) -> Fault {
        let mut planned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fault = Fault::None;
        planned.retain_mut(|one| {
            if one.operation != operation {
                return true;
            }
            if one.before > 0 {
                one.before -= 1;
                return true;
            }
            fault = one.fault;
            false
        });
        fault
    }
}
