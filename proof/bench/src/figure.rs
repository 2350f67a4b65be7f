//! One figure: its samples, those of the bare script, and the goal.

use serde::Serialize;

use crate::stage::Place;

/// What a figure should be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
    /// So many times what the bare script reached in the same run.
    RatioAtLeast(f64),
    RatioAtMost(f64),
    /// Nobody has asked for one.
    None,
}

impl Goal {
    fn is_met(self, value: f64, ratio: f64) -> Option<bool> {
        match self {
            Self::AtLeast(goal) => Some(value >= goal),
            Self::AtMost(goal) => Some(value <= goal),
            Self::RatioAtLeast(goal) => Some(ratio >= goal),
            Self::RatioAtMost(goal) => Some(ratio <= goal),
            Self::None => None,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(goal) => format!(">= {}", short(goal)),
            Self::AtMost(goal) => format!("<= {}", short(goal)),
            Self::RatioAtLeast(goal) => format!(">= {goal:.2} x bare"),
            Self::RatioAtMost(goal) => format!("<= {goal:.2} x bare"),
            Self::None => String::new(),
        }
    }
}

/// What was measured in one case.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) store: Place,
    pub(crate) unit: &'static str,
    pub(crate) goal: Goal,
    /// One for each round.
    pub(crate) samples: Vec<f64>,
    /// Of the bare script, one for each round; empty where there is none.
    pub(crate) bare: Vec<f64>,
}

impl Figure {
    /// Measured once, with nothing bare beside it.
    pub(crate) fn of_one(
        store: Place,
        name: &'static str,
        unit: &'static str,
        goal: Goal,
        sample: f64,
    ) -> Self {
        Self {
            name,
            store,
            unit,
            goal,
            samples: vec![sample],
            bare: Vec::new(),
        }
    }

    /// The line of a Markdown table.
    pub(crate) fn line(&self) -> String {
        let (of_delayq, of_bare) = (spread(&self.samples), spread(&self.bare)[1]);
        let ratio = of_delayq[1] / of_bare;
        let goal = self.goal.text();
        let met = met(self.goal.is_met(of_delayq[1], ratio));
        let [min, median, max] = of_delayq.map(short);
        let (bare, ratio) = match self.bare.len() {
            0 => (String::new(), String::new()),
            _ => (short(of_bare), format!("{ratio:.2}")),
        };
        let (store, name, unit) = (self.store.name(), self.name, self.unit);
        format!(
            "| {store} | {name} | {unit} | {goal} | {min} | {median} | {max} | {met} | {bare} | {ratio} |"
        )
    }
}

/// How a table says whether a goal is met.
pub(crate) fn met(is_met: Option<bool>) -> &'static str {
    match is_met {
        Some(true) => "yes",
        Some(false) => "**no**",
        None => "",
    }
}

/// The least, the middle and the greatest; not numbers when there is none.
pub(crate) fn spread(samples: &[f64]) -> [f64; 3] {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
    let (middle, last) = (sorted.len() / 2, sorted.len().saturating_sub(1));
    let median = match sorted.len() % 2 {
        0 => f64::midpoint(at(middle.saturating_sub(1)), at(middle)),
        _ => at(middle),
    };
    [at(0), median, at(last)]
}

/// Thousands with their separator, small numbers with decimals.
pub(crate) fn short(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        let shown = |samples: &[f64]| format!("{:?}", spread(samples));
        assert_eq!(shown(&[4.0, 1.0, 3.0, 2.0]), "[1.0, 2.5, 4.0]");
        assert_eq!(shown(&[3.0, 1.0, 2.0]), "[1.0, 2.0, 3.0]");
        assert_eq!(shown(&[5.0]), "[5.0, 5.0, 5.0]");
        assert!(spread(&[])[1].is_nan());
    }

    #[test]
    fn a_ratio_goal_is_one_against_the_bare_script_whatever_the_machine_does() {
        let mut figure = Figure {
            name: "submit",
            store: Place::Redis,
            unit: "tasks/s",
            goal: Goal::RatioAtLeast(0.8),
            samples: vec![80_000.0],
            bare: vec![100_000.0],
        };
        assert!(
            figure
                .line()
                .ends_with("| >= 0.80 x bare | 80,000 | 80,000 | 80,000 | yes | 100,000 | 0.80 |"),
            "{}",
            figure.line()
        );
        figure.bare = vec![101_000.0];
        assert!(figure.line().contains("**no**"));
        figure.goal = Goal::RatioAtMost(1.3);
        assert!(figure.line().contains("| <= 1.30 x bare |"));
        assert!(figure.line().contains("| yes |"));
        figure.samples = vec![140_000.0];
        assert!(figure.line().contains("**no**"));
        // Without a bare script there is nothing that such a goal could be met by.
        figure.bare.clear();
        assert!(figure.line().contains("**no**"));
    }

    #[test]
    fn a_line_says_whether_the_goal_is_met_and_the_ratio() {
        let mut figure = Figure {
            name: "drain",
            store: Place::Redis,
            unit: "tasks/s",
            goal: Goal::AtLeast(60_000.0),
            samples: vec![50_000.0, 61_000.0, 1_234_567.0],
            bare: vec![122_000.0],
        };
        assert_eq!(
            figure.line(),
            "| redis | drain | tasks/s | >= 60,000 | 50,000 | 61,000 | 1,234,567 | yes | 122,000 | 0.50 |"
        );
        figure.goal = Goal::AtMost(60_000.0);
        assert!(figure.line().contains("**no**"));
        figure.bare.clear();
        assert!(figure.line().ends_with("|  |  |"), "{}", figure.line());
    }
}
