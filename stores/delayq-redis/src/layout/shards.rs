//! Shards of every type, and the resize of a type. A resize takes three steps, each of which any
//! store can repeat:
//!
//! 1. the registry says that a new epoch is being opened;
//! 2. every older shard is sealed, then the new ones are made, with the pause and bound of the
//!    type;
//! 3. the registry says that the epoch is open.
//!
//! A store that reads a layout which is being opened first completes the remaining steps. A sealed
//! shard reports that to callers with an older layout, so new layouts need no announcement. An old
//! epoch whose shards are all empty is removed from the layout: a sealed shard stays empty.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use delayq_core::operate::MAX_SHARDS;
use delayq_core::store::Durability;
use delayq_core::{Bucket, Error, Result, TaskId, TaskType};
use futures_util::future::join_all;

use super::placement;
use super::registry::{self, Stored};
use super::stored::{Layout, MAX_LIVE_EPOCHS};
use super::{Named, ShardMap, share};
use crate::lock::lock;
use crate::scripts::change::{Knowledge, Lookup};
use crate::shard::Shard;
use crate::shard::context::Context;
use crate::shard::upkeep::SealedSettings;

/// How often a layout is read again for one call. Somebody has resized the type each time, so more
/// tries would only hide a conflict.
pub(crate) const MAX_TRIES: usize = 8;

/// The shards of one type.
pub(crate) type TypeMap = ShardMap<Arc<Shard>>;

/// The shards of the types, as known to this store. A type that it has not asked about is assumed
/// to be unsharded: the first shard that is asked corrects this.
#[derive(Debug)]
pub(crate) struct Shards {
    cx: Arc<Context>,
    maps: Mutex<HashMap<TaskType, Arc<TypeMap>>>,
    /// True if a fail-over that keeps a registry change also keeps every seal before it.
    keeps_order: bool,
}

impl Shards {
    pub(crate) fn new(cx: &Arc<Context>, durability: Durability) -> Self {
        let is_cluster = cx.connections.is_cluster();
        Self {
            cx: Arc::clone(cx),
            maps: Mutex::default(),
            keeps_order: durability == Durability::Replicated || !is_cluster,
        }
    }

    /// The shards of a type, as far as they are known.
    pub(crate) fn known(&self, task_type: &TaskType) -> Arc<TypeMap> {
        if let Some(map) = lock(&self.maps).get(task_type) {
            return Arc::clone(map);
        }
        self.learn(task_type, Layout::default())
    }

    /// The shard named by a bucket; `None` for a bucket that this store never returns.
    pub(crate) fn shard(&self, bucket: &Bucket) -> Option<Arc<Shard>> {
        let map = self.known(bucket.task_type());
        let known = map.all().find(|shard| shard.keys.bucket == *bucket);
        if let Some(shard) = known {
            return Some(Arc::clone(shard));
        }
        let keys = self.cx.keys.shard_of(bucket)?;
        Some(Arc::new(Shard::new(&self.cx, keys)))
    }

    fn map_of(&self, task_type: &TaskType, layout: Layout) -> TypeMap {
        ShardMap::new(layout, |id| {
            Arc::new(Shard::new(&self.cx, self.cx.keys.shard(task_type, id)))
        })
    }

    fn learn(&self, task_type: &TaskType, layout: Layout) -> Arc<TypeMap> {
        let mut maps = lock(&self.maps);
        if let Some(known) = maps.get(task_type).filter(|known| known.layout == layout) {
            return Arc::clone(known);
        }
        let map = Arc::new(self.map_of(task_type, layout));
        if maps.insert(task_type.clone(), Arc::clone(&map)).is_some() {
            self.cx.hub.unknown.notify_one();
        }
        map
    }

    /// Reads the settled layouts of these types.
    pub(crate) async fn learn_all(&self, types: &[TaskType]) -> Result<()> {
        for (task_type, layout) in registry::read_settled(&self.cx, types).await? {
            self.learn(&task_type, layout);
        }
        Ok(())
    }

    /// The shards of a type according to the registry.
    pub(crate) async fn current(&self, task_type: &TaskType) -> Result<Arc<TypeMap>> {
        for _ in 0..MAX_TRIES {
            let stored = registry::read(&self.cx, task_type).await?;
            if !stored.layout.is_opening {
                return Ok(self.learn(task_type, stored.layout));
            }
            self.finish_opening(task_type, &stored).await?;
        }
        Err(self.unsettled(task_type))
    }

