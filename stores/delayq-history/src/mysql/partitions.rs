//! The partitions of the table of lives: months, between one partition for what ended before them
//! and one for what ends after them. The two are nearly empty, so that months are split from them
//! in no time.

use std::ops::RangeInclusive;

use delayq_core::Timestamp;
use delayq_core::history::Life;
use delayq_core::time::days;
use mysql_async::Value;

use super::cell::{int, text};
use crate::month::Month;

/// Months that are made ahead.
const AHEAD: usize = 2;

/// How far a month may be in the past: MySQL has at most 8,192 partitions. What ended before is in
/// the first one.
const PAST: u64 = 3_650;

/// How far a month may be in the future. What ends later is in the last one.
const FUTURE: u64 = 31;

/// The first and the last partition.
const BEFORE: &str = "lives_before";
const REST: &str = "lives_rest";

/// One partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Partition {
    name: String,
    /// What it holds ended before this, in ms; `None`: it is the last one.
    end: Option<i64>,
}

impl Partition {
    /// A row of [`PARTITIONS`](super::sql::PARTITIONS).
    pub(super) fn read(row: &[Value]) -> Option<Self> {
        let [name, end] = row else {
            return None;
        };
        Some(Self {
            name: text(name)?,
            end: int(end),
        })
    }
}

/// The months that these lives need, and those that come next.
pub(super) fn needed(lives: &[Life], now: Timestamp) -> RangeInclusive<Month> {
    let (floor, ceiling) = (now.minus(days(PAST)), now.plus(days(FUTURE)));
    let ends = lives.iter().map(|life| life.ended_at.clamp(floor, ceiling));
    let months = ends.chain([now]).map(Month::of);
    let first = months.clone().min().unwrap_or_else(|| Month::of(now));
    let mut last = months.max().unwrap_or(first);
    for _ in 0..AHEAD {
        last = last.next();
    }
    first..=last
}

/// The statements that make the months of a range that no partition has.
pub(super) fn make(partitions: &[Partition], range: &RangeInclusive<Month>) -> Vec<String> {
    let mut statements = Vec::new();
    let start = range.start().start();
    let of_month = |end: i64| Month::of(Timestamp::from_millis(end));
    if let Some(Partition {
        name,
        end: Some(end),
    }) = partitions.first()
        && name == BEFORE
        && start < *end
    {
        let months = listed(*range.start(), of_month(*end));
        statements.push(format!(
            "ALTER TABLE lives REORGANIZE PARTITION {BEFORE} INTO \
             (PARTITION {BEFORE} VALUES LESS THAN ({start}){months})"
        ));
    }
    let next = partitions.iter().filter_map(|one| one.end).max();
    let next = next.map_or(*range.start(), of_month);
    let has_rest = partitions.iter().any(|one| one.end.is_none());
    if next > *range.end() && has_rest {
        return statements;
    }
    let months = listed(next, range.end().next());
    let parts = format!("({}{REST_PART})", months.trim_start_matches(", "));
    let parts = if months.is_empty() {
        parts.replacen(", ", "", 1)
    } else {
        parts
    };
    let how = if has_rest {
        format!("REORGANIZE PARTITION {REST} INTO")
    } else {
        "ADD PARTITION".to_owned()
    };
    statements.push(format!("ALTER TABLE lives {how} {parts}"));
    statements
}

/// The definition of the last partition, behind others.
const REST_PART: &str = ", PARTITION lives_rest VALUES LESS THAN MAXVALUE";

/// Definitions of the months up to `end`, each behind a comma.
fn listed(mut month: Month, end: Month) -> String {
    let mut text = String::new();
    while month < end {
        let (name, before) = (month.name(), month.next().start().to_string());
        text.extend([", PARTITION ", &name, " VALUES LESS THAN (", &before, ")"]);
        month = month.next();
    }
    text
}

/// The months whose lives all ended before a time.
pub(super) fn over(partitions: &[Partition], before: i64) -> Vec<&str> {
    let is_over = |one: &&Partition| one.end.is_some_and(|end| end <= before);
    let over = partitions.iter().filter(is_over);
    let names = over.map(|one| one.name.as_str());
    names.filter(|name| Month::named(name).is_some()).collect()
}

/// The statement that removes what ended before a time from the first and the last partition, which
/// are not dropped; `None` if there is neither.
pub(super) fn expire_outside(partitions: &[Partition]) -> Option<String> {
    let names = partitions.iter().map(|one| one.name.as_str());
    let outside: Vec<_> = names.filter(|name| [BEFORE, REST].contains(name)).collect();
    (!outside.is_empty()).then(|| {
        format!(
            "DELETE FROM lives PARTITION ({}) WHERE ended_at < ? LIMIT ?",
            outside.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(name: &str, end: Option<i64>) -> Partition {
        let name = name.to_owned();
        Partition { name, end }
    }

    #[test]
    fn months_are_split_from_the_first_and_the_last_partition() {
        let month = Month::named("lives_2026_11").unwrap();
        let next = month.next();
        let empty = [partition(BEFORE, Some(next.start())), partition(REST, None)];
        let (a, z) = (next.start(), next.next().start());
        let made = make(&empty, &(month..=next));
        assert_eq!(made.len(), 2);
        let before = format!(
            "ALTER TABLE lives REORGANIZE PARTITION lives_before INTO (PARTITION lives_before \
             VALUES LESS THAN ({}), PARTITION lives_2026_11 VALUES LESS THAN ({a}))",
            month.start()
        );
        let rest = format!(
            "ALTER TABLE lives REORGANIZE PARTITION lives_rest INTO (PARTITION lives_2026_12 \
             VALUES LESS THAN ({z}), PARTITION lives_rest VALUES LESS THAN MAXVALUE)"
        );
        assert_eq!(made, [before, rest.clone()]);
        // A server whose last partition somebody has dropped.
        let rest = rest.replace("REORGANIZE PARTITION lives_rest INTO", "ADD PARTITION");
        let one = [partition("lives_2026_11", Some(a))];
        assert_eq!(make(&one, &(month..=next)), [rest]);
        let only_rest = "ALTER TABLE lives ADD PARTITION \
            (PARTITION lives_rest VALUES LESS THAN MAXVALUE)";
        assert_eq!(make(&one, &(month..=month)), [only_rest]);
        let whole = [
            partition(BEFORE, Some(month.start())),
            partition("lives_2026_11", Some(a)),
            partition("lives_2026_12", Some(z)),
            partition(REST, None),
        ];
        assert_eq!(make(&whole, &(month..=next)), [""; 0]);
        assert_eq!(over(&whole, a), ["lives_2026_11"]);
        assert_eq!(over(&whole, a - 1), [""; 0]);
    }

    #[test]
    fn a_clock_that_is_wrong_makes_no_thousands_of_months() {
        use delayq_core::history::LifeOutcome;
        use delayq_core::{TaskId, TaskType};
        let now = Timestamp::from_millis(1_798_761_600_000);
        let (of, id) = (TaskType::new("a").unwrap(), TaskId::new("b").unwrap());
        let life = |at| Life::new(of.clone(), id.clone(), LifeOutcome::Done, at);
        let lives = [life(Timestamp::ZERO), life(Timestamp::MAX)];
        let range = needed(&lives, now);
        assert_eq!(range.start().name(), "lives_2017_01");
        assert_eq!(range.end().name(), "lives_2027_04");
    }
}
