//! The pages of the rendered book.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use regex::Regex;

/// The HTML files of a folder, by their paths.
pub(crate) struct Pages {
    files: BTreeMap<PathBuf, String>,
}

impl Pages {
    /// Reads those of `folder` and of the folders in it.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Self> {
        let mut files = BTreeMap::new();
        let mut folders = vec![folder.canonicalize()?];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if is_page(&path) {
                    let text = fs::read_to_string(&path)?;
                    files.insert(path, text);
                }
            }
        }
        Ok(Self { files })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.files.len()
    }

    /// Links to files, or to places in files, that are not there, each with its page.
    pub(crate) fn broken_links(&self) -> anyhow::Result<Vec<String>> {
        let link = Regex::new(r#"(?:href|src)="([^"]*)""#)?;
        let mut broken = Vec::new();
        for (page, text) in &self.files {
            for target in link.captures_iter(text).filter_map(|found| found.get(1)) {
                let target = target.as_str();
                if !self.leads_somewhere(page, target)? {
                    broken.push(format!("{}: {target}", page.display()));
                }
            }
        }
        Ok(broken)
    }

    fn leads_somewhere(&self, page: &Path, target: &str) -> anyhow::Result<bool> {
        if target.contains(':') {
            return Ok(true);
        }
        let (file, place) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() {
            page.to_path_buf()
        } else {
            let folder = page.parent().context("a page is in a folder")?;
            match folder.join(file).canonicalize() {
                Ok(path) => path,
                Err(_) => return Ok(false),
            }
        };
        Ok(match self.files.get(&path) {
            Some(text) => place.is_empty() || text.contains(&format!("id=\"{place}\"")),
            None => path.is_file(),
        })
    }
}

/// The page that a web server answers with when it has none has links from its root.
fn is_page(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "html")
        && !path.ends_with("404.html")
}
