//! Figures by minute and hour, and the log of actions. Skipped for a store without them.

use std::time::Duration;

use delayq_core::chronicle::{
    Action, ActionEnd, Figures, LoggedAction, MAX_ACTION_PAGE, Spell, Step,
};
use delayq_core::{Error, TaskType, Timestamp};

use super::rig::{Rig, usual_type};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

async fn keeps_figures(rig: &Rig) -> bool {
    let found = figures_of(rig, &usual_type(), Step::Hour, Timestamp::ZERO).await;
    !matches!(found, Err(Error::Unsupported(_)))
}

async fn keeps_actions(rig: &Rig) -> bool {
    let found = rig.store().actions(None, 1).await;
    !matches!(found, Err(Error::Unsupported(_)))
}

async fn figures_of(
    rig: &Rig,
    task_type: &TaskType,
    step: Step,
    since: Timestamp,
) -> Result<Vec<Spell>, Error> {
    rig.store().figures(task_type, step, since).await
}

/// The start of each span, and the number of attempts started in it.
async fn starts(rig: &Rig, task_type: &TaskType, step: Step) -> Vec<(Timestamp, u64)> {
    let spells = figures_of(rig, task_type, step, Timestamp::ZERO).await;
    let starts = |spell: &Spell| (spell.at, spell.figures.started);
    spells.unwrap().iter().map(starts).collect()
}

fn spell(at: Timestamp, started: u64) -> Spell {
    let mut figures = Figures::default();
    figures.started = started;
    figures.done = started;
    figures.failed = 1;
    figures.dead = 1;
    figures.ran(Duration::from_millis(100 * started));
    figures.lateness.add(3, started);
    Spell { at, figures }
}

async fn add(rig: &Rig, task_type: &TaskType, minutes: &[Spell]) {
    rig.store().add_figures(task_type, minutes).await.unwrap();
}

/// The hour before the present one.
async fn last_hour(rig: &Rig) -> Timestamp {
    Step::Hour.begin(rig.now().await.minus(HOUR))
}

fn other_type() -> TaskType {
    TaskType::new("mail.send").unwrap()
}

pub async fn figures_of_instances_add_up_by_minute_and_hour(rig: &Rig) {
    if !keeps_figures(rig).await {
        return;
    }
    let hour = last_hour(rig).await;
    let [first, second] = [10, 11].map(|minutes| hour.plus(MINUTE * minutes));
    let task_type = usual_type();
    assert_eq!(starts(rig, &task_type, Step::Minute).await, []);
    add(rig, &task_type, &[spell(first, 3), spell(second, 1)]).await;
    // From another instance, within the same minute.
    add(rig, &task_type, &[spell(first.plus(MINUTE / 2), 4)]).await;
    add(rig, &task_type, &[spell(hour.plus(HOUR), 5)]).await;
    let minutes = starts(rig, &task_type, Step::Minute).await;
    assert_eq!(minutes, [(first, 7), (second, 1), (hour.plus(HOUR), 5)]);
    let hours = starts(rig, &task_type, Step::Hour).await;
    assert_eq!(hours, [(hour, 8), (hour.plus(HOUR), 5)]);
    let all = figures_of(rig, &task_type, Step::Hour, hour).await.unwrap();
    let mut expected = spell(first, 3).figures;
    expected += &spell(first, 4).figures;
    expected += &spell(second, 1).figures;
    assert_eq!(all[0].figures, expected);
}

pub async fn figures_of_types_and_namespaces_stay_apart(rig: &Rig) {
    if !keeps_figures(rig).await {
        return;
    }
    let hour = last_hour(rig).await;
    let elsewhere = rig.with_retention(rig.options().retention).await;
    add(rig, &usual_type(), &[spell(hour, 1)]).await;
    add(rig, &other_type(), &[spell(hour, 2)]).await;
    add(&elsewhere, &usual_type(), &[spell(hour, 3)]).await;
    let here = async |task_type| starts(rig, &task_type, Step::Minute).await;
    assert_eq!(here(usual_type()).await, [(hour, 1)]);
    assert_eq!(here(other_type()).await, [(hour, 2)]);
    let there = starts(&elsewhere, &usual_type(), Step::Hour).await;
    assert_eq!(there, [(hour, 3)]);
    assert_eq!(rig.store().types().await, Ok(Vec::new()), "lists no type");
}

pub async fn figures_are_shown_since_the_span_that_holds_a_time(rig: &Rig) {
    if !keeps_figures(rig).await {
        return;
    }
    let hour = last_hour(rig).await;
    let before = hour.minus(HOUR);
    let task_type = usual_type();
    let minutes = [before, hour, hour.plus(MINUTE), hour.plus(MINUTE * 2)];
    add(rig, &task_type, &minutes.map(|at| spell(at, 1))).await;
    let since = async |step, since| {
        let found = figures_of(rig, &task_type, step, since).await.unwrap();
        found.iter().map(|spell| spell.at).collect::<Vec<_>>()
    };
    let within = hour.plus(MINUTE).plus(MINUTE / 2);
    assert_eq!(since(Step::Minute, within).await, minutes[2..]);
    assert_eq!(since(Step::Minute, hour).await, minutes[1..]);
    assert_eq!(since(Step::Hour, within).await, [hour]);
    assert_eq!(since(Step::Hour, before).await, [before, hour]);
    let later = rig.now().await.plus(HOUR);
    assert_eq!(since(Step::Minute, later).await, []);
}

