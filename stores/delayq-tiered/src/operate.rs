//! Operators' calls, over both stores.

use std::collections::HashSet;
use std::time::Duration;

use delayq_core::operate::{
    AuditReport, Cursor, DeadFilter, Page, Problem, TypeSettings, TypeStats, TypeTotals,
    merge_pages, sum_stats,
};
use delayq_core::store::{CancelOutcome, Concern, MAX_BATCH};
use delayq_core::{
    Clock, Error, Result, SystemClock, TaskId, TaskState, TaskType, Timestamp, seconds,
};
use futures_util::future::join_all;

use crate::counts::owned;
use crate::far::show;
use crate::parts::{Parts, is_live, may_be_moved};

/// The types of both stores. While cold is away, hot knows those that it has.
pub(crate) async fn types(parts: &Parts) -> Result<Vec<TaskType>> {
    let mut types = parts.hot.types().await?;
    types.extend(match parts.cold.types().await {
        Err(error) if error.is_transient() => parts.marks.types(&*parts.hot).await?,
        types => types?,
    });
    types.sort();
    types.dedup();
    Ok(types)
}

/// Changes settings. Those of the records of ends are cold's, too: it is told later if it is away,
/// unless nobody is there to do it.
pub(crate) async fn configure(
    parts: &Parts,
    task_type: &TaskType,
    settings: &TypeSettings,
) -> Result<()> {
    parts.hot.configure_type(task_type, settings).await?;
    parts.counts.forget(task_type);
    let mut own = TypeSettings::default();
    own.history = settings.history;
    if own == TypeSettings::default() {
        return Ok(());
    }
    parts.marks.keep(task_type, own);
    match parts.marks.tell(&*parts.cold, task_type).await {
        Err(error) if parts.options.moves_nothing || !error.is_transient() => Err(error),
        _ => Ok(()),
    }
}

/// The counts of both stores. A task that is being moved counts as scheduled. While cold is away,
/// types without far tasks are counted by hot.
pub(crate) async fn stats(parts: &Parts, task_type: &TaskType) -> Result<TypeStats> {
    // Cold first: a task that moves in between is counted twice, and never missing.
    let asked = parts.far(task_type, parts.cold.stats(task_type)).await?;
    let Some(mut cold) = asked else {
        return parts.hot.stats(task_type).await;
    };
    let hot = parts.hot.stats(task_type).await?;
    cold.scheduled += cold.running;
    (cold.running, cold.due) = (0, 0);
    cold.next_due = cold.next_due.map(|due| due.plus(parts.lead()));
    cold.max_pending = None;
    cold.paused_until = None;
    (cold.fleet_concurrency, cold.fleet_rate) = (None, None);
    // What cold has done was moved.
    let mut ended = TypeTotals::default();
    ended.dead = cold.totals.dead;
    ended.cancelled = cold.totals.cancelled;
    ended.expired = cold.totals.expired;
    cold.totals = ended;
    let now = hot.now;
    let mut sum = sum_stats(hot, &cold);
    sum.now = now;
    Ok(sum)
}

/// One page over both stores.
pub(crate) async fn list(
    parts: &Parts,
    task_type: &TaskType,
    state: TaskState,
    cursor: Option<&Cursor>,
    limit: usize,
) -> Result<Page> {
    if matches!(state, TaskState::Running | TaskState::Done) {
        return parts.hot.list(task_type, state, cursor, limit).await;
    }
    let lead = match state {
        TaskState::Scheduled => parts.lead(),
        _ => Duration::ZERO,
    };
    let own = cursor.map(|cursor| Cursor::new(cursor.at.minus(lead), cursor.id.clone()));
    let asked = parts.cold.list(task_type, state, own.as_ref(), limit);
    let Some(mut cold) = parts.far(task_type, asked).await? else {
        return parts.hot.list(task_type, state, cursor, limit).await;
    };
    let hot = parts.hot.list(task_type, state, cursor, limit).await?;
    for task in &mut cold.tasks {
        let at = task.at.plus(lead);
        show(task, parts.lead());
        task.at = at;
    }
    if let Some(next) = &mut cold.next {
        next.at = next.at.plus(lead);
    }
    let moved: HashSet<&TaskId> = hot.tasks.iter().map(|task| &task.id).collect();
    cold.tasks.retain(|task| !moved.contains(&task.id));
    Ok(merge_pages(vec![hot, cold], state, limit))
}

/// The scheduled tasks of both stores by due time.
pub(crate) async fn histogram(
    parts: &Parts,
    task_type: &TaskType,
    from: Timestamp,
    to: Timestamp,
    steps: usize,
) -> Result<Vec<u64>> {
    let mut sum = parts.hot.due_histogram(task_type, from, to, steps).await?;
    let (from, to) = (from.minus(parts.lead()), to.minus(parts.lead()));
    if from < to {
        let asked = parts.cold.due_histogram(task_type, from, to, steps);
        let cold = parts.far(task_type, asked).await?;
        sum.iter_mut()
            .zip(cold.unwrap_or_default())
            .for_each(|(sum, count)| *sum += count);
    }
    Ok(sum)
}

/// The filter for cold, after hot had `found` matches.
fn rest_of(filter: &DeadFilter, found: usize) -> DeadFilter {
    let mut rest = filter.clone();
    if let DeadFilter::Matching { limit, .. } = &mut rest {
        *limit = limit.saturating_sub(found);
    }
    rest
}

/// Requeues dead tasks of hot, and those that promoters have set aside.
pub(crate) async fn requeue(
    parts: &Parts,
    task_type: &TaskType,
    filter: &DeadFilter,
    interval: Duration,
) -> Result<Vec<TaskId>> {
    let mut ids = parts.hot.requeue_dead(task_type, filter, interval).await?;
    let rest = rest_of(filter, ids.len());
    let asked = parts.cold.requeue_dead(task_type, &rest, interval);
    ids.extend(parts.far(task_type, asked).await?.unwrap_or_default());
    Ok(ids)
}

