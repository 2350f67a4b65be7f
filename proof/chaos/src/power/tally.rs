//! What the power losses of a run took.

use std::fmt;

use super::cut::Loss;

/// Counts over all cycles.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) cycles: u32,
    /// Cycles in which the power went during the start.
    pub(super) early: u32,
    pub(super) stores: u32,
    /// Cycles in which some write was undone.
    pub(super) undoing: u32,
    /// Restarts that needed the file repaired first.
    pub(super) repaired: u32,
    total: Loss,
}

impl Tally {
    pub(super) fn add(&mut self, loss: Loss) {
        self.undoing += u32::from(loss.undone > 0);
        self.total.changes += loss.changes;
        self.total.unsynced += loss.unsynced;
        self.total.undone += loss.undone;
        self.total.torn += loss.torn;
        self.total.names += loss.names;
        self.total.bytes += loss.bytes;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Loss {
            changes,
            unsynced,
            undone,
            torn,
            names,
            bytes,
        } = self.total;
        writeln!(
            f,
            "the power went {} times ({} during the start) on {} stores",
            self.cycles, self.early, self.stores
        )?;
        writeln!(f, "  times that writes were undone  {:>12}", self.undoing)?;
        writeln!(f, "  changes recorded               {changes:>12}")?;
        writeln!(f, "  not synced when the power went {unsynced:>12}")?;
        writeln!(f, "  undone, at least in part       {undone:>12}")?;
        writeln!(f, "  torn                           {torn:>12}")?;
        writeln!(f, "  bytes undone                   {bytes:>12}")?;
        writeln!(f, "  names undone                   {names:>12}")?;
        write!(f, "  files repaired by hand         {:>12}", self.repaired)
    }
}
