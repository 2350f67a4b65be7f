//! `watch`: shows what happens to the tasks of a type, live.

use std::io::Write;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use delayq_ops::known_type;
use delayq_plugin::{TaskSubmitService, TaskType};
use tokio::time::{Instant, sleep_until};

use crate::answer::CommandResult;
use crate::failure::Failure;
use crate::output::OutputFormat;
use crate::span::read_span;
use crate::text::{BAD, FAINT, STRONG, one_line, styled};

mod changes;
mod event;

use self::changes::Changes;
use self::event::{Event, EventKind};

/// Minimum time between two looks, as wake-ups come in crowds.
const LEAST_WAIT: Duration = Duration::from_millis(100);

/// The type to watch.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// The type.
    #[arg(value_name = "TYPE")]
    task_type: TaskType,
    /// How often to look; a wake-up of the store triggers a look at once.
    #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = read_span)]
    every: Duration,
}

/// Runs the command, until Ctrl-C.
pub(super) async fn run(
    tasks: &TaskSubmitService,
    args: &WatchArgs,
    format: OutputFormat,
) -> Result<CommandResult, Failure> {
    known_type(tasks, args.task_type.as_str()).await?;
    let mut wakeups = tasks.store().wakeups();
    let mut changes = Changes::start(tasks, &args.task_type).await?;
    if !format.is_document() {
        let from = changes.since();
        let line = format!("watching {} since {from}; Ctrl-C ends", args.task_type);
        writeln!(anstream::stderr(), "{}", styled(FAINT, line))?;
    }
    let (mut looked, mut is_down) = (Instant::now(), false);
    let mut next = looked + args.every;
    // One signal for all rounds: a new one would miss a Ctrl-C that came between two rounds.
    let mut interrupt = pin!(tokio::signal::ctrl_c());
    loop {
        tokio::select! {
            ended = &mut interrupt => {
                ended?;
                return Ok(CommandResult::said());
            }
            wakeup = wakeups.next() => {
                let concerns = wakeup.as_ref().is_some_and(|one| {
                    one.task_type().is_none_or(|task_type| *task_type == args.task_type)
                });
                if concerns {
                    next = next.min(looked + LEAST_WAIT);
                } else if wakeup.is_none() {
                    return Err(Failure::refused("the store was closed"));
                }
            }
            () = sleep_until(next) => {
                looked = Instant::now();
                next = looked + args.every.max(LEAST_WAIT);
                match changes.look(tasks).await {
                    Ok(events) => {
                        is_down = false;
                        print(&events, format)?;
                    }
                    // Continues when the store is back.
                    Err(error) if error.is_transient() => {
                        if !std::mem::replace(&mut is_down, true) {
                            writeln!(anstream::stderr(), "{}: {error}", styled(BAD, "no answer"))?;
                        }
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
}

fn print(events: &[Event], format: OutputFormat) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    for event in events {
        if format.is_document() {
            stdout.write_all(format.streamed(event)?.as_bytes())?;
        } else {
            writeln!(stdout, "{}", line(event))?;
        }
    }
    stdout.flush()?;
    Ok(())
}

fn line(event: &Event) -> String {
    let word = format!("{:<9}", event.kind.as_str());
    let word = match event.kind {
        EventKind::Dead | EventKind::Retry => styled(BAD, word),
        EventKind::Done => word,
        _ => styled(FAINT, word),
    };
    let due = event
        .due_at
        .map_or(String::new(), |due| format!(", due {due}"));
    let error = event
        .error
        .as_ref()
        .map_or(String::new(), |error| format!(": {}", one_line(error)));
    let id = styled(STRONG, &event.id);
    format!(
        "{} {word} {id} attempt {}{due}{error}",
        event.at, event.attempt
    )
}