/// Discards dead tasks of both stores.
pub(crate) async fn discard(
    parts: &Parts,
    task_type: &TaskType,
    filter: &DeadFilter,
) -> Result<Vec<TaskId>> {
    let mut ids = parts.hot.discard_dead(task_type, filter).await?;
    let rest = rest_of(filter, ids.len());
    let asked = parts.cold.discard_dead(task_type, &rest);
    ids.extend(parts.far(task_type, asked).await?.unwrap_or_default());
    Ok(ids)
}

/// Purges both stores. Of the done tasks only those of hot count: those of cold were moved.
pub(crate) async fn purge(parts: &Parts, task_type: &TaskType, state: TaskState) -> Result<u64> {
    if state == TaskState::Running {
        return parts.hot.purge(task_type, state).await;
    }
    let asked = parts.far(task_type, parts.cold.purge(task_type, state));
    let cold = asked.await?.unwrap_or_default();
    let hot = parts.hot.purge(task_type, state).await?;
    Ok(match state {
        TaskState::Done => hot,
        _ => hot + cold,
    })
}

/// Drops a type that has no task in either store.
pub(crate) async fn drop_type(parts: &Parts, task_type: &TaskType) -> Result<()> {
    let cold = parts.cold.stats(task_type).await?;
    if owned(&cold) > 0 {
        let hot = parts.hot.stats(task_type).await?;
        return Err(Error::TypeInUse {
            task_type: task_type.to_string(),
            scheduled: hot.scheduled + cold.scheduled + cold.running,
            running: hot.running,
            dead: hot.dead + cold.dead,
        });
    }
    parts.hot.drop_type(task_type).await?;
    parts.cold.drop_type(task_type).await?;
    parts.counts.forget(task_type);
    parts.marks.remove(&*parts.hot, task_type).await
}

/// Audits both stores, and looks for ids that both have.
pub(crate) async fn audit(
    parts: &Parts,
    task_type: &TaskType,
    repair: bool,
) -> Result<AuditReport> {
    let mut report = parts.hot.audit(task_type, repair).await?;
    let cold = parts.cold.audit(task_type, repair).await?;
    report.checked += cold.checked;
    report.problems.extend(cold.problems);
    let [hot, cold] = [
        parts.hot.stats(task_type).await?,
        parts.cold.stats(task_type).await?,
    ];
    // The smaller half is looked up in the larger one.
    let (one, other) = if hot.scheduled <= cold.scheduled {
        (&parts.hot, &parts.cold)
    } else {
        (&parts.cold, &parts.hot)
    };
    let mut cursor = None;
    loop {
        let scheduled = TaskState::Scheduled;
        let page = one
            .list(task_type, scheduled, cursor.as_ref(), MAX_BATCH)
            .await?;
        let found = page
            .tasks
            .iter()
            .map(|task| other.find(task_type, &task.id));
        for found in join_all(found).await {
            if let Some(task) = found?.filter(is_live) {
                report
                    .problems
                    .extend(twice(parts, task_type, &task.id, repair).await?);
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(report);
        }
    }
}

/// The problem of an id that both stores have, unless it is being moved. A repair keeps the task of
/// hot.
async fn twice(
    parts: &Parts,
    task_type: &TaskType,
    id: &TaskId,
    repair: bool,
) -> Result<Option<Problem>> {
    let far = parts.cold.find(task_type, id).await?;
    let near = parts.hot.find(task_type, id).await?;
    let (Some(far), Some(near)) = (far, near) else {
        return Ok(None);
    };
    if far.state != TaskState::Scheduled || !is_live(&near) || may_be_moved(&far) {
        return Ok(None);
    }
    let repaired = repair && parts.cold.cancel(task_type, id).await? == CancelOutcome::Cancelled;
    let what = "it is in the hot store and in the cold one: the hot one keeps it";
    Ok(Some(Problem::new(id.as_str(), what, repaired)))
}

/// The concerns of both stores, and what keeps tasks from being moved.
pub(crate) async fn concerns(parts: &Parts) -> Result<Vec<Concern>> {
    let mut all = parts.trouble.concerns();
    // A store that cannot be asked is told of below.
    all.extend(clocks(parts).await.unwrap_or_default());
    for (which, store) in [("hot", &parts.hot), ("cold", &parts.cold)] {
        for mut concern in store.concerns().await? {
            concern.found = format!("{which} store: {}", concern.found);
            all.push(concern);
        }
    }
    Ok(all)
}

/// By how much the clocks of both stores may differ.
const CLOCKS: Duration = seconds(1);

/// The concern of a cold store whose clock is not that of the hot one.
async fn clocks(parts: &Parts) -> Result<Option<Concern>> {
    let Some(task_type) = parts.cold.types().await?.into_iter().next() else {
        return Ok(None);
    };
    let began = SystemClock.elapsed();
    let hot = parts.hot.stats(&task_type).await?.now;
    let cold = parts.cold.stats(&task_type).await?.now;
    let took = SystemClock.elapsed().saturating_sub(began);
    let (ahead, behind) = (cold.since(hot).saturating_sub(took), hot.since(cold));
    let off = ahead.max(behind);
    Ok((off > CLOCKS).then(|| {
        let direction = if behind > ahead { "behind" } else { "ahead of" };
        Concern::new(
            format!("the clock of the cold store is {off:.1?} {direction} that of the hot store"),
            "far tasks are moved too early or too late by as much, and whether one whose move was \
             broken off has run cannot be told",
            "set both clocks by the same time servers",
        )
    }))
}
