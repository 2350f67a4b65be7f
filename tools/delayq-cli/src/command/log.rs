//! `log`: the actions of operators.

use std::io::Write;

use clap::Args;
use delayq_plugin::store::{LoggedAction, MAX_ACTION_PAGE};
use delayq_plugin::{Result, TaskSubmitService, TaskType, Timestamp, TypePattern};

use crate::answer::{CommandResult, Report};
use crate::failure::Failure;
use crate::output::OutputFormat;
use crate::paging::more;
use crate::table::{Table, column};
use crate::text::{BAD, FAINT, STRONG, one_line, styled};

/// The actions to show.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Maximum number of actions.
    #[arg(long, default_value_t = 30, value_name = "N", conflicts_with = "all",
        help_heading = "Page", value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// The start of the page, as printed after the previous one: actions before this number.
    #[arg(
        long,
        visible_alias = "before",
        value_name = "NUMBER",
        help_heading = "Page"
    )]
    cursor: Option<u64>,
    /// All actions; with -o json one document in a line each, for an export.
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
    format: OutputFormat,
) -> Result<CommandResult, Failure> {
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let most = if args.all { usize::MAX } else { limit };
    let part = read(tasks, args, most).await?;
    if args.all && format.is_document() {
        let mut stdout = anstream::stdout().lock();
        for one in &part.actions {
            stdout.write_all(format.streamed(one)?.as_bytes())?;
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
        next: args.cursor,
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

fn text(part: &LogPart) -> Report {
    if part.actions.is_empty() {
        return "no such action is in the log".into();
    }
    let mut table = Table::new(&[
        column("WHEN"),
        column("WHO").minor(1),
        column("WHAT"),
        column("TYPE"),
        column("TASKS").text(),
        column("COUNT").wide(),
        column("END"),
        column("DETAIL").wide(),
        column("FROM").wide(),
    ]);
    for LoggedAction { at, action, .. } in &part.actions {
        let is_bad = action.end.as_str() == "failed";
        let end = action.end.to_string();
        table.row([
            seconds(*at),
            styled(STRONG, one_line(&action.actor)),
            one_line(&action.verb),
            one_line(&action.task_type),
            one_line(&action.target),
            action
                .count
                .map_or(String::new(), |count| count.to_string()),
            if is_bad { styled(BAD, end) } else { end },
            one_line(&action.detail),
            styled(FAINT, one_line(&action.origin)),
        ]);
    }
    match part.next {
        Some(next) => Report::from(table).lines(more(next)),
        None => table.into(),
    }
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
