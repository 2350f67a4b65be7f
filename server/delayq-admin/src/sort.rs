//! The order of a list, chosen by the heads of its columns.

use std::cmp::Ordering;

use crate::fields::{Fields, Link};
use crate::visit::Visit;

/// A column of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// Its name in the query; empty if the list cannot be sorted by it.
    key: &'static str,
    name: &'static str,
    class: &'static str,
    /// The meaning of its values.
    title: &'static str,
    /// True if its first order is the largest first.
    is_number: bool,
}

impl Column {
    /// A column of text.
    pub(crate) const fn text(key: &'static str, name: &'static str) -> Self {
        Self {
            key,
            name,
            class: "",
            title: "",
            is_number: false,
        }
    }

    /// A column of numbers, whose first order is the largest first.
    pub(crate) const fn number(key: &'static str, name: &'static str) -> Self {
        Self {
            key,
            name,
            class: "n",
            title: "",
            is_number: true,
        }
    }

    /// The same column, explained.
    pub(crate) const fn titled(mut self, title: &'static str) -> Self {
        self.title = title;
        self
    }

    /// The same column, whose cells begin at the left.
    pub(crate) const fn left(mut self) -> Self {
        self.class = "";
        self
    }
}

/// The head of a column.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) name: &'static str,
    pub(crate) class: &'static str,
    pub(crate) title: &'static str,
    pub(crate) href: Option<String>,
    /// The value of `aria-sort`; empty for a column that the list is not sorted by.
    pub(crate) sorted: &'static str,
    pub(crate) arrow: &'static str,
}

/// A chosen order. Without one a list has its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sort {
    /// The key of a column; empty for the order of the list itself.
    pub(crate) key: &'static str,
    is_descending: bool,
}

impl Sort {
    /// The order that a query asks for: `sort=due`, or `sort=-due` for the largest first.
    pub(crate) fn read(fields: &Fields, columns: &[Column]) -> Self {
        let asked = fields.get("sort");
        let (asked, is_descending) = match asked.strip_prefix('-') {
            Some(asked) => (asked, true),
            None => (asked, false),
        };
        let mut columns = columns.iter().filter(|one| !one.key.is_empty());
        let column = columns.find(|one| one.key == asked);
        column.map_or_else(Self::default, |column| Self {
            key: column.key,
            is_descending,
        })
    }

    /// The field of a query; empty for the order of the list itself.
    pub(crate) fn field(self) -> String {
        let sign = if self.is_descending { "-" } else { "" };
        format!("{sign}{}", self.key)
    }

    /// An order of two rows in the chosen direction.
    pub(crate) fn directed(self, order: Ordering) -> Ordering {
        if self.is_descending {
            order.reverse()
        } else {
            order
        }
    }

    /// The heads of a list's columns; each links `link` in its own order.
    pub(crate) fn heads(
        self,
        visit: &Visit,
        columns: &[Column],
        link: impl Fn() -> Link,
    ) -> Vec<Head> {
        let head = |column: &Column| {
            let is_here = !column.key.is_empty() && column.key == self.key;
            let next = Self {
                key: column.key,
                is_descending: if is_here {
                    !self.is_descending
                } else {
                    column.is_number
                },
            };
            let (sorted, arrow) = match (is_here, self.is_descending) {
                (false, _) => ("", ""),
                (true, true) => ("descending", "↓"),
                (true, false) => ("ascending", "↑"),
            };
            let href = || visit.href(&link().with("sort", next.field()));
            Head {
                name: column.name,
                class: column.class,
                title: column.title,
                href: (!column.key.is_empty()).then(href),
                sorted,
                arrow,
            }
        };
        columns.iter().map(head).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_was_written() {
        let columns = [Column::text("name", "Name"), Column::number("due", "Due")];
        for (asked, key) in [("due", "due"), ("-due", "due"), ("nothing", ""), ("", "")] {
            let fields = Fields::read(format!("sort={asked}").as_bytes());
            let sort = Sort::read(&fields, &columns);
            assert_eq!(sort.key, key);
            assert_eq!(sort.field(), if key.is_empty() { "" } else { asked });
        }
        let down = Sort::read(&Fields::read(b"sort=-due"), &columns);
        assert_eq!(down.directed(Ordering::Less), Ordering::Greater);
    }
}
