//! The conditions of a search in SQL.

#[cfg(any(feature = "postgres", feature = "sqlite"))]
use std::ops::RangeInclusive;

use delayq_core::history::label;
use delayq_core::time::duration_ms;
use delayq_core::{TaskId, TaskType, Timestamp};

use crate::query::HistoryQuery;

/// A value in a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Int(i64),
    Text(String),
}

/// What differs between databases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect {
    /// What stands for a value, before its number.
    pub(crate) mark: char,
    /// True if the number of a value follows; otherwise values stand in their order.
    pub(crate) is_numbered: bool,
    /// The condition that the error has a text, with `{}` for the value.
    pub(crate) has_error: &'static str,
}

/// Conditions, with their values.
#[derive(Debug)]
pub(crate) struct Filter {
    dialect: Dialect,
    parts: Vec<String>,
    pub(crate) values: Vec<Bound>,
}

impl Filter {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            parts: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Adds a value. Returns its place.
    pub(crate) fn value(&mut self, value: Bound) -> String {
        self.values.push(value);
        let Dialect {
            mark, is_numbered, ..
        } = self.dialect;
        if is_numbered {
            format!("{mark}{}", self.values.len())
        } else {
            mark.to_string()
        }
    }

    /// Adds a condition with a value in the place of `{}`.
    pub(crate) fn with(&mut self, condition: &str, value: Bound) {
        let place = self.value(value);
        self.parts.push(condition.replace("{}", &place));
    }

    /// Adds a condition on a number, if there is one.
    fn number(&mut self, condition: &str, number: Option<i64>) {
        if let Some(number) = number {
            self.with(condition, Bound::Int(number));
        }
    }

    fn text(&mut self, condition: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.with(condition, Bound::Text(text.to_owned()));
        }
    }

    /// Adds the conditions of a search on the table of lives `l` and that of types `t`.
    pub(crate) fn search(&mut self, query: &HistoryQuery) {
        let ms = |time: Option<Timestamp>| time.map(Timestamp::as_millis);
        self.text(
            "t.name = {}",
            query.task_type.as_ref().map(TaskType::as_str),
        );
        self.text("l.id = {}", query.id.as_ref().map(TaskId::as_str));
        self.text("l.grp = {}", query.group.as_deref().map(label).as_deref());
        self.text(
            "l.project = {}",
            query.project.as_deref().map(label).as_deref(),
        );
        self.number("l.ended_at >= {}", ms(query.since));
        self.number("l.ended_at < {}", ms(query.until));
        self.text(self.dialect.has_error, query.error.as_deref());
        self.number("l.late_ms > {}", query.late_by.map(duration_ms));
        self.number("l.run_ms > {}", query.longer_than.map(duration_ms));
        if !query.outcomes.is_empty() {
            // Numbers of outcomes: no value can come from outside.
            let numbers = query.outcomes.iter().map(|of| of.number().to_string());
            let numbers: Vec<_> = numbers.collect();
            self.parts
                .push(format!("l.outcome IN ({})", numbers.join(", ")));
        }
        if let Some(after) = query.after {
            let at = self.value(Bound::Int(after.ended_at.as_millis()));
            let number = self.value(Bound::Int(after.number));
            self.parts
                .push(format!("(l.ended_at, l.seq) < ({at}, {number})"));
        }
    }

    /// Adds the condition that lives ended within a span.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(crate) fn ended_within(&mut self, span: &RangeInclusive<Timestamp>) {
        let [from, until] = [span.start(), span.end()].map(|at| Bound::Int(at.as_millis()));
        self.with("l.ended_at >= {}", from);
        self.with("l.ended_at <= {}", until);
    }

    /// The conditions, joined.
    pub(crate) fn sql(&self) -> String {
        self.parts.join(" AND ")
    }
}

/// About the bytes of the messages on a page.
const PAGE_BYTES: u32 = 8 << 20;

/// A search that leaves messages out once those before fill a page, and says so in one more column.
/// `of_type`: the name of its second column.
pub(crate) fn with_bytes_bound(search: &str, of_type: &str) -> String {
    format!(
        "SELECT y.seq, y.{of_type}, y.id, y.outcome, y.submitted_at, y.due_at, y.started_at, \
         y.ended_at, y.run_ms, y.fence, y.attempts, y.grp, y.project, y.holder, y.error, y.errors, \
         y.message_bytes, CASE WHEN y.earlier < {PAGE_BYTES} THEN y.message END, \
         y.earlier >= {PAGE_BYTES} FROM (SELECT x.*, \
         sum(coalesce(octet_length(x.message), 0)) OVER (ORDER BY x.ended_at DESC, x.seq DESC) \
         - coalesce(octet_length(x.message), 0) AS earlier FROM ({search}) x) y \
         ORDER BY y.ended_at DESC, y.seq DESC"
    )
}

#[cfg(test)]
mod tests {
    use delayq_core::history::LifeOutcome;

    use super::*;

    #[test]
    fn a_value_is_never_a_part_of_the_sql() {
        let dialect = Dialect {
            mark: '?',
            is_numbered: true,
            has_error: "instr(l.error, {}) > 0",
        };
        let query = HistoryQuery {
            id: Some(TaskId::new("order-42").unwrap()),
            group: Some("'; DROP TABLE lives".to_owned()),
            error: Some("100%' OR 1".to_owned()),
            outcomes: vec![LifeOutcome::Dead, LifeOutcome::Expired],
            ..HistoryQuery::default()
        };
        let mut filter = Filter::new(dialect);
        filter.search(&query);
        let expected =
            "l.id = ?1 AND l.grp = ?2 AND instr(l.error, ?3) > 0 AND l.outcome IN (1, 2)";
        assert_eq!(filter.sql(), expected);
        assert_eq!(filter.values.len(), 3);
    }
}
