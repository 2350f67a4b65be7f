//! Tests over all options: the table in the guide matches the code, and every number has a range.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::numbers::{RANGES, check, is_meant, numbers_in};
use super::{Config, NamespaceConfig, TypeConfig};

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
        types: [("TYPES".to_owned(), TypeConfig::default())].into(),
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

/// A configuration in which every option that is a number is set.
fn full() -> Value {
    let limits = json!({"rate": 1, "max_pending": 1, "max_message_bytes": 1});
    let text = json!({
        "namespaces": {"NAME": {"limits": limits}},
        "limits": {"max_lock_expiries": 5, "token_rate": 1, "namespace": limits},
        "push": {"allow_ports": [22]},
        "history_buffer": 1 << 20,
    });
    let config: Config = serde_json::from_value(text).unwrap();
    serde_json::to_value(config).unwrap()
}

/// The options that are not set.
fn unset(name: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Null => vec![name.to_owned()],
        Value::Object(fields) => {
            let within = fields
                .iter()
                .flat_map(|(field, value)| unset(&format!("{name}.{field}"), value));
            within.collect()
        }
        _ => Vec::new(),
    }
}

/// Sets an option, and reads and checks the configuration.
fn with(option: &str, value: u64) -> Result<(), String> {
    let mut whole = full();
    let path = format!("/{}", option.replace('*', "NAME").replace('.', "/"));
    let place = whole.pointer_mut(&path).unwrap();
    *place = if place.is_array() {
        json!([value])
    } else {
        json!(value)
    };
    let config = serde_json::from_value(whole).map_err(|error| error.to_string())?;
    check(&config).map_err(|error| error.to_string())
}

#[test]
fn every_number_has_a_range_beyond_which_it_is_refused() {
    let whole = full();
    // Whatever else is not set is a place or a span, and no number.
    let mut unset = unset("", &whole);
    let is_place = |option: &String| {
        let ends = [
            "listen",
            "socket",
            "pool",
            "address",
            "_token",
            "_url",
            "history",
            "_retention",
            "_topic",
        ];
        let files = ["certificate", "key", "client_ca", "_file"];
        ends.iter().chain(&files).any(|end| option.ends_with(end))
    };
    unset.retain(|option| !is_place(option));
    assert_eq!(unset, [""; 0]);
    let numbers = numbers_in(&whole);
    for number in &numbers {
        let is_ranged = RANGES
            .iter()
            .any(|(option, ..)| is_meant(option, &number.path));
        assert!(is_ranged, "{} has no range", number.path.join("."));
    }
    for (option, least, most) in RANGES {
        let is_there = numbers.iter().any(|number| is_meant(option, &number.path));
        assert!(is_there, "{option} is no option");
        for value in [least, most] {
            assert_eq!(with(option, value), Ok(()), "{option} = {value}");
        }
        for value in [least.checked_sub(1), most.checked_add(1)]
            .into_iter()
            .flatten()
        {
            assert!(with(option, value).is_err(), "{option} = {value}");
        }
    }
}
