//! Selection of tasks of a type on the command line.

use clap::Args;
use delayq_plugin::{TaskFilter, TaskState};

/// Conditions on tasks; all of them have to hold.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Selection {
    /// Ids that begin with this.
    #[arg(long, help_heading = "Conditions")]
    prefix: Option<String>,
    /// A header with exactly this value; repeat it for several.
    #[arg(long, value_name = "NAME=VALUE", value_parser = read_header,
        help_heading = "Conditions")]
    header: Vec<Header>,
    /// The group that the task was sent with.
    #[arg(long, help_heading = "Conditions")]
    group: Option<String>,
}

/// A header and its value.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl Selection {
    /// True if there is no condition.
    pub(crate) fn is_empty(&self) -> bool {
        self.prefix.is_none() && self.header.is_empty() && self.group.is_none()
    }

    /// `filter`, narrowed by these conditions.
    pub(crate) fn narrow(&self, mut filter: TaskFilter) -> TaskFilter {
        if let Some(prefix) = &self.prefix {
            filter = filter.id_prefix(prefix);
        }
        for header in &self.header {
            filter = filter.header(&header.name, &header.value);
        }
        if let Some(group) = &self.group {
            filter = filter.group(group);
        }
        filter
    }
}

/// Parses `NAME=VALUE` on the command line.
pub(crate) fn read_header(text: &str) -> Result<Header, String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} has no `=`: write NAME=VALUE"))?;
    Ok(Header {
        name: name.to_owned(),
        value: value.to_owned(),
    })
}

/// Parses a state on the command line.
pub(crate) fn read_state(text: &str) -> Result<TaskState, String> {
    let states = [
        TaskState::Scheduled,
        TaskState::Running,
        TaskState::Dead,
        TaskState::Done,
        TaskState::Cancelled,
        TaskState::Expired,
    ];
    let found = states.into_iter().find(|state| state.as_str() == text);
    found.ok_or_else(|| "write scheduled, running, dead, done, cancelled or expired".to_owned())
}
