//! Links in Markdown files lead to files and headings that exist, and the guide lists its pages.

use crate::tree::{File, Tree};

pub(crate) fn links(tree: &Tree) -> Vec<String> {
    let documents = tree.files().filter(|file| file.has_extension("md"));
    let mut found = Vec::new();
    for document in documents {
        for (line, target) in targets(&document.text) {
            if let Some(what) = broken(tree, document, target) {
                found.push(document.at(line, what));
            }
        }
    }
    found
}

/// The table of contents of the book, and the index of the guide.
const SUMMARY: &str = "docs/SUMMARY.md";
const GUIDE: &str = "docs/guide/README.md";

/// Pages that the table of contents of the book, or the index of the guide, does not list.
pub(crate) fn summary(tree: &Tree) -> Vec<String> {
    let lists = [(SUMMARY, "docs/"), (GUIDE, "docs/guide/")];
    let left_out = lists.map(|(list, folder)| left_out(tree, list, folder));
    left_out.concat()
}

const README: &str = "README.md";
/// The addresses that its links have on docs.rs, where it is the page of the plugin.
const ADDRESSES: &str = "delayq-plugin/src/links.md";
/// A newcomer reads it whole; what is longer belongs to the guide.
const README_LINES: usize = 200;
/// What a newcomer runs first.
const FIRST_COMMANDS: [&str; 2] = ["cargo run --example order_timeout", "cargo xtask test"];

/// A README that is too long, that lacks a first command, or whose links lead nowhere on docs.rs.
pub(crate) fn readme(tree: &Tree) -> Vec<String> {
    let text = |path: &str| tree.get(path).map_or("", |file| &file.text);
    let (readme, addresses) = (text(README), text(ADDRESSES));
    let lines = readme.lines().count();
    let too_long = (lines > README_LINES)
        .then(|| format!("{README} has {lines} lines, {README_LINES} at most: use the guide"));
    let is_missing = |command: &&str| !readme.contains(*command);
    let missing = FIRST_COMMANDS.into_iter().filter(is_missing);
    let missing = missing.map(|command| format!("{README} lacks `{command}`"));
    let labels = readme.lines().filter_map(|line| line.split_once("]: "));
    let has_no_address = |label: &&str| {
        label.starts_with('[') && !addresses.contains(&format!("{label}]: https://"))
    };
    let without = labels.map(|(label, _)| label).filter(has_no_address);
    let without = without.map(|label| format!("{ADDRESSES} has no address of {label}]"));
    too_long.into_iter().chain(missing).chain(without).collect()
}

/// Pages in `folder` that `list` does not name.
fn left_out(tree: &Tree, list: &str, folder: &str) -> Vec<String> {
    let Some(contents) = tree.get(list) else {
        return vec![format!("{list} is missing: write it")];
    };
    let targets = targets(&contents.text).into_iter();
    let listed: Vec<_> = targets
        .filter_map(|(_, target)| resolved(list, target))
        .collect();
    let is_left_out = |file: &&File| {
        let is_page = file.path.starts_with(folder) && file.has_extension("md");
        is_page && file.path != list && !listed.contains(&file.path)
    };
    let what = |file: &File| format!("{}: not in {list}: list it where it is read", file.path);
    tree.files().filter(is_left_out).map(what).collect()
}

/// The targets of `[text](target)` and `[text]: target` outside code, with their lines.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut targets = Vec::new();
    for (number, line) in prose(text) {
        // Every second part between backticks is code.
        for part in line.split('`').step_by(2) {
            let inline = part
                .split("](")
                .skip(1)
                .filter_map(|rest| rest.split([')', ' ']).next());
            targets.extend(inline.map(|target| (number, target)));
        }
        if line.starts_with('[')
            && let Some((label, target)) = line.split_once("]: ")
            && !label.contains(']')
        {
            targets.push((number, target.trim()));
        }
        // `[`code`](target)`: the bracket closes behind the code.
        let code = line
            .split("`](")
            .skip(1)
            .filter_map(|rest| rest.split([')', ' ']).next());
        targets.extend(code.map(|target| (number, target)));
    }
    targets.dedup();
    targets
}

/// The lines outside fenced code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        (!in_code && !is_fence).then_some((index + 1, line))
    })
}

