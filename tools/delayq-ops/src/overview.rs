//! All types at a glance: numbers of tasks, serving instances, speed and lateness.

use std::time::Duration;

use delayq_plugin::store::{Figures, Spell, Step, serving};
use delayq_plugin::{
    Error, InstanceInfo, Result, TaskSubmitService, TaskType, Timestamp, TypePattern, TypeStats,
};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;

use crate::span;

/// Maximum number of types in one overview, with two calls for each.
pub const MAX_OVERVIEW_TYPES: usize = 1_000;

/// How far back the minutes of a type go.
const MINUTES: Duration = Duration::from_hours(1);
/// How far back its recent figures go.
const RECENT: Duration = Duration::from_mins(5);
/// Number of types requested concurrently: on Redis their calls share pipelines.
const AT_ONCE: usize = 32;
/// How long a task of a served type may be due before that counts as trouble: handlers poll every
/// second, and a busy type needs some time for its backlog.
const OVERDUE: Duration = Duration::from_mins(1);

/// The types of a store, and the instances that serve them.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Overview {
    /// The store's time at the answer, or this host's if there are no types.
    pub now: Timestamp,
    /// The types, by name.
    pub types: Vec<TypeOverview>,
    /// The number of listed types that match; larger than `types` if there are too many.
    pub type_count: usize,
    /// The announced instances.
    pub instances: Vec<InstanceInfo>,
}

/// One type at a glance.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TypeOverview {
    /// The type.
    pub task_type: TaskType,
    /// Its counts, next due time and pause.
    pub stats: TypeStats,
    /// The number of announced instances that may serve it.
    pub serving: usize,
    /// Its figures in the last five minutes, including the present one; `None` if the store keeps
    /// no figures. Instances add to them every 20 seconds.
    pub recent: Option<Figures>,
    /// The time covered by the recent figures.
    #[serde(rename = "recent_ms", serialize_with = "span::millis")]
    pub recent_span: Duration,
    /// The minutes of the last hour with any events.
    pub minutes: Vec<Spell>,
    /// Its problems.
    pub troubles: Vec<Trouble>,
}

/// A problem of a type at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Trouble {
    /// It has due tasks, and no instance serves it.
    Unserved,
    /// Its first task has been due for a minute, it is served and not paused, and nothing has
    /// started in the last five minutes.
    Stuck,
    /// Its first task has been due for a minute, and others are being started: more tasks arrive
    /// than are done.
    Behind,
    /// It is paused.
    Paused,
    /// It has dead tasks.
    Dead,
}

impl Trouble {
    /// The name of the problem, one word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unserved => "unserved",
            Self::Stuck => "stuck",
            Self::Behind => "behind",
            Self::Paused => "paused",
            Self::Dead => "dead",
        }
    }
}

impl TypeOverview {
    /// Tasks done per second in the last five minutes.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        let seconds = self.recent_span.as_secs_f64();
        let recent = self.recent.as_ref().filter(|_| seconds > 0.0)?;
        #[allow(
            clippy::cast_precision_loss,
            reason = "a rate for people, exact below 2^53"
        )]
        Some(recent.done as f64 / seconds)
    }

    /// True if it has this problem.
    #[must_use]
    pub fn is(&self, trouble: Trouble) -> bool {
        self.troubles.contains(&trouble)
    }

    fn judge(&mut self) {
        let is_paused = self.stats.paused_until.is_some();
        let is_overdue = self.stats.oldest_age() >= OVERDUE;
        let starts = self.recent.as_ref().map_or(0, |recent| recent.started);
        let waits = !is_paused && is_overdue && self.serving > 0;
        // Without figures it is unknown if anything starts.
        let is_known = self.recent.is_some();
        let found = [
            (self.stats.due > 0 && self.serving == 0, Trouble::Unserved),
            (waits && starts == 0 && is_known, Trouble::Stuck),
            (waits && (starts > 0 || !is_known), Trouble::Behind),
            (is_paused, Trouble::Paused),
            (self.stats.dead > 0, Trouble::Dead),
        ];
        let found = found.into_iter().filter(|(is_so, _)| *is_so);
        self.troubles = found.map(|(_, trouble)| trouble).collect();
    }
}

/// The listed types that a pattern matches, or the single type that it names; the first
/// [`MAX_OVERVIEW_TYPES`] by name. Takes two calls to the store for each type, each in O(log n),
/// and two more.
///
/// # Errors
/// `InvalidName` for an invalid pattern, and the store's errors.
pub async fn overview(tasks: &TaskSubmitService, types: &str) -> Result<Overview> {
    let pattern = TypePattern::new(types)?;
    let mut listed = tasks.types().await?;
    listed.retain(|task_type| pattern.matches(task_type));
    overview_of(tasks, listed).await
}

/// Like [`overview`], for all listed types.
///
/// # Errors
/// The store's errors.
pub async fn overview_of_all(tasks: &TaskSubmitService) -> Result<Overview> {
    let listed = tasks.types().await?;
    overview_of(tasks, listed).await
}

/// Like [`overview`], for these types.
///
/// # Errors
/// The store's errors.
pub async fn overview_of(tasks: &TaskSubmitService, mut listed: Vec<TaskType>) -> Result<Overview> {
    let type_count = listed.len();
    listed.truncate(MAX_OVERVIEW_TYPES);
    let instances = tasks.instances().await?;
    let calls = listed
        .into_iter()
        .map(|task_type| look_at(tasks, task_type, &instances));
    let types: Vec<_> = stream::iter(calls).buffered(AT_ONCE).try_collect().await?;
    let now = types.iter().map(|one: &TypeOverview| one.stats.now).max();
    Ok(Overview {
        now: now.unwrap_or_else(|| tasks.clock().now()),
        types,
        type_count,
        instances,
    })
}

async fn look_at(
    tasks: &TaskSubmitService,
    task_type: TaskType,
    instances: &[InstanceInfo],
) -> Result<TypeOverview> {
    let stats = tasks.stats(task_type.as_str()).await?;
    let since = Step::Minute.begin(stats.now.minus(RECENT));
    let figures = tasks
        .store()
        .figures(&task_type, Step::Minute, stats.now.minus(MINUTES));
    let minutes = match figures.await {
        Ok(minutes) => Some(minutes),
        Err(Error::Unsupported(_)) => None,
        Err(error) => return Err(error),
    };
    let recent = minutes.as_ref().map(|minutes| {
        let mut sum = Figures::default();
        let recent = minutes.iter().filter(|minute| minute.at >= since);
        recent.for_each(|minute| sum += &minute.figures);
        sum
    });
    let mut seen = TypeOverview {
        serving: serving(instances, &task_type),
        recent_span: stats.now.since(since),
        task_type,
        stats,
        recent,
        minutes: minutes.unwrap_or_default(),
        troubles: Vec::new(),
    };
    seen.judge();
    Ok(seen)
}
