//! What every route of the document has in common.

use delayq_core::name::{MAX_NAMESPACE_BYTES, MAX_TASK_ID_BYTES, MAX_TASK_TYPE_BYTES};
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

/// What names of namespaces and types are made of.
const WORD: &str = "[A-Za-z0-9._:-]";

/// The document with the forms of names in paths, and how a token is sent.
pub(super) fn complete(document: &OpenApi) -> Value {
    let mut document = serde_json::to_value(document).unwrap_or_default();
    if let Some(components) = document
        .pointer_mut("/components")
        .and_then(Value::as_object_mut)
    {
        let token = json!({
            "type": "http",
            "scheme": "bearer",
            "description": "A token, such as the one that a first start prints.",
        });
        components.insert("securitySchemes".to_owned(), json!({"token": token}));
    }
    let paths = document
        .pointer_mut("/paths")
        .and_then(Value::as_object_mut);
    let methods = paths.into_iter().flat_map(|paths| paths.values_mut());
    let routes = methods.filter_map(Value::as_object_mut);
    for route in routes.flat_map(|methods| methods.values_mut()) {
        // A message may be empty, and so may be lines.
        if let Some(body) = route
            .pointer_mut("/requestBody")
            .and_then(Value::as_object_mut)
            && body
                .get("content")
                .is_some_and(|content| content.get("application/json").is_none())
        {
            body.insert("required".to_owned(), json!(false));
        }
        let body = route
            .pointer_mut("/requestBody/content")
            .and_then(Value::as_object_mut);
        body.into_iter().for_each(name_bytes);
        let answers = route
            .pointer_mut("/responses")
            .and_then(Value::as_object_mut);
        for answer in answers.into_iter().flat_map(|answers| answers.values_mut()) {
            let content = answer
                .pointer_mut("/content")
                .and_then(Value::as_object_mut);
            if let Some(content) = content {
                name_problems(content);
                name_bytes(content);
            }
        }
        let parameters = route
            .pointer_mut("/parameters")
            .and_then(Value::as_array_mut);
        for parameter in parameters.into_iter().flatten() {
            if let Some(parameter) = parameter.as_object_mut() {
                let name = parameter
                    .get("name")
                    .and_then(Value::as_str)
                    .map(name_schema);
                if let Some(schema) = name.filter(|_| parameter.get("in") == Some(&json!("path"))) {
                    parameter.insert("schema".to_owned(), schema);
                }
            }
        }
    }
    let schemas = document
        .pointer_mut("/components/schemas")
        .and_then(Value::as_object_mut);
    for schema in schemas.into_iter().flat_map(|schemas| schemas.values_mut()) {
        let parts = schema.pointer_mut("/allOf").and_then(Value::as_array_mut);
        parts.into_iter().flatten().for_each(make_flat);
    }
    document
}

/// A part of an object that is absent is no null: without it the object has its other fields alone.
fn make_flat(part: &mut Value) {
    let Some(part) = part.as_object_mut() else {
        return;
    };
    let is_nullable = |one: &Value| one.get("type") == Some(&json!("null"));
    if let Some(Value::Array(mut forms)) = part.remove("oneOf") {
        forms
            .iter_mut()
            .filter(|one| is_nullable(one))
            .for_each(|one| *one = json!({"type": "object"}));
        part.insert("anyOf".to_owned(), Value::Array(forms));
    }
}

/// Problems have a media type of their own.
fn name_problems(content: &mut Map<String, Value>) {
    const PROBLEM: &str = "#/components/schemas/Problem";
    let json = content.get("application/json");
    let is_problem = json
        .is_some_and(|json| json.pointer("/schema/$ref").and_then(Value::as_str) == Some(PROBLEM));
    if is_problem && let Some(body) = content.remove("application/json") {
        content.insert("application/problem+json".to_owned(), body);
    }
}

/// Bytes are a message as it stands, and no array of numbers.
fn name_bytes(content: &mut Map<String, Value>) {
    for body in content.values_mut() {
        if body.pointer("/schema/items/format") == Some(&json!("int32")) {
            *body = json!({"schema": {"type": "string", "format": "binary"}});
        }
    }
}

/// The form of a name in a path.
fn name_schema(name: &str) -> Value {
    let pattern = match name {
        "namespace" => format!("^{WORD}{{1,{MAX_NAMESPACE_BYTES}}}$"),
        "task_type" => format!("^{WORD}{{1,{MAX_TASK_TYPE_BYTES}}}$"),
        "types" => {
            format!("^{WORD}{{1,{MAX_TASK_TYPE_BYTES}}}(,{WORD}{{1,{MAX_TASK_TYPE_BYTES}}})*$")
        }
        "id" => format!("^[!-~]{{1,{MAX_TASK_ID_BYTES}}}$"),
        _ => return json!({"type": "string"}),
    };
    json!({"type": "string", "pattern": pattern})
}
