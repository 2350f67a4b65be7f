//! Order in which handlers get slots: weighted fair queueing.

use std::sync::Arc;

use tokio::sync::Notify;

/// The cost of a start for a type of weight 1, in virtual time. A hundredth of it is exact to 0.01
/// %.
const COST: u64 = 1 << 20;

/// The slots of a pool, and the handlers that ask for some.
///
/// Each slot that a type gets moves its place forward by 1/weight, and the type with the smallest
/// place is next. Unused slots move it back, so that only starts are charged. A type that was not
/// asking begins at the place of the type that last got a slot: it gathers no credit.
#[derive(Debug)]
pub(super) struct FairQueue {
    size: usize,
    used: usize,
    /// The place of the type that got a slot last.
    now: u64,
    types: Vec<Type>,
    asks: Vec<SlotRequest>,
    handlers: u64,
    /// Number of slots given so far; orders the handlers of one type.
    given: u64,
}

#[derive(Debug)]
struct Type {
    size: usize,
    used: usize,
    weight: u32,
    place: u64,
}

/// A handler that asks for slots.
#[derive(Debug)]
struct SlotRequest {
    handler: u64,
    of: usize,
    most: usize,
    /// Slots given but not taken yet.
    given: usize,
    last: u64,
    wake: Arc<Notify>,
}

/// A handler's request for slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// The index of its type.
    pub(super) of: usize,
    pub(super) most: usize,
    /// The last claim has left due tasks.
    pub(super) is_certain: bool,
}

impl Type {
    fn cost(&self) -> u64 {
        COST / u64::from(self.weight)
    }
}

impl FairQueue {
    pub(super) fn new(size: usize) -> Self {
        Self {
            size,
            used: 0,
            now: 0,
            types: Vec::new(),
            asks: Vec::new(),
            handlers: 0,
            given: 0,
        }
    }

    /// Adds a type with at most `size` slots. Returns its index.
    pub(super) fn join(&mut self, size: usize, weight: u32) -> usize {
        self.types.push(Type {
            size,
            used: 0,
            weight,
            place: self.now,
        });
        self.types.len() - 1
    }

    pub(super) fn next_handler(&mut self) -> u64 {
        self.handlers += 1;
        self.handlers
    }

    pub(super) fn resize(&mut self, size: usize) {
        self.size = size;
        self.give();
    }

    pub(super) fn resize_type(&mut self, of: usize, size: usize) {
        if let Some(one) = self.types.get_mut(of) {
            one.size = size;
            one.place = one.place.max(self.now);
        }
        self.give();
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// The number of types that ever joined.
    pub(super) fn type_count(&self) -> usize {
        self.types.len()
    }

    pub(super) fn size_of(&self, of: usize) -> usize {
        self.types.get(of).map_or(0, |one| one.size)
    }

    /// Asks for slots until [`withdraw`](Self::withdraw). A handler that only looks for tasks
    /// leaves half of the free slots to the other types.
    pub(super) fn ask(&mut self, handler: u64, demand: Demand, wake: &Arc<Notify>) {
        let mut most = demand.most;
        if !demand.is_certain && self.types.len() > 1 {
            let free = self.size.saturating_sub(self.used);
            most = most.min(free.div_ceil(2));
        }
        let most = most.max(1);
        if let Some(ask) = self.asks.iter_mut().find(|ask| ask.handler == handler) {
            ask.most = most;
            return self.give();
        }
        let is_waiting = |ask: &SlotRequest| ask.of == demand.of && ask.given < ask.most;
        let is_waiting = self.asks.iter().any(is_waiting);
        if let Some(one) = self.types.get_mut(demand.of).filter(|_| !is_waiting) {
            one.place = one.place.max(self.now);
        }
        self.asks.push(SlotRequest {
            handler,
            of: demand.of,
            most,
            given: 0,
            last: self.given,
            wake: Arc::clone(wake),
        });
        self.give();
    }

    /// The number of slots that the handler can take.
    pub(super) fn given(&self, handler: u64) -> usize {
        let mut asks = self.asks.iter();
        let ask = asks.find(|ask| ask.handler == handler);
        ask.map_or(0, |ask| ask.given)
    }

    /// Takes the slots given to the handler, which keeps asking.
    pub(super) fn take(&mut self, handler: u64) -> usize {
        let mut asks = self.asks.iter_mut();
        let ask = asks.find(|ask| ask.handler == handler);
        let taken = ask.map_or(0, |ask| std::mem::take(&mut ask.given));
        if taken > 0 {
            // It may have had as many as it asked for, and may now get more.
            self.give();
        }
        taken
    }

    /// Stops asking, and gives back the slots that were not taken.
    pub(super) fn withdraw(&mut self, handler: u64) {
        let Some(index) = self.asks.iter().position(|ask| ask.handler == handler) else {
            return;
        };
        let ask = self.asks.swap_remove(index);
        self.refund(ask.of, ask.given);
        self.free(ask.of, ask.given);
    }

    /// Refunds the cost of slots that were given but not used.
    pub(super) fn refund(&mut self, of: usize, count: usize) {
        if let Some(one) = self.types.get_mut(of) {
            let unused = u64::try_from(count).unwrap_or(u64::MAX);
            one.place = one.place.saturating_sub(one.cost().saturating_mul(unused));
        }
    }

    /// Frees slots.
    pub(super) fn free(&mut self, of: usize, count: usize) {
        self.used = self.used.saturating_sub(count);
        if let Some(one) = self.types.get_mut(of) {
            // A type at its own limit was not waiting for the others, so it gathers no credit.
            if one.used >= one.size {
                one.place = one.place.max(self.now);
            }
            one.used = one.used.saturating_sub(count);
        }
        self.give();
    }

    #[cfg(test)]
    pub(super) fn check(&self, held: usize) -> usize {
        let given: usize = self.asks.iter().map(|ask| ask.given).sum();
        let used: usize = self.types.iter().map(|one| one.used).sum();
        assert_eq!((self.used, used), (held + given, held + given));
        assert!(self.used >= self.size || self.next().is_none());
        self.used
    }

    /// Gives the free slots to the next handlers.
    fn give(&mut self) {
        while self.used < self.size {
            let Some(index) = self.next() else { return };
            let Some(ask) = self.asks.get_mut(index) else {
                return;
            };
            let Some(one) = self.types.get_mut(ask.of) else {
                return;
            };
            self.used += 1;
            self.given += 1;
            one.used += 1;
            one.place = one.place.saturating_add(one.cost()).max(self.now);
            self.now = one.place;
            ask.given += 1;
            ask.last = self.given;
            if ask.given == 1 {
                ask.wake.notify_one();
            }
        }
    }

    /// The index of the next ask.
    fn next(&self) -> Option<usize> {
        let weights = self.asks.iter().filter_map(|ask| self.types.get(ask.of));
        let weights: usize = weights.map(|one| as_size(one.weight)).sum();
        let open = self.asks.iter().enumerate().filter_map(|(index, ask)| {
            let one = self.types.get(ask.of)?;
            // A handler whose claim is in progress gathers no more than its share while others ask.
            let share = self.size.saturating_mul(as_size(one.weight));
            let most = ask.most.min(share.div_ceil(weights).max(1));
            let place = one.place.saturating_add(one.cost());
            (one.used < one.size && ask.given < most).then_some((place, ask.last, index))
        });
        open.min().map(|(_, _, index)| index)
    }
}

fn as_size(weight: u32) -> usize {
    usize::try_from(weight).unwrap_or(usize::MAX)
}
