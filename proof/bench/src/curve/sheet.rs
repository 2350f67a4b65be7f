//! What a curve yields: a table and its panels.

use serde::Serialize;

/// One curve.
#[derive(Debug, Serialize)]
pub(crate) struct Sheet {
    /// What the columns are.
    pub(crate) head: &'static [&'static str],
    pub(crate) rows: Vec<Vec<String>>,
    /// Drawn side by side.
    pub(crate) panels: Vec<Panel>,
}

/// One drawing.
#[derive(Debug, Serialize)]
pub(crate) struct Panel {
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
    /// What grows from left to right.
    pub(crate) along: &'static str,
    /// Its places, drawn at equal distances.
    pub(crate) places: Vec<String>,
    pub(crate) scale: Scale,
    pub(crate) lines: Vec<Line>,
}

/// What the height of a panel means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scale {
    Linear,
    Logarithmic,
}

/// One line of a panel: a value for each place, or for the first ones.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) values: Vec<f64>,
}

impl Line {
    pub(crate) fn new(label: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        Self {
            label: label.into(),
            values: values.into_iter().collect(),
        }
    }
}

impl Sheet {
    /// The table in Markdown.
    pub(crate) fn table(&self) -> String {
        let row = |cells: Vec<&str>| format!("| {} |", cells.join(" | "));
        let rule = format!("|---|{}", "---:|".repeat(self.head.len().saturating_sub(1)));
        let mut lines = vec![row(self.head.to_vec()), rule];
        let cells = self.rows.iter();
        lines.extend(cells.map(|cells| row(cells.iter().map(String::as_str).collect())));
        lines.join("\n")
    }
}

/// Whether a goal is met, as a table says it.
pub(crate) fn verdict(is_met: bool) -> String {
    let word = if is_met { "yes" } else { "**no**" };
    word.to_owned()
}

/// A count as short as people say it: 10,000,000 is 10 M.
pub(crate) fn count(number: usize) -> String {
    match number {
        1_000_000.. if number.is_multiple_of(1_000_000) => format!("{} M", number / 1_000_000),
        1_000.. if number.is_multiple_of(1_000) => format!("{} k", number / 1_000),
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_for_each_row_under_its_head() {
        let sheet = Sheet {
            head: &["processes", "tasks/s", "met"],
            rows: vec![vec!["1".into(), "70,000".into(), verdict(true)]],
            panels: Vec::new(),
        };
        let expected = "| processes | tasks/s | met |\n|---|---:|---:|\n| 1 | 70,000 | yes |";
        assert_eq!(sheet.table(), expected);
        assert_eq!(verdict(false), "**no**");
    }

    #[test]
    fn a_count_is_as_short_as_people_say_it() {
        let said = [1, 128, 1_000, 1_024, 10_000, 1_000_000, 10_000_000].map(count);
        assert_eq!(said, ["1", "128", "1 k", "1024", "10 k", "1 M", "10 M"]);
    }
}
