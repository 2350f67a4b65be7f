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
const REQUIRED: [&str; 12] = [
    ".ci/run",
    ".github/workflows/ci.yml",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SECURITY.md",
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

/// Members of the workspace that its README does not name.
pub(crate) fn unnamed(tree: &Tree) -> Vec<String> {
    let text = |path: &str| tree.get(path).map_or("", |file| &file.text);
    let (readme, workspace) = (text("README.md"), text("Cargo.toml"));
    let is_named = |member: &&str| readme.contains(&format!("`{member}`"));
    // Those in a folder of another one go by its name.
    let unnamed =
        listed(workspace, "members").filter(|member| !member.contains('/') && !is_named(member));
    unnamed
        .map(|member| format!("README.md: `{member}` is not in the table of the workspace"))
        .collect()
}

/// Packages that stand for somebody's application, with lints of its own.
const FIXTURES: &str = "tests/fixtures/";

/// Every folder with a Cargo.toml, but for fixtures, is a member of the workspace, or stands in a
/// folder that is excluded from it: a workspace of its own with the same lints, which this rule
/// holds for, too. All packages use the lints of their workspace.
pub(crate) fn packages(tree: &Tree) -> Vec<String> {
    let lints = tree
        .get("Cargo.toml")
        .map(|file| lints_of_workspace(&file.text));
    let mut found = Vec::new();
    let mut roots = vec![String::new()];
    while let Some(root) = roots.pop() {
        let Some(workspace) = tree.get(&format!("{root}Cargo.toml")) else {
            found.push(format!(
                "{root}Cargo.toml: excluded from the workspace, and not there"
            ));
            continue;
        };
        if lints.as_ref() != Some(&lints_of_workspace(&workspace.text)) {
            let what = "give its `[workspace.lints]` those of /Cargo.toml";
            found.push(format!("{}: {what}", workspace.path));
        }
        let excluded: Vec<_> = listed(&workspace.text, "exclude").collect();
        roots.extend(excluded.iter().map(|folder| format!("{root}{folder}/")));
        for file in tree.files() {
            let package = file.path.strip_suffix("/Cargo.toml");
            let Some(package) = package.and_then(|path| path.strip_prefix(&root)) else {
                continue;
            };
            let is_elsewhere = |folder: &&str| {
                let rest = package.strip_prefix(*folder);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            if excluded.iter().any(is_elsewhere) || file.path.starts_with(FIXTURES) {
                continue;
            }
            if !listed(&workspace.text, "members").any(|member| member == package) {
                let what = format!("not in `members` of /{root}Cargo.toml: add it");
                found.push(format!("{}: {what}", file.path));
            }
            if !uses_workspace_lints(&file.text) {
                let what = "add `[lints]` with `workspace = true`: the house rules hold everywhere";
                found.push(format!("{}: {what}", file.path));
            }
        }
        let is_package = workspace.text.contains("\n[package]");
        if is_package && !uses_workspace_lints(&workspace.text) {
            let what = "add `[lints]` with `workspace = true`: the house rules hold everywhere";
            found.push(format!("{}: {what}", workspace.path));
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
    let names = list.split(',').map(|name| name.trim().trim_matches('"'));
    names.filter(|name| !name.is_empty())
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
fn a_member_of_the_workspace_that_the_readme_does_not_name_is_found() {
    let tree = Tree::of(&[
        ("Cargo.toml", "[workspace]\nmembers = [\"a\", \"b\"]\n"),
        ("README.md", "| `a` | the first |\n"),
    ]);
    let unnamed_b = "README.md: `b` is not in the table of the workspace";
    assert_eq!(unnamed(&tree), [unnamed_b]);
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
