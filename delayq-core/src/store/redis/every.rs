//! Edges of a whole type: each partition is asked, and what they say is put together. One step a partition, not one
//! for the type.

use std::sync::Arc;

use super::RedisStore;
use super::divide;
use super::keys::Partition;
use super::seek::MAX_LOOKS;
use super::spread::Spread;
use super::together::together;
use crate::error::Result;
use crate::name::TaskType;
use crate::state::TaskState;
use crate::store::{AuditReport, Cursor, MAX_BATCH, Page, Setting, TypeSettings, TypeStats};
use crate::task::TaskInfo;
use crate::time::Timestamp;

impl RedisStore {
    /// Asks partitions, each with what goes with it; when one of the newest says that there are others by now, again.
    async fn ask_each<I, T, F, A>(
        &self,
        task_type: &TaskType,
        whom: impl Fn(&Spread) -> Vec<(Arc<Partition>, I)>,
        ask: F,
    ) -> Result<Vec<T>>
    where
        F: Fn(Arc<Partition>, I) -> A,
        A: Future<Output = Result<(T, String)>>,
    {
        for _ in 0..MAX_LOOKS {
            let spread = self.scope.spread(task_type);
            let asked = whom(&spread).into_iter().map(|(part, with)| {
                let answer = ask(Arc::clone(&part), with);
                async { (part, answer.await) }
            });
            let mut told = Vec::new();
            let mut is_outdated = false;
            for (part, answer) in together(asked).await {
                let (answer, split) = answer?;
                is_outdated |= spread.is_newest(&part) && split != part.open;
                told.push(answer);
            }
            if !is_outdated {
                return Ok(told);
            }
            self.look_again(task_type, &spread).await?;
        }
        Err(self.unsettled(task_type))
    }

    pub(super) async fn type_stats(&self, task_type: &TaskType) -> Result<TypeStats> {
        let ask = |part: Arc<Partition>, ()| async move { self.part_stats(&part).await };
        let all = self.ask_each(task_type, everyone, ask).await?;
        let sum = all.into_iter().reduce(|sum, part| TypeStats {
            now: sum.now.max(part.now),
            scheduled: sum.scheduled + part.scheduled,
            due: sum.due + part.due,
            running: sum.running + part.running,
            dead: sum.dead + part.dead,
            next_due: sum.next_due.into_iter().chain(part.next_due).min(),
            paused_until: sum.paused_until.max(part.paused_until),
            max_pending: plus(sum.max_pending, part.max_pending),
            refused: sum.refused + part.refused,
        });
        Ok(sum.unwrap_or_default())
    }

    /// Changes settings of a type. A bound is divided among the partitions that take new tasks.
    ///
    /// # Errors
    /// `InvalidInput` for a number of partitions or a bound that cannot be, before anything is changed.
    pub(super) async fn configure(
        &self,
        task_type: &TaskType,
        settings: &TypeSettings,
    ) -> Result<()> {
        let whole = match settings.max_pending {
            Setting::To(most) => Some(most),
            Setting::Keep | Setting::Unset => None,
        };
        if whole.is_some() {
            let there_are = self.look(task_type).await?.newest().count();
            let wanted = settings
                .partitions
                .map_or(1, |wanted| usize::try_from(wanted).unwrap_or(1));
            divide::check(whole, there_are.max(wanted), task_type)?;
        }
        if let Some(wanted) = settings.partitions {
            let keeps_bound = settings.max_pending == Setting::Keep;
            let there_are = self.raise(task_type, wanted, keeps_bound).await?;
            if there_are > usize::try_from(wanted).unwrap_or(1) {
                tracing::warn!(%task_type, wanted, there_are,
                    "the type has more partitions than it is declared with: their number is never lowered");
            }
        }
        if settings.max_pending == Setting::Keep {
            return Ok(());
        }
        let ask = |part: Arc<Partition>, most: Option<u64>| async move {
            Ok(((), self.configure_part(&part, most.into()).await?))
        };
        let newest = |spread: &Spread| {
            let parts = divide::bounds(whole, spread.newest().count());
            spread.newest().cloned().zip(parts).collect()
        };
        self.ask_each(task_type, newest, ask).await.map(drop)
    }

    /// `until` at or before now ends a pause.
    pub(super) async fn set_pause(&self, task_type: &TaskType, until: Timestamp) -> Result<()> {
        let ask = |part: Arc<Partition>, ()| async move {
            Ok(((), self.pause_part(&part, until).await?))
        };
        self.ask_each(task_type, everyone, ask).await.map(drop)
    }

    pub(super) async fn histogram(
        &self,
        task_type: &TaskType,
        bounds: &[Timestamp],
    ) -> Result<Vec<u64>> {
        let spread = self.look(task_type).await?;
        let parts = spread.all().map(|part| self.part_histogram(part, bounds));
        let mut sums = vec![0; bounds.len().saturating_sub(1)];
        for counts in together(parts).await {
            for (sum, count) in sums.iter_mut().zip(counts?) {
                *sum += count;
            }
        }
        Ok(sums)
    }

    /// A page of all partitions: each gives one, and they are merged up to where all of them have been seen.
    pub(super) async fn list_tasks(
        &self,
        task_type: &TaskType,
        state: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        let spread = self.look(task_type).await?;
        let limit = limit.clamp(1, MAX_BATCH);
        let parts = spread
            .all()
            .map(|part| self.list_part(part, state, cursor, limit));
        let (mut tasks, mut seen_to): (Vec<TaskInfo>, Option<Cursor>) = (Vec::new(), None);
        for page in together(parts).await {
            let Page { tasks: own, next } = page?;
            tasks.extend(own);
            seen_to = match (seen_to, next) {
                (Some(one), Some(other)) if is_before(&other, &one) => Some(other),
                (one, other) => one.or(other),
            };
        }
        tasks.sort_by(|a, b| (a.at, &a.id).cmp(&(b.at, &b.id)));
        let mut has_more = seen_to.is_some();
        if let Some(last) = seen_to {
            tasks.retain(|task| (task.at, &task.id) <= (last.at, &last.id));
        }
        if tasks.len() > limit {
            tasks.truncate(limit);
            has_more = true;
        }
        let last = tasks.last().filter(|_| has_more);
        let next = last.map(|task| Cursor {
            at: task.at,
            id: task.id.clone(),
        });
        Ok(Page { tasks, next })
    }

    /// Removes what is in `state`, one partition after the other.
    pub(super) async fn purge_tasks(&self, task_type: &TaskType, state: TaskState) -> Result<u64> {
        let spread = self.look(task_type).await?;
        let mut purged = 0;
        for part in spread.all() {
            purged += self.purge_part(part, state).await?;
        }
        Ok(purged)
    }

    /// Audits one partition after the other, and that each id is where a query looks for it.
    pub(super) async fn audit_type(
        &self,
        task_type: &TaskType,
        repair: bool,
    ) -> Result<AuditReport> {
        let spread = self.look(task_type).await?;
        let mut report = AuditReport::default();
        for part in spread.all() {
            let belongs = |id: &[u8]| spread.of(id).any(|own| own == part);
            self.audit_part(part, belongs, repair, &mut report).await?;
        }
        self.audit_listing(task_type, repair, &mut report).await?;
        Ok(report)
    }
}

fn everyone(spread: &Spread) -> Vec<(Arc<Partition>, ())> {
    spread.all().map(|part| (Arc::clone(part), ())).collect()
}

/// The sum of what there is.
fn plus(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    }
}

fn is_before(a: &Cursor, b: &Cursor) -> bool {
    (a.at, &a.id) < (b.at, &b.id)
}
