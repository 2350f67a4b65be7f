//! The crates that the programs are made of: what `cargo tree` resolves, with what `cargo metadata`
//! and `Cargo.lock` know of each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::call::{Call, Failure, root};

/// A crate.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The expression in SPDX form; empty if it has only a file.
    pub(crate) licence: String,
    pub(crate) authors: Vec<String>,
    pub(crate) repository: Option<String>,
    pub(crate) description: Option<String>,
    /// The folder of its source.
    pub(crate) folder: PathBuf,
    /// Of the registry's archive; `None` for a crate of this workspace.
    pub(crate) checksum: Option<String>,
    /// Names and versions of the crates that it uses.
    pub(crate) uses: Vec<Id>,
}

/// Name and version.
pub(crate) type Id = (String, String);

impl Package {
    pub(crate) fn id(&self) -> Id {
        (self.name.clone(), self.version.clone())
    }

    /// Whether it is one of this workspace.
    pub(crate) fn is_own(&self) -> bool {
        self.checksum.is_none()
    }
}

/// Reads the crates of both programs for `target`, sorted by name and version.
///
/// # Errors
/// cargo cannot tell them.
pub(crate) fn read(target: &str, features: Option<&str>) -> Result<Vec<Package>, Failure> {
    let with_features = |call: Call| match features {
        Some(features) => call.word("--features").word(features),
        None => call,
    };
    let tree = "cargo tree --locked --package delayq-server --package delayq-cli --edges normal \
                --prefix none --format {p} --target";
    let tree = with_features(Call::new(tree).word(target));
    let lines = tree.output();
    let lines = lines.ok_or_else(|| Failure(format!("`{tree}` has failed")))?;
    let used: BTreeSet<Id> = lines.lines().filter_map(id).collect();
    let call = "cargo metadata --locked --format-version 1 --filter-platform";
    let call = with_features(Call::new(call).word(target));
    let metadata = call.output();
    let metadata = metadata.ok_or_else(|| Failure(format!("`{call}` has failed")))?;
    let metadata: Value = serde_json::from_str(&metadata)
        .map_err(|error| Failure(format!("`{call}` gives no JSON: {error}")))?;
    let lock = std::fs::read_to_string(root().join("Cargo.lock"))?;
    let packages = described(&metadata, &checksums(&lock), &used);
    if packages.len() != used.len() {
        let known: BTreeSet<_> = packages.iter().map(Package::id).collect();
        let unknown: Vec<_> = used.difference(&known).collect();
        return Err(Failure(format!("`{call}` does not know {unknown:?}")));
    }
    Ok(packages)
}

/// Name and version in `serde v1.0.228 (proc-macro) (*)`.
fn id(line: &str) -> Option<Id> {
    let mut words = line.split_whitespace();
    let name = words.next()?;
    let version = words.next()?.strip_prefix('v')?;
    Some((name.to_owned(), version.to_owned()))
}

/// The checksums of a lock file.
fn checksums(lock: &str) -> BTreeMap<Id, String> {
    let field = |block: &str, name: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim_matches([' ', '=', '"']).to_owned())
    };
    let blocks = lock.split("[[package]]");
    let found = blocks.filter_map(|block| {
        let id = (field(block, "name ")?, field(block, "version ")?);
        Some((id, field(block, "checksum ")?))
    });
    found.collect()
}

fn described(
    metadata: &Value,
    checksums: &BTreeMap<Id, String>,
    used: &BTreeSet<Id>,
) -> Vec<Package> {
    let list = |value: &Value, name: &str| value.get(name).and_then(Value::as_array).cloned();
    let packages = list(metadata, "packages").unwrap_or_default();
    let ids: BTreeMap<String, Id> = packages
        .iter()
        .filter_map(|package| Some((text(package, "id")?, of(package)?)))
        .collect();
    let nodes = metadata.get("resolve").and_then(|all| list(all, "nodes"));
    let nodes = nodes.unwrap_or_default();
    let edges_of: BTreeMap<String, Vec<Id>> = nodes
        .iter()
        .filter_map(|node| {
            let edges = list(node, "deps").unwrap_or_default();
            let edges = edges.iter().filter(|edge| is_normal(edge));
            let named = edges.filter_map(|edge| ids.get(&text(edge, "pkg")?).cloned());
            let named = named.filter(|id| used.contains(id));
            Some((text(node, "id")?, named.collect()))
        })
        .collect();
    let found = packages.iter().filter_map(|package| {
        let id = of(package).filter(|id| used.contains(id))?;
        let manifest = text(package, "manifest_path")?;
        let authors = list(package, "authors").unwrap_or_default();
        let authors = authors.iter().filter_map(Value::as_str).map(str::to_owned);
        Some(Package {
            licence: text(package, "license").unwrap_or_default(),
            authors: authors.collect(),
            repository: text(package, "repository"),
            description: text(package, "description"),
            folder: Path::new(&manifest).parent()?.to_owned(),
            checksum: checksums.get(&id).cloned(),
            uses: edges_of
                .get(&text(package, "id")?)
                .cloned()
                .unwrap_or_default(),
            name: id.0,
            version: id.1,
        })
    });
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(Package::id);
    found
}

/// Whether an edge of the graph is of the program, and not of a build script or a test alone.
fn is_normal(edge: &Value) -> bool {
    let kinds = edge.get("dep_kinds").and_then(Value::as_array);
    let mut kinds = kinds.into_iter().flatten();
    kinds.any(|kind| kind.get("kind").is_some_and(Value::is_null))
}

fn of(package: &Value) -> Option<Id> {
    Some((text(package, "name")?, text(package, "version")?))
}

fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name)?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{checksums, id};

    #[test]
    fn a_line_of_the_tree_and_a_lock_file_are_read() {
        let named = |name: &str, version: &str| Some((name.to_owned(), version.to_owned()));
        assert_eq!(id("serde v1.0.228 (*)"), named("serde", "1.0.228"));
        let own = "delayq-core v0.1.0 (/home/me/delayq/delayq-core)";
        assert_eq!(id(own), named("delayq-core", "0.1.0"));
        assert_eq!(id(""), None);
        let lock = "[[package]]\nname = \"own\"\nversion = \"1.0.0\"\n\n[[package]]\n\
                    name = \"a\"\nversion = \"2.0.0\"\nsource = \"x\"\nchecksum = \"9f\"\n";
        let found: Vec<_> = checksums(lock).into_iter().collect();
        let a = ("a".to_owned(), "2.0.0".to_owned());
        assert_eq!(found, [(a, "9f".to_owned())]);
    }
}