/// What is wrong with a link from `document` to `target`, if it is one within the workspace.
fn broken(tree: &Tree, document: &File, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") || target.is_empty() {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() {
        document.path.clone()
    } else {
        resolved(&document.path, path)?
    };
    if !path.is_empty() && !tree.has(&path) {
        return Some(format!(
            "the link to {target} leads nowhere: there is no {path}"
        ));
    }
    let linked = tree.get(&path).filter(|file| file.has_extension("md"))?;
    let missing = !anchor.is_empty() && !prose(&linked.text).any(|(_, line)| slug(line) == anchor);
    missing.then(|| format!("the link to {target} leads nowhere: {path} has no such heading"))
}

/// `target` from the folder of `document`; what is outside the workspace is not looked at.
fn resolved(document: &str, target: &str) -> Option<String> {
    let mut parts: Vec<_> = document.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    // Hidden files are not in the tree.
    (!parts.iter().any(|part| part.starts_with('.'))).then(|| parts.join("/"))
}

/// The anchor that a heading gets; empty for a line that is none.
fn slug(line: &str) -> String {
    let heading = line.trim_start_matches('#');
    if heading.len() == line.len() {
        return String::new();
    }
    let kept = heading
        .trim()
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn a_link_to_nothing_is_found() {
    let readme = "# Why it is\n\n[a](docs/a.md) [b](docs/b.md#x)\n[d]: docs/d.md\n";
    let tree = Tree::of(&[
        ("README.md", readme),
        ("docs/a.md", "[up](../README.md#nowhere)"),
    ]);
    assert_eq!(
        links(&tree),
        [
            "README.md:3: the link to docs/b.md#x leads nowhere: there is no docs/b.md",
            "README.md:4: the link to docs/d.md leads nowhere: there is no docs/d.md",
            "docs/a.md:1: the link to ../README.md#nowhere leads nowhere: README.md has no such heading",
        ]
    );
}

#[test]
fn links_to_the_web_to_folders_to_headings_and_in_code_are_fine() {
    let readme = "# What it is: *delayq*\n\n[w](https://a.b/c) [d](docs/) [h](#what-it-is-delayq)\n\
                  `[c](nothing.md)` ![p](docs/p.svg \"title\")\n```md\n[c](nothing.md)\n```\n";
    let tree = Tree::of(&[("README.md", readme), ("docs/p.svg", "")]);
    assert_eq!(links(&tree), [""; 0]);
}

#[test]
fn a_link_whose_text_is_code_is_looked_at() {
    let tree = Tree::of(&[("README.md", "see [`a`](a.md)\n")]);
    assert_eq!(links(&tree).len(), 1);
}

#[test]
fn a_page_that_the_summary_leaves_out_is_found() {
    let contents =
        "# Summary\n\n[Guide](guide/README.md)\n\n- [A](guide/a.md)\n- `[B](guide/b.md)`\n";
    let tree = Tree::of(&[
        (SUMMARY, contents),
        (GUIDE, "[B](b.md)"),
        ("docs/guide/a.md", ""),
        ("docs/guide/b.md", ""),
        ("docs/guide/b.svg", ""),
        ("README.md", ""),
    ]);
    let left_out = [
        "docs/guide/b.md: not in docs/SUMMARY.md: list it where it is read",
        "docs/guide/a.md: not in docs/guide/README.md: list it where it is read",
    ];
    assert_eq!(summary(&tree), left_out);
    let missing = summary(&Tree::of(&[("docs/guide/a.md", "")]));
    assert_eq!(
        missing,
        [SUMMARY, GUIDE].map(|list| format!("{list} is missing: write it"))
    );
}

#[test]
fn a_readme_that_is_long_or_lacks_a_command_or_an_address_is_found() {
    let tree =
        |readme: &str, addresses: &str| Tree::of(&[(README, readme), (ADDRESSES, addresses)]);
    let good = "cargo run --example order_timeout\ncargo xtask test\n[a]: a.md\n";
    assert_eq!(readme(&tree(good, "[a]: https://b/a.md")), [""; 0]);
    let bad = "cargo run --example order_timeout\n[a]: a.md\n".to_owned() + &"\n".repeat(199);
    let found = [
        "README.md has 201 lines, 200 at most: use the guide",
        "README.md lacks `cargo xtask test`",
        "delayq-plugin/src/links.md has no address of [a]",
    ];
    assert_eq!(readme(&tree(&bad, "")), found);
}
