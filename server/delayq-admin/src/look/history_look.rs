//! The data of the history.

use delayq_plugin::history::{HistoryPage, HistoryQuery, LifeOutcome};
use delayq_plugin::{Error, IntoDelay, IntoTime, Result, TaskId, TaskSubmitService, TaskType};

/// Lives on a page.
const PAGE: usize = 50;

/// The requested lives, as they were written. Empty fields match everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct HistoryAsk {
    pub(crate) task_type: String,
    pub(crate) id: String,
    pub(crate) group: String,
    pub(crate) project: String,
    pub(crate) outcome: String,
    pub(crate) error: String,
    pub(crate) since: String,
    pub(crate) until: String,
    pub(crate) late_by: String,
    pub(crate) longer_than: String,
    pub(crate) cursor: String,
}

/// The value of a field that is not empty.
fn read<T>(text: &str, parse: impl Fn(&str) -> Result<T>) -> Result<Option<T>> {
    (!text.is_empty()).then(|| parse(text)).transpose()
}

impl HistoryAsk {
    /// The search.
    ///
    /// # Errors
    /// `InvalidInput`, naming the field that cannot be read.
    pub(crate) fn query(&self) -> Result<HistoryQuery> {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let mut query = HistoryQuery::default();
        query.task_type = read(&self.task_type, |text| TaskType::new(text))?;
        query.id = read(&self.id, |text| TaskId::new(text))?;
        query.group = text(&self.group);
        query.project = text(&self.project);
        query.outcomes = read(&self.outcome, str::parse::<LifeOutcome>)?
            .into_iter()
            .collect();
        query.error = text(&self.error);
        query.since = read(&self.since, |text| text.into_time())?;
        query.until = read(&self.until, |text| text.into_time())?;
        query.late_by = read(&self.late_by, |text| text.into_delay())?;
        query.longer_than = read(&self.longer_than, |text| text.into_delay())?;
        query.limit = PAGE;
        query.after = read(&self.cursor, str::parse)?;
        query.check()?;
        Ok(query)
    }
}

/// A page of the history.
#[derive(Default)]
pub(crate) struct HistoryLook {
    pub(crate) page: HistoryPage,
    /// True if a history is kept.
    pub(crate) is_kept: bool,
    /// What cannot be read of the request.
    pub(crate) mistake: Option<String>,
}

impl HistoryLook {
    pub(crate) async fn read(tasks: TaskSubmitService, ask: HistoryAsk) -> Result<Self> {
        let Some(history) = tasks.history() else {
            return Ok(Self::default());
        };
        let mut look = Self {
            is_kept: true,
            ..Self::default()
        };
        match ask.query() {
            Ok(query) => look.page = history.search(&query).await?,
            Err(error @ (Error::InvalidInput { .. } | Error::InvalidName { .. })) => {
                look.mistake = Some(error.to_string());
            }
            Err(error) => return Err(error),
        }
        Ok(look)
    }
}
