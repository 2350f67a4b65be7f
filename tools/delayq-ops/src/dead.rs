//! Dead tasks, grouped by the error that killed them.

use std::collections::BTreeMap;

use delayq_plugin::store::MAX_BATCH;
use delayq_plugin::{
    Result, TaskFilter, TaskId, TaskInfo, TaskState, TaskSubmitService, TaskType, Timestamp,
};
use serde::Serialize;

use crate::selection::selected;

/// Maximum number of dead tasks read by one call: about 80 pages.
const MOST_READ: u64 = 10_000;

/// Number of ids shown for a group.
const SAMPLES: usize = 5;

/// Number of characters of an error used to tell groups apart.
const ERROR_CHARS: usize = 200;

/// Dead tasks in groups, largest group first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeadGroups {
    /// The groups.
    pub groups: Vec<DeadGroup>,
    /// The number of dead tasks in all groups.
    pub count: u64,
    /// True if all dead tasks were read; otherwise only the first 10,000 by their time of death,
    /// type after type.
    pub is_complete: bool,
}

/// Dead tasks of one type with the same error, ignoring its numbers and ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeadGroup {
    /// The type.
    pub task_type: TaskType,
    /// The error with `#` for each number and id, at most 200 characters.
    pub error: String,
    /// The complete last error of the task that died last.
    pub latest_error: String,
    /// The number of tasks.
    pub count: u64,
    /// The time of the first death.
    pub first_at: Timestamp,
    /// The time of the last death.
    pub last_at: Timestamp,
    /// The ids of up to five of them: those that died first.
    pub ids: Vec<TaskId>,
}

/// Groups the dead tasks of a type, or of the listed types that a pattern matches, by their last
/// error. The state and the due times of `filter` are ignored. Reads up to 10,000 dead tasks with
/// their messages, in pages of 128, with one call for each.
///
/// # Errors
/// `InvalidInput` for a filter with due times, and the store's errors.
pub async fn dead_groups(
    tasks: &TaskSubmitService,
    types: &str,
    filter: &TaskFilter,
) -> Result<DeadGroups> {
    let filter = filter.clone().state(TaskState::Dead);
    let mut groups = BTreeMap::new();
    let (mut count, mut is_complete) = (0, true);
    for task_type in selected(tasks, types).await? {
        let mut cursor = None;
        loop {
            if count >= MOST_READ {
                is_complete = false;
                break;
            }
            let page = tasks.list_by(task_type.as_str(), &filter, cursor.as_ref(), MAX_BATCH);
            let page = page.await?;
            for task in page.tasks {
                count += 1;
                add(&mut groups, &task_type, task);
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
    }
    let mut groups: Vec<DeadGroup> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    Ok(DeadGroups {
        groups,
        count,
        is_complete,
    })
}

/// The numbers of dead tasks of a type by the `error` of their [group](DeadGroup). Reads all of
/// them, in pages of 128.
///
/// # Errors
/// `InvalidName` for an invalid type, and the store's errors.
pub async fn dead_group_counts(
    tasks: &TaskSubmitService,
    task_type: &str,
) -> Result<BTreeMap<String, u64>> {
    let (mut counts, mut cursor) = (BTreeMap::new(), None);
    loop {
        let page = tasks.list(task_type, TaskState::Dead, cursor.as_ref(), MAX_BATCH);
        let page = page.await?;
        for task in page.tasks {
            let error = task.history.last_error.unwrap_or_default();
            *counts.entry(folded(&error)).or_insert(0) += 1;
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(counts);
        }
    }
}

fn add(groups: &mut BTreeMap<(TaskType, String), DeadGroup>, task_type: &TaskType, task: TaskInfo) {
    let latest_error = task.history.last_error.unwrap_or_default();
    let error = folded(&latest_error);
    let key = (task_type.clone(), error.clone());
    let group = groups.entry(key).or_insert_with(|| DeadGroup {
        task_type: task_type.clone(),
        error,
        latest_error: String::new(),
        count: 0,
        first_at: task.at,
        last_at: task.at,
        ids: Vec::new(),
    });
    group.count += 1;
    group.first_at = group.first_at.min(task.at);
    if task.at >= group.last_at {
        group.last_at = task.at;
        group.latest_error = latest_error;
    }
    if group.ids.len() < SAMPLES {
        group.ids.push(task.id);
    }
}

/// The error with `#` for each number and each id, and one kind of line break: a browser sends
/// every other kind back changed.
pub(crate) fn folded(error: &str) -> String {
    let mut folded = String::new();
    let error = error.replace("\r\n", "\n").replace('\r', "\n");
    let mut rest = error.as_str();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let end = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(end);
        rest = after;
        if is_id(word) {
            folded.push('#');
        } else {
            fold_digits(word, &mut folded);
        }
    }
    folded.chars().take(ERROR_CHARS).collect()
}

/// True for a UUID, a hash, a ULID or another generated name: hexadecimal with a digit, or long
/// with many digits.
fn is_id(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let is_hex = word.bytes().all(|c| c.is_ascii_hexdigit() || c == b'-');
    is_hex && digits > 0 && word.len() >= 8 || word.len() >= 16 && digits >= 4
}

fn fold_digits(word: &str, folded: &mut String) {
    let mut is_number = false;
    for c in word.chars() {
        if !c.is_ascii_digit() {
            folded.push(c);
        } else if !is_number {
            folded.push('#');
        }
        is_number = c.is_ascii_digit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_differ_in_numbers_and_ids_are_one() {
        let same = [
            "order-42: no van within 30s (01JDAY0000000000000000000A)",
            "order-7: no van within 5s (01JDAY00000000000000000B7Q)",
        ];
        assert_eq!(same.map(folded), ["order-#: no van within #s (#)"; 2]);
        assert_eq!(
            folded("6f1c3a0e-5a5b-4c1d-9e2f-aabbccddeeff not found"),
            "# not found"
        );
        assert_eq!(
            folded("connection refused: Größe"),
            "connection refused: Größe"
        );
        assert_ne!(folded("no van"), folded("no driver"));
        assert_eq!(
            ["a\nb\nc", "a\r\nb\r\nc", "a\rb\nc"].map(folded),
            ["a\nb\nc"; 3]
        );
    }
}
