//! Faults of a master, its replicas and their sentinels.

use delayq_plugin::millis;
use delayq_tests::network::Clients;

use super::Kind;
use crate::event::{Explains, Target};
use crate::run::{Result, Stage};

/// How long something is gone, at most.
const ABSENCE_MS: u64 = 2_000;

/// Takes the master away until sentinels have made another server the master, and a while longer;
/// then it comes back: killed, as it was started; stopped or cut off, alone or with a replica that
/// goes on confirming, as a master that nobody else follows any more. That another one is the
/// master shows that it happened.
pub(super) async fn replace_master(kind: Kind, stage: &mut Stage) -> Result<bool> {
    let absence = stage.dice.u64(..ABSENCE_MS);
    let clients = [Clients::Everywhere, Clients::Near, Clients::Far];
    let clients = stage.dice.choice(clients).unwrap_or_default();
    let sentinels = stage.watched()?.set.sentinels.len();
    let sentinel = stage.dice.usize(..sentinels);
    let old = stage.watched()?.ready().await;
    let mut cut = vec![old];
    cut.extend(stage.replica_of(old)?.filter(|_| stage.dice.bool()));
    let explains = vec![Explains::LostLock];
    let open = stage.begin(&kind.name(), Target::Store, explains);
    match kind {
        Kind::KillMaster => stage.watched()?.server(old)?.kill(),
        Kind::StopMaster => stage.watched()?.server(old)?.stop(),
        _ => (stage.watched()?.set).cut_off(&cut, &[sentinel], clients),
    }
    // Who is cut off together with the old master is not served before the network heals, and
    // nobody is by a new one that has no replica left.
    if kind != Kind::CutMaster || clients != Clients::Far && cut.len() == 1 {
        stage.strike(&open);
    }
    stage.watched()?.failed_over(old).await;
    tokio::time::sleep(millis(absence)).await;
    match kind {
        Kind::KillMaster => stage.watched()?.server(old)?.restart(),
        Kind::StopMaster => stage.watched()?.server(old)?.resume(),
        _ => stage.watched()?.set.heal(),
    }
    let new = stage.watched()?.ready().await;
    stage.end(&open);
    Ok(new != old)
}

impl Stage {
    /// One of the replicas, by chance.
    fn replica_of(&mut self, master: usize) -> Result<Option<usize>> {
        let servers = self.watched()?.set.servers.len();
        let replicas = (0..servers).filter(|server| *server != master);
        Ok(self.dice.choice(replicas.collect::<Vec<_>>()))
    }
}

/// SIGKILL of a replica, which is started again and copies everything anew. Writes wait until it is
/// known not to follow: about a second, which costs a short lock. That it ran until then shows that
/// it happened.
pub(super) async fn kill_replica(stage: &mut Stage) -> Result<bool> {
    let absence = stage.dice.u64(..ABSENCE_MS);
    let master = stage.watched()?.ready().await;
    let victim = stage.replica_of(master)?.unwrap_or_default();
    let open = stage.begin(
        &Kind::KillReplica.name(),
        Target::Store,
        vec![Explains::LostLock],
    );
    let was_there = stage.watched()?.server(victim)?.is_running();
    stage.watched()?.server(victim)?.kill();
    tokio::time::sleep(millis(absence)).await;
    stage.watched()?.server(victim)?.restart();
    stage.watched()?.ready().await;
    stage.end(&open);
    Ok(was_there)
}

/// SIGKILL of a sentinel, which is started again. It explains nothing.
pub(super) async fn kill_sentinel(stage: &mut Stage) -> Result<bool> {
    let absence = stage.dice.u64(..ABSENCE_MS);
    stage.watched()?.ready().await;
    let sentinels = stage.watched()?.set.sentinels.len();
    let victim = stage.dice.usize(..sentinels);
    let open = stage.begin(&Kind::KillSentinel.name(), Target::Store, Vec::new());
    let was_there = stage.watched()?.sentinel(victim)?.is_running();
    stage.watched()?.sentinel(victim)?.kill();
    tokio::time::sleep(millis(absence)).await;
    stage.watched()?.set.restart_sentinel(victim).await;
    stage.watched()?.ready().await;
    stage.end(&open);
    Ok(was_there)
}
