//! What the model's store keeps of one id: a record, and its entries in the indexes.
//!
//! The indexes are kept apart from the record, as in the real stores, so that they can disagree.

/// A time or a span, in milliseconds.
pub(super) type Ms = i64;
/// A time that does not come. Small enough for arithmetic.
pub(super) const NEVER: Ms = 1 << 56;
/// Most tasks of one world: enough for batches, few enough to stay in the processor's cache.
pub(super) const TASKS: usize = 4;

/// Where the record says that the task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    Absent,
    Scheduled,
    Running,
    Dead,
    Done,
    Cancelled,
    Expired,
}

impl State {
    /// Only remembered.
    pub(super) fn is_ended(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled | Self::Expired)
    }

    pub(super) fn is_live(self) -> bool {
        matches!(self, Self::Scheduled | Self::Running | Self::Dead)
    }
}

/// One id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Row {
    pub(super) state: State,
    /// The due index.
    pub(super) due: Ms,
    /// A second entry of the due index, which only a planted bug makes.
    pub(super) second: Ms,
    /// The index of running tasks: when the lock expires.
    pub(super) lock_until: Ms,
    /// The index of dead tasks.
    pub(super) in_dead: bool,
    pub(super) cancel_requested: bool,
    pub(super) failures: u8,
    pub(super) expiries: u8,
    /// The fence of the present lock.
    pub(super) fence: i64,
    /// The fence settled last.
    pub(super) settled: i64,
    pub(super) expires_at: Ms,
    /// When an ended task is forgotten.
    pub(super) forget_at: Ms,
}

impl Row {
    pub(super) const ABSENT: Self = Self {
        state: State::Absent,
        due: NEVER,
        second: NEVER,
        lock_until: NEVER,
        in_dead: false,
        cancel_requested: false,
        failures: 0,
        expiries: 0,
        fence: 0,
        settled: 0,
        expires_at: NEVER,
        forget_at: NEVER,
    };

    /// The current attempt of a running task.
    pub(super) fn attempt(&self) -> u8 {
        1 + self.failures + self.expiries
    }

    pub(super) fn schedule(&mut self, due: Ms) {
        self.state = State::Scheduled;
        self.due = due;
        self.lock_until = NEVER;
        self.fence = 0;
    }

    pub(super) fn run(&mut self, fence: i64, lock_until: Ms) {
        self.state = State::Running;
        self.due = NEVER;
        self.lock_until = lock_until;
        self.fence = fence;
    }

    pub(super) fn die(&mut self) {
        self.leave_indexes();
        self.state = State::Dead;
        self.in_dead = true;
        self.cancel_requested = false;
    }

    pub(super) fn end(&mut self, state: State, forget_at: Ms) {
        self.leave_indexes();
        self.state = state;
        self.forget_at = forget_at;
    }

    fn leave_indexes(&mut self) {
        self.due = NEVER;
        self.second = NEVER;
        self.lock_until = NEVER;
        self.in_dead = false;
        self.fence = 0;
    }

    /// Whether the record and the indexes agree: a live task is in one, any other in none.
    pub(super) fn is_sound(&self) -> bool {
        let entries = u8::from(self.due != NEVER)
            + u8::from(self.second != NEVER)
            + u8::from(self.lock_until != NEVER)
            + u8::from(self.in_dead);
        let place = match self.state {
            State::Scheduled => self.due != NEVER,
            State::Running => self.lock_until != NEVER && self.fence != 0,
            State::Dead => self.in_dead,
            _ => return entries == 0,
        };
        place && entries == 1
    }
}
