//! Problems of the store and its instances, with the lines to change.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use delayq_ops::{Finding, Severity, Symptom, examine};
use delayq_plugin::{Result, TaskType};

use super::{BRIEF_PATIENCE, Page};
use crate::app::App;
use crate::cache::Cache;
use crate::fields::Link;
use crate::said::{capital, visible};
use crate::shell::Nav;
use crate::visit::Visit;

/// The findings.
#[derive(Clone, Debug)]
pub(crate) struct HealthPage;

/// A finding.
struct FindingRow {
    class: &'static str,
    icon: &'static str,
    severity: &'static str,
    found: String,
    why: String,
    fix: String,
    command: String,
    link: String,
    href: String,
}

#[derive(Template)]
#[template(path = "health.html")]
struct HealthBody {
    rows: Vec<FindingRow>,
}

impl Page for HealthPage {
    type Data = Vec<Finding>;
    const NAV: Nav = Nav::Health;

    fn of(_visit: &Visit) -> Self {
        Self
    }

    fn title(&self) -> String {
        "Health".to_owned()
    }

    fn key(&self) -> String {
        String::new()
    }

    fn cache(app: &App) -> &Cache<Vec<Finding>> {
        &app.shelf.health
    }

    fn patience(&self) -> Duration {
        BRIEF_PATIENCE
    }

    fn read(&self, app: &Arc<App>) -> impl Future<Output = Result<Vec<Finding>>> + Send + 'static {
        let tasks = app.tasks.clone();
        async move { examine(&tasks).await }
    }

    fn body(&self, visit: &Visit, data: &Vec<Finding>) -> askama::Result<String> {
        let rows = data.iter().map(|finding| row(visit, finding)).collect();
        HealthBody { rows }.render()
    }
}

fn row(visit: &Visit, finding: &Finding) -> FindingRow {
    let (class, icon, severity) = match finding.severity {
        Severity::Error => ("bad", "✕", "error"),
        Severity::Warning => ("warn", "▲", "warning"),
        _ => ("calm", "i", "note"),
    };
    let (link, to) = place(finding);
    FindingRow {
        class,
        icon,
        severity,
        found: visible(&finding.found),
        why: capital(&visible(&finding.why)),
        fix: visible(&finding.fix),
        command: visible(finding.command.as_deref().unwrap_or_default()),
        link: link.to_owned(),
        href: to.map_or_else(String::new, |to| visit.href(&to)),
    }
}

/// Where the page shows what the finding is about: the words of the link, and its target.
fn place(finding: &Finding) -> (&'static str, Option<Link>) {
    let Some(task_type) = finding.task_type.as_ref().map(TaskType::as_str) else {
        return match finding.symptom {
            Symptom::Versions | Symptom::Crashes => {
                ("see the instances", Some(Link::to("/instances")))
            }
            _ => ("", None),
        };
    };
    match (finding.symptom, &finding.task_id) {
        (Symptom::Dead, _) => {
            let dead = Link::to("/dead").with("type", task_type);
            ("see the dead tasks", Some(dead))
        }
        (Symptom::Overdue | Symptom::Locks | Symptom::Crashes, Some(id)) => {
            let task = Link::to("/task").with("type", task_type);
            ("see the task", Some(task.with("id", id.as_str())))
        }
        _ => (
            "see the type",
            Some(Link::to("/type").with("name", task_type)),
        ),
    }
}
