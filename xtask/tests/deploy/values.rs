//! The values of the chart: the schema, the page of the guide and the templates know each of them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::defaults::{default_of, longest_stop_ms, port};
use crate::{VERSION, place, read, yaml};

const CHART: &str = "docs/deploy/helm/delayq";
const PAGE: &str = "docs/guide/kubernetes.md";

fn values() -> Value {
    yaml(&read(&format!("{CHART}/values.yaml")))
}

/// Values by their dotted names, with their defaults as the guide writes them. Lists and maps that
/// a user fills in are one value.
fn named(prefix: &str, value: &Value, names: &mut BTreeMap<String, String>) {
    let is_open = ["resources", "labels"]
        .iter()
        .any(|end| prefix.ends_with(end));
    match value {
        Value::Object(fields) if !fields.is_empty() && !is_open => {
            for (name, value) in fields {
                let dot = if prefix.is_empty() { "" } else { "." };
                named(&format!("{prefix}{dot}{name}"), value, names);
            }
        }
        Value::String(text) => {
            names.insert(prefix.to_owned(), text.clone());
        }
        Value::Object(_) | Value::Array(_) => {
            names.insert(prefix.to_owned(), String::new());
        }
        other => {
            names.insert(prefix.to_owned(), other.to_string());
        }
    }
}

fn all() -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    named("", &values(), &mut names);
    assert!(names.len() > 40, "{names:?}");
    names
}

#[test]
fn the_table_of_the_guide_has_every_value_with_its_default() {
    let page = read(PAGE);
    let (_, table) = page.split_once("\n## Values\n").unwrap();
    let rows = table.split("\n## ").next().unwrap().lines();
    let rows = rows.filter(|line| line.starts_with("| `"));
    let rows = rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        assert!(cells.len() == 5 && !cells[3].is_empty(), "{row}");
        let plain = |cell: &str| cell.trim_matches('`').to_owned();
        (plain(cells[1]), plain(cells[2]))
    });
    let documented: BTreeMap<_, _> = rows.collect();
    let missing: Vec<_> = all()
        .into_iter()
        .filter(|one| documented.get(&one.0) != Some(&one.1))
        .collect();
    assert_eq!(missing, [], "missing in {PAGE}, or with another default");
    let known = all();
    let unknown: Vec<_> = documented
        .keys()
        .filter(|name| !known.contains_key(*name))
        .collect();
    assert_eq!(unknown, [""; 0]);
}

#[test]
fn the_schema_has_every_value_and_refuses_others() {
    let schema: Value =
        serde_json::from_str(&read(&format!("{CHART}/values.schema.json"))).unwrap();
    for name in all().keys() {
        let mut at = &schema;
        for part in name.split('.') {
            if at["$ref"] == "#/definitions/secret" {
                at = &schema["definitions"]["secret"];
            }
            assert_eq!(at["additionalProperties"], false, "{name}");
            at = &at["properties"][part];
            assert!(at.is_object(), "{name} is not in the schema");
        }
    }
}

#[test]
fn every_value_is_used_by_a_template() {
    let mut templates = String::new();
    for entry in std::fs::read_dir(place(&format!("{CHART}/templates"))).unwrap() {
        templates += &std::fs::read_to_string(entry.unwrap().path()).unwrap();
    }
    let used: BTreeSet<_> = templates
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '.')
        .collect();
    for name in all().keys() {
        let full = format!(".Values.{name}");
        // Within `with`, a value goes by the end of its name.
        let end = format!(".{}", name.rsplit('.').next().unwrap());
        let is_used = used.contains(full.as_str())
            || used.contains(format!("${full}").as_str())
            || (name.starts_with("metrics.") && used.contains(end.as_str()));
        assert!(is_used, "no template uses {name}");
    }
}

#[test]
fn the_chart_has_the_ports_and_times_of_the_server() {
    let (values, port) = (values(), port());
    assert_eq!(values["service"]["port"], port);
    let deployment = read(&format!("{CHART}/templates/deployment.yaml"));
    for line in [
        format!("value: 0.0.0.0:{port}\n"),
        format!("containerPort: {port}\n"),
        "runAsUser: 65532\n".to_owned(),
        "mountPath: /var/lib/delayq\n".to_owned(),
    ] {
        assert!(deployment.contains(&line), "{line}");
    }
    let seconds = |name: &str| values[name].as_u64().unwrap() * 1_000;
    let grace = values["stop"]["readyGraceMs"].as_u64().unwrap();
    let stop = longest_stop_ms(grace);
    assert!(seconds("terminationGracePeriodSeconds") >= stop + 5_000);
    let schema: Value =
        serde_json::from_str(&read(&format!("{CHART}/values.schema.json"))).unwrap();
    // The template refuses what is less than all of it.
    let least = &schema["properties"]["terminationGracePeriodSeconds"]["minimum"];
    assert_eq!(least.as_u64().unwrap(), 20 + 5);
    assert_eq!(
        values["stop"]["graceMs"].to_string(),
        default_of("stop.grace_ms")
    );
    assert_eq!(
        values["coldStore"]["horizon"],
        default_of("horizon").as_str()
    );
    // Variables of the server are options of it.
    for line in deployment
        .lines()
        .filter(|line| line.contains("name: DELAYQ_"))
    {
        let variable = line.rsplit("DELAYQ_").next().unwrap();
        let option = variable.to_lowercase().replace("__", ".");
        let is_known = ["config", "log"].contains(&option.as_str())
            || read("docs/guide/server.md").contains(&format!("| `{option}` |"));
        assert!(is_known, "{line}");
    }
}

/// What a server takes at most fits into its memory: it refuses before it is killed.
#[test]
fn connections_and_bodies_fit_into_the_memory_of_chart_and_compose() {
    const CONNECTION: u64 = 28_000;
    // What a server takes without connections.
    const REST: u64 = 64 << 20;
    for page in ["docs/guide/server-operations.md", PAGE] {
        assert!(
            read(page).contains("connection costs about 28 KB"),
            "{page}"
        );
    }
    let values = values();
    let limit = values["resources"]["limits"]["memory"].as_str().unwrap();
    let limit: u64 = limit.strip_suffix("Mi").unwrap().parse().unwrap();
    let of = |name: &str| values["connections"][name].as_u64().unwrap();
    // The port of the API and that of the page.
    let most = 2 * of("max") * CONNECTION + of("maxBodyBytes") + REST;
    assert!(most <= limit << 20, "{most}");

    let compose = yaml(&read("docs/deploy/compose.yaml"));
    let server = &compose["services"]["server"];
    let limit = server["mem_limit"].as_str().unwrap();
    let limit: u64 = limit.strip_suffix('m').unwrap().parse().unwrap();
    let of = |name: &str| server["environment"][name].as_u64().unwrap();
    let connections = of("DELAYQ_CONNECTIONS__MAX") * CONNECTION;
    let most = connections + of("DELAYQ_CONNECTIONS__MAX_BODY_BYTES") + REST;
    assert!(most <= limit << 20, "{most}");
}

#[test]
fn the_versions_of_the_chart_are_that_of_the_workspace() {
    let chart = yaml(&read(&format!("{CHART}/Chart.yaml")));
    assert_eq!(chart["version"], VERSION);
    assert_eq!(chart["appVersion"], VERSION);
}
