//! Faults of the nodes of a cluster, and slots that move.

use delayq_core::operate::TypeSettings;
use delayq_plugin::millis;
use delayq_tests::cluster_set::SLOTS;

use super::Kind;
use crate::event::{Explains, Target};
use crate::run::{REPLICAS, Result, SHARDS, Stage, failure};

/// How long a node stays away after it was replaced, at most.
const ABSENCE_MS: u64 = 1_000;
/// How long a replica stays away, at most: also longer than the node timeout.
const REPLICA_ABSENCE_MS: u64 = 4_000;
/// How long a node is left alone with one of its replicas, at most: it takes writes for as long as
/// the node timeout.
const APART_MS: u64 = 800;
/// Masters and replicas, at most: they share one machine.
const MOST_NODES: usize = 12;
/// How many slots are moved to a new master: about its share of those in use.
const SLOTS_OF_NEW: usize = 4;
/// Shards, at most: each has a loop of its own in every process.
const MOST_SHARDS: u32 = 8;

/// Takes the master of a slot away until its replica serves the slot, and a while longer; then it
/// comes back, killed or stopped. That another one serves the slot shows that it happened.
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

/// SIGKILL of a replica of a master, which is started again and copies everything anew. Until the
/// other masters take it for dead, and while it copies, its master's writes wait. That it ran until
/// then shows that it happened.
pub(super) async fn kill_replica(stage: &mut Stage) -> Result<bool> {
    let absence = stage.dice.u64(..REPLICA_ABSENCE_MS);
    stage.nodes()?.set.whole().await;
    let masters = stage.nodes()?.set.masters().await;
    let master = stage.dice.choice(masters).unwrap_or_default();
    let replicas = stage.nodes()?.set.replicas_of(master).await;
    let Some(victim) = stage.dice.choice(replicas) else {
        return Ok(false);
    };
    let explains = vec![Explains::LostLock];
    let open = stage.begin(&Kind::KillReplica.name(), Target::Store, explains);
    let was_there = stage.nodes()?.node(victim)?.is_running();
    stage.nodes()?.node(victim)?.kill();
    tokio::time::sleep(millis(absence)).await;
    stage.nodes()?.node(victim)?.restart();
    stage.nodes()?.set.whole().await;
    stage.end(&open);
    Ok(was_there)
}

/// Leaves the master of a slot alone with its clients and one of its replicas while all others are
/// stopped, for less than it takes it to notice; then those two are killed, and the others go on.
/// What it has acknowledged meanwhile, the other replica, which now serves the slot, would lack.
/// Then the two come back.
pub(super) async fn cut(stage: &mut Stage) -> Result<bool> {
    let (apart, slot) = (stage.dice.u64(..APART_MS), stage.dice.u16(..SLOTS));
    stage.nodes()?.set.whole().await;
    let set = &stage.nodes()?.set;
    let old = set.node_of(slot).await;
    let [with, ..] = set.replicas_of(old).await[..] else {
        return Ok(false);
    };
    let others: Vec<usize> = (0..set.nodes.len())
        .filter(|node| ![old, with].contains(node))
        .collect();
    let explains = vec![Explains::LostLock];
    let open = stage.begin(&Kind::CutNode.name(), Target::Store, explains);
    for node in &others {
        stage.nodes()?.node(*node)?.stop();
    }
    // Or else what is on its way to the other one would still be read.
    stage.nodes()?.set.part_with_replicas(old, 1).await;
    tokio::time::sleep(millis(apart)).await;
    for node in [old, with] {
        stage.nodes()?.node(node)?.kill();
    }
    for node in others {
        stage.nodes()?.node(node)?.resume();
    }
    let new = stage.nodes()?.failed_over(old, slot).await;
    for node in [old, with] {
        stage.nodes()?.node(node)?.restart();
    }
    stage.nodes()?.set.whole().await;
    stage.end(&open);
    Ok(new != old)
}

/// Moves a slot that has keys, with the tasks in it, to another master. That this one serves it
/// shows that it happened.
pub(super) async fn move_slot(stage: &mut Stage) -> Result<bool> {
    stage.nodes()?.set.whole().await;
    let slot = slot_in_use(stage, None).await?;
    let set = &stage.nodes()?.set;
    let (from, mut others) = (set.node_of(slot).await, set.masters().await);
    others.retain(|master| *master != from);
    let Some(to) = stage.dice.choice(others) else {
        return Ok(false);
    };
    let explains = vec![Explains::LostLock];
    let open = stage.begin(&Kind::MoveSlot.name(), Target::Store, explains);
    let set = &stage.nodes()?.set;
    set.move_slots(slot..=slot, to).await;
    set.whole().await;
    let is_there = set.node_of(slot).await == to;
    stage.end(&open);
    Ok(is_there)
}

/// Adds a master with its replicas, and moves slots that have keys to it, while the cluster is
/// small enough. That it serves them shows that it happened.
pub(super) async fn add(stage: &mut Stage) -> Result<bool> {
    stage.nodes()?.set.whole().await;
    if stage.nodes()?.set.nodes.len() >= MOST_NODES {
        return Ok(false);
    }
    let explains = vec![Explains::LostLock];
    let open = stage.begin(&Kind::AddNode.name(), Target::Store, explains);
    let set = &mut stage.nodes()?.set;
    let master = set.add_node().await;
    for _ in 0..REPLICAS {
        let replica = set.add_node().await;
        set.follow(replica, master).await;
    }
    set.whole().await;
    let mut serves = 0;
    for _ in 0..SLOTS_OF_NEW {
        let slot = slot_in_use(stage, Some(master)).await?;
        let set = &stage.nodes()?.set;
        set.move_slots(slot..=slot, master).await;
        serves += usize::from(set.node_of(slot).await == master);
    }
    stage.nodes()?.set.whole().await;
    stage.end(&open);
    Ok(serves == SLOTS_OF_NEW)
}

/// Splits a type into more shards while it has few. It explains nothing. That the store has been
/// told so shows that it happened.
pub(super) async fn add_shards(stage: &mut Stage) -> Result<bool> {
    let more = stage.dice.u32(1..=3);
    stage.nodes()?.set.whole().await;
    let types = stage.service.store().types().await?;
    let Some(task_type) = stage.dice.choice(types) else {
        return Ok(false);
    };
    let known = stage.shards.entry(task_type.to_string());
    let shards = known.or_insert(SHARDS);
    if *shards + more > MOST_SHARDS {
        return Ok(false);
    }
    *shards += more;
    let settings = TypeSettings::default().shards(*shards);
    let open = stage.begin(&Kind::AddShards.name(), Target::Store, Vec::new());
    let store = stage.service.store();
    store.configure_type(&task_type, &settings).await?;
    stage.end(&open);
    Ok(true)
}

/// The slot of some key of some master that has any, but not of `except`: types with many tasks
/// have the most.
async fn slot_in_use(stage: &mut Stage, except: Option<usize>) -> Result<u16> {
    let mut masters = stage.nodes()?.set.masters().await;
    masters.retain(|master| Some(*master) != except);
    stage.dice.shuffle(&mut masters);
    let set = &stage.nodes()?.set;
    for node in masters {
        let key: Option<String> = set.ask(node, &["RANDOMKEY"]).await?;
        if let Some(key) = key {
            return Ok(set.slot_of(&key).await);
        }
    }
    failure("no node has a key")
}
