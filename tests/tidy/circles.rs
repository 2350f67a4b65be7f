//! No circle among the files of a crate: each can be read before those that use it.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Path, is_test, paths, production};
use crate::tree::{File, Tree};

/// A module: the names on the way to it. The root of a crate has none.
type Module = Vec<String>;

/// The modules of a crate, one a file.
#[derive(Default)]
struct Modules<'a> {
    files: BTreeMap<Module, &'a File>,
    /// What a module takes from those below it, by its name there.
    reexported: BTreeMap<(Module, String), Module>,
}

/// Files that use each other, in a circle.
pub(crate) fn circles(tree: &Tree) -> Vec<String> {
    let mut crates: BTreeMap<&str, BTreeMap<Module, &File>> = BTreeMap::new();
    // The harnesses of proof/ are judged by what they find.
    let is_code = |file: &&File| {
        let is_product = !file.path.starts_with("proof/");
        is_product && file.has_extension("rs") && !is_test(file)
    };
    for file in tree.files().filter(is_code) {
        if let Some((name, path)) = file.path.split_once("/src/") {
            let files = crates.entry(name).or_default();
            files.insert(module_of(path), file);
        }
    }
    crates.into_values().flat_map(circles_among).collect()
}

fn module_of(path: &str) -> Module {
    let path = path.trim_end_matches(".rs");
    let mut module: Module = path.split('/').map(str::to_owned).collect();
    if matches!(
        module.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        module.pop();
    }
    module
}

fn circles_among(files: BTreeMap<Module, &File>) -> Vec<String> {
    let mut modules = Modules {
        files,
        ..Modules::default()
    };
    let files = modules.files.iter();
    let read = files.map(|(module, file)| (module.clone(), paths(&production(file))));
    let read: Vec<(Module, Vec<Path>)> = read.collect();
    for (module, paths) in &read {
        for path in paths {
            modules.note_reexport(module, path);
        }
    }
    let edges = read.iter().map(|(module, paths)| {
        let used = paths
            .iter()
            .filter_map(|path| modules.used_by(module, path));
        (module, used.collect())
    });
    let edges: Edges<'_> = edges.collect();
    let mut found = Vec::new();
    let mut told: BTreeSet<&Module> = BTreeSet::new();
    for (module, file) in &modules.files {
        let mut ring = reached(&edges, module);
        if !ring.contains(module) || told.contains(module) {
            continue;
        }
        ring.retain(|other| reached(&edges, other).contains(module));
        let names = ring.iter().filter_map(|other| modules.files.get(*other));
        let names: Vec<_> = names.map(|file| file.path.as_str()).collect();
        let names = names.join(", ");
        found.push(file.at(
            1,
            format!("open the circle of files that use each other: {names}"),
        ));
        told.extend(ring);
    }
    found
}

/// What each module uses.
type Edges<'a> = BTreeMap<&'a Module, BTreeSet<&'a Module>>;

/// All that a module uses, and what that uses.
fn reached<'a>(edges: &Edges<'a>, from: &Module) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&Module> = edges.get(from).into_iter().flatten().copied().collect();
    while let Some(module) = next.pop() {
        if reached.insert(module) {
            next.extend(edges.get(module).into_iter().flatten());
        }
    }
    reached
}

impl Modules<'_> {
    fn note_reexport(&mut self, own: &Module, path: &Path) {
        let Some((name, below)) = path.names.split_last() else {
            return;
        };
        let names = match below {
            [first, rest @ ..] if first == "self" => rest,
            all => all,
        };
        let child: Module = own.iter().chain(names).cloned().collect();
        if names.is_empty() || !self.files.contains_key(&child) {
            return;
        }
        let name = path.alias.clone().unwrap_or_else(|| name.clone());
        self.reexported.insert((own.clone(), name), child);
    }

    /// The module that a path of `own` leads to, unless it is `own`, stands above it, or is below
    /// it: a module and its parts are one.
    fn used_by(&self, own: &Module, path: &Path) -> Option<&Module> {
        let (mut names, mut at) = match path.names.as_slice() {
            [first, rest @ ..] if first == "crate" => (rest, Module::new()),
            all @ [first, ..] if first == "super" => (all, own.clone()),
            _ => return None,
        };
        while let [first, rest @ ..] = names
            && first == "super"
        {
            at.pop();
            names = rest;
        }
        for name in names {
            let mut below = at.clone();
            below.push(name.clone());
            if self.files.contains_key(&below) {
                at = below;
            } else if let Some(source) = self.reexported.get(&(at.clone(), name.clone())) {
                at.clone_from(source);
            } else {
                break;
            }
        }
        let (module, _) = self.files.get_key_value(&at)?;
        (!own.starts_with(module) && !module.starts_with(own)).then_some(module)
    }
}

#[test]
fn a_circle_is_found_in_every_form() {
    let lib = (
        "delayq-core/src/lib.rs",
        "mod a;\nmod b;\nmod c;\npub(crate) use c::C;\n",
    );
    for (a, b) in [
        ("use crate::b::B;", "use crate::a::A;"),
        ("use super::{b::B};", "fn b() { crate::a::a() }"),
        ("use crate::C;", "use crate::a::A;"),
    ] {
        let files = [
            lib,
            ("delayq-core/src/a.rs", a),
            ("delayq-core/src/b.rs", b),
            ("delayq-core/src/c.rs", "use crate::b::B;"),
        ];
        let found = circles(&Tree::of(&files));
        assert_eq!(found.len(), 1, "{a} {b}: {found:?}");
        assert!(
            found[0].contains("delayq-core/src/a.rs, delayq-core/src/b.rs"),
            "{found:?}"
        );
    }
    let parts = [
        ("delayq-core/src/a.rs", "mod b;\nuse b::B;\nstruct A;"),
        (
            "delayq-core/src/a/b.rs",
            "use super::A;\n#[cfg(test)]\nmod tests { use crate::a::c::C; }",
        ),
        ("delayq-core/src/a/c.rs", "use super::B;"),
    ];
    assert_eq!(circles(&Tree::of(&parts)), [""; 0]);
}
