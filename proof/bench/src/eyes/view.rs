//! What was seen of one view.

use std::time::Instant;

use delayq_plugin::TaskSubmitService;

use super::asked::Asked;
use super::call_times::Call;
use super::slow_log::Entry;
use super::web::Server;
use crate::Failure;
use crate::figure::{met, spread};

/// The most that a view may take.
const VIEW_GOAL_MS: f64 = 200.0;
/// The most that a call of the store may take.
const CALL_GOAL_MS: f64 = 5.0;
/// Slow entries of a view that are shown.
const ENTRIES: usize = 3;

/// A page or an operation, and how long it took.
#[derive(Debug)]
pub(crate) struct View {
    asked: Asked,
    /// Asked for by the first who looks, in milliseconds.
    first: Vec<f64>,
    /// By the next one.
    again: Vec<f64>,
    /// The longest call of the store each time, seen from here.
    calls: Vec<Call>,
    /// The longest command of the server each time, if it keeps a log: 0 for none that is in it.
    commands: Vec<f64>,
    /// The longest commands of all.
    entries: Vec<Entry>,
}

impl View {
    pub(crate) const HEAD: [&str; 2] = [
        "| view | first ms | median | slowest | next who looks, median | <= 200 | longest call, median / max ms | on the server | <= 5 |",
        "|---|---:|---:|---:|---:|---|---:|---:|---|",
    ];

    pub(crate) fn of(asked: Asked) -> Self {
        Self {
            asked,
            first: Vec::new(),
            again: Vec::new(),
            calls: Vec::new(),
            commands: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// Asks twice.
    pub(crate) async fn look(
        &mut self,
        tasks: &TaskSubmitService,
        server: &Server,
    ) -> Result<(), Failure> {
        for times in [&mut self.first, &mut self.again] {
            let started = Instant::now();
            self.asked.ask(tasks, server).await?;
            times.push(started.elapsed().as_secs_f64() * 1_000.0);
        }
        Ok(())
    }

    /// The longest call that was made for it.
    pub(crate) fn note_call(&mut self, call: Option<Call>) {
        self.calls.extend(call);
    }

    /// What the server logged meanwhile.
    pub(crate) fn note_entries(&mut self, entries: Vec<Entry>) {
        self.commands
            .push(entries.first().map_or(0.0, |entry| entry.ms));
        self.entries.extend(entries);
        self.entries
            .sort_by(|one, other| other.ms.total_cmp(&one.ms));
        self.entries.truncate(ENTRIES);
    }

    /// The line of a Markdown table.
    pub(crate) fn line(&self) -> String {
        let opened = self.first.first().copied().unwrap_or(f64::NAN);
        let [_, median, slowest] = spread(&self.first);
        let [_, again, _] = spread(&self.again);
        let seen: Vec<_> = self.calls.iter().map(|call| call.ms).collect();
        let (call, command) = (spread(&seen), spread(&self.commands));
        let on_server = if self.commands.is_empty() {
            String::new()
        } else {
            format!("{} / {}", logged(command[1]), logged(command[2]))
        };
        let cells = [
            self.asked.name(),
            format!("{opened:.1}"),
            format!("{median:.1}"),
            format!("{slowest:.1}"),
            format!("{again:.1}"),
            met(Some(slowest <= VIEW_GOAL_MS)).to_owned(),
            format!("{:.1} / {:.1} {}", call[1], call[2], self.slowest_call()),
            on_server,
            met(Some(self.longest_ms() <= CALL_GOAL_MS)).to_owned(),
        ];
        format!("| {} |", cells.join(" | "))
    }

    /// The longest call of all, not a middle one: the goal is about every call. Where the server
    /// keeps a log it is the server that says.
    fn longest_ms(&self) -> f64 {
        let seen: Vec<_> = self.calls.iter().map(|call| call.ms).collect();
        let of = if self.commands.is_empty() {
            &seen
        } else {
            &self.commands
        };
        of.iter().copied().fold(0.0, f64::max)
    }

    fn slowest_call(&self) -> &str {
        let calls = self.calls.iter();
        let slowest = calls.max_by(|one, other| one.ms.total_cmp(&other.ms));
        slowest.map_or("", |call| &call.name)
    }

    /// The calls that took a server too long.
    pub(crate) fn slow_entries(&self) -> impl Iterator<Item = String> {
        let slow = self.entries.iter().filter(|entry| entry.ms > CALL_GOAL_MS);
        slow.map(|entry| {
            let (name, ms, command) = (self.asked.name(), entry.ms, &entry.command);
            format!("{name}: {ms:.1} ms: `{command}`")
        })
    }
}

fn logged(ms: f64) -> String {
    if ms > 0.0 {
        format!("{ms:.1}")
    } else {
        "< 1".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(view: &View) -> [String; 2] {
        let line = view.line();
        let cells: Vec<_> = line.split(" | ").collect();
        [cells[5], cells[8].trim_end_matches(" |")].map(str::to_owned)
    }

    #[test]
    fn one_slow_answer_and_one_slow_call_among_fast_ones_miss_the_goals() {
        let mut view = View::of(Asked::Page("/".to_owned()));
        for (first, ms) in [(10.0, 1.0), (20.0, 2.0), (199.0, 4.9)] {
            view.first.push(first);
            view.note_call(Some(Call {
                name: "list".to_owned(),
                ms,
            }));
        }
        assert_eq!(verdicts(&view), ["yes", "yes"]);
        view.first.push(201.0);
        view.note_call(Some(Call {
            name: "list".to_owned(),
            ms: 5.1,
        }));
        assert_eq!(verdicts(&view), ["**no**", "**no**"]);
    }

    #[test]
    fn the_server_judges_its_commands_where_it_keeps_a_log() {
        let mut view = View::of(Asked::Page("/".to_owned()));
        view.note_call(Some(Call {
            name: "list".to_owned(),
            ms: 300.0,
        }));
        view.note_entries(Vec::new());
        assert_eq!(verdicts(&view)[1], "yes");
        let command = "EVALSHA".to_owned();
        view.note_entries(vec![Entry { ms: 7.0, command }]);
        assert_eq!(verdicts(&view)[1], "**no**");
    }
}
