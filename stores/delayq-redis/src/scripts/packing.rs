//! When far tasks are packed.

use crate::config::PackFar;

/// How long before its due time a task is unpacked, ms.
const LEAD_MS: u32 = 120_000;
/// How far away a task must be to be packed, ms.
const NEAR_MS: u32 = 300_000;
/// The number of scheduled tasks of a shard that stay unpacked: a few save no memory.
const LEAST: u32 = 10_000;

/// When the tasks of a shard are packed and unpacked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packing(PackFar);

impl Packing {
    pub(crate) fn new(pack: PackFar) -> Self {
        Self(pack)
    }

    /// The argument of the scripts, see `far_of` in `far/far.lua`.
    pub(crate) fn settings(self) -> String {
        match self.0 {
            PackFar::Off => LEAD_MS.to_string(),
            PackFar::Auto => format!("{LEAD_MS} {NEAR_MS} {LEAST} new"),
            PackFar::On => format!("{LEAD_MS} {NEAR_MS} {LEAST}"),
            PackFar::All => "0 0 0 2".to_owned(),
        }
    }

    /// True if every task is packed, from the first one on.
    pub(crate) fn is_forced(self) -> bool {
        self.0 == PackFar::All
    }

    pub(crate) fn is_on(self) -> bool {
        self.0 != PackFar::Off
    }
}
