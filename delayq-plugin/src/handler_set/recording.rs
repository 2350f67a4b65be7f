//! Recording: sends the handlers' counts, minute by minute, to the store and into announcements.

use std::collections::BTreeMap;
use std::sync::Arc;

use delayq_core::chronicle::{Figures, Spell, Step};
use delayq_core::presence::{RecentWork, TypeWork};
use delayq_core::{Error, Result, Store, TaskType, Timestamp};
use tokio::task::JoinSet;
use tracing::debug;

use super::shared::Shared;
use super::watched::Watched;
use crate::tally::{MAX_MINUTES, Tallies};

/// Number of minutes covered by an announcement, including the present one.
const RECENT_MINUTES: u32 = 5;

/// Concurrent calls: a store that shares its syncs needs one for all of them.
const CALLS: usize = 32;

/// Figures by their minute.
type Minutes = BTreeMap<Timestamp, Figures>;

/// Counts that were not sent yet, and the counts for announcements.
pub(super) struct Recording {
    tallies: Tallies,
    types: BTreeMap<TaskType, Recorded>,
    /// The start time of this instance.
    started_at: Timestamp,
    /// The store keeps no figures.
    is_unsupported: bool,
    adding: Watched,
}

#[derive(Debug, Default)]
struct Recorded {
    unsent: Minutes,
    recent: Minutes,
}

/// The answer of one call.
struct Added {
    task_type: TaskType,
    minutes: Vec<Spell>,
    result: Result<()>,
}

impl Recording {
    pub(super) fn new(shared: &Shared) -> Self {
        let (telemetry, who) = (&shared.settings.telemetry, "figures of this instance");
        Self {
            tallies: telemetry.tallies.clone(),
            types: BTreeMap::new(),
            started_at: shared.instance.started_at,
            is_unsupported: false,
            adding: Watched::new(telemetry.outages.caller(who), who),
        }
    }

    /// Takes the counts since the last time. Returns the work of the last minutes before `now`.
    pub(super) fn take(&mut self, now: Timestamp) -> RecentWork {
        for (task_type, minutes) in self.tallies.take() {
            let recorded = self.types.entry(task_type).or_default();
            recorded.add(&minutes, self.is_unsupported);
        }
        let span = Step::Minute.length() * (RECENT_MINUTES - 1);
        let since = Step::Minute.begin(now).minus(span);
        self.types.retain(|_, recorded| {
            recorded.recent.retain(|at, _| *at >= since && *at <= now);
            !(recorded.recent.is_empty() && recorded.unsent.is_empty())
        });
        let types = self.types.iter().map(|(task_type, recorded)| TypeWork {
            task_type: task_type.clone(),
            figures: sum(&recorded.recent),
        });
        RecentWork::new(since.max(self.started_at), types.collect())
    }

    /// True if there are counts that were not sent yet.
    pub(super) fn has_unsent(&self) -> bool {
        let mut types = self.types.values();
        types.any(|recorded| !recorded.unsent.is_empty())
    }

    /// Sends the counts not sent yet, with one call for each type that has some. Counts of a call
    /// in doubt are dropped, as they could be counted twice; those that the store certainly does
    /// not have are kept for later.
    pub(super) async fn send(&mut self, store: &Arc<dyn Store>) {
        if self.is_unsupported {
            return;
        }
        let unsent = self.types.iter();
        let unsent = unsent.filter(|(_, recorded)| !recorded.unsent.is_empty());
        let types: Vec<_> = unsent.map(|(task_type, _)| task_type.clone()).collect();
        for types in types.chunks(CALLS) {
            let mut calls = JoinSet::new();
            for task_type in types {
                let (task_type, store) = (task_type.clone(), Arc::clone(store));
                let minutes = self.take_unsent(&task_type);
                calls.spawn(async move {
                    let result = store.add_figures(&task_type, &minutes).await;
                    Added {
                        task_type,
                        minutes,
                        result,
                    }
                });
            }
            let mut is_away = false;
            while let Some(added) = calls.join_next().await {
                if let Ok(added) = added {
                    is_away |= matches!(&added.result, Err(error) if error.is_transient());
                    self.added(added);
                }
            }
            // The other types wait until the store is back.
            if is_away || self.is_unsupported {
                return;
            }
        }
    }

    fn take_unsent(&mut self, task_type: &TaskType) -> Vec<Spell> {
        let recorded = self.types.get_mut(task_type);
        let unsent = recorded.map(|recorded| std::mem::take(&mut recorded.unsent));
        let unsent = unsent.unwrap_or_default().into_iter();
        unsent.map(|(at, figures)| Spell { at, figures }).collect()
    }

    fn added(&mut self, added: Added) {
        let Added {
            task_type,
            minutes,
            result,
        } = added;
        if let Err(Error::Unsupported(_)) = result {
            debug!("the store keeps no figures");
            self.is_unsupported = true;
            return;
        }
        self.adding.report(&result);
        if result.is_err_and(|error| !error.is_indeterminate()) {
            let recorded = self.types.entry(task_type).or_default();
            put(&mut recorded.unsent, &minutes, MAX_MINUTES);
        }
    }
}

impl Recorded {
    fn add(&mut self, minutes: &[Spell], is_unsupported: bool) {
        put(&mut self.recent, minutes, RECENT_MINUTES as usize);
        if !is_unsupported {
            put(&mut self.unsent, minutes, MAX_MINUTES);
        }
    }
}

/// Adds figures to those of their minutes, and keeps the last `most` minutes.
fn put(minutes: &mut Minutes, new: &[Spell], most: usize) {
    for spell in new {
        *minutes.entry(spell.at).or_default() += &spell.figures;
    }
    while minutes.len() > most {
        minutes.pop_first();
    }
}

fn sum(minutes: &Minutes) -> Figures {
    let mut sum = Figures::default();
    for figures in minutes.values() {
        sum += figures;
    }
    sum
}
