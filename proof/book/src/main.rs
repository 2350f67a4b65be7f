//! Renders `docs/` as a book into `target/book`, and fails when a link in it leads nowhere.

#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

mod links;
mod pages;

use std::path::Path;

use anyhow::{Context, bail};
use mdbook_driver::MDBook;

use crate::links::Links;
use crate::pages::Pages;

fn main() -> anyhow::Result<()> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut book = MDBook::load(&docs).context("docs/book.toml or docs/SUMMARY.md")?;
    book.with_preprocessor(Links);
    book.build()?;

    let pages = Pages::read(&book.build_dir_for("html"))?;
    let broken = pages.broken_links()?;
    if !broken.is_empty() {
        bail!("links of the book lead nowhere:\n{}", broken.join("\n"));
    }
    println!("{} pages, every link leads somewhere", pages.count());
    Ok(())
}
