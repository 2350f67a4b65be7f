//! Local copy of a Eureka registry.

use std::collections::BTreeMap;

use serde_json::Value;

/// The instances of a registry, by application and instance id.
#[derive(Debug, Default)]
pub(super) struct Registry(BTreeMap<(String, String), Value>);

impl Registry {
    /// Reads the full list of applications.
    pub(super) fn of(document: &Value) -> Self {
        let mut registry = Self::default();
        for instance in instances(document) {
            registry.put(instance);
        }
        registry
    }

    /// Applies a delta; returns true if the copy then matches the registry's hash.
    pub(super) fn apply(&mut self, delta: &Value) -> bool {
        for instance in instances(delta) {
            if instance.get("actionType").and_then(Value::as_str) == Some("DELETED") {
                self.0.remove(&key(instance));
            } else {
                self.put(instance);
            }
        }
        let hash = delta.pointer("/applications/apps__hashcode");
        hash.and_then(Value::as_str) == Some(&self.hash())
    }

    fn put(&mut self, instance: &Value) {
        self.0.insert(key(instance), instance.clone());
    }

    /// The hash of a registry: the count of instances in each status.
    fn hash(&self) -> String {
        let mut counts = BTreeMap::<&str, usize>::new();
        for instance in self.0.values() {
            let status = instance.get("status").and_then(Value::as_str);
            *counts.entry(status.unwrap_or_default()).or_default() += 1;
        }
        let parts = counts
            .iter()
            .map(|(status, count)| format!("{status}_{count}_"));
        parts.collect::<Vec<_>>().concat()
    }

    /// All instances.
    pub(super) fn all(&self) -> impl Iterator<Item = &Value> {
        self.0.values()
    }
}

fn key(instance: &Value) -> (String, String) {
    let text = |name: &str| {
        let value = instance.get(name).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let id = if instance.get("instanceId").is_some() {
        text("instanceId")
    } else {
        text("hostName")
    };
    (text("app"), id)
}

/// The instances in a document. A single item may stand in place of a list.
fn instances(document: &Value) -> impl Iterator<Item = &Value> {
    let apps = listed(document.pointer("/applications/application"));
    apps.flat_map(|app| listed(app.get("instance")))
}

fn listed(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    let many = value.and_then(Value::as_array);
    let one = value.filter(|value| value.is_object());
    many.into_iter().flatten().chain(one)
}
