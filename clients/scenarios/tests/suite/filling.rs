//! What stands for something in a step: `@a` a name of this scenario alone, `$name` what was bound,
//! and objects such as `{"$now": "2s"}`.

use std::time::Duration;

use delayq_plugin::{Clock, SystemClock};
use serde_json::{Map, Value, json};
use standardwebhooks::Webhook;

use crate::pattern::Names;

/// How a scenario fills its steps.
#[derive(Debug)]
pub(crate) struct Filling {
    /// What stands in front of the names of this scenario.
    pub(crate) prefix: String,
    pub(crate) names: Names,
}

impl Filling {
    pub(crate) fn fill(&self, value: &Value) -> Result<Value, String> {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter().map(|item| self.fill(item)).collect(),
            Value::Object(parts) => self.object(parts),
            other => Ok(other.clone()),
        }
    }

    fn text(&self, text: &str) -> Result<Value, String> {
        let is_name = |text: &str| text.starts_with(|one: char| one.is_ascii_lowercase());
        if let Some(name) = text.strip_prefix('$').filter(|name| is_name(name)) {
            let bound = self.names.get(name);
            return bound.cloned().ok_or(format!("${name} is not bound"));
        }
        if let Some(name) = text.strip_prefix('@').filter(|name| is_name(name)) {
            return Ok(json!(format!("{}{name}", self.prefix)));
        }
        let mut text = text.replace("/@", &format!("/{}", self.prefix));
        for (name, bound) in &self.names {
            if let Some(bound) = bound.as_str() {
                text = text.replace(&format!("{{{name}}}"), bound);
            }
        }
        Ok(json!(text))
    }

    fn object(&self, parts: &Map<String, Value>) -> Result<Value, String> {
        if let Some(offset) = parts.get("$now") {
            let offset = offset.as_str().ok_or("$now takes a span")?;
            return Ok(json!(
                now() + i64::try_from(span(offset)?.as_millis()).unwrap_or(0)
            ));
        }
        if let Some(length) = parts.get("$long").and_then(Value::as_u64) {
            return Ok(json!("x".repeat(usize::try_from(length).unwrap_or(0))));
        }
        if let Some(count) = parts.get("$repeat").and_then(Value::as_u64) {
            return self.repeated(count, parts);
        }
        if let Some(signed) = parts.get("$signed") {
            return signature(&self.fill(signed)?);
        }
        let filled = parts
            .iter()
            .map(|(key, part)| Ok((key.clone(), self.fill(part)?)));
        filled
            .collect::<Result<Map<_, _>, String>>()
            .map(Value::Object)
    }

    /// `count` times what is in `of`, where `{i}` is the index; those in `except` are others.
    fn repeated(&self, count: u64, parts: &Map<String, Value>) -> Result<Value, String> {
        let item = |index: u64| {
            let other = parts
                .get("except")
                .and_then(|all| all.get(index.to_string()));
            let template = other.or(parts.get("of")).ok_or("$repeat has no `of`")?;
            let text = template.to_string().replace("{i}", &index.to_string());
            let item: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            self.fill(&item)
        };
        (0..count).map(item).collect()
    }
}

/// Headers of a web hook that the public library has signed.
fn signature(signed: &Value) -> Result<Value, String> {
    let text = |name: &str| {
        let part = signed.get(name).and_then(Value::as_str);
        part.ok_or(format!("$signed has no {name}"))
    };
    let (id, body) = (text("id")?, text("body")?);
    let ago = i64::try_from(span(text("ago")?)?.as_secs()).unwrap_or(0);
    let timestamp = now() / 1_000 - ago;
    let mut signatures = Vec::new();
    for secret in signed
        .get("secrets")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let secret = secret.as_str().unwrap_or_default();
        let hook = Webhook::new(secret).map_err(|error| format!("{secret}: {error}"))?;
        let signature = hook.sign(id, timestamp, body.as_bytes());
        signatures.push(signature.map_err(|error| error.to_string())?);
    }
    let mut headers = signed.get("with").cloned().unwrap_or(json!({}));
    headers["webhook-id"] = json!(id);
    headers["webhook-timestamp"] = json!(timestamp.to_string());
    headers["webhook-signature"] = json!(signatures.join(" "));
    Ok(headers)
}

/// Milliseconds since the epoch.
pub(crate) fn now() -> i64 {
    SystemClock.now().as_millis()
}

/// A span such as `1500ms`, `2s` or `1m`.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let end = text
        .find(|one: char| !one.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: u64 = number.parse().map_err(|_| format!("{text} is no span"))?;
    match unit {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(60 * number)),
        _ => Err(format!("{text} is no span: write ms, s or m")),
    }
}

#[test]
fn names_are_those_of_the_scenario_and_what_was_bound_stands_for_itself() {
    let names = Names::from([("t".to_owned(), json!(7)), ("id".to_owned(), json!("x"))]);
    let filling = Filling {
        prefix: "s1.".to_owned(),
        names,
    };
    for (step, filled) in [
        (
            json!({"type": "@a", "to": "a@b"}),
            json!({"type": "s1.a", "to": "a@b"}),
        ),
        (
            json!(["types/@a/tasks/{id}"]),
            json!(["types/s1.a/tasks/x"]),
        ),
        (json!({"$near": ["$t", 100]}), json!({"$near": [7, 100]})),
        (json!({"$long": 3}), json!("xxx")),
        (
            json!({"$repeat": 2, "of": {"id": "n{i}"}, "except": {"1": "@b"}}),
            json!([{"id": "n0"}, "s1.b"]),
        ),
    ] {
        assert_eq!(filling.fill(&step), Ok(filled), "{step}");
    }
    assert!(filling.fill(&json!("$unknown")).is_err());
    assert_eq!(span("1500ms"), Ok(Duration::from_millis(1_500)));
    assert!(span("7").is_err() && span("x").is_err());
}
