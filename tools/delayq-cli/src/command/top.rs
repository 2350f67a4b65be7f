//! `top`: all types on a screen that refreshes itself.

use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::Args;
use delayq_ops::overview_of_all;
use delayq_plugin::TaskSubmitService;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until};

use super::type_list::lines;
use crate::answer::CommandResult;
use crate::failure::Failure;
use crate::span::read_span;

mod screen;
mod view;

use self::view::View;

/// How often the thread that reads keys checks if the screen has gone.
const KEYS_EVERY: Duration = Duration::from_millis(250);
/// Minimum time between two looks: more would load the store without being visible.
const LEAST_WAIT: Duration = Duration::from_millis(250);

/// Options of the screen.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// How often the numbers are refreshed.
    #[arg(long, value_name = "SPAN", default_value = "2s", value_parser = read_span)]
    every: Duration,
}

/// The request of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    End,
    Up,
    Down,
    Sort,
    Redraw,
}

/// Runs the command, until `q`.
pub(super) async fn run(
    tasks: &TaskSubmitService,
    args: &TopArgs,
) -> Result<CommandResult, Failure> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let text = "top needs a terminal: use `delayq types --json` in a script";
        return Err(Failure::usage(text));
    }
    let mut view = View::new(tasks.store().name());
    view.renew(lines(overview_of_all(tasks).await?));
    let mut terminal = ratatui::try_init()?;
    let ended = renew(
        tasks,
        args,
        &mut TopScreen {
            terminal: &mut terminal,
            view,
        },
    )
    .await;
    ratatui::restore();
    ended.map(|()| CommandResult::said())
}

/// The terminal and its content.
struct TopScreen<'a> {
    terminal: &'a mut DefaultTerminal,
    view: View,
}

impl TopScreen<'_> {
    fn draw(&mut self) -> io::Result<()> {
        let view = &self.view;
        self.terminal
            .draw(|frame| screen::draw(frame, view))
            .map(|_| ())
    }
}

async fn renew(
    tasks: &TaskSubmitService,
    args: &TopArgs,
    shown: &mut TopScreen<'_>,
) -> Result<(), Failure> {
    let mut wishes = wishes()?;
    let every = args.every.max(LEAST_WAIT);
    let mut next = Instant::now() + every;
    loop {
        shown.draw()?;
        tokio::select! {
            wish = wishes.recv() => match wish {
                None | Some(Wish::End) => return Ok(()),
                Some(Wish::Up) => shown.view.up(),
                Some(Wish::Down) => shown.view.down(),
                Some(Wish::Sort) => shown.view.sort_otherwise(),
                Some(Wish::Redraw) => {}
            },
            () = sleep_until(next) => {
                match overview_of_all(tasks).await {
                    Ok(seen) => shown.view.renew(lines(seen)),
                    Err(error) => shown.view.fail(error.to_string()),
                }
                next = Instant::now() + every;
            }
        }
    }
}

/// The keys, read by a thread, because reading a terminal blocks.
fn wishes() -> io::Result<UnboundedReceiver<Wish>> {
    let (sender, receiver) = unbounded_channel();
    let keys = std::thread::Builder::new().name("delayq-keys".to_owned());
    keys.spawn(move || read_keys(&sender))?;
    Ok(receiver)
}

fn read_keys(sender: &UnboundedSender<Wish>) {
    while !sender.is_closed() {
        let wish = match event::poll(KEYS_EVERY) {
            Ok(false) => continue,
            Ok(true) => event::read().map(|event| wish(&event)),
            Err(error) => Err(error),
        };
        // If the terminal has gone, the screen ends, too.
        let wish = wish.unwrap_or(Some(Wish::End));
        let is_gone = wish.is_some_and(|wish| sender.send(wish).is_err() || wish == Wish::End);
        if is_gone {
            return;
        }
    }
}

fn wish(event: &Event) -> Option<Wish> {
    let key = match event {
        Event::Resize(..) => return Some(Wish::Redraw),
        Event::Key(key) if key.kind != KeyEventKind::Release => key,
        _ => return None,
    };
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Wish::End),
        KeyCode::Char('q') | KeyCode::Esc => Some(Wish::End),
        KeyCode::Char('k') | KeyCode::Up => Some(Wish::Up),
        KeyCode::Char('j') | KeyCode::Down => Some(Wish::Down),
        KeyCode::Char('s') => Some(Wish::Sort),
        _ => None,
    }
}
