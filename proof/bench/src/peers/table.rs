//! The tables of the peers, in Markdown.

use serde::Serialize;

use crate::figure::{short, spread};
use crate::peers::case::Case;
use crate::peers::contender::Contender;
use crate::peers::outcome::{Outcome, Starts};

const FIGURES: &str = "| case | unit | | min | median | max | delayq / it | |\n\
    |---|---|---|---:|---:|---:|---:|---|";
const STARTS: &str = "| case | | tasks | ran | repeated | early | min ms | p50 | p90 | p99 | max | |\n\
    |---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|";

/// What was measured of one contender in one case.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    case: Case,
    contender: Contender,
    pub(crate) outcomes: Vec<Outcome>,
}

impl Row {
    pub(crate) fn new(case: Case, contender: &Contender) -> Self {
        Self {
            case,
            contender: contender.clone(),
            outcomes: Vec::new(),
        }
    }

    fn numbers(&self) -> Vec<f64> {
        self.outcomes.iter().filter_map(Outcome::number).collect()
    }

    /// The line of the table of figures.
    fn figure(&self, ours: &[f64]) -> String {
        let numbers = self.numbers();
        let [min, median, max] = match numbers.len() {
            0 => [const { String::new() }; 3],
            _ => spread(&numbers).map(short),
        };
        let ratio = match (ours.len(), numbers.len()) {
            (0, _) | (_, 0) => String::new(),
            _ => format!("{:.2}", spread(ours)[1] / spread(&numbers)[1]),
        };
        let (case, unit, name) = (self.case.name(), self.case.unit(), &self.contender.name);
        let remark = self.remark();
        format!("| {case} | {unit} | {name} | {min} | {median} | {max} | {ratio} | {remark} |")
    }

    /// The line of the table of starts.
    fn starts(&self) -> String {
        let starts = self.outcomes.iter().find_map(Outcome::starts);
        let cells = starts.map_or_else(|| [const { String::new() }; 9], Starts::cells);
        let (case, name) = (self.case.name(), &self.contender.name);
        let mut remark = self.remark();
        if let Some(why) = starts.and_then(|starts| starts.ended.as_ref()) {
            remark = format!("**its worker ended**: {}", why.replace('|', "/"));
        }
        if starts.is_some_and(|starts| starts.sent_in_time == Some(false)) {
            remark.push_str("not all were sent before they were due");
        }
        format!("| {case} | {name} | {} | {remark} |", cells.join(" | "))
    }

    /// The first thing that went wrong, and how often something did.
    fn remark(&self) -> String {
        let remarks: Vec<_> = self.outcomes.iter().filter_map(Outcome::remark).collect();
        let Some(first) = remarks.first() else {
            return String::new();
        };
        let first = first.replace('|', "/");
        match (remarks.len(), self.outcomes.len()) {
            (some, all) if some < all => format!("{some} of {all} rounds: {first}"),
            _ => first,
        }
    }
}

/// All that a run says.
pub(crate) fn section(
    head: &str,
    contenders: &[&Contender],
    skipped: &[String],
    rows: &[Row],
) -> String {
    let versions = contenders
        .iter()
        .map(|it| format!("{} {}", it.name, it.version));
    let versions: Vec<_> = versions.collect();
    let mut lines = vec![
        head.to_owned(),
        String::new(),
        format!("Measured: {}.", versions.join(", ")),
    ];
    lines.extend(skipped.iter().map(|reason| format!("Skipped: {reason}.")));
    let is_figure = |row: &&Row| row.case.unit() != "ms";
    lines.extend([String::new(), FIGURES.to_owned()]);
    lines.extend(
        rows.iter()
            .filter(is_figure)
            .map(|row| row.figure(&ours(rows, row.case))),
    );
    lines.extend([String::new(), STARTS.to_owned()]);
    lines.extend(rows.iter().filter(|row| !is_figure(row)).map(Row::starts));
    lines.join("\n") + "\n"
}

/// delayq's figures of a case.
fn ours(rows: &[Row], case: Case) -> Vec<f64> {
    let mut ours = rows
        .iter()
        .filter(|row| row.case == case && row.contender.is_delayq());
    ours.next().map(Row::numbers).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::place::Kind;
    use crate::peers::program::Runner;

    fn row(case: Case, word: &'static str, outcomes: Vec<Outcome>) -> Row {
        let contender = Contender {
            name: word.to_owned(),
            version: "1.2.3".to_owned(),
            word,
            runner: Runner::Rust,
            kind: Kind::Redis,
        };
        Row {
            case,
            contender,
            outcomes,
        }
    }

    #[test]
    fn a_peer_is_shown_beside_delayq_and_its_failures_are_told() {
        let stopped = Outcome::Stopped("8,000 of 10,000 ran".to_owned());
        let rows = [
            row(
                Case::Drain,
                "delayq",
                vec![Outcome::Rate(300.0), Outcome::Rate(200.0)],
            ),
            row(Case::Drain, "peer", vec![Outcome::Rate(100.0), stopped]),
        ];
        let ours = ours(&rows, Case::Drain);
        assert_eq!(
            rows[0].figure(&ours),
            "| drain of due tasks | tasks/s | delayq | 200 | 250 | 300 | 1.00 |  |"
        );
        assert_eq!(
            rows[1].figure(&ours),
            "| drain of due tasks | tasks/s | peer | 100 | 100 | 100 | 2.50 | \
             1 of 2 rounds: **stopped**: 8,000 of 10,000 ran |"
        );
    }

    #[test]
    fn a_peer_that_cannot_do_a_case_has_a_line_all_the_same() {
        let rows = [row(
            Case::Herd,
            "peer",
            vec![Outcome::Failed("a|b".to_owned())],
        )];
        assert_eq!(
            rows[0].starts(),
            "| all due at once | peer |  |  |  |  |  |  |  |  |  | **failed**: a/b |"
        );
    }
}
