//! The data of the log of actions.

use delayq_plugin::store::{LoggedAction, MAX_ACTION_PAGE};
use delayq_plugin::{Error, Result, TaskSubmitService};

/// Entries on a page.
const PAGE: usize = 50;

/// The requested entries. Empty fields match everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogAsk {
    pub(crate) actor: String,
    pub(crate) verb: String,
    pub(crate) task_type: String,
    pub(crate) end: String,
    pub(crate) text: String,
    /// Only entries before this number.
    pub(crate) before: Option<u64>,
}

impl LogAsk {
    pub(crate) fn matches(&self, entry: &LoggedAction) -> bool {
        let action = &entry.action;
        let is = |asked: &str, own: &str| asked.is_empty() || asked == own;
        let texts = [&action.target, &action.detail, &action.origin];
        is(&self.actor, &action.actor)
            && is(&self.verb, &action.verb)
            && is(&self.task_type, &action.task_type)
            && is(&self.end, action.end.as_str())
            && (self.text.is_empty() || texts.iter().any(|own| own.contains(&self.text)))
    }
}

/// A page of the log.
pub(crate) struct LogLook {
    pub(crate) entries: Vec<LoggedAction>,
    /// The number to pass as `before` for the next page.
    pub(crate) next: Option<u64>,
    /// True if the store keeps a log.
    pub(crate) is_kept: bool,
}

impl LogLook {
    pub(crate) async fn read(tasks: TaskSubmitService, ask: LogAsk) -> Result<Self> {
        let mut look = Self {
            entries: Vec::new(),
            next: None,
            is_kept: true,
        };
        let mut before = ask.before;
        loop {
            let page = match tasks.store().actions(before, MAX_ACTION_PAGE).await {
                Err(Error::Unsupported(_)) => {
                    look.is_kept = false;
                    return Ok(look);
                }
                page => page?,
            };
            let is_last = page.len() < MAX_ACTION_PAGE;
            before = page.last().map(|entry| entry.number);
            for entry in page.into_iter().filter(|entry| ask.matches(entry)) {
                if look.entries.len() == PAGE {
                    look.next = look.entries.last().map(|last| last.number);
                    return Ok(look);
                }
                look.entries.push(entry);
            }
            if is_last {
                return Ok(look);
            }
        }
    }
}
