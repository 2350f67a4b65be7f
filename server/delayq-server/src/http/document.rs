//! Completes the parts common to all routes of the OpenAPI document.

use delayq_core::chronicle::MAX_ACTION_PAGE;
use delayq_core::name::{MAX_NAMESPACE_BYTES, MAX_TASK_ID_BYTES, MAX_TASK_TYPE_BYTES};
use delayq_plugin::store::{MAX_BATCH, MAX_HISTOGRAM_STEPS};
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

/// The characters allowed in names of namespaces and types.
const WORD: &str = "[A-Za-z0-9._:-]";

/// The complete document: adds the patterns of names in paths, and the security scheme.
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
    routes
        .flat_map(|methods| methods.values_mut())
        .for_each(complete_route);
    let schemas = document
        .pointer_mut("/components/schemas")
        .and_then(Value::as_object_mut);
    for (name, schema) in schemas.into_iter().flatten() {
        let held = matches!(name.as_str(), "EndingForm" | "HeldForm");
        let fields = schema.pointer_mut("/properties").filter(|_| held);
        let fields = fields.and_then(Value::as_object_mut);
        for (field, form) in fields.into_iter().flatten() {
            let known = value_schema(name, field).and_then(|known| known.as_object().cloned());
            if let (Some(known), Some(form)) = (known, form.as_object_mut()) {
                form.extend(known);
            }
        }
        let parts = schema.pointer_mut("/allOf").and_then(Value::as_array_mut);
        parts.into_iter().flatten().for_each(make_flat);
    }
    link(&mut document);
    document
}

/// Adds schemas to the parameters and answers of an operation.
fn complete_route(route: &mut Value) {
    let operation = text(route, "operationId").to_owned();
    // A message may be empty, and so may a list of lines.
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
        let name = text(parameter, "name");
        let schema = match text(parameter, "in") {
            "path" => Some(name_schema(&operation, name)),
            _ => value_schema(&operation, name),
        };
        if let (Some(schema), Some(parameter)) = (schema, parameter.as_object_mut()) {
            parameter.insert("schema".to_owned(), schema);
        }
    }
}

/// Adds links: from a new task to the operations on it, and from a claimed task to the ends of its
/// attempt.
fn link(document: &mut Value) {
    const TASKS: &str = "/v1/{namespace}/types/{task_type}/tasks";
    const CLAIM: &str = "/v1/{namespace}/types/{types}/claim";
    let (mut of_created, mut of_claimed) = (Map::new(), Map::new());
    let paths = document.get("paths").and_then(Value::as_object);
    let paths = paths.into_iter().flatten();
    let of_a_task = paths.filter(|(path, _)| path.starts_with(&format!("{TASKS}/{{id}}")));
    let routes = of_a_task.filter_map(|(_, routes)| routes.as_object());
    for route in routes.flat_map(Map::values) {
        let operation = text(route, "operationId");
        let given = route.get("parameters").and_then(Value::as_array);
        let takes_lock = given.is_some_and(|given| {
            let mut given = given.iter();
            given.any(|one| text(one, "name") == "lock")
        });
        let (links, parameters) = if takes_lock {
            let of_the_first = |field: &str| format!("$response.body#/tasks/0/{field}");
            let parameters = json!({
                "namespace": "$request.path.namespace",
                "task_type": of_the_first("type"),
                "id": of_the_first("id"),
                "lock": of_the_first("lock"),
            });
            (&mut of_claimed, parameters)
        } else {
            let parameters = json!({
                "namespace": "$request.path.namespace",
                "task_type": "$request.path.task_type",
                "id": "$response.body#/id",
            });
            (&mut of_created, parameters)
        };
        let link = json!({"operationId": operation, "parameters": parameters});
        links.insert(operation.to_owned(), link);
    }
    for (path, status, links) in [(TASKS, "201", of_created), (CLAIM, "200", of_claimed)] {
        let keys = ["paths", path, "post", "responses", status];
        let answer = keys
            .into_iter()
            .try_fold(&mut *document, |value, key| value.get_mut(key));
        if let Some(answer) = answer.and_then(Value::as_object_mut) {
            answer.insert("links".to_owned(), Value::Object(links));
        }
    }
}

/// A text in an object; empty if absent.
fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A flattened optional part is absent, not null. This replaces the null by an object without
/// fields.
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

/// Gives problems their own media type.
fn name_problems(content: &mut Map<String, Value>) {
    const PROBLEM: &str = "#/components/schemas/Problem";
    let json = content.get("application/json");
    let is_problem = json
        .is_some_and(|json| json.pointer("/schema/$ref").and_then(Value::as_str) == Some(PROBLEM));
    if is_problem && let Some(body) = content.remove("application/json") {
        content.insert("application/problem+json".to_owned(), body);
    }
}

/// Describes bytes as a binary message instead of an array of numbers.
fn name_bytes(content: &mut Map<String, Value>) {
    for body in content.values_mut() {
        if body.pointer("/schema/items/format") == Some(&json!("int32")) {
            *body = json!({"schema": {"type": "string", "format": "binary"}});
        }
    }
}

/// The schema of a name in the path of an operation.
fn name_schema(operation: &str, name: &str) -> Value {
    let pattern = match name {
        "task_type" if operation.ends_with("target") || operation.ends_with("policy") => {
            // A pattern of types is allowed as well.
            let most = MAX_TASK_TYPE_BYTES - 2;
            format!("^({WORD}{{1,{MAX_TASK_TYPE_BYTES}}}|({WORD}{{0,{most}}}[._:-])?\\*)$")
        }
        "namespace" => format!("^{WORD}{{1,{MAX_NAMESPACE_BYTES}}}$"),
        "task_type" => format!("^{WORD}{{1,{MAX_TASK_TYPE_BYTES}}}$"),
        "types" => {
            format!("^{WORD}{{1,{MAX_TASK_TYPE_BYTES}}}(,{WORD}{{1,{MAX_TASK_TYPE_BYTES}}})*$")
        }
        "id" if operation.ends_with("batch") => "^[!-~]{1,64}$".to_owned(),
        "id" if operation.ends_with("recurring") => format!("^{WORD}{{1,64}}$"),
        "id" => format!("^[!-~]{{1,{MAX_TASK_ID_BYTES}}}$"),
        _ => return json!({"type": "string"}),
    };
    json!({"type": "string", "pattern": pattern})
}

/// The schema of a query value or of a body field, if its name determines it.
fn value_schema(of: &str, name: &str) -> Option<Value> {
    let word = |words: &[&str]| json!({"type": "string", "enum": words});
    let number = |most: usize| json!({"type": "integer", "minimum": 1, "maximum": most});
    Some(match (of, name) {
        ("log", "limit") => number(MAX_ACTION_PAGE),
        (_, "limit") => number(MAX_BATCH),
        (_, "steps") => number(MAX_HISTOGRAM_STEPS),
        (_, "state") => word(&[
            "scheduled",
            "running",
            "dead",
            "done",
            "cancelled",
            "expired",
        ]),
        (_, "order") => word(&["listed", "fair"]),
        (_, "step") => word(&["minute", "hour"]),
        (_, "on_conflict") => word(&["reject", "keep", "replace"]),
        (_, "end") => word(&["done", "fail", "dead", "release"]),
        (_, "id") => name_schema(of, name),
        (_, "lock") => json!({
            "type": "string",
            "pattern": "^[0-9]{1,15}-[0-9]{1,9}(-[A-Za-z0-9._|-]{1,64})?$",
        }),
        _ => return None,
    })
}
