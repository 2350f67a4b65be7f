//! Rules about which files there are.

use std::path::Path;

use crate::tree::{File, Tree};

/// Names that say nothing about what is in a file, so that everything ends up there.
const FORBIDDEN: [&str; 9] = [
    "common",
    "helper",
    "helpers",
    "misc",
    "prelude",
    "types",
    "util",
    "utilities",
    "utils",
];

/// What somebody looks for in an unknown project.
const REQUIRED: [&str; 9] = [
    ".ci/run",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "Cargo.lock",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "clippy.toml",
    "deny.toml",
];

pub(crate) fn name(file: &File) -> Vec<String> {
    if !file.has_extension("rs") && !file.has_extension("lua") {
        return Vec::new();
    }
    let path = file.path.trim_end_matches(".rs").trim_end_matches(".lua");
    let bad = path.split('/').find(|part| FORBIDDEN.contains(part));
    let what = |bad| format!("{}: `{bad}` is no noun: name what is in it", file.path);
    bad.map(what).into_iter().collect()
}

pub(crate) fn required(tree: &Tree) -> Vec<String> {
    let on_disk = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests stand in a folder of the workspace");
    // Hidden files are not in the tree.
    let is_missing = |path: &&str| {
        let is_there = tree.has(path) || (path.starts_with('.') && on_disk.join(path).exists());
        !is_there
    };
    let missing = REQUIRED.into_iter().filter(is_missing);
    missing
        .map(|path| format!("{path} is missing: write it"))
        .collect()
}

/// Packages that stand for somebody's application, outside the workspace.
const FIXTURES: &str = "tests/fixtures/";

/// Every folder with a Cargo.toml, but for fixtures, is a member of the workspace, or is excluded from it and a
/// workspace of its own with the same lints. All use these lints.
pub(crate) fn packages(tree: &Tree) -> Vec<String> {
    let workspace = tree.get("Cargo.toml").map_or("", |file| &file.text);
    let mut found = Vec::new();
    let ours = |file: &&File| !file.path.starts_with(FIXTURES);
    for file in tree.files().filter(ours) {
        let Some(package) = file.path.strip_suffix("/Cargo.toml") else {
            continue;
        };
        if listed(workspace, "exclude").any(|excluded| excluded == package) {
            if lints_of_workspace(&file.text) != lints_of_workspace(workspace) {
                let what = "give its `[workspace.lints]` those of /Cargo.toml";
                found.push(format!("{}: {what}", file.path));
            }
        } else if !listed(workspace, "members").any(|member| member == package) {
            found.push(format!(
                "{}: not in `members` of /Cargo.toml: add it",
                file.path
            ));
        }
        if !uses_workspace_lints(&file.text) {
            let what = "add `[lints]` with `workspace = true`: the house rules hold everywhere";
            found.push(format!("{}: {what}", file.path));
        }
    }
    found
}

/// The strings of the list `name`.
fn listed<'a>(workspace: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let list = workspace
        .split_once(&format!("\n{name} = ["))
        .map_or("", |(_, rest)| rest);
    let list = list.split_once(']').map_or("", |(list, _)| list);
    list.split(',')
        .map(|member| member.trim().trim_matches('"'))
}

/// The lines of the tables `[workspace.lints..]`.
fn lints_of_workspace(manifest: &str) -> Vec<&str> {
    let mut is_lint = false;
    let lines = manifest.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let of_lints = |line: &&str| {
        if line.starts_with('[') {
            is_lint = line.starts_with("[workspace.lints");
        }
        is_lint
    };
    lines.filter(of_lints).collect()
}

fn uses_workspace_lints(manifest: &str) -> bool {
    let mut lines = manifest
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != "[lints]")
        .skip(1);
    lines.find(|line| !line.is_empty()) == Some("workspace = true")
}

#[test]
fn a_file_or_folder_that_is_named_after_nothing_is_found() {
    for path in ["a/src/util.rs", "a/src/common/mod.rs", "a/lua/helpers.lua"] {
        assert_eq!(name(&File::new(path, "")).len(), 1, "{path}");
    }
    for path in ["a/src/utility_bill.rs", "a/src/time.rs", "docs/types.md"] {
        assert!(name(&File::new(path, "")).is_empty(), "{path}");
    }
}

#[test]
fn a_missing_document_is_found() {
    let missing = required(&Tree::of(&[("README.md", "")]));
    assert!(
        missing.contains(&"LICENSE-MIT is missing: write it".to_owned()),
        "{missing:?}"
    );
    assert!(
        !missing.iter().any(|line| line.starts_with("README.md")),
        "{missing:?}"
    );
}

#[test]
fn a_package_outside_the_workspace_or_without_its_lints_is_found() {
    let workspace = "[workspace]\nmembers = [\"a\", \"b\"]\n";
    let linted = "[package]\n\n[lints]\nworkspace = true\n";
    let good = Tree::of(&[
        ("Cargo.toml", workspace),
        ("a/Cargo.toml", linted),
        ("tests/fixtures/app/Cargo.toml", ""),
    ]);
    assert_eq!(packages(&good), [""; 0]);
    let bad = Tree::of(&[
        ("Cargo.toml", workspace),
        ("b/Cargo.toml", "[package]\n[lints.rust]\n"),
        ("c/Cargo.toml", linted),
    ]);
    let found = packages(&bad);
    assert!(
        found[0].starts_with("b/Cargo.toml: add `[lints]`"),
        "{found:?}"
    );
    assert!(
        found[1].starts_with("c/Cargo.toml: not in `members`"),
        "{found:?}"
    );
    assert_eq!(found.len(), 2);
}

#[test]
fn an_excluded_package_with_lints_of_its_own_is_found() {
    let lints = "[workspace.lints.rust]\nmissing_docs = \"warn\"\n";
    let workspace =
        format!("[workspace]\nmembers = [\"a\"]\nexclude = [\"b\"]\n{lints}[profile.dev]\n");
    let own = "[workspace]\n[package]\n[lints]\nworkspace = true\n";
    let tree = |own: &str| Tree::of(&[("Cargo.toml", workspace.as_str()), ("b/Cargo.toml", own)]);
    assert_eq!(packages(&tree(&format!("{own}{lints}"))), [""; 0]);
    let found = packages(&tree(own));
    assert!(
        found[0].starts_with("b/Cargo.toml: give its `[workspace.lints]`"),
        "{found:?}"
    );
    assert_eq!(found.len(), 1);
}
