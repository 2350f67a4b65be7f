//! A target that is found by what applications announce.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::span::Span;

/// How long an instance may take to settle a task later, unless the target says.
const SETTLE_WITHIN: Duration = Duration::from_mins(10);
/// What a target may say.
const BOUNDS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_hours(24);

/// An instance of an application that serves the type: one that registers itself, one that the
/// configuration names, or one that announced itself to the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceTarget {
    /// How long an instance may take to settle a task that it took with `202` and
    /// `delayq-settle: later`; 1 s to 24 h, default 10 min.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle_within: Option<Span>,
}

impl ServiceTarget {
    /// Refuses what cannot be.
    pub(super) fn check(&self) -> Result<(), String> {
        if BOUNDS.contains(&self.settle_within()) {
            return Ok(());
        }
        Err("settle_within: 1 s to 24 h".to_owned())
    }

    /// How long an instance may take to settle a task later.
    pub(super) fn settle_within(&self) -> Duration {
        self.settle_within.map_or(SETTLE_WITHIN, |span| span.0)
    }
}
