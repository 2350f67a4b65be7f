//! The history of the server.

use std::time::Duration;

use delayq_plugin::history::{HistoryRetention, HistoryStore, Recording};
use delayq_plugin::{Error, IntoDelay, Namespace};

use super::Config;

/// What the options say of the history.
#[derive(Clone, Debug)]
pub struct HistoryPlan {
    url: String,
    /// How long a life is kept.
    pub retention: HistoryRetention,
}

/// An option that is no such value.
#[derive(Debug)]
pub(super) struct HistoryMistake {
    pub(super) option: &'static str,
    pub(super) value: String,
    pub(super) reason: Error,
}

impl HistoryPlan {
    /// Reads the options; `None` without a database.
    pub(super) fn of(config: &Config) -> Result<Option<Self>, HistoryMistake> {
        let mistake = |option, value: &str| {
            let value = value.to_owned();
            move |reason| HistoryMistake {
                option,
                value,
                reason,
            }
        };
        let text = config.history_record.as_str();
        let _: Recording = text.parse().map_err(mistake("history_record", text))?;
        let span = config.history_retention.as_deref();
        let kept_for = span.map(|text| {
            text.into_delay()
                .map_err(mistake("history_retention", text))
        });
        let kept_for: Option<Duration> = kept_for.transpose()?;
        let Some(url) = &config.history else {
            return Ok(None);
        };
        let plan = Self {
            url: url.clone(),
            retention: HistoryRetention::of_all(kept_for),
        };
        let opened = plan.open(Namespace::default(), Duration::from_secs(1));
        // The URL may hold a password.
        opened.map(drop).map_err(mistake("history", "***"))?;
        Ok(Some(plan))
    }

    /// The history of a namespace. The database is opened later, and may be away.
    ///
    /// # Errors
    /// `InvalidInput` for a URL that is none.
    pub fn open(
        &self,
        namespace: Namespace,
        timeout: Duration,
    ) -> delayq_plugin::Result<HistoryStore> {
        HistoryStore::at(&self.url, namespace, timeout)
    }
}