    /// Reads the layout again after a shard has reported that `known` is outdated. If it is not,
    /// either the registry has lost its last change, which a sealed shard still knows, or a shard
    /// was lost with its server's data and is created again.
    pub(crate) async fn refresh(&self, task_type: &TaskType, known: &TypeMap) -> Result<()> {
        let map = self.current(task_type).await?;
        if map.layout != known.layout {
            return Ok(());
        }
        if self.is_marked(&map).await? {
            tracing::error!(%task_type, "the stored layout has lost that the type packs tasks; restoring it");
            return self.allow_packing(task_type).await;
        }
        let now = map.layout.text();
        if let Some(layout) = self.next_layout(&map).await? {
            let next = layout.text();
            tracing::error!(%task_type, now, next, "the stored layout has lost its last change; restoring it");
            let stored = registry::read(&self.cx, task_type).await?;
            registry::change(&self.cx, task_type, &stored, &layout).await?;
            return self.current(task_type).await.map(drop);
        }
        tracing::error!(%task_type, layout = now, "a shard has lost its data; creating it again");
        self.open_newest(&map, SealedSettings::default()).await
    }

    /// True if one of the newest shards may pack tasks, which the layout does not say.
    async fn is_marked(&self, map: &TypeMap) -> Result<bool> {
        for shard in map.newest().filter(|shard| !shard.keys.packs()) {
            let split = shard.upkeep().setting("split").await?;
            if split.is_some_and(|split| split.starts_with('P')) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Marks the type as one that may pack tasks, in the registry. Each shard is marked by its next
    /// submit. From then on an earlier release, which knows no packed tasks, gets `Incompatible`.
    pub(crate) async fn allow_packing(&self, task_type: &TaskType) -> Result<()> {
        for _ in 0..MAX_TRIES {
            if self.current(task_type).await?.layout.packs {
                return Ok(());
            }
            let stored = registry::read(&self.cx, task_type).await?;
            if !stored.layout.is_opening {
                let packing = stored.layout.packing();
                registry::change(&self.cx, task_type, &stored, &packing).await?;
            }
        }
        Err(self.unsettled(task_type))
    }

    /// The layout that sealed one of the newest shards, if there is one.
    async fn next_layout(&self, map: &TypeMap) -> Result<Option<Layout>> {
        for shard in map.newest() {
            let next = shard.upkeep().setting("next").await?;
            let next = next.and_then(|text| Layout::parse(&text).ok());
            if let Some(next) = next.filter(|next| next.is_after(&map.layout)) {
                return Ok(Some(next));
            }
        }
        Ok(None)
    }

    /// Runs an operation on the task `id`, starting with the newest shard that may have it. A task
    /// that is live in one shard has ended in all others.
    pub(crate) async fn lookup<T, A: Future<Output = Result<Lookup<T>>>>(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        ask: impl Fn(Arc<Shard>) -> A,
    ) -> Result<T> {
        for _ in 0..MAX_TRIES {
            let map = self.known(task_type);
            let (mut best, mut is_outdated) = (None::<Lookup<T>>, false);
            for (nth, shard) in map.of(id.as_str().as_bytes()).enumerate() {
                let found = ask(Arc::clone(shard)).await?;
                match &found.knowledge {
                    Knowledge::Live => return Ok(found.answer),
                    Knowledge::Ended => {
                        is_outdated = false;
                        let has_end = |best: &Lookup<T>| best.knowledge == Knowledge::Ended;
                        if best.as_ref().is_none_or(|best| !has_end(best)) {
                            best = Some(found);
                        }
                    }
                    Knowledge::Nothing { split } => {
                        is_outdated |= nth == 0 && !shard.keys.is_open(split);
                        best.get_or_insert(found);
                    }
                }
            }
            match best {
                Some(best) if !is_outdated => return Ok(best.answer),
                _ => self.refresh(task_type, &map).await?,
            }
        }
        Err(self.unsettled(task_type))
    }

    /// Gives the type at least this many shards, and never fewer than it has. Returns their number.
    ///
    /// # Errors
    /// `InvalidInput` for a number out of range, or if the present `max_pending` is kept and too
    /// small for it. `Unavailable` while the shards before the last resize are still draining.
    /// `FleetLimitOnShards` if claims have a fleet limit.
    pub(crate) async fn resize(
        &self,
        task_type: &TaskType,
        shards: u32,
        keeps_bound: bool,
    ) -> Result<usize> {
        if !(1..=MAX_SHARDS).contains(&shards) {
            let reason = format!("{shards} shards: use 1 to {MAX_SHARDS}");
            return Err(Error::invalid("setting", reason));
        }
        let wanted = usize::try_from(shards).unwrap_or(1);
        for _ in 0..MAX_TRIES {
            let stored = registry::read(&self.cx, task_type).await?;
            if stored.layout.is_opening {
                self.finish_opening(task_type, &stored).await?;
                continue;
            }
            let count = stored.layout.count();
            if count >= wanted {
                self.learn(task_type, stored.layout);
                return Ok(count);
            }
            let map = self.map_of(task_type, stored.layout.clone());
            self.check_resize(task_type, &map, shards).await?;
            if keeps_bound {
                share::check(self.bound(&map).await?, wanted, task_type)?;
            }
            let epoch = stored.layout.next_number();
            let suffixes = self.suffixes(task_type, epoch, wanted);
            let raised = stored.layout.raised(suffixes);
            registry::change(&self.cx, task_type, &stored, &raised).await?;
        }
        Err(self.unsettled(task_type))
    }

    async fn check_resize(&self, task_type: &TaskType, map: &TypeMap, shards: u32) -> Result<()> {
        if map.layout.epochs().len() >= MAX_LIVE_EPOCHS {
            // This error goes away with time, so a process that declares the number at its start
            // tries again.
            let detail = format!(
                "{task_type} still drains the shards that it had before its last resize, and can be \
                 resized again once they are empty"
            );
            let store = self.cx.connections.place().to_string();
            return Err(Error::unavailable(store, detail));
        }
        for shard in map.newest() {
            for field in ["limited", "fleet_concurrency", "fleet_rate"] {
                if shard.upkeep().setting(field).await?.is_some() {
                    return Err(Error::FleetLimitOnShards {
                        task_type: task_type.to_string(),
                        shards,
                    });
                }
            }
        }
        Ok(())
    }

    /// The `max_pending` of a type, of which its newest shards each keep a share.
    async fn bound(&self, map: &TypeMap) -> Result<Option<u64>> {
        let mut whole: Option<u64> = None;
        for shard in map.newest() {
            if let Some(text) = shard.upkeep().setting("max_pending").await? {
                let own: u64 = text.parse().unwrap_or(u64::MAX);
                whole = Some(whole.unwrap_or(0).saturating_add(own));
            }
        }
        Ok(whole)
    }

    /// The suffixes of new shards. On one server they make no difference.
    fn suffixes(&self, task_type: &TaskType, epoch: u32, count: usize) -> Vec<u32> {
        if !self.cx.connections.is_cluster() {
            return vec![0; count];
        }
        let routing = self.cx.connections.routing();
        let masters = routing.servers();
        let has = |index: usize, shard| {
            let slot = self.cx.keys.shard(task_type, shard).slot;
            let owner = routing.server_of(slot);
            let both = owner.as_ref().zip(masters.get(index));
            both.is_some_and(|(owner, wanted)| Arc::ptr_eq(owner, wanted))
        };
        placement::suffixes(task_type, epoch, count, masters.len(), has)
    }

    async fn finish_opening(&self, task_type: &TaskType, stored: &Stored) -> Result<()> {
        let map = self.map_of(task_type, stored.layout.clone());
        let sealed = map.older().map(|shard| shard.upkeep().seal(&stored.text));
        let sealed = join_all(sealed).await;
        let (mut kept, mut empty) = (SealedSettings::default(), HashSet::new());
        "1".clone_into(&mut kept.born);
        for (shard, own) in map.older().zip(sealed) {
            let own = own?;
            kept.pause_ms = kept.pause_ms.max(own.pause_ms);
            // The limit is that of the shards that new tasks have gone to so far.
            if let Some(most) = own.max_pending.filter(|_| map.is_second_newest(shard)) {
                kept.max_pending = Some(kept.max_pending.unwrap_or(0).saturating_add(most));
            }
            if map.is_second_newest(shard) {
                kept.history = own.history;
                kept.history_most = own.history_most;
            }
            if own.born.is_empty() {
                kept.born.clear();
            }
            if own.is_empty && self.keeps_order {
                empty.insert(shard.name());
            }
        }
        self.open_newest(&map, kept).await?;
        // For a type without tasks so far, the old shards need not be asked.
        let mut drained = Vec::new();
        for name in empty {
            drained = map.drained(name);
        }
        let opened = stored.layout.opened().without(&drained);
        registry::change(&self.cx, task_type, stored, &opened).await
    }

    /// Creates the missing ones among the newest shards of a type.
    async fn open_newest(&self, map: &TypeMap, kept: SealedSettings) -> Result<()> {
        let shares = share::bounds(kept.max_pending, map.newest().count());
        let opened = map.newest().zip(shares).map(|(shard, max_pending)| {
            let kept = SealedSettings {
                max_pending,
                ..kept.clone()
            };
            shard.upkeep().open(kept)
        });
        join_all(opened).await.into_iter().collect()
    }

    /// Notes that a shard is sealed and empty, and removes its epoch from the layout once all of
    /// its shards are.
    pub(crate) async fn drained(&self, bucket: &Bucket) -> Result<()> {
        let task_type = bucket.task_type();
        let drained = self.known(task_type).drained(bucket.shard_name());
        if drained.is_empty() {
            return Ok(());
        }
        let stored = registry::read(&self.cx, task_type).await?;
        let rest = stored.layout.without(&drained);
        // A layout that is being opened still needs its old epochs.
        if rest != stored.layout && !stored.layout.is_opening {
            registry::change(&self.cx, task_type, &stored, &rest).await?;
        }
        self.current(task_type).await.map(drop)
    }

    /// The error for a type that is resized again and again, or whose shards report that.
    pub(crate) fn unsettled(&self, task_type: &TaskType) -> Error {
        Error::unavailable(
            self.cx.connections.place().to_string(),
            format!("the shards of {task_type} are being changed again and again"),
        )
    }
}
