//! Confirms a requeue or discard of dead tasks, with their number.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use delayq_ops::DeadSelection;
use delayq_plugin::{Error, Result};

use super::{BRIEF_PATIENCE, Page};
use crate::app::App;
use crate::cache::Cache;
use crate::fields::{Fields, Link, with_own_breaks};
use crate::said::{ROW_CHARS, capital, counted, one_line};
use crate::shell::Nav;
use crate::visit::Visit;

/// The value of the field `by` for tasks that died without an error.
pub(crate) const WITHOUT_ERROR: &str = "without-error";

/// A change of dead tasks.
pub(crate) trait Fate: Clone + Send + Sync + 'static {
    const VERB: &'static str;
    const PATH: &'static str;
    /// The meaning of the change, for the user.
    const MEANS: &'static str;
    const HAS_RATE: bool;
}

/// Schedules the tasks again.
#[derive(Clone, Debug)]
pub(crate) struct Requeue;

impl Fate for Requeue {
    const VERB: &'static str = "requeue";
    const PATH: &'static str = "/dead/requeue";
    const MEANS: &'static str = "They are scheduled again, and their attempts are reset.";
    const HAS_RATE: bool = true;
}

/// Removes the tasks.
#[derive(Clone, Debug)]
pub(crate) struct Discard;

impl Fate for Discard {
    const VERB: &'static str = "discard";
    const PATH: &'static str = "/dead/discard";
    const MEANS: &'static str = "They are removed for good. This cannot be undone.";
    const HAS_RATE: bool = false;
}

/// The selection of dead tasks in a form.
#[derive(Clone, Debug)]
pub(crate) struct DeadChange<F> {
    pub(crate) task_type: String,
    by: String,
    group: String,
    fate: PhantomData<F>,
}

#[derive(Template)]
#[template(path = "dead_change.html")]
struct DeadChangeBody<'a> {
    visit: &'a Visit,
    verb_said: String,
    means: &'static str,
    has_rate: bool,
    task_type: &'a str,
    by: &'a str,
    group: &'a str,
    shown: String,
    count: u64,
    counted: String,
    action: String,
    back: String,
}

impl<F: Fate> DeadChange<F> {
    pub(crate) fn read_fields(fields: &Fields) -> Self {
        Self {
            task_type: fields.get("type").to_owned(),
            by: fields.get("by").to_owned(),
            // Not trimmed, because an error may begin with a blank.
            group: with_own_breaks(fields.raw("group")),
            fate: PhantomData,
        }
    }

    /// The selection for the operator.
    pub(crate) fn selection(&self) -> Result<DeadSelection> {
        let all = DeadSelection::of(&self.task_type);
        match self.by.as_str() {
            "" => Ok(all),
            "group" => Ok(all.group(&self.group)),
            WITHOUT_ERROR => Ok(all.without_error()),
            _ => {
                let reason = "by: use group, or without-error; leave it out to mean all";
                Err(Error::invalid("selection", reason))
            }
        }
    }
}

impl<F: Fate> Page for DeadChange<F> {
    type Data = u64;
    const NAV: Nav = Nav::Dead;

    fn of(visit: &Visit) -> Self {
        Self::read_fields(&visit.fields)
    }

    fn title(&self) -> String {
        format!("{} dead tasks", capital(F::VERB))
    }

    fn key(&self) -> String {
        format!("{:?}", (&self.task_type, &self.by, &self.group))
    }

    fn cache(app: &App) -> &Cache<u64> {
        &app.shelf.count
    }

    /// Counting a group requires reading every dead task of the type.
    fn patience(&self) -> Duration {
        BRIEF_PATIENCE
    }

    fn read(&self, app: &Arc<App>) -> impl Future<Output = Result<u64>> + Send + 'static {
        let (tasks, selection) = (app.tasks.clone(), self.selection());
        async move { selection?.count(&tasks).await }
    }

    fn body(&self, visit: &Visit, data: &u64) -> askama::Result<String> {
        DeadChangeBody {
            visit,
            verb_said: capital(F::VERB),
            means: F::MEANS,
            has_rate: F::HAS_RATE,
            task_type: &self.task_type,
            by: &self.by,
            group: &self.group,
            shown: one_line(&self.group, ROW_CHARS),
            count: *data,
            counted: counted(*data, "dead task"),
            action: visit.href(&Link::to(F::PATH)),
            back: visit.href(&Link::to("/dead")),
        }
        .render()
    }
}
