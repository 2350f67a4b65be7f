//! The verdict as text.

use std::fmt;

use super::{Figures, Outcome, Promise, Span, Verdict, Violation};

/// Longest history that is shown whole; of a longer one, the beginning and the end.
const MAX_LINES: usize = 60;

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.figures)?;
        writeln!(f, "\npromises")?;
        for promise in Promise::ALL {
            let rules = self
                .broken
                .iter()
                .filter(|((broken, _), _)| *broken == promise);
            let rules: Vec<_> = rules
                .map(|((_, rule), count)| format!("{rule}: {count}"))
                .collect();
            let words = if rules.is_empty() {
                "held".to_owned()
            } else {
                format!("BROKEN ({})", rules.join(", "))
            };
            writeln!(f, "  {:<24} {words}", promise.to_string())?;
        }
        for violation in &self.violations {
            write!(f, "\n{violation}")?;
        }
        for reason in &self.invalid {
            writeln!(f, "\nINVALID: {reason}")?;
        }
        if !self.skipped.is_empty() {
            writeln!(f, "\nnot done on this machine: {}", self.skipped.join(", "))?;
        }
        writeln!(
            f,
            "\n{}",
            match self.outcome() {
                Outcome::Held => "HELD: every promise held",
                Outcome::Broken => "BROKEN: see above",
                Outcome::Invalid => "INVALID: the run proves nothing",
            }
        )
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let task = self.task.as_deref().unwrap_or("the run");
        writeln!(
            f,
            "{}: {}: {task}: {}",
            self.promise, self.rule, self.detail
        )?;
        let left_out = self.history.len().saturating_sub(MAX_LINES);
        let end = self.history.len() - (MAX_LINES / 2).min(self.history.len());
        for (index, line) in self.history.iter().enumerate() {
            if left_out == 0 || index < MAX_LINES / 2 || index >= end {
                writeln!(f, "  {line}")?;
            } else if index == MAX_LINES / 2 {
                writeln!(f, "  .. {left_out} more ..")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "tasks {}, accepted {}, starts {}",
            self.tasks, self.accepted, self.starts
        )?;
        writeln!(
            f,
            "lost within a documented window: {}",
            self.lost_with_cause
        )?;
        age(f, "accepted", &self.lost_age)?;
        if self.undone_age.count() > 0 {
            writeln!(f, "settlements undone: {}", self.undone_age.count())?;
            age(f, "answered", &self.undone_age)?;
        }
        for ((task_type, state), gone) in &self.purged {
            writeln!(f, "gone by purges of {task_type}, {state:?}: {gone}")?;
        }
        counts(f, "answers", self.answers.iter())?;
        counts(f, "repeats by cause", self.repeats.iter())?;
        counts(f, "faults", self.faults.iter())?;
        if !self.own_shortages.is_empty() {
            let own = self.own_shortages.iter();
            counts(f, "shortages by the run itself, which allow nothing", own)?;
        }
        if self.fail_overs > 0 {
            writeln!(f, "fail-overs {}", self.fail_overs)?;
        }
        writeln!(
            f,
            "\n{:<40} {:>9} {:>9} {:>9} {:>9}",
            "ms", "count", "p50", "p99", "max"
        )?;
        span(f, "lateness, quiet", &self.lateness_quiet)?;
        span(f, "lateness, in fault windows", &self.lateness_in_faults)?;
        if self.due_by_wrong_clock > 0 {
            writeln!(
                f,
                "{:<40} {:>9}",
                "due by a wrong clock, not counted", self.due_by_wrong_clock
            )?;
        }
        for (task_type, lateness) in &self.lateness_idle {
            span(f, &format!("lateness, asleep: {task_type}"), lateness)?;
        }
        for (kind, waited) in &self.recovery {
            span(f, &format!("first start after {kind}"), waited)?;
        }
        for (kind, waited) in &self.outage {
            span(f, &format!("accepted again after {kind}"), waited)?;
        }
        for (kind, waited) in &self.takeover {
            span(f, &format!("takeover after {kind}"), waited)?;
        }
        for (kind, count) in &self.takeover_within {
            writeln!(
                f,
                "{:<40} {count:>9}",
                format!("takeover before the end of {kind}")
            )?;
        }
        Ok(())
    }
}

/// How old it was, whatever was undone.
fn age(f: &mut fmt::Formatter<'_>, what: &str, age: &Span) -> fmt::Result {
    if age.count() == 0 {
        return Ok(());
    }
    let [p50, p99] = [50.0, 99.0].map(|percentile| ms(age.percentile_us(percentile)));
    let max = ms(age.max_us());
    writeln!(
        f,
        "  {what} before the store lost its last writes: p50 {p50} ms, p99 {p99} ms, at most {max} ms"
    )
}

fn counts<'a, K: fmt::Display + 'a>(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    counts: impl Iterator<Item = (K, &'a u64)>,
) -> fmt::Result {
    writeln!(f, "\n{title}")?;
    for (name, count) in counts {
        writeln!(f, "  {:<40} {count:>9}", name.to_string())?;
    }
    Ok(())
}

fn span(f: &mut fmt::Formatter<'_>, name: &str, span: &Span) -> fmt::Result {
    let [p50, p99, max] = [
        span.percentile_us(50.0),
        span.percentile_us(99.0),
        span.max_us(),
    ]
    .map(ms);
    writeln!(
        f,
        "{name:<40} {:>9} {p50:>9} {p99:>9} {max:>9}",
        span.count()
    )
}

fn ms(us: u64) -> String {
    format!("{}.{:03}", us / 1_000, us % 1_000)
}
