//! The history of the server.

use std::time::Duration;

use delayq_plugin::history::{FOREVER, HistoryRetention, HistoryStore, Recording};
use delayq_plugin::{Error, IntoDelay, Namespace, TaskType, TypePattern};
use serde::{Deserialize, Serialize};

use super::Config;

/// Options of a type, or of the types of a pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TypeConfig {
    /// What the history keeps of messages, as `history_record`.
    pub history: Option<String>,
    /// How long the history keeps a life, as `history_retention`.
    pub history_retention: Option<String>,
}

/// Whether the ends of tasks are recorded, and what of their messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recordings {
    all: Option<Recording>,
    types: Vec<(TypePattern, Recording)>,
}

impl Recordings {
    /// The same for all types.
    pub fn of_all(recording: Recording) -> Self {
        Self {
            all: Some(recording),
            types: Vec::new(),
        }
    }

    /// True if some type may be told something.
    pub fn tells(&self) -> bool {
        self.all.is_some() || !self.types.is_empty()
    }

    /// What a type is told; `None`: it stays as it is.
    pub fn of(&self, task_type: &TaskType) -> Option<Recording> {
        let matching = self.types.iter();
        let matching = matching.filter(|(pattern, _)| pattern.matches(task_type));
        let closest = matching.max_by_key(|(pattern, _)| pattern.rank());
        closest.map(|(_, own)| *own).or(self.all)
    }
}

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

impl HistoryMistake {
    fn of(option: &'static str, value: &str) -> impl FnOnce(Error) -> Self + use<> {
        let value = value.to_owned();
        move |reason| Self {
            option,
            value,
            reason,
        }
    }
}

/// What is recorded. Without a database no type is told to record.
pub(super) fn recordings(config: &Config) -> Result<Recordings, HistoryMistake> {
    let read = |option, text: &str| {
        let recording: Recording = text.parse().map_err(HistoryMistake::of(option, text))?;
        Ok((config.history.is_some() || recording == Recording::Off).then_some(recording))
    };
    let mut recordings = Recordings {
        all: read("history_record", &config.history_record)?,
        types: Vec::new(),
    };
    for (types, options) in &config.types {
        let types = pattern(types)?;
        if let Some(text) = &options.history
            && let Some(own) = read("types.history", text)?
        {
            recordings.types.push((types, own));
        }
    }
    Ok(recordings)
}

fn pattern(text: &str) -> Result<TypePattern, HistoryMistake> {
    TypePattern::new(text).map_err(HistoryMistake::of("types", text))
}

fn kept_for(option: &'static str, text: &str) -> Result<Duration, HistoryMistake> {
    match text {
        "forever" => Ok(FOREVER),
        _ => text.into_delay().map_err(HistoryMistake::of(option, text)),
    }
}

fn retention(config: &Config) -> Result<HistoryRetention, HistoryMistake> {
    let all = config.history_retention.as_deref();
    let all = all.map(|text| kept_for("history_retention", text));
    let mut retention = HistoryRetention::of_all(all.transpose()?);
    for (types, options) in &config.types {
        if let Some(text) = &options.history_retention {
            let own = kept_for("types.history_retention", text)?;
            retention = retention.of_types(pattern(types)?, own);
        }
    }
    Ok(retention)
}

impl HistoryPlan {
    /// Reads the options; `None` without a database.
    pub(super) fn of(config: &Config) -> Result<Option<Self>, HistoryMistake> {
        recordings(config)?;
        let retention = retention(config)?;
        let Some(url) = &config.history else {
            return Ok(None);
        };
        let plan = Self {
            url: url.clone(),
            retention,
        };
        let opened = plan.open(Namespace::default(), Duration::from_secs(1));
        // The URL may hold a password.
        opened
            .map(drop)
            .map_err(HistoryMistake::of("history", "***"))?;
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
