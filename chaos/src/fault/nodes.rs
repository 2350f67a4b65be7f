//! Faults of the nodes of a cluster, and slots that move.

use delayq_plugin::millis;
use delayq_tests::cluster_set::SLOTS;

use super::Kind;
use crate::event::{Explains, Target};
use crate::run::{NAMESPACE, Result, Stage};

/// How long a node stays away after it was replaced, at most. Meanwhile its successor has no replica, and
/// confirms nothing.
const ABSENCE_MS: u64 = 1_000;
/// The types of this package's own application: they have tasks at any time.
const TYPES: [&str; 2] = ["alpha", "beta"];

/// Takes the master of a slot away until its replica serves the slot, and a while longer; then it comes back, killed or
/// stopped. That another one serves the slot shows that it happened.
pub(super) async fn replace(kind: Kind, stage: &mut Stage) -> Result<bool> {
    let (absence, slot) = (stage.dice.u64(..ABSENCE_MS), stage.dice.u16(..SLOTS));
    stage.nodes()?.set.whole().await;
    let old = stage.nodes()?.set.node_of(slot).await;
    let explains = vec![Explains::LostLock];
    let open = stage.begin(&kind.name(), Target::Store, explains);
    let is_kill = kind == Kind::KillNode;
    let node = stage.nodes()?.node(old)?;
    if is_kill {
        node.kill();
    } else {
        node.stop();
    }
    let new = stage.nodes()?.failed_over(old, slot).await;
    tokio::time::sleep(millis(absence)).await;
    let node = stage.nodes()?.node(old)?;
    if is_kill {
        node.restart();
    } else {
        node.resume();
    }
    stage.nodes()?.set.whole().await;
    stage.end(&open);
    Ok(new != old)
}

/// Moves the slot of a type, with the tasks in it, to another master. That this one serves it shows that it happened.
pub(super) async fn move_slot(stage: &mut Stage) -> Result<bool> {
    let task_type = stage.dice.choice(TYPES).unwrap_or_default();
    let other = stage.dice.u16(..SLOTS);
    let set = &stage.nodes()?.set;
    set.whole().await;
    let slot = set.slot_of(&format!("{{{NAMESPACE}/{task_type}}}")).await;
    let from = set.node_of(slot).await;
    // One that serves a third of all slots or so, but not this.
    let mut to = set.node_of(other).await;
    for step in 1..=3 {
        if to != from {
            break;
        }
        to = set.node_of((other + step * (SLOTS / 4)) % SLOTS).await;
    }
    let explains = vec![Explains::LostLock];
    let open = stage.begin(&Kind::MoveSlot.name(), Target::Store, explains);
    let set = &stage.nodes()?.set;
    set.move_slots(slot..=slot, to).await;
    set.whole().await;
    let is_there = set.node_of(slot).await == to;
    stage.end(&open);
    Ok(is_there && to != from)
}
