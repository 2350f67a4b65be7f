//! `log`: the actions of operators.

use std::io::Write;

use clap::Args;
use delayq_plugin::store::{LoggedAction, MAX_ACTION_PAGE};
use delayq_plugin::{Result, TaskSubmitService, TaskType, Timestamp, TypePattern};

use crate::answer::CommandResult;
use crate::failure::Failure;
use crate::text::{BAD, FAINT, STRONG, json, one_line, styled, table};

/// The actions to show.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Maximum number of actions.
    #[arg(long, default_value_t = 30, value_name = "N", conflicts_with = "all")]
    limit: usize,
    /// Only actions before the one with this number, as printed by the previous answer.
    #[arg(long, value_name = "NUMBER")]
    before: Option<u64>,
    /// All actions; with --json one JSON document per line, for an export.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    wanted: LogFilter,
}

/// Conditions on actions; all of them have to hold.
#[derive(Debug, Args)]
struct LogFilter {
    /// By this actor.
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// On this type, or on a pattern that matches it; or on anything that this pattern matches.
    #[arg(long = "type", value_name = "TYPE", value_parser = TypePattern::new)]
    types: Option<TypePattern>,
    /// Of this kind, such as cancel, requeue or pause.
    #[arg(long)]
    verb: Option<String>,
}

impl LogFilter {
    fn matches(&self, logged: &LoggedAction) -> bool {
        let action = &logged.action;
        let is = |wanted: &Option<String>, one: &str| wanted.as_ref().is_none_or(|it| it == one);
        let is_type = self.types.as_ref();
        is(&self.actor, &action.actor)
            && is(&self.verb, &action.verb)
            && is_type.is_none_or(|wanted| touches(wanted, &action.task_type))
    }
}

/// True if the types of an action overlap with the wanted ones.
fn touches(wanted: &TypePattern, types: &str) -> bool {
    if let Ok(task_type) = TaskType::new(types) {
        return wanted.matches(&task_type);
    }
    match (wanted, TypePattern::new(types)) {
        (TypePattern::Exact(task_type), Ok(pattern)) => pattern.matches(task_type),
        (wanted, Ok(pattern)) => *wanted == pattern,
        (_, Err(_)) => false,
    }
}

/// A part of the log, latest first.
#[derive(Default)]
struct LogPart {
    actions: Vec<LoggedAction>,
    /// The number before which the log continues; `None` at the end.
    next: Option<u64>,
}

/// Runs the command.
pub(super) async fn run(
    tasks: &TaskSubmitService,
    args: &LogArgs,
    is_json: bool,
) -> Result<CommandResult, Failure> {
    let most = if args.all { usize::MAX } else { args.limit };
    let part = read(tasks, args, most).await?;
    if args.all && is_json {
        let mut stdout = anstream::stdout().lock();
        for one in &part.actions {
            let line = serde_json::to_string(one).map_err(std::io::Error::from)?;
            writeln!(stdout, "{}", json(&line))?;
        }
        return Ok(CommandResult::said());
    }
    CommandResult::new(
        text(&part),
        serde_json::json!({"actions": part.actions, "next": part.next}),
    )
}

/// Reads pages until there are `most` matching actions. A store keeps 10,000 actions.
async fn read(tasks: &TaskSubmitService, args: &LogArgs, most: usize) -> Result<LogPart> {
    let mut part = LogPart {
        actions: Vec::new(),
        next: args.before,
    };
    loop {
        let page = tasks.store().actions(part.next, MAX_ACTION_PAGE).await?;
        let is_last = page.len() < MAX_ACTION_PAGE;
        for one in page {
            if part.actions.len() >= most {
                return Ok(part);
            }
            part.next = Some(one.number);
            if args.wanted.matches(&one) {
                part.actions.push(one);
            }
        }
        if is_last {
            part.next = None;
            return Ok(part);
        }
    }
}

fn text(part: &LogPart) -> String {
    if part.actions.is_empty() {
        return "no such action is in the log".to_owned();
    }
    let heads = [
        "WHEN", "WHO", "WHAT", "TYPE", "TASKS", "COUNT", "END", "FROM",
    ];
    let mut table = table(&heads);
    for LoggedAction { at, action, .. } in &part.actions {
        let end = match action.detail.as_str() {
            "" => action.end.to_string(),
            detail => format!("{}: {detail}", action.end),
        };
        let end = one_line(&end);
        let is_bad = action.end.as_str() == "failed";
        table.add_row([
            seconds(*at),
            styled(STRONG, one_line(&action.actor)),
            one_line(&action.verb),
            one_line(&action.task_type),
            one_line(&action.target),
            action
                .count
                .map_or(String::new(), |count| count.to_string()),
            if is_bad { styled(BAD, end) } else { end },
            styled(FAINT, one_line(&action.origin)),
        ]);
    }
    let mut text = table.to_string();
    if let Some(next) = part.next {
        let more = format!("more: --before {next}");
        text += &format!("\n{}", styled(FAINT, more));
    }
    text
}

/// The time to the second: `2026-12-24 17:00:00Z`.
fn seconds(time: Timestamp) -> String {
    let text = time.to_string();
    match text.split_once('.') {
        Some((seconds, _)) => format!("{}Z", seconds.replace('T', " ")),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_on_a_pattern_touches_the_types_that_it_matches() {
        let wanted = |text: &str| TypePattern::new(text).unwrap();
        assert!(touches(&wanted("mail.send"), "mail.*"));
        assert!(touches(&wanted("mail.*"), "mail.send"));
        assert!(touches(&wanted("mail.*"), "mail.*"));
        assert!(!touches(&wanted("mail.send"), "order.*"));
        assert!(!touches(&wanted("mail.send"), ""));
    }
}
