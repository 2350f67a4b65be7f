//! Order in which handlers get slots: weighted fair queueing.

use std::sync::Arc;

use tokio::sync::Notify;

/// What a start costs a type of weight 1, in virtual time. Its hundredth part is exact to 0.01 %.
const COST: u64 = 1 << 20;

/// The slots of a pool, and the handlers that ask for some.
///
/// Each slot that a type gets moves its place by 1/weight, and the type with the smallest place is
/// next. Slots that come back unused move it back, so what was started is charged. A type that has
/// asked for nothing begins at the place of the last one that got something: it gathers no credit,
/// and what it took to look is forgotten.
#[derive(Debug)]
pub(super) struct FairQueue {
    size: usize,
    used: usize,
    /// The place of the type that got a slot last.
    now: u64,
    types: Vec<Type>,
    asks: Vec<Ask>,
    handlers: u64,
    /// How many slots were given; orders the handlers of one type.
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
struct Ask {
    handler: u64,
    of: usize,
    most: usize,
    /// Given and not taken yet.
    given: usize,
    last: u64,
    wake: Arc<Notify>,
}

/// What a handler asks for.
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

    pub(super) fn size_of(&self, of: usize) -> usize {
        self.types.get(of).map_or(0, |one| one.size)
    }

    /// Asks for slots until it is [`withdraw`](Self::withdraw)n. Who only looks whether there is
    /// anything to do leaves half of the free ones to the other types.
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
        let is_waiting = |ask: &Ask| ask.of == demand.of && ask.given < ask.most;
        let is_waiting = self.asks.iter().any(is_waiting);
        if let Some(one) = self.types.get_mut(demand.of).filter(|_| !is_waiting) {
            one.place = one.place.max(self.now);
        }
        self.asks.push(Ask {
            handler,
            of: demand.of,
            most,
            given: 0,
            last: self.given,
            wake: Arc::clone(wake),
        });
        self.give();
    }

    /// How many slots the handler could take.
    pub(super) fn given(&self, handler: u64) -> usize {
        let mut asks = self.asks.iter();
        let ask = asks.find(|ask| ask.handler == handler);
        ask.map_or(0, |ask| ask.given)
    }

    /// Takes the slots that were given to the handler, which goes on asking.
    pub(super) fn take(&mut self, handler: u64) -> usize {
        let mut asks = self.asks.iter_mut();
        let ask = asks.find(|ask| ask.handler == handler);
        let taken = ask.map_or(0, |ask| std::mem::take(&mut ask.given));
        if taken > 0 {
            // It may have been given as many as it asked for.
            self.give();
        }
        taken
    }

    /// Asks for nothing more, and gives back what was not taken.
    pub(super) fn withdraw(&mut self, handler: u64) {
        let Some(index) = self.asks.iter().position(|ask| ask.handler == handler) else {
            return;
        };
        let ask = self.asks.swap_remove(index);
        self.refund(ask.of, ask.given);
        self.free(ask.of, ask.given);
    }

    /// So many slots were given and not used.
    pub(super) fn refund(&mut self, of: usize, count: usize) {
        if let Some(one) = self.types.get_mut(of) {
            let unused = u64::try_from(count).unwrap_or(u64::MAX);
            one.place = one.place.saturating_sub(one.cost().saturating_mul(unused));
        }
    }

    /// So many slots are free again.
    pub(super) fn free(&mut self, of: usize, count: usize) {
        self.used = self.used.saturating_sub(count);
        if let Some(one) = self.types.get_mut(of) {
            // Held back by its own limit, it has not waited for the others.
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

    /// Gives what is free to those who are next.
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

    /// The index of the ask that is next.
    fn next(&self) -> Option<usize> {
        let weights = self.asks.iter().filter_map(|ask| self.types.get(ask.of));
        let weights: usize = weights.map(|one| as_size(one.weight)).sum();
        let open = self.asks.iter().enumerate().filter_map(|(index, ask)| {
            let one = self.types.get(ask.of)?;
            // One whose claim is under way gathers no more than its share while others ask.
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
