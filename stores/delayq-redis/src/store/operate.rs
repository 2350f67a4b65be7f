//! Operators' methods: each shard of a type is asked, and the answers are combined.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::operate::{
    AuditReport, Cursor, DeadFilter, Operate, Page, Problem, Setting, TypeSettings, TypeStats,
    check_histogram, merge_pages, sum_stats,
};
use delayq_core::store::MAX_BATCH;
use delayq_core::{Error, Result, TaskId, TaskState, TaskType, Timestamp};
use futures_util::future::join_all;

use super::RedisStore;
use crate::connection::Command;
use crate::layout::{Shards, TypeMap, share};
use crate::lock::lock;
use crate::scripts::dead::{DeadScan, Purge, RequeuePlan};
use crate::scripts::query;
use crate::shard::Shard;

/// Number of types read in one step.
const TYPES_AT_ONCE: &str = "1000";
/// How often the shards of a type are asked again because it was resized meanwhile.
const MAX_TRIES: usize = 8;

#[async_trait]
impl Operate for RedisStore {
    async fn types(&self) -> Result<Vec<TaskType>> {
        let key = self.cx.keys.types();
        let mut types = Vec::new();
        let mut cursor = "0".to_owned();
        loop {
            let scan = Command::read(&["SSCAN", &key, &cursor, "COUNT", TYPES_AT_ONCE]);
            let mut fields = self.call_types(scan).await?;
            cursor = fields.text()?;
            let mut names = fields.list()?;
            while !names.is_empty() {
                match TaskType::new(names.text()?) {
                    Ok(task_type) => types.push(task_type),
                    // The others have to be served nevertheless.
                    Err(error) => {
                        if let Some(left_out) = self.cx.log.admit() {
                            tracing::error!(key, %error, left_out, "a listed task type is damaged");
                        }
                    }
                }
            }
            if cursor == "0" {
                break;
            }
        }
        types.sort();
        // A scan may return a name twice.
        types.dedup();
        Ok(types)
    }

    async fn register_type(&self, task_type: &TaskType) -> Result<()> {
        self.list_type(task_type).await
    }

    async fn configure_type(&self, task_type: &TaskType, settings: &TypeSettings) -> Result<()> {
        settings.check()?;
        if matches!(settings.history, Setting::To(_)) {
            // Before the first record, so that none is overlooked.
            self.note_recorded(task_type).await?;
        }
        refuse_limit(task_type, settings, settings.shards.unwrap_or(1))?;
        if let Setting::To(most) = settings.max_pending {
            let count = self.shards.current(task_type).await?.newest().count();
            let wanted = settings
                .shards
                .and_then(|shards| usize::try_from(shards).ok());
            share::check(Some(most), count.max(wanted.unwrap_or(1)), task_type)?;
        }
        if let Some(wanted) = settings.shards {
            set_settings(&self.shards, task_type, &lifted_limits(settings)).await?;
            let keeps_bound = settings.max_pending == Setting::Keep;
            let count = self.shards.resize(task_type, wanted, keeps_bound).await?;
            if count > usize::try_from(wanted).unwrap_or(1) {
                tracing::warn!(%task_type, wanted, count,
                    "the type has more shards than its worker asks for: their number is never lowered");
            }
        }
        set_settings(&self.shards, task_type, settings).await
    }

    async fn stats(&self, task_type: &TaskType) -> Result<TypeStats> {
        let ask = |shard: Arc<Shard>| async move {
            let found = shard.upkeep().stats().await?;
            Ok((found.stats, found.split))
        };
        let all = ask_all(&self.shards, task_type, ask).await?;
        Ok(all.iter().fold(TypeStats::default(), sum_stats))
    }

    async fn list(
        &self,
        task_type: &TaskType,
        state: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        let map = self.shards.current(task_type).await?;
        let limit = limit.clamp(1, MAX_BATCH);
        let pages = join_all(
            map.all()
                .map(|shard| shard.upkeep().list(state, cursor, limit)),
        )
        .await;
        Ok(merge_pages(
            pages.into_iter().collect::<Result<_>>()?,
            state,
            limit,
        ))
    }

    async fn due_histogram(
        &self,
        task_type: &TaskType,
        from: Timestamp,
        to: Timestamp,
        steps: usize,
    ) -> Result<Vec<u64>> {
        check_histogram(from, to, steps)?;
        let bounds = query::bounds(from, to, steps);
        let map = self.shards.current(task_type).await?;
        let mut sums = vec![0; steps];
        for counts in join_all(map.all().map(|shard| shard.upkeep().histogram(&bounds))).await {
            for (sum, count) in sums.iter_mut().zip(counts?) {
                *sum += count;
            }
        }
        Ok(sums)
    }