pub async fn minutes_reach_a_day_back_and_hours_thirty(rig: &Rig) {
    if !keeps_figures(rig).await {
        return;
    }
    let hour = last_hour(rig).await;
    let task_type = usual_type();
    let [two_days, many_days] = [2, 40].map(|days| hour.minus(HOUR * 24 * days));
    for at in [many_days, two_days, hour] {
        add(rig, &task_type, &[spell(at, 1)]).await;
    }
    let minutes = starts(rig, &task_type, Step::Minute).await;
    assert_eq!(minutes, [(hour, 1)]);
    let hours = starts(rig, &task_type, Step::Hour).await;
    assert_eq!(hours, [(two_days, 1), (hour, 1)]);
}

pub async fn a_dropped_type_loses_its_figures_and_keeps_the_log(rig: &Rig) {
    if !keeps_figures(rig).await || !keeps_actions(rig).await {
        return;
    }
    let hour = last_hour(rig).await;
    add(rig, &usual_type(), &[spell(hour, 1)]).await;
    add(rig, &other_type(), &[spell(hour, 2)]).await;
    log(rig, &action("drop")).await;
    rig.store().drop_type(&usual_type()).await.unwrap();
    for step in [Step::Minute, Step::Hour] {
        assert_eq!(starts(rig, &usual_type(), step).await, []);
        assert_eq!(starts(rig, &other_type(), step).await, [(hour, 2)]);
    }
    assert_eq!(verbs(&actions(rig, None, 9).await), ["drop"]);
}

fn action(verb: &str) -> Action {
    Action::new("ann", "10.0.0.7", verb, "mail.send")
}

async fn log(rig: &Rig, action: &Action) {
    rig.store().log_action(action).await.unwrap();
}

async fn actions(rig: &Rig, before: Option<u64>, limit: usize) -> Vec<LoggedAction> {
    rig.store().actions(before, limit).await.unwrap()
}

fn verbs(actions: &[LoggedAction]) -> Vec<&str> {
    let verbs = actions.iter().map(|one| one.action.verb.as_str());
    verbs.collect()
}

pub async fn actions_are_read_the_latest_first_as_they_were_logged(rig: &Rig) {
    if !keeps_actions(rig).await {
        return;
    }
    assert_eq!(actions(rig, None, 9).await, []);
    let begun = action("requeue")
        .on("error contains \"no van\"")
        .ended(ActionEnd::Begun, "20 a second");
    let logged = [begun, action("requeue").counted(7), action("pause")];
    let before = rig.now().await;
    for action in &logged {
        log(rig, action).await;
    }
    let after = rig.now().await;
    let found = actions(rig, None, 9).await;
    let said: Vec<_> = found.iter().rev().map(|one| one.action.clone()).collect();
    assert_eq!(said, logged);
    assert!(found.is_sorted_by(|later, one| later.number > one.number && later.at >= one.at));
    let times = found.iter().map(|one| one.at);
    assert!(times.clone().all(|at| (before..=after).contains(&at)));
}

pub async fn a_log_of_actions_is_read_page_by_page(rig: &Rig) {
    if !keeps_actions(rig).await {
        return;
    }
    for verb in ["a", "b", "c", "d", "e"] {
        log(rig, &action(verb)).await;
    }
    let first = actions(rig, None, 2).await;
    assert_eq!(verbs(&first), ["e", "d"]);
    // Entries logged meanwhile do not shift the pages.
    log(rig, &action("f")).await;
    let second = actions(rig, Some(first[1].number), 2).await;
    assert_eq!(verbs(&second), ["c", "b"]);
    let last = actions(rig, Some(second[1].number), 2).await;
    assert_eq!(verbs(&last), ["a"]);
    assert_eq!(actions(rig, Some(last[0].number), 2).await, []);
    assert_eq!(actions(rig, Some(0), 2).await, []);
    assert_eq!(actions(rig, None, 0).await, []);
    assert_eq!(actions(rig, Some(u64::MAX), 9).await.len(), 6);
}

pub async fn a_page_of_actions_is_capped(rig: &Rig) {
    if !keeps_actions(rig).await {
        return;
    }
    for _ in 0..=MAX_ACTION_PAGE {
        log(rig, &action("move")).await;
    }
    let page = actions(rig, None, usize::MAX).await;
    assert_eq!(page.len(), MAX_ACTION_PAGE);
    assert!(page.is_sorted_by(|later, one| later.number > one.number));
    let rest = actions(rig, Some(page[MAX_ACTION_PAGE - 1].number), 9).await;
    assert_eq!(rest.len(), 1);
}

pub async fn an_action_of_any_text_comes_back(rig: &Rig) {
    if !keeps_actions(rig).await {
        return;
    }
    for text in [
        "",
        " 1 2 {\"v\":1}",
        "'; DROP TABLE actions; --",
        "\0\n\r\u{1b}[31m",
        "%s \\u0000 \u{1e} [[x]]",
        "\u{10ffff}ä\u{200f}",
        &"é".repeat(1_000),
    ] {
        let action = Action::new(text, text, text, text)
            .on(text)
            .counted(u64::MAX)
            .ended(ActionEnd::Failed, text);
        log(rig, &action).await;
        assert_eq!(actions(rig, None, 1).await[0].action, action, "{text:?}");
    }
}

pub async fn each_namespace_has_a_log_of_its_own(rig: &Rig) {
    if !keeps_actions(rig).await {
        return;
    }
    let elsewhere = rig.with_retention(rig.options().retention).await;
    log(rig, &action("here")).await;
    log(&elsewhere, &action("there")).await;
    assert_eq!(verbs(&actions(rig, None, 9).await), ["here"]);
    assert_eq!(verbs(&actions(&elsewhere, None, 9).await), ["there"]);
}
