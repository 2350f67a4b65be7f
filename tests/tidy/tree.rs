//! The files of the workspace, as the rules see them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A file: where it is, and what it says.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// Its path from the workspace's folder, with `/`.
    pub(crate) path: String,
    /// Its text; empty when it is no text.
    pub(crate) text: String,
}

impl File {
    /// A file that a test makes up.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let (path, text) = (path.to_owned(), text.to_owned());
        Self { path, text }
    }

    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|found| found == extension)
    }

    /// The lines with their numbers, comments cut off.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = self.text.lines().enumerate();
        numbered.map(|(index, line)| (index + 1, without_comment(line)))
    }

    /// A violation in line `number`.
    pub(crate) fn at(&self, number: usize, what: impl std::fmt::Display) -> String {
        format!("{}:{number}: {what}", self.path)
    }
}

/// `line` up to its comment. The `//` of a URL begins none.
fn without_comment(line: &str) -> &str {
    let mut starts = line.match_indices("//").map(|(start, _)| start);
    let is_comment = |start: &usize| !line[..*start].ends_with([':', '/']);
    starts.find(is_comment).map_or(line, |start| &line[..start])
}

/// Folders of the clients in other languages that hold what was built or fetched.
const BUILT: [&str; 4] = ["build", "dist", "node_modules", "target"];

/// All files of the workspace that are kept in version control, more or less.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, File>,
}

impl Tree {
    /// What is on disk now, without hidden files and build folders.
    pub(crate) fn of_the_workspace() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("the tests stand in a folder of the workspace");
        let mut tree = Self::default();
        tree.add_folder(root, "");
        assert!(tree.has("Cargo.toml"), "{} is no workspace", root.display());
        tree
    }

    /// A tree that a test makes up.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let named = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), File::new(path, text)));
        Self {
            files: named.collect(),
        }
    }

    fn add_folder(&mut self, folder: &Path, prefix: &str) {
        if folder.join("CACHEDIR.TAG").exists() {
            return;
        }
        for entry in fs::read_dir(folder).expect("the folder can be listed") {
            let entry = entry.expect("the folder can be listed");
            let name = entry.file_name().into_string().expect("names are UTF-8");
            let path = format!("{prefix}{name}");
            // What a program writes follows its own rules.
            let is_written = path == "server/delayq-proto/generated";
            if name.starts_with('.') || path == "target" || is_written {
                continue;
            }
            let kind = entry.file_type().expect("the folder can be listed");
            let is_built = prefix.starts_with("clients/") && BUILT.contains(&name.as_str());
            if kind.is_dir() {
                if is_built {
                    continue;
                }
                self.add_folder(&entry.path(), &format!("{path}/"));
            } else if kind.is_file() {
                // A link is read where it leads.
                let text = fs::read_to_string(entry.path()).unwrap_or_default();
                self.files.insert(path.clone(), File { path, text });
            }
        }
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &File> {
        self.files.values()
    }

    pub(crate) fn get(&self, path: &str) -> Option<&File> {
        self.files.get(path)
    }

    /// Whether there is such a file, or a folder with one in it.
    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        let mut from = self.files.range(folder.clone()..);
        self.files.contains_key(path) || from.next().is_some_and(|(p, _)| p.starts_with(&folder))
    }
}

#[test]
fn a_comment_ends_the_code_of_a_line_but_a_url_does_not() {
    assert_eq!(without_comment("let a = 1; // why"), "let a = 1; ");
    assert_eq!(without_comment("/// docs"), "");
    assert_eq!(
        without_comment(r#"open("redis://h")"#),
        r#"open("redis://h")"#
    );
    assert_eq!(
        without_comment(r#"open("redis://h") // why"#),
        r#"open("redis://h") "#
    );
}

#[test]
fn a_folder_is_there_when_something_is_in_it() {
    let tree = Tree::of(&[("docs/a.md", ""), ("docs-b", "")]);
    assert!(tree.has("docs") && tree.has("docs/a.md") && !tree.has("doc") && !tree.has("docs/b"));
}