    /// Works shard by shard: the order of death holds within each.
    async fn requeue_dead(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        interval: Duration,
    ) -> Result<Vec<TaskId>> {
        filter.check()?;
        let now = self.stats(task_type).await?.now;
        let map = self.shards.current(task_type).await?;
        let mut plan = RequeuePlan {
            next_due: String::new(),
            interval,
        };
        let mut requeued = Vec::new();
        for shard in map.all() {
            let filter = of_shard(filter, &map, shard);
            let scan = DeadScan::new(&filter, now, left(&filter, &requeued));
            requeued.extend(shard.upkeep().requeue(scan, &mut plan).await?);
        }
        Ok(requeued)
    }

    async fn discard_dead(&self, task_type: &TaskType, filter: &DeadFilter) -> Result<Vec<TaskId>> {
        filter.check()?;
        let now = self.stats(task_type).await?.now;
        let map = self.shards.current(task_type).await?;
        let mut discarded = Vec::new();
        for shard in map.all() {
            let filter = of_shard(filter, &map, shard);
            let scan = DeadScan::new(&filter, now, left(&filter, &discarded));
            discarded.extend(shard.upkeep().discard(scan).await?);
        }
        Ok(discarded)
    }

    async fn pause(&self, task_type: &TaskType, until: Option<Timestamp>) -> Result<()> {
        set_pause(&self.shards, task_type, until.unwrap_or(Timestamp::MAX)).await
    }

    async fn resume(&self, task_type: &TaskType) -> Result<()> {
        set_pause(&self.shards, task_type, Timestamp::ZERO).await
    }

    async fn purge(&self, task_type: &TaskType, state: TaskState) -> Result<u64> {
        let purge = Purge::of(state)?;
        let map = self.shards.current(task_type).await?;
        let mut purged = 0;
        for shard in map.all() {
            purged += shard.upkeep().purge(purge).await?;
        }
        Ok(purged)
    }

    /// The list of types is on another node than the type: a task sent between the two steps may
    /// have listed the type just before it was unlisted.
    async fn drop_type(&self, task_type: &TaskType) -> Result<()> {
        let map = self.shards.current(task_type).await?;
        let shard = match map.all().collect::<Vec<_>>()[..] {
            [only] if only.keys.bucket.shard_name().is_empty() => Arc::clone(only),
            _ => return Err(refuse_sharded(task_type)),
        };
        // Tests the right to do so, which is not checked at the start. No type has this name.
        self.unlist("").await?;
        let (in_use, split) = shard.upkeep().drop_type().await?;
        if !shard.keys.is_open(&split) && !split.is_empty() {
            return Err(refuse_sharded(task_type));
        }
        if let [scheduled, running, dead] = in_use
            && in_use != [0; 3]
        {
            return Err(Error::TypeInUse {
                task_type: task_type.to_string(),
                scheduled,
                running,
                dead,
            });
        }
        self.unlist(task_type.as_str()).await?;
        lock(&self.listed).remove(task_type);
        if shard.upkeep().setting("v").await?.is_some() {
            self.list_type(task_type).await?;
        }
        Ok(())
    }

    /// Audits each shard, checks that each id is where a query looks for it, and that the type is
    /// listed.
    async fn audit(&self, task_type: &TaskType, repair: bool) -> Result<AuditReport> {
        let map = self.shards.current(task_type).await?;
        let mut report = AuditReport::default();
        for shard in map.all() {
            let belongs = |id: &[u8]| map.of(id).any(|own| Arc::ptr_eq(own, shard));
            shard.upkeep().audit(belongs, repair, &mut report).await?;
        }
        let name = task_type.as_str();
        let ask = Command::read(&["SISMEMBER", &self.cx.keys.types(), name]);
        if report.checked > 0 && !self.call_types(ask).await?.flag()? {
            if repair {
                self.list_type(task_type).await?;
            }
            // A restart would not find the type.
            let what = "this type has tasks and is not listed";
            let problem = Problem::new(name, what, repair);
            report.problems.push(problem);
        }
        Ok(report)
    }
}

/// The part of a filter that concerns a shard.
fn of_shard(filter: &DeadFilter, map: &TypeMap, shard: &Arc<Shard>) -> DeadFilter {
    let DeadFilter::Ids(ids) = filter else {
        return filter.clone();
    };
    let may_have = |id: &&TaskId| {
        let mut shards = map.of(id.as_str().as_bytes());
        shards.any(|own| Arc::ptr_eq(own, shard))
    };
    DeadFilter::Ids(ids.iter().filter(may_have).cloned().collect())
}

