//! Confirms a requeue or discard of the groups of dead tasks that are selected, with their numbers.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use axum::response::{IntoResponse, Response};
use delayq_ops::{DeadSelection, dead_group_counts};
use delayq_plugin::{Error, Result, TaskSubmitService, TaskType};

use super::dead::MOST;
use super::dead_change::Fate;
use crate::fields::{Fields, Link, with_own_breaks};
use crate::said::{ROW_CHARS, capital, count, counted, one_line};
use crate::shell::{Nav, Shell};
use crate::visit::Visit;

/// The field that a form has after its question was answered.
const SURE: &str = "sure";

/// A group that a form selects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PickedGroup {
    pub(crate) task_type: String,
    /// Its error; empty if its tasks died without one.
    error: String,
}

impl PickedGroup {
    /// Reads the fields `group` of a form, each a type, a blank and an error.
    pub(crate) fn read_all(fields: &Fields) -> Result<BTreeSet<Self>> {
        let groups: Result<BTreeSet<_>> = fields.all("group").map(Self::read).collect();
        match groups? {
            none if none.is_empty() => {
                Err(Error::invalid("selection", "select at least one group"))
            }
            many if many.len() > MOST => {
                let reason = format!("select up to {MOST} groups at a time");
                Err(Error::invalid("selection", reason))
            }
            groups => Ok(groups),
        }
    }

    fn read(text: &str) -> Result<Self> {
        let (task_type, error) = text.split_once(' ').unwrap_or((text, ""));
        TaskType::new(task_type)?;
        let error = Some(error).filter(|error| !error.trim().is_empty());
        Ok(Self {
            task_type: task_type.to_owned(),
            error: error.map_or_else(String::new, with_own_breaks),
        })
    }

    /// Its tasks.
    pub(crate) fn selection(&self) -> DeadSelection {
        let all = DeadSelection::of(&self.task_type);
        if self.error.is_empty() {
            all.without_error()
        } else {
            all.group(&self.error)
        }
    }

    /// Its number of tasks, of those of its type.
    fn count(&self, of_type: &BTreeMap<String, u64>) -> u64 {
        if self.error.is_empty() {
            let blank = of_type.iter().filter(|(error, _)| error.trim().is_empty());
            return blank.map(|(_, count)| count).sum();
        }
        of_type.get(&self.error).copied().unwrap_or_default()
    }
}

/// A selected group with its number of tasks.
pub(crate) struct CountedGroup {
    group: PickedGroup,
    pub(crate) count: u64,
}

/// Counts the tasks of each group. Reads the dead tasks of each type once.
pub(crate) async fn count_groups(
    tasks: &TaskSubmitService,
    groups: &BTreeSet<PickedGroup>,
) -> Result<Vec<CountedGroup>> {
    let mut types = BTreeMap::new();
    let mut found = Vec::new();
    for group in groups {
        if !types.contains_key(&group.task_type) {
            let of_type = dead_group_counts(tasks, &group.task_type).await?;
            types.insert(&group.task_type, of_type);
        }
        let of_type = types.get(&group.task_type);
        found.push(CountedGroup {
            count: of_type.map_or(0, |of_type| group.count(of_type)),
            group: group.clone(),
        });
    }
    Ok(found)
}

/// Returns true if a form answers the question of [`ask`].
pub(crate) fn is_sure(fields: &Fields) -> bool {
    !fields.get(SURE).is_empty()
}

/// A group in the question.
struct AskedGroup {
    task_type: String,
    error: String,
    count: String,
    /// Its type and error, for the form.
    pick: String,
}

#[derive(Template)]
#[template(path = "groups_change.html")]
struct GroupsChangeBody<'a> {
    visit: &'a Visit,
    verb_said: String,
    means: &'static str,
    has_rate: bool,
    rate: &'a str,
    sure: &'static str,
    groups: Vec<AskedGroup>,
    count: u64,
    counted: String,
    action: String,
    own: &'a Link,
    back: String,
}

/// The page that asks whether to change these groups. Its form goes where the one before it went.
pub(crate) fn ask<F: Fate>(visit: &Visit, groups: Vec<CountedGroup>, back: &Link) -> Response {
    let sum = groups.iter().map(|one| one.count).sum();
    let asked = groups.into_iter().map(|one| AskedGroup {
        error: one_line(&one.group.error, ROW_CHARS),
        pick: format!("{} {}", one.group.task_type, one.group.error),
        count: count(one.count),
        task_type: one.group.task_type,
    });
    let title = format!("{} dead tasks", capital(F::VERB));
    let body = GroupsChangeBody {
        visit,
        verb_said: capital(F::VERB),
        means: F::MEANS,
        has_rate: F::HAS_RATE,
        rate: visit.fields.get("rate"),
        sure: SURE,
        groups: asked.collect(),
        count: sum,
        counted: counted(sum, "dead task"),
        action: visit.at(&format!("/dead/groups/{}", F::VERB)),
        own: back,
        back: visit.href(back),
    };
    let body = body.render();
    let body = body.unwrap_or_else(|error| format!("cannot show this page: {error}"));
    let html = Shell::new(visit, Nav::Dead, &title, &body).html();
    // The address stays that of the list: this page is the answer to a form.
    ([("hx-push-url", "false")], html).into_response()
}
