//! One thing of a declared state: what it is, and what becomes of it.

use std::fmt;
use std::path::PathBuf;

use delayq_plugin::TypeSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::content::Content;
use crate::access::NewToken;
use crate::policy::TypePolicy;
use crate::push::Target;
use crate::recurring::RecurringTask;

/// What a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    MaxPending,
    FleetConcurrency,
    FleetRate,
    Shards,
    Paused,
    Policy,
    Target,
    Recurring,
    Token,
}

impl Kind {
    /// The name in a document and in a report.
    fn as_str(self) -> &'static str {
        match self {
            Self::MaxPending => "max_pending",
            Self::FleetConcurrency => "fleet_concurrency",
            Self::FleetRate => "fleet_rate",
            Self::Shards => "shards",
            Self::Paused => "paused",
            Self::Policy => "policy",
            Self::Target => "target",
            Self::Recurring => "recurring",
            Self::Token => "token",
        }
    }
}

/// The identity of a thing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    pub kind: Kind,
    /// Its namespace; empty for a token.
    pub namespace: String,
    /// Its type or pattern, its id, or the name of the token.
    pub name: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            namespace,
            name,
        } = self;
        match kind {
            Kind::Token => write!(f, "token {name}"),
            Kind::Recurring => write!(f, "{namespace}: recurring task {name}"),
            kind => write!(f, "{namespace}: {name} {}", kind.as_str()),
        }
    }
}

/// What becomes of a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is not there yet.
    Created,
    /// It is there and differs.
    Changed,
    /// It is there as declared.
    Unchanged,
    /// An earlier apply made it, and it is declared no more.
    Removed,
    /// The same, but somebody else has changed it since, so it stays.
    Kept,
}

impl Change {
    /// True if something is done.
    pub fn is_deed(self) -> bool {
        matches!(self, Self::Created | Self::Changed | Self::Removed)
    }
}

/// A new secret, and the file that gets it.
#[derive(Clone)]
pub(super) struct NewSecret {
    pub(super) file: Option<PathBuf>,
    pub(super) text: String,
}

impl fmt::Debug for NewSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a secret for {:?}", self.file)
    }
}

/// What is done to a token.
#[derive(Clone, Debug)]
pub(super) enum TokenDeed {
    Create {
        token: NewToken,
        id: String,
        hash: String,
    },
    Change {
        token: NewToken,
        id: String,
        /// The hash of a new secret.
        hash: Option<String>,
    },
    Revoke {
        id: String,
        /// Its namespace, for the log.
        namespace: String,
    },
}

/// What is done. `None` in it removes.
#[derive(Clone, Debug)]
pub(super) enum Deed {
    Nothing,
    Configure(TypeSettings),
    Pause(bool),
    Policy(Option<TypePolicy>),
    Target(Option<Box<Target>>),
    Recurring(Option<RecurringTask>),
    Token(TokenDeed),
}

/// One thing, and what becomes of it.
#[derive(Clone, Debug, Serialize)]
pub struct Item {
    #[serde(flatten)]
    pub key: Key,
    pub change: Change,
    /// Its present value, without secrets; `None` if it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Value>,
    /// Its declared value, without secrets; `None` if it is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Value>,
    /// What the values do not show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// True once it is done.
    pub is_done: bool,
    /// The digest of its present value.
    #[serde(skip)]
    pub(super) before: Option<String>,
    /// The digest of its declared value.
    #[serde(skip)]
    pub(super) after: Option<String>,
    #[serde(skip)]
    pub(super) deed: Deed,
    /// The secret that is written before it is done.
    #[serde(skip)]
    pub(super) secret: Option<NewSecret>,
}

impl Item {
    pub(super) fn new(key: Key, from: Option<Content>, to: Option<Content>, deed: Deed) -> Self {
        let parts = |content: Option<Content>| content.map(|one| (one.shown, one.print)).unzip();
        let ((from, before), (to, after)) = (parts(from), parts(to));
        let change = match (&from, &to) {
            (None, Some(_)) => Change::Created,
            (from, to) if from == to => Change::Unchanged,
            _ => Change::Changed,
        };
        Self {
            key,
            change,
            from,
            to,
            detail: None,
            is_done: false,
            before,
            after,
            deed,
            secret: None,
        }
    }

    /// The same as a change that the values do not show.
    pub(super) fn differing(mut self, detail: &str) -> Self {
        if self.change == Change::Unchanged {
            self.change = Change::Changed;
            self.detail = Some(detail.to_owned());
        }
        self
    }
}
