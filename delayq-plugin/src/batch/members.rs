//! The members of a batch, as stored in its watcher's message.

use std::collections::VecDeque;

use delayq_core::{Result, TaskId, TaskType};
use serde::{Deserialize, Serialize};

/// The members that may not have ended yet, in the order of the batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Members(VecDeque<MemberRun>);

/// Consecutive members of one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct MemberRun {
    #[serde(rename = "type")]
    task_type: TaskType,
    #[serde(flatten)]
    ids: Ids,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ids {
    /// Members with generated ids: the indexes from the first number up to, but excluding, the
    /// second.
    Indexes(usize, usize),
    Ids(VecDeque<TaskId>),
}

/// The id of the member with this index, if it has no id of its own.
pub(super) fn generated_id(batch: &str, index: usize) -> String {
    format!("{batch}/{index}")
}

impl Members {
    /// Adds the member with this index.
    pub(super) fn push(&mut self, batch: &str, index: usize, task_type: TaskType, id: TaskId) {
        let is_generated = generated_id(batch, index) == id.as_str();
        let last = self.0.back_mut().filter(|run| run.task_type == task_type);
        match last.map(|run| &mut run.ids) {
            Some(Ids::Indexes(_, end)) if is_generated && *end == index => *end += 1,
            Some(Ids::Ids(ids)) if !is_generated => ids.push_back(id),
            _ => {
                let ids = if is_generated {
                    Ids::Indexes(index, index.saturating_add(1))
                } else {
                    Ids::Ids(VecDeque::from([id]))
                };
                self.0.push_back(MemberRun { task_type, ids });
            }
        }
    }

    /// The types.
    pub(super) fn types(&self) -> impl Iterator<Item = &TaskType> {
        self.0.iter().map(|run| &run.task_type)
    }

    /// The first member.
    pub(super) fn first(&self, batch: &str) -> Result<Option<(TaskType, TaskId)>> {
        let Some(run) = self.0.front() else {
            return Ok(None);
        };
        let id = match &run.ids {
            Ids::Indexes(first, _) => Some(TaskId::new(generated_id(batch, *first))?),
            Ids::Ids(ids) => ids.front().cloned(),
        };
        Ok(id.map(|id| (run.task_type.clone(), id)))
    }

    /// Removes the first member.
    pub(super) fn remove_first(&mut self) {
        let Some(run) = self.0.front_mut() else {
            return;
        };
        let is_over = match &mut run.ids {
            Ids::Indexes(first, end) => {
                *first = first.saturating_add(1);
                first >= end
            }
            Ids::Ids(ids) => {
                ids.pop_front();
                ids.is_empty()
            }
        };
        if is_over {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_kept_compactly_and_come_back_in_their_order() {
        let batch = "b";
        let sent = [
            ("mail", "b/0"),
            ("mail", "b/1"),
            ("mail", "own"),
            ("mail", "b/7"),
            ("sms", "b/4"),
            ("sms", "b/5"),
        ];
        let mut members = Members::default();
        for (index, (task_type, id)) in sent.iter().enumerate() {
            let (task_type, id) = (TaskType::new(task_type), TaskId::new(id));
            members.push(batch, index, task_type.unwrap(), id.unwrap());
        }
        let json = serde_json::to_string(&members).unwrap();
        // Stored text: it must stay readable.
        let expected = r#"[{"type":"mail","indexes":[0,2]},{"type":"mail","ids":["own","b/7"]},{"type":"sms","indexes":[4,6]}]"#;
        assert_eq!(json, expected);
        let mut members: Members = serde_json::from_str(&json).unwrap();
        for (task_type, id) in sent {
            let (first_type, first_id) = members.first(batch).unwrap().unwrap();
            assert_eq!((first_type.as_str(), first_id.as_str()), (task_type, id));
            members.remove_first();
        }
        assert_eq!((members.first(batch), members.0.len()), (Ok(None), 0));
    }
}
