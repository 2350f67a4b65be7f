//! One task: its state and the reason for it, its history and its message.

use std::sync::Arc;

use askama::Template;
use delayq_plugin::{Result, TaskInfo, TaskState, Timestamp};

use super::Page;
use super::history::{LifeRow, life_row};
use super::tasks::at_head;
use crate::app::App;
use crate::cache::Cache;
use crate::fields::Link;
use crate::look::TaskLook;
use crate::message::{Form, editable, shown};
use crate::moment::Moment;
use crate::said::{counted, one_line, visible};
use crate::shell::Nav;
use crate::tag::{Tag, of_state};
use crate::viewer::Role;
use crate::visit::Visit;

/// The page of a task, with the form of its message.
#[derive(Clone, Debug)]
pub(crate) struct TaskPage {
    task_type: String,
    id: String,
    form: Option<Form>,
}

/// A moment in its history.
struct TimelineStep {
    at: Option<Moment>,
    text: String,
    class: &'static str,
}

/// A fact about it.
struct TaskFact {
    name: &'static str,
    value: String,
    at: Option<Moment>,
}

/// A name and a value, or a time and an error.
struct Pair {
    name: String,
    value: String,
}

/// A tab of the message.
struct MessageTab {
    name: &'static str,
    href: String,
    is_here: bool,
}

/// The message.
struct TaskMessage {
    size: String,
    tabs: Vec<MessageTab>,
    text: String,
    /// The whole message for editing, and its form.
    edit: String,
    edit_form: &'static str,
}

/// The actions that this viewer may now take.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a control of its own on the page"
)]
struct TaskRights {
    cancel: bool,
    change: bool,
    requeue: bool,
    discard: bool,
}

#[derive(Template)]
#[template(path = "task.html")]
struct TaskBody<'a> {
    visit: &'a Visit,
    task_type: &'a str,
    id: String,
    type_href: String,
    tag: Option<Tag>,
    sentence: String,
    late: String,
    steps: Vec<TimelineStep>,
    facts: Vec<TaskFact>,
    headers: Vec<Pair>,
    errors: Vec<Pair>,
    message: Option<TaskMessage>,
    is_known: bool,
    may: TaskRights,
    rows: Vec<LifeRow>,
    history_error: Option<String>,
}

impl Page for TaskPage {
    type Data = TaskLook;
    const NAV: Nav = Nav::Elsewhere;

    fn of(visit: &Visit) -> Self {
        Self {
            task_type: visit.fields.get("type").to_owned(),
            id: visit.fields.get("id").to_owned(),
            form: Form::read(visit.fields.get("as")),
        }
    }

    fn title(&self) -> String {
        one_line(&self.id, 128)
    }

    fn key(&self) -> String {
        format!("{:?}", (&self.task_type, &self.id))
    }

    fn cache(app: &App) -> &Cache<TaskLook> {
        &app.shelf.task
    }

    fn read(&self, app: &Arc<App>) -> impl Future<Output = Result<TaskLook>> + Send + 'static {
        let tasks = app.tasks.clone();
        TaskLook::read(tasks, self.task_type.clone(), self.id.clone())
    }

    fn body(&self, visit: &Visit, data: &TaskLook) -> askama::Result<String> {
        let (task, explained) = (data.task.as_ref(), &data.explained);
        let is = |state: TaskState| task.is_some_and(|task| task.state == state);
        let (operates, administers) = (visit.may(Role::Operator), visit.may(Role::Admin));
        let is_scheduled = is(TaskState::Scheduled);
        let lives = data.lives.iter();
        let late = explained.late.filter(|late| !late.is_zero());
        TaskBody {
            visit,
            task_type: &self.task_type,
            id: self.title(),
            type_href: visit.href(&Link::to("/type").with("name", &self.task_type)),
            tag: task.map(|task| of_state(task.state)),
            sentence: visible(&explained.sentence),
            late: late.map_or_else(String::new, crate::said::span),
            steps: steps(data),
            facts: task.map_or_else(Vec::new, |task| facts(task, data)),
            headers: task.map_or_else(Vec::new, headers),
            errors: task.map_or_else(Vec::new, errors),
            message: task.and_then(|task| self.message(visit, task)),
            is_known: task.is_some(),
            may: TaskRights {
                cancel: operates && (is_scheduled || is(TaskState::Running)),
                change: operates && is_scheduled,
                requeue: operates && is(TaskState::Dead),
                discard: administers && is(TaskState::Dead),
            },
            rows: lives.map(|life| life_row(visit, life)).collect(),
            history_error: data.history_error.as_deref().map(visible),
        }
        .render()
    }
}

