//! The floors of delayq-core: a module uses only what stands above it.

use crate::tree::{File, Tree};

const SOURCES: &str = "delayq-core/src/";

/// The modules, highest floor first. A new module takes its place here.
const FLOORS: [&str; 13] = [
    "time", "state", "error", "name", "retry", "fleet", "task", "job", "worker", "registry",
    "extract", "private", "store",
];

/// The stores, all on the lowest floor: none knows another.
const STORES: [&str; 3] = ["memory", "sqlite", "redis"];

/// Floors without a module, and stores without a folder or file: the rules would look at nothing.
pub(crate) fn missing(tree: &Tree) -> Vec<String> {
    let floors = FLOORS.iter().map(|floor| format!("{SOURCES}{floor}"));
    let stores = STORES.iter().map(|store| format!("{SOURCES}store/{store}"));
    let places = floors.chain(stores);
    let gone = places.filter(|place| !tree.has(place) && !tree.has(&format!("{place}.rs")));
    gone.map(|place| format!("{place} does not exist: take it off the list"))
        .collect()
}

/// Inside a file, the tests may use what they like.
fn production(file: &File) -> String {
    let end = file
        .text
        .find("#[cfg(test)]\nmod ")
        .unwrap_or(file.text.len());
    let production = File::new(&file.path, &file.text[..end]);
    production
        .code()
        .map(|(_, line)| line)
        .collect::<Vec<_>>()
        .join(
            "
",
        )
}

pub(crate) fn modules(file: &File) -> Vec<String> {
    let Some(own) = module_of(file) else {
        return Vec::new();
    };
    let floor = |name: &str| FLOORS.iter().position(|floor| *floor == name);
    let Some(own_floor) = floor(own) else {
        let what = format!("{own} has no floor: give it one in FLOORS of tests/tidy/floors.rs");
        return vec![file.at(1, what)];
    };
    let mut found = Vec::new();
    for (line, used) in used_modules(&production(file)) {
        let is_above = floor(&used).map(|floor| floor < own_floor);
        if used == own || is_above == Some(true) {
            continue;
        }
        found.push(file.at(
            line,
            match is_above {
                None => {
                    format!("crate::{used}: name the module that it comes from, or give it a floor")
                }
                Some(_) => {
                    format!("{own} uses {used}, which stands below it: move what it needs up")
                }
            },
        ));
    }
    found
}

/// The module at the crate's root that `file` belongs to; none for lib.rs, which shows all of them.
fn module_of(file: &File) -> Option<&str> {
    let path = file.path.strip_prefix(SOURCES)?.strip_suffix(".rs")?;
    let module = path.split('/').next()?;
    (module != "lib").then_some(module)
}

/// What follows each `crate::`, with its line.
fn used_modules(code: &str) -> Vec<(usize, String)> {
    let mut used = Vec::new();
    for (start, path) in code.match_indices("crate::") {
        let line = code[..start].matches('\n').count() + 1;
        let rest = &code[start + path.len()..];
        let names = match rest.strip_prefix('{') {
            Some(list) => first_names(list),
            None => vec![first_word(rest)],
        };
        used.extend(names.into_iter().map(|name| (line, name)));
    }
    used
}

/// The first name of each path in `a::{b, c}, d::e}`.
fn first_names(list: &str) -> Vec<String> {
    let mut names = Vec::new();
    let (mut depth, mut begin) = (0, 0);
    for (at, symbol) in list.char_indices() {
        match symbol {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.push(first_word(list[begin..at].trim()));
                begin = at + 1;
                if symbol == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn first_word(text: &str) -> String {
    text.chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

pub(crate) fn stores(file: &File) -> Vec<String> {
    let Some(path) = file.path.strip_prefix("delayq-core/src/store/") else {
        return Vec::new();
    };
    let own = path.trim_end_matches(".rs").split('/').next();
    let mut found = Vec::new();
    for (index, line) in production(file).lines().enumerate() {
        for store in STORES.into_iter().filter(|store| Some(*store) != own) {
            let is_named =
                |path: &str| line.contains(path) && !line.trim_start().starts_with("pub mod");
            if is_named(&format!("store::{store}")) || is_named(&format!("super::{store}::")) {
                let what = format!("the {store} store: move what is shared up into the contract");
                found.push(file.at(index + 1, what));
            }
        }
    }
    found
}

#[test]
fn a_use_of_a_lower_floor_is_found_in_every_form() {
    for text in [
        "use crate::store::Store;\n",
        "use crate::{error::Error, store::{self, Lock}};\n",
        "fn a() {}\n\nfn b() { crate::store::c(); }\n",
    ] {
        let found = modules(&File::new("delayq-core/src/task.rs", text));
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(
            found[0].contains("task uses store, which stands below it"),
            "{found:?}"
        );
    }
    let third = File::new(
        "delayq-core/src/task.rs",
        "\n\nuse crate::worker::TaskWorker;\n",
    );
    assert!(modules(&third)[0].starts_with("delayq-core/src/task.rs:3: "));
}

#[test]
fn a_use_of_a_higher_floor_is_fine_and_so_are_tests_and_comments() {
    let text = "//! [`crate::store`]\nuse crate::{name::TaskId, time::{Clock, Timestamp}};\n\n\
                pub(crate) fn a() {}\n\n#[cfg(test)]\nmod tests {\n    use crate::store::Store;\n}\n";
    assert_eq!(
        modules(&File::new("delayq-core/src/task.rs", text)),
        [""; 0]
    );
    assert_eq!(
        modules(&File::new("delayq-core/src/store/edge.rs", text)),
        [""; 0]
    );
    assert_eq!(
        modules(&File::new(
            "delayq-core/src/lib.rs",
            "pub use crate::store::Store;"
        )),
        [""; 0]
    );
    assert_eq!(
        modules(&File::new(
            "delayq-plugin/src/run.rs",
            "use crate::held::Held;"
        )),
        [""; 0]
    );
}

#[test]
fn a_module_without_a_floor_is_found_by_name_and_in_use() {
    assert!(modules(&File::new("delayq-core/src/cron.rs", ""))[0].contains("cron has no floor"));
    let found = modules(&File::new("delayq-core/src/job.rs", "use crate::Error;\n"));
    assert!(
        found[0].contains("crate::Error: name the module"),
        "{found:?}"
    );
}

#[test]
fn a_store_that_knows_another_is_found() {
    let text = "use crate::store::memory::Bucket;\n";
    assert_eq!(
        stores(&File::new("delayq-core/src/store/redis/mod.rs", text)).len(),
        1
    );
    assert_eq!(
        stores(&File::new("delayq-core/src/store/edge.rs", text)).len(),
        1
    );
    assert_eq!(
        stores(&File::new("delayq-core/src/store/memory/claim.rs", text)),
        [""; 0]
    );
    let super_path = "use super::memory::MemoryStore;\n";
    assert_eq!(
        stores(&File::new("delayq-core/src/store/sqlite.rs", super_path)).len(),
        1
    );
    let declared = "pub mod memory;\n";
    assert_eq!(
        stores(&File::new("delayq-core/src/store/mod.rs", declared)),
        [""; 0]
    );
}

#[test]
fn a_floor_without_a_module_is_found() {
    let gone = missing(&Tree::of(&[("delayq-core/src/time.rs", "")]));
    assert_eq!(gone.len(), FLOORS.len() + STORES.len() - 1, "{gone:?}");
}
