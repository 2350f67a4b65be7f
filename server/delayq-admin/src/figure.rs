//! A number in a table.

use crate::said::{DASH, count};

/// A number, with the name of its column for narrow screens, and the list that it counts.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) label: &'static str,
    pub(crate) text: String,
    /// True for zero and for what is not known: shown dimmed.
    pub(crate) is_nothing: bool,
    pub(crate) href: Option<String>,
    /// True if a narrow screen leaves it out.
    pub(crate) is_extra: bool,
}

impl Figure {
    /// A count.
    pub(crate) fn count(label: &'static str, number: u64) -> Self {
        Self::text(label, count(number))
    }

    /// A number that is written already.
    pub(crate) fn text(label: &'static str, text: String) -> Self {
        Self {
            label,
            is_nothing: text == DASH || text == "0",
            text,
            href: None,
            is_extra: false,
        }
    }

    /// Leaves it out on narrow screens.
    pub(crate) fn extra(mut self) -> Self {
        self.is_extra = true;
        self
    }

    /// Links what it counts, unless that is nothing.
    pub(crate) fn to(mut self, href: String) -> Self {
        self.href = (!self.is_nothing).then_some(href);
        self
    }
}
