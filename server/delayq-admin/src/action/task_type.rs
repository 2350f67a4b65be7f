//! Actions on a type.

use std::time::Duration;

use axum::Extension;
use axum::response::Response;
use delayq_plugin::store::TypeSettings;
use delayq_plugin::{Error, Rate, Result, TaskType};

use super::tally::Tally;
use super::{answer, back, read_time};
use crate::fields::Link;
use crate::flash::Flash;
use crate::page::purge::state_of;
use crate::said::counted;
use crate::visit::Visit;

fn name(visit: &Visit) -> &str {
    visit.fields.get("name")
}

fn link(visit: &Visit) -> Link {
    Link::to("/type").with("name", name(visit))
}

/// Refuses a pattern, because the page changes one type at a time.
fn one(visit: &Visit) -> Result<TaskType> {
    TaskType::new(name(visit))
}

pub(crate) async fn pause(Extension(visit): Extension<Visit>) -> Response {
    let paused = async {
        let task_type = one(&visit)?;
        let until = match visit.fields.some("until") {
            None => None,
            Some(text) => {
                let now = visit.tasks().stats(task_type.as_str()).await?.now;
                let until = read_time(text, now);
                Some(until.map_err(|reason| Error::invalid("end of the pause", reason))?)
            }
        };
        visit.operator().pause(task_type.as_str(), until).await?;
        Ok(Flash::done(match until {
            Some(until) => format!("{task_type} is paused until {until}"),
            None => format!("{task_type} is paused until it is resumed"),
        }))
    };
    answer(&visit, &link(&visit), paused.await)
}

pub(crate) async fn resume(Extension(visit): Extension<Visit>) -> Response {
    let resumed = async {
        let task_type = one(&visit)?;
        visit.operator().resume(task_type.as_str()).await?;
        Ok(Flash::done(format!("{task_type} goes on")))
    };
    answer(&visit, &link(&visit), resumed.await)
}

/// The types that a form selects.
fn picked(visit: &Visit) -> Result<Vec<TaskType>> {
    let types: Result<Vec<_>> = visit.fields.all("name").map(TaskType::new).collect();
    match types? {
        none if none.is_empty() => Err(Error::invalid("selection", "select at least one type")),
        types => Ok(types),
    }
}

pub(crate) async fn pause_picked(Extension(visit): Extension<Visit>) -> Response {
    let paused = async {
        let types = picked(&visit)?;
        let until = match visit.fields.some("until") {
            None => None,
            Some(text) => {
                let until = read_time(text, visit.tasks().clock().now());
                Some(until.map_err(|reason| Error::invalid("end of the pause", reason))?)
            }
        };
        let (operator, mut tally) = (visit.operator(), Tally::default());
        for task_type in &types {
            if !tally.goes_on() {
                tally.left += 1;
                continue;
            }
            match operator.pause(task_type.as_str(), until).await {
                Ok(_) => tally.done += 1,
                Err(error) => tally.failed(1, error),
            }
        }
        let until = until.map_or_else(|| "resumed".to_owned(), |until| until.to_string());
        Ok(tally.flash("type", &format!("paused until {until}")))
    };
    answer(&visit, &back(&visit, "/"), paused.await)
}

pub(crate) async fn resume_picked(Extension(visit): Extension<Visit>) -> Response {
    let resumed = async {
        let types = picked(&visit)?;
        let (operator, mut tally) = (visit.operator(), Tally::default());
        for task_type in &types {
            if !tally.goes_on() {
                tally.left += 1;
                continue;
            }
            match operator.resume(task_type.as_str()).await {
                Ok(_) => tally.done += 1,
                Err(error) => tally.failed(1, error),
            }
        }
        Ok(tally.flash("type", "resumed"))
    };
    answer(&visit, &back(&visit, "/"), resumed.await)
}

/// Reads the settings. A setting that is empty in the form is removed.
fn settings(visit: &Visit) -> Result<TypeSettings, String> {
    let fields = &visit.fields;
    let number = |name: &str| match fields.some(name) {
        None => Ok(None),
        Some(text) => {
            let number = text.replace(',', "").parse::<u64>();
            number
                .map(Some)
                .map_err(|_| format!("{name}: {text:?} is not a number"))
        }
    };
    let concurrency = match number("fleet_concurrency")? {
        None => None,
        Some(most) => {
            let most = u32::try_from(most);
            Some(most.map_err(|_| "fleet_concurrency is too large".to_owned())?)
        }
    };
    let rate = match fields.some("fleet_rate") {
        None => None,
        Some(text) => Some(rate(text)?),
    };
    let settings = TypeSettings::default().max_pending(number("max_pending")?);
    Ok(settings.fleet_concurrency(concurrency).fleet_rate(rate))
}

fn rate(text: &str) -> Result<Rate, String> {
    let wrong = || format!("fleet_rate: {text:?} is not a rate: write such as 100/s or 5/min");
    let (starts, unit) = text.split_once('/').ok_or_else(wrong)?;
    let per = match unit.trim() {
        "s" => Duration::from_secs(1),
        "min" => Duration::from_mins(1),
        "h" => Duration::from_hours(1),
        _ => return Err(wrong()),
    };
    let starts = starts.trim().parse().map_err(|_| wrong())?;
    Ok(Rate::new(starts, per))
}

pub(crate) async fn configure(Extension(visit): Extension<Visit>) -> Response {
    let configured = async {
        let task_type = one(&visit)?;
        let settings = settings(&visit).map_err(|reason| Error::invalid("setting", reason))?;
        visit
            .operator()
            .configure_type(task_type.as_str(), &settings)
            .await?;
        Ok(Flash::done(
            "settings saved: they apply to every instance from now on",
        ))
    };
    answer(&visit, &link(&visit), configured.await)
}

/// Returns true if the user typed the name of the type.
fn is_typed(visit: &Visit, task_type: &TaskType) -> bool {
    visit.fields.get("typed") == task_type.as_str()
}

const TYPE_IT: &str = "not done: type the name of the type to confirm it";

pub(crate) async fn purge(Extension(visit): Extension<Visit>) -> Response {
    let purged = async {
        let task_type = one(&visit)?;
        if !is_typed(&visit, &task_type) {
            return Ok(Flash::failed(TYPE_IT));
        }
        let state = state_of(visit.fields.get("state"));
        let count = visit.operator().purge(task_type.as_str(), state).await?;
        Ok(Flash::done(format!(
            "{} purged",
            counted(count, &format!("{state} task"))
        )))
    };
    answer(&visit, &link(&visit), purged.await)
}

pub(crate) async fn drop_type(Extension(visit): Extension<Visit>) -> Response {
    let mut to = link(&visit);
    let dropped = async {
        let task_type = one(&visit)?;
        if !is_typed(&visit, &task_type) {
            return Ok(Flash::failed(TYPE_IT));
        }
        visit.operator().drop_type(task_type.as_str()).await?;
        to = Link::to("/");
        Ok(Flash::done(format!("{task_type} is dropped")))
    };
    let dropped = dropped.await;
    answer(&visit, &to, dropped)
}
