//! Links that are right in the repository and would be wrong in the book.

use std::path::{Component, Path, PathBuf};

use mdbook_preprocessor::book::Book;
use mdbook_preprocessor::errors::Result;
use mdbook_preprocessor::{Preprocessor, PreprocessorContext};
use pulldown_cmark::{Event, Parser, Tag};

/// Where the files of the repository are shown.
const FILES: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/");

/// Lets links to files outside `docs/` lead to the repository, which is not beside the book, and
/// links to a `README.md` to the `index.html` that mdBook makes of it.
pub(crate) struct Links;

impl Preprocessor for Links {
    fn name(&self) -> &'static str {
        "links"
    }

    fn run(&self, _: &PreprocessorContext, mut book: Book) -> Result<Book> {
        book.for_each_chapter_mut(|chapter| {
            if let Some(page) = &chapter.source_path {
                chapter.content =
                    with_links_of_the_book(&Path::new("docs").join(page), &chapter.content);
            }
        });
        Ok(book)
    }
}

/// The text of `page`, a path from the repository's root.
fn with_links_of_the_book(page: &Path, text: &str) -> String {
    let mut result = String::new();
    let mut copied = 0;
    for (event, range) in Parser::new(text).into_offset_iter() {
        let Event::Start(Tag::Link { dest_url, .. }) = event else {
            continue;
        };
        let (Some(new), Some(link)) = (in_the_book(page, &dest_url), text.get(range.clone()))
        else {
            continue;
        };
        // The target follows the text of the link, which may be the same.
        let Some(target) = link.rfind(dest_url.as_ref()).map(|at| range.start + at) else {
            continue;
        };
        result.push_str(text.get(copied..target).unwrap_or_default());
        result.push_str(&new);
        copied = target + dest_url.len();
    }
    result.push_str(text.get(copied..).unwrap_or_default());
    result
}

/// What takes the place of `target` on `page`, when it is not to stay.
fn in_the_book(page: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with('#') {
        return None;
    }
    let mut path = PathBuf::new();
    for part in page.parent()?.join(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            _ => path.push(part),
        }
    }
    if path.starts_with("docs") {
        let folder = target.strip_suffix("README.md")?;
        return Some(format!("{folder}index.md"));
    }
    Some(format!("{FILES}{}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_leave_the_book_and_links_to_a_readme_are_changed() {
        let text = "[a](b.md#c), [`../x`](../x.md), [../../README.md](../../README.md#why),\n\
                    [w](https://example.org), [h](#h),\n\
                    [r](README.md)\n\n```md\n[c](../../c.md)\n```\n";
        let changed = with_links_of_the_book(Path::new("docs/guide/a.md"), text);
        let expected = text
            .replace("](../../README", &format!("]({FILES}README"))
            .replace("](README.md", "](index.md");
        assert_eq!(changed, expected);
    }
}
