//! The content of the screen: the types with their rates, in some order.

use std::cmp::Reverse;
use std::collections::HashMap;

use delayq_ops::Trouble;
use delayq_plugin::{TaskType, TypeStats};

use crate::command::type_list::TypeLine;

/// The order of the types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Types with problems first, then those with the oldest due task.
    Trouble,
    /// Types with the most scheduled tasks first.
    Scheduled,
    /// By name.
    Name,
}

/// A type on the screen.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) line: TypeLine,
    /// Ended tasks per second since the previous numbers; unknown at first.
    pub(super) done_rate: Option<f64>,
    /// Failed attempts per second.
    pub(super) failed_rate: Option<f64>,
    /// True if tasks went to dead in the last minutes, or since the previous numbers.
    pub(super) is_dying: bool,
}

/// The screen's content.
#[derive(Debug)]
pub(super) struct View {
    pub(super) store: String,
    pub(super) rows: Vec<Row>,
    pub(super) order: Order,
    /// The number of rows scrolled away.
    pub(super) first: usize,
    /// The error because of which the numbers are old.
    pub(super) error: Option<String>,
}

/// Problems highlighted on the screen, the worst first. Dead tasks alone are not highlighted.
const FLAGGED: [Trouble; 4] = [
    Trouble::Unserved,
    Trouble::Stuck,
    Trouble::Behind,
    Trouble::Paused,
];

impl Row {
    /// The problem of the type in one word; empty if there is none.
    pub(super) fn trouble(&self) -> &'static str {
        let worst = FLAGGED.into_iter().find(|trouble| self.line.is(*trouble));
        match worst {
            Some(trouble) if trouble == Trouble::Paused && self.is_dying => "dying",
            Some(trouble) => trouble.as_str(),
            None if self.is_dying => "dying",
            None => "",
        }
    }

    /// True if it needs attention now. A pause does not, as somebody wanted it.
    pub(super) fn is_bad(&self) -> bool {
        !matches!(self.trouble(), "" | "paused")
    }
}

impl View {
    /// An empty screen for this store.
    pub(super) fn new(store: String) -> Self {
        Self {
            store,
            rows: Vec::new(),
            order: Order::Trouble,
            first: 0,
            error: None,
        }
    }

    /// Takes new numbers and calculates the rates since the previous ones.
    pub(super) fn renew(&mut self, lines: Vec<TypeLine>) {
        let before: HashMap<TaskType, TypeStats> = self
            .rows
            .drain(..)
            .map(|row| (row.line.task_type, row.line.stats))
            .collect();
        let rows = lines.into_iter().map(|line| {
            let old = before.get(&line.task_type);
            let rate = |count: fn(&TypeStats) -> u64| {
                let seconds = line.stats.now.since(old?.now).as_secs_f64();
                let more = count(&line.stats).saturating_sub(count(old?));
                (seconds > 0.0)
                    .then(|| f64::from(u32::try_from(more).unwrap_or(u32::MAX)) / seconds)
            };
            let died = |stats: &TypeStats| stats.totals.dead;
            let has_died = before
                .get(&line.task_type)
                .is_some_and(|old| died(old) < died(&line.stats));
            let dying = line.recent.as_ref().is_some_and(|recent| recent.dead > 0);
            Row {
                done_rate: rate(|stats| stats.totals.done),
                failed_rate: rate(|stats| stats.totals.failed),
                is_dying: dying || has_died,
                line,
            }
        });
        self.rows = rows.collect();
        self.error = None;
        self.sort();
    }

    /// Keeps the numbers, and marks them as old.
    pub(super) fn fail(&mut self, error: String) {
        self.error = Some(error);
    }

    /// Scrolls up.
    pub(super) fn up(&mut self) {
        self.first = self.first.saturating_sub(1);
    }

    /// Scrolls down, at most to the last row.
    pub(super) fn down(&mut self) {
        self.first = (self.first + 1).min(self.rows.len().saturating_sub(1));
    }

    /// Switches to the next order.
    pub(super) fn sort_otherwise(&mut self) {
        self.order = match self.order {
            Order::Trouble => Order::Scheduled,
            Order::Scheduled => Order::Name,
            Order::Name => Order::Trouble,
        };
        self.first = 0;
        self.sort();
    }

    fn sort(&mut self) {
        let name = |row: &Row| row.line.task_type.clone();
        self.first = self.first.min(self.rows.len().saturating_sub(1));
        match self.order {
            Order::Name => self.rows.sort_by_key(name),
            Order::Scheduled => self
                .rows
                .sort_by_key(|row| (Reverse(row.line.stats.scheduled), name(row))),
            Order::Trouble => self.rows.sort_by_key(|row| {
                let is_quiet = row.trouble().is_empty();
                (
                    !row.is_bad(),
                    is_quiet,
                    Reverse(row.line.stats.oldest_age()),
                    name(row),
                )
            }),
        }
    }
}
