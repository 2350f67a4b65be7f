//! A framed word with an icon, so that its meaning never depends on colour alone.

use delayq_ops::{Trouble, TypeOverview};
use delayq_plugin::{TaskState, Timestamp};

use crate::said::{count, span};

/// A tag.
#[derive(Clone, Debug)]
pub(crate) struct Tag {
    /// The colour class: `bad`, `warn`, `good` or `calm`.
    pub(crate) class: &'static str,
    pub(crate) icon: &'static str,
    pub(crate) text: String,
    /// The meaning of the tag.
    pub(crate) title: String,
}

/// The problems of a type.
pub(crate) fn troubles(seen: &TypeOverview) -> Vec<Tag> {
    let stats = &seen.stats;
    let tag = |trouble: &Trouble| match trouble {
        Trouble::Unserved => Tag {
            class: "bad",
            icon: "✕",
            text: "no worker".to_owned(),
            title: format!(
                "{} tasks are due, and no instance serves this type",
                count(stats.due)
            ),
        },
        Trouble::Stuck => Tag {
            class: "bad",
            icon: "■",
            text: "stuck".to_owned(),
            title: "tasks are due, and nothing has started in the last five minutes".to_owned(),
        },
        Trouble::Behind => Tag {
            class: "warn",
            icon: "▲",
            text: format!("behind {}", span(stats.oldest_age())),
            title: "tasks are started, and the first one has been due for over a minute".to_owned(),
        },
        Trouble::Paused => pause(stats.paused_until.unwrap_or(Timestamp::MAX), stats.now),
        Trouble::Dead => Tag {
            class: "warn",
            icon: "†",
            text: format!("{} dead", count(stats.dead)),
            title: "dead tasks wait for an operator".to_owned(),
        },
        other => Tag {
            class: "warn",
            icon: "!",
            text: other.as_str().to_owned(),
            title: String::new(),
        },
    };
    seen.troubles.iter().map(tag).collect()
}

/// The tag of a pause.
pub(crate) fn pause(until: Timestamp, now: Timestamp) -> Tag {
    let text = match until {
        Timestamp::MAX => "paused".to_owned(),
        until => format!("paused for {}", span(until.since(now))),
    };
    Tag {
        class: "warn",
        icon: "‖",
        text,
        title: "none of its tasks start".to_owned(),
    }
}

/// A tag for the state of a task.
pub(crate) fn of_state(state: TaskState) -> Tag {
    let (class, icon) = match state {
        TaskState::Scheduled => ("calm", "◷"),
        TaskState::Running => ("live", "▶"),
        TaskState::Dead => ("bad", "†"),
        TaskState::Done => ("good", "✓"),
        TaskState::Cancelled => ("calm", "⊘"),
        _ => ("calm", "⌛"),
    };
    Tag {
        class,
        icon,
        text: state.to_string(),
        title: String::new(),
    }
}
