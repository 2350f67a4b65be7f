//! Pool of slots, and their holders.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use delayq_core::presence::PoolUse;
use tokio::sync::Notify;

use super::fair_queue::{Demand, FairQueue};

/// Slots that several types share; a type without a pool has one of its own.
#[derive(Clone, Debug)]
pub(super) struct Pool(Arc<Mutex<FairQueue>>);

/// The slots of one type: one for each attempt that may run at the same time.
#[derive(Clone, Debug)]
pub(crate) struct TypeSlots {
    pool: Pool,
    /// The index of the type in the pool.
    of: usize,
}

/// A handler's place in the queue for slots. Stops asking when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    slots: TypeSlots,
    /// Its number in the pool.
    handler: u64,
    wake: Arc<Notify>,
    is_asking: bool,
}

/// Slots for a claim. Unused ones are returned and not charged. But a claim that starts nothing at
/// all is charged as one start: otherwise a type whose due tasks are all too late to run would be
/// next for ever.
#[derive(Debug)]
pub(crate) struct Reserved {
    slots: TypeSlots,
    count: usize,
    is_used: bool,
}

/// The slot of one attempt, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot(TypeSlots);

impl Pool {
    pub(super) fn new(size: usize) -> Self {
        Self(Arc::new(Mutex::new(FairQueue::new(size))))
    }

    fn queue(&self) -> MutexGuard<'_, FairQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn resize(&self, size: usize) {
        self.queue().resize(size);
    }

    /// The pool as it is now, for people.
    pub(super) fn to_use(&self, name: &str) -> PoolUse {
        let queue = self.queue();
        let (slots, used) = (queue.size() as u64, queue.used() as u64);
        PoolUse::new(name, slots, used).shared_by(queue.type_count() as u64)
    }

    /// Panics unless the counts are consistent and `held` slots are taken. Returns the number
    /// given.
    #[cfg(test)]
    pub(super) fn check(&self, held: usize) -> usize {
        self.queue().check(held)
    }

    /// Adds a type that has at most `size` slots at a time.
    pub(super) fn join(&self, size: usize, weight: u32) -> TypeSlots {
        TypeSlots {
            of: self.queue().join(size, weight),
            pool: self.clone(),
        }
    }
}

impl TypeSlots {
    /// Changes the number of slots. Slots above the new number are removed as their attempts end.
    pub(crate) fn resize(&self, size: usize) {
        self.pool.queue().resize_type(self.of, size);
    }

    /// The type's maximum number of slots.
    pub(crate) fn size(&self) -> usize {
        self.pool.queue().size_of(self.of)
    }

    /// A place in the queue for another handler.
    pub(crate) fn place(&self) -> Place {
        Place {
            handler: self.pool.queue().next_handler(),
            slots: self.clone(),
            wake: Arc::new(Notify::new()),
            is_asking: false,
        }
    }
}

impl Place {
    /// Asks for up to `most` slots at a time, until [`withdraw`](Self::withdraw). `is_certain`
    /// means that the last claim has left due tasks.
    pub(crate) fn ask(&mut self, most: usize, is_certain: bool) {
        self.is_asking = true;
        let demand = Demand {
            of: self.slots.of,
            most,
            is_certain,
        };
        let mut queue = self.slots.pool.queue();
        queue.ask(self.handler, demand, &self.wake);
    }

    /// Takes the slots available now, if any.
    pub(crate) fn take(&mut self) -> Option<Reserved> {
        let count = self.slots.pool.queue().take(self.handler);
        (count > 0).then(|| Reserved {
            slots: self.slots.clone(),
            count,
            is_used: false,
        })
    }

    /// Completes when there is something to take.
    pub(crate) fn given(&self) -> impl Future<Output = ()> + Send + use<> {
        let (pool, handler) = (self.slots.pool.clone(), self.handler);
        let wake = Arc::clone(&self.wake);
        async move {
            while pool.queue().given(handler) == 0 {
                wake.notified().await;
            }
        }
    }

    /// Stops asking, and gives back the slots that were not taken.
    pub(crate) fn withdraw(&mut self) {
        if std::mem::take(&mut self.is_asking) {
            self.slots.pool.queue().withdraw(self.handler);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.withdraw();
    }
}

impl Reserved {
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The slot of an attempt that starts now.
    pub(crate) fn start(&mut self) -> Option<Slot> {
        self.count = self.count.checked_sub(1)?;
        self.is_used = true;
        Some(Slot(self.slots.clone()))
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.count > 0 {
            let (of, charged) = (self.slots.of, usize::from(!self.is_used));
            let mut queue = self.slots.pool.queue();
            queue.refund(of, self.count - charged);
            queue.free(of, self.count);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.pool.queue().free(self.0.of, 1);
    }
}
