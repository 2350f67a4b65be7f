//! `cargo xtask publish`: the public crates of the workspace, each after those that it needs.

mod uploads;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::call::{Call, Failure};

/// What to do beside the checks.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Pack every crate, and publish none.
    #[arg(long)]
    dry_run: bool,
    /// Build each crate from its packed form, which takes as long as a build of everything.
    #[arg(long)]
    verify: bool,
    /// Only print the crates in their order.
    #[arg(long)]
    list: bool,
}

/// Checks what the registry asks for, then publishes one crate after the other. Those that are
/// published are left out, so that a repeat goes on where a run has ended.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let call = Call::new("cargo metadata --locked --no-deps --format-version 1");
    let metadata = call.output();
    let metadata = metadata.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let metadata = metadata.ok_or_else(|| Failure(format!("`{call}` has failed")))?;
    let crates = crates(&metadata);
    let mistakes: Vec<_> = crates.iter().flat_map(mistakes).collect();
    if !mistakes.is_empty() {
        return Err(Failure(mistakes.join("\n")));
    }
    let order = order(&crates)?;
    for name in &order {
        println!("  {name}");
    }
    if args.list {
        return Ok(());
    }
    let mut options = Vec::new();
    options.extend((!args.verify).then_some("--no-verify"));
    if args.dry_run {
        options.push("--dry-run");
        // In one call, as none is published yet: cargo takes them from each other.
        return packed(&order, &options).run();
    }
    let publish = |name: &String| packed(std::slice::from_ref(name), &options).told();
    uploads::all(&order, publish, uploads::wait)
}

fn packed(names: &[String], options: &[&str]) -> Call {
    let call = Call::new("cargo publish --locked");
    let call = names
        .iter()
        .fold(call, |call, name| call.word("--package").word(name));
    options.iter().fold(call, |call, option| call.word(*option))
}

/// A crate that others may use.
#[derive(Clone, Debug, Default)]
struct Crate {
    name: String,
    version: String,
    /// Texts that the registry shows, by their names; an empty one is missing.
    texts: BTreeMap<&'static str, String>,
    keywords: usize,
    /// Crates of this workspace that it cannot be built without, with the versions that it asks
    /// for.
    needs: BTreeMap<String, String>,
}

/// The crates of the workspace that are not kept from being published.
fn crates(metadata: &Value) -> Vec<Crate> {
    let packages = metadata.get("packages").and_then(Value::as_array);
    let packages = packages.into_iter().flatten();
    let public = packages.filter(|package| {
        let registries = package.get("publish").and_then(Value::as_array);
        registries.is_none_or(|registries| !registries.is_empty())
    });
    public.map(read).collect()
}

fn read(package: &Value) -> Crate {
    let text = |value: &Value, name: &str| {
        let text = value.get(name).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let list = |name: &str| package.get(name).and_then(Value::as_array);
    let dependencies = list("dependencies").into_iter().flatten();
    let needs = dependencies
        // Without a version, those of tests are left out of the packed form.
        .filter(|one| text(one, "kind") != "dev" || text(one, "req") != "*")
        .filter(|one| one.get("path").is_some_and(Value::is_string))
        .map(|one| (text(one, "name"), text(one, "req")));
    let names = ["description", "license", "readme", "repository"];
    Crate {
        name: text(package, "name"),
        version: text(package, "version"),
        texts: names.map(|name| (name, text(package, name))).into(),
        keywords: list("keywords").map_or(0, Vec::len),
        needs: needs.collect(),
    }
}

/// What the registry, or its readers, would miss.
fn mistakes(one: &Crate) -> Vec<String> {
    let name = &one.name;
    let mut found = Vec::new();
    for (field, text) in &one.texts {
        if text.is_empty() {
            found.push(format!("{name}: give `{field}` in its Cargo.toml"));
        }
    }
    if !(1..=5).contains(&one.keywords) {
        found.push(format!("{name}: give 1 to 5 `keywords`"));
    }
    if one.version != env!("CARGO_PKG_VERSION") {
        found.push(format!("{name}: take `version` from the workspace"));
    }
    for (needed, version) in &one.needs {
        if version.trim_start_matches('^') != one.version {
            let own = &one.version;
            found.push(format!(
                "{name}: it asks for {needed} {version}; write `version = \"{own}\"` beside its path"
            ));
        }
    }
    found
}

/// Their names, each after those that it needs.
fn order(crates: &[Crate]) -> Result<Vec<String>, Failure> {
    let public: BTreeSet<_> = crates.iter().map(|one| one.name.as_str()).collect();
    for one in crates {
        if let Some(hidden) = one
            .needs
            .keys()
            .find(|name| !public.contains(name.as_str()))
        {
            return Err(Failure(format!(
                "{} is public and needs {hidden}, which has `publish = false`",
                one.name
            )));
        }
    }
    let mut order: Vec<String> = Vec::new();
    while order.len() < crates.len() {
        let next = crates.iter().find(|one| {
            let is_there = |name: &String| order.contains(name);
            !is_there(&one.name) && one.needs.keys().all(is_there)
        });
        let circle = || Failure("the crates need each other in a circle".to_owned());
        order.push(next.ok_or_else(circle)?.name.clone());
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, needs: &Value) -> Value {
        json!({
            "name": name, "version": env!("CARGO_PKG_VERSION"), "publish": null,
            "description": "d", "license": "MIT", "readme": "README.md", "repository": "r",
            "keywords": ["queue"], "dependencies": needs,
        })
    }

    #[test]
    fn crates_come_after_those_that_they_need() {
        let version = concat!("^", env!("CARGO_PKG_VERSION"));
        let core = json!([{"name": "core", "req": version, "kind": null, "path": "/c"}]);
        let test = json!([{"name": "a", "req": "*", "kind": "dev", "path": "/a"}]);
        let mut hidden = package("hidden", &json!([]));
        hidden["publish"] = json!([]);
        let metadata = json!({"packages": [package("a", &core), package("core", &test), hidden]});
        let found = crates(&metadata);
        assert_eq!(order(&found).unwrap(), ["core", "a"]);
        assert_eq!(found.iter().flat_map(mistakes).collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn what_the_registry_would_refuse_is_told_before_it_is_asked() {
        let needs = json!([{"name": "hidden", "req": "*", "kind": null, "path": "/h"}]);
        let mut bad = package("bad", &needs);
        bad["readme"] = Value::Null;
        bad["keywords"] = json!([]);
        let metadata = json!({"packages": [bad]});
        let found = crates(&metadata);
        let said: Vec<_> = found.iter().flat_map(mistakes).collect();
        assert!(said[0].contains("`readme`"), "{said:?}");
        assert!(said[1].contains("keywords"), "{said:?}");
        assert!(said[2].contains("asks for hidden *"), "{said:?}");
        assert!(order(&found).unwrap_err().0.contains("publish = false"));
    }

    #[test]
    fn every_public_crate_of_this_tree_can_be_published() {
        let args = Args {
            dry_run: true,
            verify: false,
            list: true,
        };
        run(&args).unwrap();
    }
}
