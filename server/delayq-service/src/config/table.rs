//! Test: the option table in the guide matches the code.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Config, NamespaceConfig};

const GUIDE: &str = include_str!("../../../../docs/guide/server.md");

/// All options by dotted name, with their defaults as written in the guide.
fn options() -> BTreeMap<String, String> {
    let config = Config {
        pools: [("NAME".to_owned(), String::new())].into(),
        namespaces: [("NAME".to_owned(), NamespaceConfig::default())].into(),
        lmstfy: serde_json::from_value(serde_json::json!({
            "accounts": {"NAME": ""}, "pools": {"NAME": ""}
        }))
        .unwrap(),
        service: serde_json::from_value(serde_json::json!({
            "static": {"TYPE": []}, "dns": {"TYPE": []},
        }))
        .unwrap(),
        push: serde_json::from_value(serde_json::json!({"kafka": {"NAME": {}}})).unwrap(),
        ..Config::default()
    };
    let mut options = BTreeMap::new();
    flatten("", &serde_json::to_value(config).unwrap(), &mut options);
    options
}

fn flatten(name: &str, value: &Value, options: &mut BTreeMap<String, String>) {
    let default = match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let dot = if name.is_empty() { "" } else { "." };
                flatten(&format!("{name}{dot}{field}"), value, options);
            }
            return;
        }
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(list) if list.is_empty() => String::new(),
        other => other.to_string(),
    };
    options.insert(name.to_owned(), default);
}

/// The rows of the table under the heading `Configuration`: option and default.
fn documented() -> BTreeMap<String, String> {
    let (_, part) = GUIDE.split_once("\n## Configuration\n").unwrap();
    let part = part.split("\n## ").next().unwrap();
    let rows = part.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        assert!(cells.len() == 5 && !cells[3].is_empty(), "{row}");
        let plain = |cell: &str| cell.trim_matches('`').to_owned();
        (plain(cells[1]), plain(cells[2]))
    })
    .collect()
}

#[test]
fn the_table_of_the_guide_has_every_option_with_its_default() {
    assert_eq!(documented(), options());
}