impl TaskPage {
    fn message(&self, visit: &Visit, task: &TaskInfo) -> Option<TaskMessage> {
        let bytes = task.message.as_deref()?;
        let form = self.form.unwrap_or_else(|| Form::fitting(bytes));
        let link = || {
            Link::to("/task")
                .with("type", &self.task_type)
                .with("id", &self.id)
        };
        let tab = |one: Form| MessageTab {
            name: one.name(),
            href: visit.href(&link().with("as", one.name())),
            is_here: one == form,
        };
        let edit_form = editable(bytes);
        Some(TaskMessage {
            size: counted(bytes.len() as u64, "byte"),
            tabs: Form::ALL.map(tab).into(),
            text: shown(bytes, form),
            edit: shown_for_edit(bytes, edit_form),
            edit_form: edit_form.name(),
        })
    }
}

/// The whole message, so that an edit loses nothing.
fn shown_for_edit(bytes: &[u8], form: Form) -> String {
    match form {
        Form::Hex => crate::message::hex(bytes),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

fn steps(data: &TaskLook) -> Vec<TimelineStep> {
    use delayq_ops::MomentKind as Kind;
    let now = data.explained.now;
    let step = |moment: &delayq_ops::Moment| TimelineStep {
        at: moment.at.map(|at| Moment::exact(now, at)),
        text: visible(&moment.text),
        class: match moment.kind {
            Kind::Failed { .. }
            | Kind::Ended {
                state: TaskState::Dead,
                ..
            } => "failed",
            Kind::Next { .. } | Kind::LockExpires | Kind::Again | Kind::Expires => "ahead",
            _ => "past",
        },
    };
    // The present state is shown in the sentence at the top.
    let moments = data.moments.iter().filter(|one| one.kind != Kind::Now);
    moments.map(step).collect()
}

fn facts(task: &TaskInfo, data: &TaskLook) -> Vec<TaskFact> {
    let now = data.explained.now;
    let at = |name, at: Timestamp| TaskFact {
        name,
        value: String::new(),
        at: Some(Moment::exact(now, at)),
    };
    let fact = |name, value: String| TaskFact {
        name,
        value,
        at: None,
    };
    let mut facts = vec![at(at_head(task.state), task.at)];
    facts.extend(task.submitted_at.map(|time| at("Submitted", time)));
    facts.extend(task.started_at.map(|time| at("Running since", time)));
    facts.extend(task.expires_at.map(|time| at("Expires", time)));
    facts.extend(task.again_at.map(|time| at("Runs again", time)));
    facts.push(fact("Attempts", task.attempt.to_string()));
    if let Some(holder) = &task.holder {
        let host = data.holder.as_ref().map_or_else(
            || "no longer announced".to_owned(),
            |one| format!("{}, process {}", one_line(&one.host, 100), one.pid),
        );
        facts.push(fact(
            "Held by",
            format!("{} ({host})", one_line(holder, 40)),
        ));
    }
    if task.cancel_requested {
        facts.push(fact("Cancel", "requested".to_owned()));
    }
    let history = &task.history;
    let numbers = [
        ("Failures", history.failures),
        ("Expired locks", history.lock_expiries),
        ("Releases", history.releases),
        ("Requeues", history.requeues),
    ];
    let numbers = numbers.into_iter().filter(|(_, number)| *number > 0);
    facts.extend(numbers.map(|(name, number)| fact(name, number.to_string())));
    if let Some(note) = &history.note {
        facts.push(fact("Note", visible(note)));
    }
    facts
}

fn headers(task: &TaskInfo) -> Vec<Pair> {
    let headers = task.headers.iter();
    let pair = |(name, value): (&String, &String)| Pair {
        name: visible(name),
        value: visible(value),
    };
    headers.map(pair).collect()
}

fn errors(task: &TaskInfo) -> Vec<Pair> {
    let errors = task.errors.iter().map(|error| Pair {
        name: format!("Attempt {}", error.attempt),
        value: visible(&error.error),
    });
    let mut errors: Vec<_> = errors.collect();
    // The last error is shown in full.
    if let Some(error) = &task.history.last_error {
        let last = Pair {
            name: "Last, in full".to_owned(),
            value: visible(error),
        };
        errors.insert(0, last);
    }
    errors
}
