//! Actions of operators.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Number of actions kept in a namespace: a day's worth at one action every nine seconds.
pub const MAX_ACTIONS: usize = 10_000;

/// Maximum number of actions in one answer.
pub const MAX_ACTION_PAGE: usize = 500;

/// Maximum length of each text of an action, in bytes; longer ones are cut.
pub const MAX_ACTION_TEXT: usize = 300;

/// The version of the stored format.
const VERSION: u32 = 1;

/// The end of an action, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ActionEnd {
    /// Begun: written before an action on many tasks, which may be interrupted.
    Begun,
    /// It was done.
    Done,
    /// It was refused, such as a cancel of a running task, and changed nothing.
    Refused,
    /// The store failed, possibly after some of the changes.
    Failed,
}

impl ActionEnd {
    /// The name of the end.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for ActionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An operator's action and the tasks concerned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Action {
    /// The actor: the name of a user or of a token.
    pub actor: String,
    /// The origin: an address, or a host and its program.
    pub origin: String,
    /// The action, such as `cancel` or `requeue`.
    pub verb: String,
    /// The type or pattern; empty if there is none.
    pub task_type: String,
    /// The tasks: an id, or the conditions in words; empty for the type itself.
    pub target: String,
    /// The number of tasks changed or, before the action was done, the number concerned. `None`:
    /// not known.
    pub count: Option<u64>,
    /// How it ended.
    pub end: ActionEnd,
    /// Further text, such as the error or the new time.
    pub detail: String,
}

impl Action {
    /// A completed action on the type itself.
    #[must_use]
    pub fn new(
        actor: impl Into<String>,
        origin: impl Into<String>,
        verb: impl Into<String>,
        task_type: impl Into<String>,
    ) -> Self {
        Self {
            actor: cut(actor.into()),
            origin: cut(origin.into()),
            verb: cut(verb.into()),
            task_type: cut(task_type.into()),
            target: String::new(),
            count: None,
            end: ActionEnd::Done,
            detail: String::new(),
        }
    }

    /// The same action on these tasks.
    #[must_use]
    pub fn on(mut self, target: impl Into<String>) -> Self {
        self.target = cut(target.into());
        self
    }

    /// The same action with the number of tasks.
    #[must_use]
    pub fn counted(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    /// The same action with this end.
    #[must_use]
    pub fn ended(mut self, end: ActionEnd, detail: impl Into<String>) -> Self {
        self.end = end;
        self.detail = cut(detail.into());
        self
    }
}

/// The text as one line of at most [`MAX_ACTION_TEXT`] bytes.
fn cut(mut text: String) -> String {
    if text.contains(char::is_control) {
        text = text.replace(char::is_control, " ");
    }
    if text.len() > MAX_ACTION_TEXT {
        let dots = '…';
        let end = text.floor_char_boundary(MAX_ACTION_TEXT - dots.len_utf8());
        text.truncate(end);
        text.push(dots);
    }
    text
}

/// An action in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LoggedAction {
    /// Its number: later actions have larger ones.
    pub number: u64,
    /// The time when it was logged, by the store's clock.
    pub at: Timestamp,
    /// The action. In JSON its fields are flattened into this object.
    #[serde(flatten)]
    pub action: Action,
}

impl LoggedAction {
    /// The action `number`, logged at `at`.
    #[must_use]
    pub fn new(number: u64, at: Timestamp, action: Action) -> Self {
        Self { number, at, action }
    }
}

/// The stored format, without number and time.
#[derive(Serialize, Deserialize)]
struct StoredAction {
    v: u32,
    actor: String,
    origin: String,
    verb: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    task_type: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    target: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    end: ActionEnd,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    detail: String,
}

/// The stored format of an action, used by every store of this project.
#[must_use]
pub fn encode_action(action: &Action) -> String {
    let action = action.clone();
    let stored = StoredAction {
        v: VERSION,
        actor: action.actor,
        origin: action.origin,
        verb: action.verb,
        task_type: action.task_type,
        target: action.target,
        count: action.count,
        end: action.end,
        detail: action.detail,
    };
    // Text and numbers can always be written as JSON.
    serde_json::to_string(&stored).unwrap_or_default()
}

/// The action written by [`encode_action`]. An unreadable one is shown as such, as an entry of the
/// log is never left out. In a newer version, only the fields known to this one are read.
#[must_use]
pub fn decode_action(stored: &[u8]) -> Action {
    let read: Result<StoredAction, _> = serde_json::from_slice(stored);
    match read {
        Ok(stored) => Action {
            actor: stored.actor,
            origin: stored.origin,
            verb: stored.verb,
            task_type: stored.task_type,
            target: stored.target,
            count: stored.count,
            end: stored.end,
            detail: stored.detail,
        },
        Err(error) => Action::new("?", "?", "unreadable", "")
            .on(String::from_utf8_lossy(stored))
            .ended(ActionEnd::Failed, format!("this entry is damaged: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_form_is_what_earlier_releases_wrote() {
        let action = Action::new("ann", "10.0.0.7", "requeue", "mail.send")
            .on("error contains \"no van\"")
            .counted(7)
            .ended(ActionEnd::Done, "20 a second");
        let golden = r#"{"v":1,"actor":"ann","origin":"10.0.0.7","verb":"requeue","task_type":"mail.send","target":"error contains \"no van\"","count":7,"end":"done","detail":"20 a second"}"#;
        assert_eq!(encode_action(&action), golden);
        assert_eq!(decode_action(golden.as_bytes()), action);
        let newer = golden.replace("\"v\":1", "\"v\":2,\"ticket\":\"T-1\"");
        assert_eq!(decode_action(newer.as_bytes()), action);
        let short = Action::new("ann", "cli", "pause", "mail.*");
        assert_eq!(decode_action(encode_action(&short).as_bytes()), short);
    }

    #[test]
    fn a_damaged_entry_is_shown_and_long_texts_are_cut() {
        assert_eq!(decode_action(b"{").verb, "unreadable");
        let action = Action::new("a\r\nb", "o", "v", "t").on("é".repeat(400));
        assert_eq!(action.actor, "a  b");
        assert!(action.target.len() <= MAX_ACTION_TEXT && action.target.ends_with('…'));
    }
}
