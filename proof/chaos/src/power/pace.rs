//! How long there is power, and how fast the disk is: other choices in each cycle.

use std::time::Duration;

use delayq_plugin::millis;

use crate::run::StoreKind;

/// In the first cycles of a store, the power goes while it is being made.
const MAKING: u32 = 3;
/// Longest time that the power lasts when it goes during the start.
const EARLY_MS: u64 = 60;
/// A server that syncs every second loses, at most, what was acknowledged since its last sync
/// began: a second, and another for the loop of the server on a machine that has a lot to do.
const EVERYSEC_WINDOW_MS: u64 = 2_000;
/// While a sync takes long the server leaves out the next one, so a second more, and as long as a
/// sync takes.
const LATE_WINDOW_MS: u64 = 2_500;
/// A sync that takes longer may still be under way when the next one should begin.
const LATE_MS: u64 = 100;

/// One cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Whether the power goes while the store starts.
    pub(super) is_early: bool,
    /// How long the power lasts: since the start, or since everybody is up.
    pub(super) power: Duration,
    /// Whether the power then goes right after a write, which no sync can have followed yet.
    pub(super) is_in_write: bool,
    /// How long each sync takes, in microseconds.
    pub(super) sync_us: u32,
}

impl Pace {
    /// The choices for the cycle `number` of a store.
    pub(super) fn random(store: StoreKind, number: u32, dice: &mut fastrand::Rng) -> Self {
        let is_early = number < MAKING || dice.u32(0..20) == 0;
        let is_late_sync = store == StoreKind::RedisEverysec && dice.u32(0..5) == 0;
        let sync_us = match dice.u32(0..4) {
            _ if is_late_sync => dice.u32(300_000..1_000_000),
            0 => dice.u32(3_000..8_000),
            _ => dice.u32(200..3_000),
        };
        let power = match store {
            _ if is_early => dice.u64(0..EARLY_MS),
            // Long enough to see something older than the window.
            StoreKind::RedisEverysec if dice.u32(0..10) < 3 => dice.u64(1_200..2_700),
            // Clients take a moment to find the server again.
            StoreKind::RedisEverysec | StoreKind::Redis => dice.u64(100..400),
            _ => dice.u64(60..300),
        };
        Self {
            is_early,
            power: millis(power),
            is_in_write: dice.bool(),
            sync_us,
        }
    }

    /// How far back the loss of what was acknowledged may reach.
    pub(super) fn window_ms(self) -> u64 {
        match u64::from(self.sync_us) / 1_000 {
            sync_ms @ ..LATE_MS => EVERYSEC_WINDOW_MS + sync_ms,
            sync_ms => LATE_WINDOW_MS + sync_ms,
        }
    }
}