/// The number of tasks that a filter may still select.
fn left(filter: &DeadFilter, done: &[TaskId]) -> usize {
    match filter {
        DeadFilter::Matching { limit, .. } => limit.saturating_sub(done.len()),
        DeadFilter::Ids(_) => usize::MAX,
    }
}

/// Asks every shard of a type. Starts again if one of the newest reports that there are others by
/// now.
async fn ask_all<T, A: Future<Output = Result<(T, String)>>>(
    shards: &Shards,
    task_type: &TaskType,
    ask: impl Fn(Arc<Shard>) -> A,
) -> Result<Vec<T>> {
    for _ in 0..MAX_TRIES {
        let map = shards.current(task_type).await?;
        let answers = join_all(map.all().map(|shard| ask(Arc::clone(shard)))).await;
        let (mut all, mut is_outdated) = (Vec::new(), false);
        for (shard, answer) in map.all().zip(answers) {
            let (answer, split) = answer?;
            is_outdated |= map.is_newest(shard) && !shard.keys.is_open(&split);
            all.push(answer);
        }
        if !is_outdated {
            return Ok(all);
        }
        shards.refresh(task_type, &map).await?;
    }
    Err(shards.unsettled(task_type))
}

fn refuse_sharded(task_type: &TaskType) -> Error {
    let reason = format!("task type {task_type} was sharded: it cannot be dropped, only purged");
    Error::invalid("argument", reason)
}

/// Refuses a fleet limit on several shards.
fn refuse_limit(task_type: &TaskType, settings: &TypeSettings, shards: u32) -> Result<()> {
    if shards <= 1 || !settings.limits_fleet() {
        return Ok(());
    }
    let task_type = task_type.to_string();
    Err(Error::FleetLimitOnShards { task_type, shards })
}

/// Changes the settings of the shards that take new tasks, which share a limit.
async fn set_settings(
    shards: &Shards,
    task_type: &TaskType,
    settings: &TypeSettings,
) -> Result<()> {
    let bound = settings.max_pending;
    let is_kept =
        settings.fleet_concurrency == Setting::Keep && settings.fleet_rate == Setting::Keep;
    let whole = match bound {
        Setting::Keep if is_kept && settings.history == Setting::Keep => return Ok(()),
        Setting::To(most) => Some(most),
        Setting::Unset | Setting::Keep => None,
    };
    for _ in 0..MAX_TRIES {
        let map = shards.current(task_type).await?;
        let count = map.newest().count();
        refuse_limit(
            task_type,
            settings,
            u32::try_from(count).unwrap_or(u32::MAX),
        )?;
        let set = map
            .newest()
            .zip(share::bounds(whole, count))
            .map(|(shard, own)| {
                let own = if bound == Setting::Keep {
                    bound
                } else {
                    own.into()
                };
                shard.upkeep().configure(own, settings)
            });
        let answers = join_all(set).await;
        let mut is_outdated = false;
        for (shard, split) in map.newest().zip(answers) {
            is_outdated |= !shard.keys.is_open(&split?);
        }
        if !is_outdated {
            return record_older(&map, settings).await;
        }
        shards.refresh(task_type, &map).await?;
    }
    Err(shards.unsettled(task_type))
}

/// Tells the shards that take no new tasks whether the ends of theirs are recorded.
async fn record_older(map: &TypeMap, settings: &TypeSettings) -> Result<()> {
    let mut own = TypeSettings::default();
    own.history = settings.history;
    if own == TypeSettings::default() {
        return Ok(());
    }
    let older = map.older();
    let set = older.map(|shard| shard.upkeep().configure(Setting::Keep, &own));
    let answers = join_all(set).await;
    answers.into_iter().try_for_each(|set| set.map(drop))
}

/// The part of `settings` that removes fleet limits: a resize in the same change needs that first.
fn lifted_limits(settings: &TypeSettings) -> TypeSettings {
    let mut lifted = TypeSettings::default();
    if settings.fleet_concurrency == Setting::Unset {
        lifted.fleet_concurrency = Setting::Unset;
    }
    if settings.fleet_rate == Setting::Unset {
        lifted.fleet_rate = Setting::Unset;
    }
    lifted
}

async fn set_pause(shards: &Shards, task_type: &TaskType, until: Timestamp) -> Result<()> {
    let pause = |shard: Arc<Shard>| async move { Ok(((), shard.upkeep().pause(until).await?)) };
    ask_all(shards, task_type, pause).await.map(drop)
}
