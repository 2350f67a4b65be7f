//! Tables for people: names are never broken, and columns that do not fit are left out by name.

use comfy_table::{Cell, ColumnConstraint, ContentArrangement, Table as Grid, Width, presets};

use crate::text::{FAINT, styled};

/// Width of a table if a terminal says that it has none, and at least.
const LEAST_WIDTH: usize = 40;
/// Width from which on a column of text is wrapped instead of a column left out.
const TEXT_WIDTH: usize = 16;
/// Longest word, such as an id, that is not broken in a column of text.
const LONGEST_WORD: usize = 40;
/// Blanks between two columns.
const GAP: usize = 2;

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    head: &'static str,
    is_text: bool,
    is_wide: bool,
    /// Columns with a higher number are left out earlier; 0 always stays.
    rank: u8,
}

/// A column of names, numbers or times: a cell is in one line, whole.
pub(crate) const fn column(head: &'static str) -> Column {
    Column {
        head,
        is_text: false,
        is_wide: false,
        rank: 0,
    }
}

impl Column {
    /// The same, for prose, which may be wrapped.
    pub(crate) const fn text(mut self) -> Self {
        self.is_text = true;
        self
    }

    /// The same, shown in the form `wide` alone.
    pub(crate) const fn wide(mut self) -> Self {
        self.is_wide = true;
        self
    }

    /// The same, left out of a table that is too wide, the highest rank first.
    pub(crate) const fn minor(mut self, rank: u8) -> Self {
        self.rank = rank;
        self
    }
}

/// A table before the form of the output is known.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row with a cell for each column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The text of the table. With all columns it is as wide as they are; otherwise it fits the
    /// terminal, if there is one.
    pub(crate) fn render(&self, is_wide: bool) -> String {
        let most = Grid::new().width().map(usize::from);
        let most = columns_variable().or(most).filter(|_| !is_wide);
        let (shown, left_out) = self.chosen(most.map(|most| most.max(LEAST_WIDTH)), is_wide);
        let mut grid = Grid::new();
        grid.load_preset(presets::NOTHING);
        grid.set_content_arrangement(match most {
            Some(_) => ContentArrangement::Dynamic,
            None => ContentArrangement::Disabled,
        });
        if let Some(most) = most {
            grid.set_width(u16::try_from(most.max(LEAST_WIDTH)).unwrap_or(u16::MAX));
        }
        let heads = shown.iter().filter_map(|nth| self.columns.get(*nth));
        grid.set_header(heads.map(|column| Cell::new(styled(FAINT, column.head))));
        for row in &self.rows {
            grid.add_row(
                shown
                    .iter()
                    .map(|nth| row.get(*nth).cloned().unwrap_or_default()),
            );
        }
        for (place, nth) in shown.iter().enumerate() {
            let Some(column) = grid.column_mut(place) else {
                continue;
            };
            column.set_padding((0, u16::try_from(GAP).unwrap_or(2)));
            column.set_constraint(match self.columns.get(*nth) {
                Some(column) if column.is_text => {
                    let least = self.text_width(*nth) + GAP;
                    let least = u16::try_from(least).unwrap_or(u16::MAX);
                    ColumnConstraint::LowerBoundary(Width::Fixed(least))
                }
                _ => ColumnConstraint::ContentWidth,
            });
        }
        let lines = grid.to_string();
        let lines: Vec<_> = lines.lines().map(str::trim_end).collect();
        let mut text = lines.join("\n");
        if !left_out.is_empty() {
            let names = left_out.join(", ");
            let note = format!("not shown: {names}; -o wide shows every column");
            text += &format!("\n{}", styled(FAINT, note));
        }
        text
    }

    /// The columns to show, and the names of those that do not fit.
    fn chosen(&self, most: Option<usize>, is_wide: bool) -> (Vec<usize>, Vec<&'static str>) {
        let columns = self.columns.iter().enumerate();
        let shown = columns.filter(|(_, column)| is_wide || !column.is_wide);
        let mut shown: Vec<_> = shown.map(|(nth, _)| nth).collect();
        let mut left_out = Vec::new();
        let rank = |nth: usize| self.columns.get(nth).map_or(0, |column| column.rank);
        while most.is_some_and(|most| self.needs(&shown) > most) {
            let next = shown.iter().copied().max_by_key(|nth| rank(*nth));
            let Some(next) = next.filter(|nth| rank(*nth) > 0) else {
                break;
            };
            shown.retain(|nth| *nth != next);
            left_out.extend(self.columns.get(next).map(|column| column.head));
        }
        (shown, left_out)
    }

    /// The least width of these columns.
    fn needs(&self, shown: &[usize]) -> usize {
        let width = |nth: &usize| {
            let is_text = self.columns.get(*nth).is_some_and(|column| column.is_text);
            if is_text {
                self.text_width(*nth)
            } else {
                self.width(*nth)
            }
        };
        shown.iter().map(|nth| width(nth) + GAP).sum()
    }

    /// The width of the widest cell of a column.
    fn width(&self, nth: usize) -> usize {
        let cells = self.cells(nth).map(|cell| cell.chars().count());
        cells.max().unwrap_or_default()
    }

    /// The least width of a column of text: no word is broken.
    fn text_width(&self, nth: usize) -> usize {
        let words = self.cells(nth).map(|cell| {
            let words = cell.split_whitespace().map(|word| word.chars().count());
            words.max().unwrap_or_default()
        });
        let word = words.max().unwrap_or_default().min(LONGEST_WORD);
        self.width(nth).min(TEXT_WIDTH).max(word)
    }

    /// The cells of a column and its head, without styles.
    fn cells(&self, nth: usize) -> impl Iterator<Item = String> {
        let head = self.columns.get(nth).map(|column| column.head.to_owned());
        let cells = self.rows.iter().filter_map(move |row| row.get(nth));
        cells
            .map(|cell| anstream::adapter::strip_str(cell).to_string())
            .chain(head)
    }
}

/// The width that the variable of the shells names.
fn columns_variable() -> Option<usize> {
    let text = std::env::var("COLUMNS").ok()?;
    text.parse().ok().filter(|width| *width > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_left_out_by_rank_and_names_stay_whole() {
        let mut table = Table::new(&[
            column("TYPE"),
            column("DUE").minor(1),
            column("DONE").wide(),
            column("RUNNING").minor(2),
            column("NOTE").text(),
        ]);
        let name = "a-very-long-name-of-a-type-that-nobody-breaks";
        table.row([name, "7", "8", "9", "held by somebody else"].map(str::to_owned));
        let heads = |most| {
            let (shown, left_out) = table.chosen(most, false);
            (shown.len(), left_out)
        };
        assert_eq!(heads(None), (4, vec![]));
        assert_eq!(heads(Some(80)), (4, vec![]));
        assert_eq!(heads(Some(72)), (3, vec!["RUNNING"]));
        assert_eq!(heads(Some(40)), (2, vec!["RUNNING", "DUE"]));
        assert_eq!(table.chosen(Some(400), true).0.len(), 5);
        assert!(table.render(true).contains(name));
    }
}
