//! Values with which a reader can begin to try a route.

use serde_json::{Map, Value};

use super::{at, items};

/// How deep an example of a body goes; schemas can contain themselves.
const DEPTH: usize = 4;

/// A value for a parameter; empty for one that may be left out.
pub(super) fn parameter(name: &str) -> &'static str {
    match name {
        "namespace" => "default",
        "task_type" | "types" => "mail.send",
        "id" => "order-42",
        "name" => "mailer",
        _ => "",
    }
}

/// A body of this media type and schema, as text.
pub(super) fn body(document: &Value, media: &str, schema: &Value) -> String {
    match media {
        "*/*" => "{\"to\": \"ann@shop.example\"}".to_owned(),
        "application/x-ndjson" => value(document, schema, 0).to_string(),
        "application/json" => format!("{:#}", value(document, schema, 0)),
        _ => String::new(),
    }
}

/// A value of this schema, with the fields that are always there.
fn value(document: &Value, schema: &Value, depth: usize) -> Value {
    if let Some(place) = at(schema, "/$ref").as_str() {
        let target = at(document, place.trim_start_matches('#'));
        return value(document, target, depth + 1);
    }
    if depth > DEPTH {
        return Value::Null;
    }
    let mut several = ["oneOf", "anyOf", "allOf"].into_iter();
    if let Some(first) = several.find_map(|key| schema.get(key)?.as_array()?.first()) {
        return value(document, first, depth + 1);
    }
    if let Some(first) = items(at(schema, "/enum")).next() {
        return first.clone();
    }
    let kind = match at(schema, "/type") {
        Value::Array(kinds) => kinds.first().and_then(Value::as_str),
        kind => kind.as_str(),
    };
    match kind {
        Some("string") => "".into(),
        Some("integer" | "number") => 0.into(),
        Some("boolean") => false.into(),
        Some("array") => vec![value(document, at(schema, "/items"), depth + 1)].into(),
        Some("object") => object(document, schema, depth),
        _ => Value::Null,
    }
}

fn object(document: &Value, schema: &Value, depth: usize) -> Value {
    let required = items(at(schema, "/required")).filter_map(Value::as_str);
    let field = |name: &str| {
        let schema = schema.get("properties")?.get(name)?;
        Some((name.to_owned(), value(document, schema, depth + 1)))
    };
    let fields: Map<_, _> = required.filter_map(field).collect();
    fields.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_example_has_the_fields_that_are_always_there() {
        let document = json!({"components": {"schemas": {"Line": {
            "type": "object", "required": ["id", "inner"],
            "properties": {
                "id": {"type": "string"}, "rest": {"type": "integer"},
                "inner": {"type": "array", "items": {"enum": ["a", "b"]}}
            }
        }}}});
        let schema = json!({"$ref": "#/components/schemas/Line"});
        let line = body(&document, "application/x-ndjson", &schema);
        assert_eq!(line, r#"{"id":"","inner":["a"]}"#);
        assert_eq!(body(&document, "text/plain", &schema), "");
    }
}
