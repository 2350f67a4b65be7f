//! The places of a task that a search looks at.

use delayq_plugin::TaskInfo;
use delayq_plugin::store::GROUP_HEADER;
use serde::Serialize;

/// Characters shown before what was found in a message, and in all.
const BEFORE: usize = 30;
const EXCERPT: usize = 160;

/// Where a text was found in a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SearchPlace {
    /// In its id.
    Id,
    /// In its group.
    Group,
    /// In the value of a header.
    Header,
    /// In its last error.
    Error,
    /// In its message.
    Message,
}

impl SearchPlace {
    /// All places, in the order in which a task is searched.
    pub const ALL: [Self; 5] = [
        Self::Id,
        Self::Group,
        Self::Header,
        Self::Error,
        Self::Message,
    ];

    /// The name, one word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Group => "group",
            Self::Header => "header",
            Self::Error => "error",
            Self::Message => "message",
        }
    }

    /// What the task has at this place, if it contains the text.
    pub(super) fn find(self, task: &TaskInfo, text: &str) -> Option<String> {
        let has = |found: &&str| found.contains(text);
        match self {
            Self::Id => Some(task.id.as_str()).filter(has).map(str::to_owned),
            Self::Group => {
                let group = task.headers.get(GROUP_HEADER).map(String::as_str);
                group.filter(has).map(str::to_owned)
            }
            Self::Header => {
                let mut headers = task
                    .headers
                    .iter()
                    .filter(|(name, _)| *name != GROUP_HEADER);
                headers.find_map(|(name, value)| {
                    let line = format!("{name}={value}");
                    line.contains(text).then_some(line)
                })
            }
            Self::Error => {
                let error = task.history.last_error.as_deref();
                error.filter(has).map(str::to_owned)
            }
            Self::Message => {
                let message = String::from_utf8_lossy(task.message.as_deref()?);
                let at = message.find(text)?;
                Some(excerpt(&message, at))
            }
        }
    }
}

/// The text around a position.
fn excerpt(text: &str, at: usize) -> String {
    let (before, rest) = text.split_at_checked(at).unwrap_or(("", text));
    let from = before
        .char_indices()
        .rev()
        .nth(BEFORE)
        .map_or(0, |(at, _)| at);
    let begin = if from > 0 { "…" } else { "" };
    let near: String = rest.chars().take(EXCERPT).collect();
    let end = if near.len() < rest.len() { "…" } else { "" };
    format!(
        "{begin}{}{near}{end}",
        before.get(from..).unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_the_part_around_what_was_found() {
        assert_eq!(excerpt("abc", 1), "abc");
        let long = format!("{}X{}", "ü".repeat(100), "y".repeat(300));
        let part = excerpt(&long, 200);
        assert!(
            part.starts_with("…ü") && part.contains("üXy") && part.ends_with('…'),
            "{part}"
        );
        assert!(part.chars().count() < 200);
    }
}
