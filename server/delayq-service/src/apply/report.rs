//! What an apply did, or would do, as text and as JSON.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Change, Item, Plan, Refusal};

/// What became of a plan.
#[derive(Debug, Serialize)]
pub struct Report<'a> {
    /// The name of the state.
    name: &'a str,
    /// True if nothing was done, and the report says what would be.
    is_dry_run: bool,
    created: usize,
    changed: usize,
    removed: usize,
    unchanged: usize,
    /// What an earlier apply made, somebody else changed, and the state declares no more.
    kept: usize,
    /// What an earlier apply made and the state declares no more, without pruning.
    left_over: usize,
    /// What failed. Everything before it is done, and nothing after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    items: &'a [Item],
}

impl<'a> Report<'a> {
    /// The report on a plan that was carried out, or was only made.
    pub fn new(plan: &'a Plan, is_dry_run: bool, error: Option<&Refusal>) -> Self {
        let count = |change| plan.items.iter().filter(|one| one.change == change).count();
        Self {
            name: &plan.name,
            is_dry_run,
            created: count(Change::Created),
            changed: count(Change::Changed),
            removed: count(Change::Removed),
            unchanged: count(Change::Unchanged),
            kept: count(Change::Kept),
            left_over: plan.left_over,
            error: error.map(ToString::to_string),
            items: &plan.items,
        }
    }

    /// The report for people: a line a change, and their numbers.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for item in self.items {
            self.line(&mut text, item);
        }
        let number = |count: usize, what: &str| (count > 0).then(|| format!("{count} {what}"));
        let verb = |would, was| if self.is_dry_run { would } else { was };
        let counts = [
            number(self.created, verb("to create", "created")),
            number(self.changed, verb("to change", "changed")),
            number(self.removed, verb("to remove", "removed")),
            number(self.kept, "kept"),
            number(self.unchanged, "unchanged"),
        ];
        let counts: Vec<_> = counts.into_iter().flatten().collect();
        let is_same = self.created + self.changed + self.removed == 0;
        let first = match (is_same, &self.error) {
            (true, _) => "nothing to change",
            (false, Some(_)) => "failed; a repeat of the command does the rest",
            (false, None) => verb("nothing is done yet", "done"),
        };
        let _ = write!(text, "{first}");
        if !counts.is_empty() && self.error.is_none() {
            let _ = write!(text, ": {}", counts.join(", "));
        }
        if self.left_over > 0 {
            let _ = write!(
                text,
                "\n{} that an earlier apply made and the files have no more: --prune removes them",
                self.left_over
            );
        }
        text
    }

    fn line(&self, text: &mut String, item: &Item) {
        let sign = match item.change {
            Change::Created => '+',
            Change::Changed => '~',
            Change::Removed => '-',
            Change::Kept => '!',
            Change::Unchanged => return,
        };
        let _ = write!(text, "{sign} {}", item.key);
        let _ = match (item.change, &item.detail) {
            (Change::Created, _) => write!(text, ": {}", shown(item.to.as_ref())),
            (_, Some(detail)) => write!(text, ": {detail}"),
            (Change::Changed, None) => match (&item.from, &item.to) {
                (Some(Value::Object(from)), Some(Value::Object(to))) => {
                    write!(text, ": {}", differences(from, to))
                }
                (from, to) => write!(text, ": {} -> {}", shown(from.as_ref()), shown(to.as_ref())),
            },
            _ => write!(text, ": {}", shown(item.from.as_ref())),
        };
        if let Some(file) = item.secret.as_ref().and_then(|secret| secret.file.as_ref()) {
            let _ = write!(text, " (its secret: {})", file.display());
        }
        if self.error.is_some() && item.change.is_deed() && !item.is_done {
            text.push_str(" (not done)");
        }
        text.push('\n');
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or("none".to_owned(), Value::to_string)
}

/// The fields that differ, each with both values.
fn differences(from: &Map<String, Value>, to: &Map<String, Value>) -> String {
    let names: BTreeSet<_> = from.keys().chain(to.keys()).collect();
    let differing = names
        .into_iter()
        .filter(|name| from.get(*name) != to.get(*name));
    let fields = differing.map(|name| {
        let shown = |of: &Map<String, Value>| shown(of.get(name));
        format!("{name} {} -> {}", shown(from), shown(to))
    });
    fields.collect::<Vec<_>>().join(", ")
}
