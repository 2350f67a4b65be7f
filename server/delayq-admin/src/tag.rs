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
            text: "nobody serves it".to_owned(),
            title: format!(
                "{} tasks are due, and no instance serves it",
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
        Trouble::Paused => Tag {
            class: "warn",
            icon: "‖",
            text: paused(stats.paused_until, stats.now),
            title: "nothing of it starts".to_owned(),
        },
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

fn paused(until: Option<Timestamp>, now: Timestamp) -> String {
    match until {
        Some(until) if until < Timestamp::MAX => format!("paused for {}", span(until.since(now))),
        _ => "paused".to_owned(),
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
