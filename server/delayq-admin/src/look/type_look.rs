//! The data of a type's page.

use std::sync::Arc;
use std::time::Duration;

use delayq_ops::{Forecast, Overview, forecast, overview};
use delayq_plugin::store::{Spell, Step};
use delayq_plugin::{Error, Result, TaskSubmitService, TaskType, Timestamp, days, hours, minutes};

use crate::cache::{Ask, Cache, MAX_FAILED_REST, Seen};

/// How long the page waits for a forecast. The forecast of a large type takes longer and is shown
/// later.
const PATIENCE: Duration = Duration::from_millis(80);

/// The time span that charts cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Range {
    #[default]
    Hour,
    Day,
    Month,
}

impl Range {
    pub(crate) const ALL: [Self; 3] = [Self::Hour, Self::Day, Self::Month];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hour => "1h",
            Self::Day => "24h",
            Self::Month => "30d",
        }
    }

    pub(crate) fn read(name: &str) -> Self {
        let mut all = Self::ALL.into_iter();
        all.find(|range| range.name() == name).unwrap_or_default()
    }

    pub(crate) fn span(self) -> Duration {
        match self {
            Self::Hour => hours(1),
            Self::Day => hours(24),
            Self::Month => days(30),
        }
    }

    /// The time span of one point of a chart. A range has 60 to 720 points, as many as can be told
    /// apart.
    pub(crate) fn point(self) -> Duration {
        match self {
            Self::Hour => minutes(1),
            Self::Day => minutes(5),
            Self::Month => hours(1),
        }
    }

    pub(crate) fn step(self) -> Step {
        match self {
            Self::Hour | Self::Day => Step::Minute,
            Self::Month => Step::Hour,
        }
    }
}

/// The time span that the forecast covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ahead {
    #[default]
    Hour,
    Day,
    Month,
}

impl Ahead {
    pub(crate) const ALL: [Self; 3] = [Self::Hour, Self::Day, Self::Month];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hour => "1h",
            Self::Day => "24h",
            Self::Month => "30d",
        }
    }

    pub(crate) fn read(name: &str) -> Self {
        let mut all = Self::ALL.into_iter();
        all.find(|ahead| ahead.name() == name).unwrap_or_default()
    }

    fn horizon(self) -> Duration {
        match self {
            Self::Hour => hours(1),
            Self::Day => hours(24),
            Self::Month => days(30),
        }
    }

    fn buckets(self) -> usize {
        match self {
            Self::Hour => 60,
            Self::Day => 48,
            Self::Month => 30,
        }
    }
}

/// A type: its counts, its instances and its figures.
pub(crate) struct TypeLook {
    /// The overview of this type only; it has no types if the type is not listed.
    pub(crate) overview: Overview,
    /// The figures of the range; `None` if the store keeps none.
    pub(crate) spells: Option<Vec<Spell>>,
    pub(crate) forecast: Seen<Forecast>,
}

impl TypeLook {
    pub(crate) async fn read(
        tasks: TaskSubmitService,
        forecasts: Arc<Cache<Forecast>>,
        name: String,
        range: Range,
        ahead: Ahead,
    ) -> Result<Self> {
        // Refuses a pattern, which would show the first matching type.
        TaskType::new(&name)?;
        let overview = overview(&tasks, &name).await?;
        let spells = match overview.types.first() {
            None => None,
            Some(seen) if range == Range::Hour => {
                seen.recent.is_some().then(|| seen.minutes.clone())
            }
            Some(seen) => {
                let since = seen.stats.now.minus(range.span());
                let figures = tasks.store().figures(&seen.task_type, range.step(), since);
                match figures.await {
                    Ok(spells) => Some(spells),
                    Err(Error::Unsupported(_)) => None,
                    Err(error) => return Err(error),
                }
            }
        };
        let ask = Ask {
            tasks: &tasks,
            key: format!("{name} {}", ahead.name()),
            patience: PATIENCE,
            failed_rest: MAX_FAILED_REST,
        };
        let forecast = forecasts.get(ask, || {
            let (tasks, name) = (tasks.clone(), name.clone());
            async move { forecast(&tasks, &name, ahead.horizon(), ahead.buckets()).await }
        });
        Ok(Self {
            forecast: forecast.await,
            overview,
            spells,
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.overview.now
    }
}
