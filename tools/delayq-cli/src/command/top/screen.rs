//! The drawing of `top`, on terminals of any width.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row as TableRow, Table};

use super::view::{Order, Row, View};

/// A column, in the order of the screen.
struct Column {
    head: &'static str,
    width: u16,
    /// Minimum width of the terminal for this column.
    from: u16,
    value: fn(&Row) -> String,
}

const COLUMNS: [Column; 11] = [
    Column {
        head: "DUE",
        width: 8,
        from: 0,
        value: |row| row.line.stats.due.to_string(),
    },
    Column {
        head: "RUN",
        width: 6,
        from: 0,
        value: |row| row.line.stats.running.to_string(),
    },
    Column {
        head: "DEAD",
        width: 6,
        from: 40,
        value: |row| row.line.stats.dead.to_string(),
    },
    Column {
        head: "OLDEST",
        width: 8,
        from: 48,
        value: |row| row.line.oldest(),
    },
    Column {
        head: "STATE",
        width: 9,
        from: 0,
        value: |row| row.trouble().to_owned(),
    },
    Column {
        head: "DONE/s",
        width: 8,
        from: 66,
        value: |row| rate(row.done_rate),
    },
    Column {
        head: "FAIL/s",
        width: 8,
        from: 76,
        value: |row| rate(row.failed_rate),
    },
    Column {
        head: "LATE p50",
        width: 9,
        from: 88,
        value: |row| row.line.lateness()[0].clone(),
    },
    Column {
        head: "p99",
        width: 9,
        from: 98,
        value: |row| row.line.lateness()[1].clone(),
    },
    Column {
        head: "SCHEDULED",
        width: 10,
        from: 110,
        value: |row| row.line.stats.scheduled.to_string(),
    },
    Column {
        head: "SERVED",
        width: 7,
        from: 118,
        value: |row| row.line.served_by.to_string(),
    },
];

fn rate(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"))
}

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View) {
    let rows = [
        Constraint::Length(2),
        Constraint::Fill(1),
        Constraint::Length(1),
    ];
    let [head, body, foot] = Layout::vertical(rows).areas(frame.area());
    let sum = |count: fn(&Row) -> u64| view.rows.iter().map(count).sum::<u64>();
    let counts = format!(
        "{} types, {} due, {} running, {} dead, {} scheduled",
        view.rows.len(),
        sum(|row| row.line.stats.due),
        sum(|row| row.line.stats.running),
        sum(|row| row.line.stats.dead),
        sum(|row| row.line.stats.scheduled),
    );
    let [first, second] = Layout::vertical([Constraint::Length(1); 2]).areas(head);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Line::styled(view.store.as_str(), bold), first);
    frame.render_widget(Line::raw(counts), second);
    frame.render_widget(table(view, body), body);
    let order = match view.order {
        Order::Trouble => "trouble",
        Order::Scheduled => "scheduled",
        Order::Name => "name",
    };
    let foot_line = match &view.error {
        Some(error) => Line::styled(format!("old numbers: {error}"), bad()),
        None => Line::raw(format!("q ends, s sorts (by {order}), up and down scroll")),
    };
    frame.render_widget(foot_line, foot);
}

/// Red if colours are wanted; always bold.
fn bad() -> Style {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if is_plain { bold } else { bold.fg(Color::Red) }
}

fn table(view: &View, area: Rect) -> Table<'static> {
    let columns: Vec<_> = COLUMNS
        .iter()
        .filter(|column| area.width >= column.from)
        .collect();
    let heads = columns.iter().map(|column| column.head);
    let heads = TableRow::new(std::iter::once("TYPE").chain(heads));
    let rows = view.rows.iter().skip(view.first).map(|row| {
        let name = row.line.task_type.to_string();
        let values = columns.iter().map(|column| (column.value)(row));
        let cells = std::iter::once(name).chain(values).map(Cell::from);
        let drawn = TableRow::new(cells.collect::<Vec<_>>());
        if row.is_bad() {
            drawn.style(bad())
        } else {
            drawn
        }
    });
    let widths = columns
        .iter()
        .map(|column| Constraint::Length(column.width));
    let widths = std::iter::once(Constraint::Fill(1)).chain(widths);
    Table::new(rows.collect::<Vec<_>>(), widths.collect::<Vec<_>>())
        .header(heads.style(Style::new().add_modifier(Modifier::DIM)))
}

#[cfg(test)]
mod tests {
    use delayq_ops::Trouble;
    use delayq_plugin::{TaskType, Timestamp, TypeStats};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::command::type_list::TypeLine;

    fn line(name: &str, due: u64, done: u64, now: i64) -> TypeLine {
        let mut stats = TypeStats::default();
        stats.now = Timestamp::from_millis(now);
        stats.next_due = Some(Timestamp::from_millis(now - 60_000));
        (stats.due, stats.scheduled, stats.totals.done) = (due, due, done);
        TypeLine {
            task_type: TaskType::new(name).unwrap(),
            stats,
            oldest_due_ms: 60_000,
            served_by: 1,
            recent: None,
            done_per_second: None,
            late_p50_ms: Some(8),
            late_p99_ms: None,
            troubles: if due > 0 {
                vec![Trouble::Stuck]
            } else {
                Vec::new()
            },
        }
    }

    fn drawn(view: &View, width: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, 8)).unwrap();
        terminal.draw(|frame| draw(frame, view)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn trouble_stands_first_rates_are_differences_and_narrow_terminals_lose_columns() {
        let mut view = View::new("sqlite:shop.sqlite".to_owned());
        view.renew(vec![
            line("a.fine", 0, 0, 100_000),
            line("mail.send", 7, 10, 100_000),
        ]);
        view.renew(vec![
            line("a.fine", 0, 0, 102_000),
            line("mail.send", 7, 15, 102_000),
        ]);
        let wide = drawn(&view, 120);
        assert!(
            wide.contains("2 types, 7 due") && wide.contains("SERVED"),
            "{wide}"
        );
        assert!(wide.contains("2.5"), "{wide}");
        let (mail, fine) = (
            wide.find("mail.send").unwrap(),
            wide.find("a.fine").unwrap(),
        );
        assert!(mail < fine && wide.contains("stuck"), "{wide}");
        let narrow = drawn(&view, 32);
        assert!(
            narrow.contains("mail.s") && narrow.contains("stuck"),
            "{narrow}"
        );
        assert!(!narrow.contains("OLDEST"), "{narrow}");
        view.fail("no answer".to_owned());
        assert!(drawn(&view, 60).contains("old numbers: no answer"));
    }
}
