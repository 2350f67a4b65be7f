//! Pages of a list: a limit, a cursor, and the cursor of the next page.

use clap::Args;

use crate::text::{FAINT, styled};

/// The line after a table that has more pages.
pub(crate) fn more(cursor: impl std::fmt::Display) -> String {
    styled(FAINT, format!("more: --cursor {cursor}"))
}

/// A page of a list whose items have a name of their own. The cursor is the name of the last item.
#[derive(Clone, Debug, Args)]
pub(crate) struct Paging {
    /// Maximum number of items.
    #[arg(long, value_name = "N", default_value_t = 1_000, help_heading = "Page",
        value_parser = clap::value_parser!(u64).range(1..=1_000))]
    limit: u64,
    /// The start of the page: the cursor printed after the previous page.
    #[arg(long, value_name = "CURSOR", help_heading = "Page")]
    cursor: Option<String>,
}

impl Paging {
    /// The items of this page, and the cursor of the next one, if there is one.
    pub(crate) fn page<T>(
        &self,
        items: Vec<T>,
        name: impl Fn(&T) -> String,
    ) -> (Vec<T>, Option<String>) {
        let after = items.into_iter().filter(|item| {
            let cursor = self.cursor.as_ref();
            cursor.is_none_or(|cursor| name(item) > *cursor)
        });
        let mut page: Vec<_> = after.collect();
        page.sort_by_key(|item| name(item));
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let has_more = page.len() > limit;
        page.truncate(limit);
        let next = page.last().filter(|_| has_more).map(&name);
        (page, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other_without_a_gap() {
        let paging = |cursor: Option<&str>| Paging {
            limit: 2,
            cursor: cursor.map(str::to_owned),
        };
        let of = |cursor| paging(cursor).page(vec!["c", "a", "b"], |name| (*name).to_owned());
        assert_eq!(of(None), (vec!["a", "b"], Some("b".to_owned())));
        assert_eq!(of(Some("b")), (vec!["c"], None));
    }
}
