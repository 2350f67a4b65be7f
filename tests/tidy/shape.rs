//! One struct, one file, one `impl` block; no parameter without a name.

use std::collections::BTreeMap;

use crate::source::{first_word, inherent_impls, is_test, parameters, production};
use crate::tree::{File, Tree};

/// The crates of the product.
const PRODUCT: [&str; 19] = [
    "server/delayq-admin",
    "delayq-core",
    "stores/delayq-history",
    "stores/delayq-postgres",
    "stores/delayq-sqlite",
    "stores/delayq-redis",
    "stores/delayq-tiered",
    "stores/delayq-transaction",
    "delayq-macros",
    "delayq-plugin",
    "tools/delayq-endpoint",
    "tools/delayq-ops",
    "tools/delayq-testing",
    "tools/delayq-cli",
    "server/delayq-proto",
    "stores/delayq-remote",
    "server/delayq-server",
    "server/delayq-service",
    "server/delayq-fronts",
];

fn crate_of(file: &File) -> Option<&str> {
    let (name, _) = file.path.split_once("/src/")?;
    let is_source = PRODUCT.contains(&name) && !is_test(file);
    (is_source && file.has_extension("rs")).then_some(name)
}

/// The inherent methods of a type stand in one block, in the file that defines the type.
pub(crate) fn impls(tree: &Tree) -> Vec<String> {
    let mut blocks: BTreeMap<(&str, String), Vec<(&File, usize)>> = BTreeMap::new();
    for file in tree.files() {
        let Some(name) = crate_of(file) else { continue };
        for (line, implemented) in inherent_impls(&production(file)) {
            // A program writes these types.
            if implemented == "pb" {
                continue;
            }
            let blocks = blocks.entry((name, implemented)).or_default();
            blocks.push((file, line));
        }
    }
    let mut found = Vec::new();
    for ((_, implemented), blocks) in blocks {
        for (file, line) in &blocks {
            if !defines(file, &implemented) {
                let what =
                    format!("methods of {implemented}, which another file defines: move them");
                found.push(file.at(*line, what));
            }
        }
        for (file, line) in blocks.iter().skip(1) {
            let own = blocks.iter().filter(|(other, _)| other.path == file.path);
            if own.count() > 1 && defines(file, &implemented) {
                let what = format!("a second `impl {implemented}`: put its methods into the first");
                found.push(file.at(*line, what));
            }
        }
    }
    found
}

fn defines(file: &File, name: &str) -> bool {
    let mut lines = file.text.lines().map(str::trim_start);
    lines.any(|line| {
        ["struct ", "enum ", "union "].into_iter().any(|keyword| {
            let rest = line.split_once(keyword);
            rest.is_some_and(|(before, rest)| {
                let is_item = before.is_empty() || before.starts_with("pub");
                is_item && first_word(rest) == name
            })
        })
    })
}

/// A bundle of values has a name, or is not made.
pub(crate) fn tuples(file: &File) -> Vec<String> {
    if crate_of(file).is_none() {
        return Vec::new();
    }
    let code = production(file);
    let mut found = Vec::new();
    for (line, list) in parameters(&code) {
        let is_tuple = |colon: &str| {
            list.match_indices(colon).any(|(at, _)| {
                let of = list[at + colon.len()..].trim_start();
                !of.starts_with([')']) && !of.starts_with("impl ") && !of.starts_with("dyn ")
            })
        };
        if is_tuple(": (") || is_tuple(": &(") || is_tuple(": &mut (") {
            found.push(file.at(line, "a tuple as a parameter: give the bundle a name"));
        }
    }
    found
}

#[test]
fn methods_far_from_their_type_are_found() {
    let good = (
        "delayq-core/src/a.rs",
        "pub struct A;\nimpl A {\n}\nimpl B for A {\n}\n",
    );
    assert_eq!(impls(&Tree::of(&[good])), [""; 0]);
    let far = ("delayq-core/src/b.rs", "use crate::a::A;\nimpl A {\n}\n");
    assert_eq!(impls(&Tree::of(&[good, far])).len(), 1);
    let twice = (
        "delayq-core/src/a.rs",
        "pub struct A;\nimpl A {\n}\nimpl A {\n}\n",
    );
    assert_eq!(impls(&Tree::of(&[twice])).len(), 1);
    let test = ("delayq-core/src/a/tests.rs", "impl A {\n}\n");
    assert_eq!(impls(&Tree::of(&[good, test])), [""; 0]);
}

#[test]
fn a_tuple_parameter_is_found_and_a_tuple_answer_is_not() {
    let file = |text: &str| File::new("delayq-core/src/a.rs", text);
    for text in ["fn a((b, c): (u8, u8)) {}", "fn a(&self, b: &(u8, u8)) {}"] {
        assert_eq!(tuples(&file(text)).len(), 1, "{text}");
    }
    for text in [
        "fn a(b: u8) -> (u8, u8) {}",
        "fn a(b: impl Fn(u8) -> u8) {}",
        "fn a(b: ()) {}",
        "fn a(b: &(impl Debug + ?Sized)) {}",
    ] {
        assert_eq!(tuples(&file(text)), [""; 0], "{text}");
    }
}
