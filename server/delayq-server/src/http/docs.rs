//! Renders the OpenAPI document as a page without scripts.

use std::collections::BTreeMap;

use askama::Template;
use axum::http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use serde_json::Value;

const STYLE: &str = include_str!("../../assets/panel.css");
const POLICY: &str = "default-src 'none'; style-src 'self'; form-action 'none'; \
     frame-ancestors 'none'; base-uri 'none'";

/// The page.
#[derive(Template)]
#[template(path = "docs.html")]
struct DocsPage {
    title: String,
    version: String,
    description: String,
    /// Routes by tag.
    groups: BTreeMap<String, Vec<RouteView>>,
    schemas: Vec<SchemaView>,
}

/// A route.
struct RouteView {
    id: String,
    method: String,
    path: String,
    summary: String,
    description: String,
    scope: String,
    parameters: Vec<FieldView>,
    bodies: Vec<BodyView>,
    answers: Vec<AnswerView>,
}

/// A parameter, or a field of an object.
struct FieldView {
    name: String,
    /// `path` or `query` for a parameter, else empty.
    place: String,
    kind: String,
    is_required: bool,
    description: String,
}

/// A body.
struct BodyView {
    media: String,
    kind: String,
}

/// An answer.
struct AnswerView {
    status: String,
    description: String,
    bodies: Vec<BodyView>,
}

/// A named schema.
struct SchemaView {
    name: String,
    description: String,
    kind: String,
    fields: Vec<FieldView>,
}

/// Renders the document as a page.
pub(super) fn page(document: &Value) -> Result<String, askama::Error> {
    let info = |name: &str| text(at(document, "/info"), name);
    let mut groups: BTreeMap<String, Vec<RouteView>> = BTreeMap::new();
    for (path, methods) in entries(at(document, "/paths")) {
        for (method, route) in entries(methods) {
            let tag = at(route, "/tags/0").as_str().unwrap_or("other").to_owned();
            let view = RouteView::new(method, path, route);
            groups.entry(tag).or_default().push(view);
        }
    }
    let schemas = entries(at(document, "/components/schemas"));
    let page = DocsPage {
        title: info("title"),
        version: info("version"),
        description: info("description"),
        groups,
        schemas: schemas
            .map(|(name, schema)| SchemaView::new(name, schema))
            .collect(),
    };
    page.render()
}

impl RouteView {
    fn new(method: &str, path: &str, route: &Value) -> Self {
        let scope = at(route, "/security/0/token/0");
        Self {
            id: text(route, "operationId"),
            method: method.to_uppercase(),
            path: path.to_owned(),
            summary: text(route, "summary"),
            description: text(route, "description"),
            scope: scope.as_str().unwrap_or_default().to_owned(),
            parameters: items(at(route, "/parameters"))
                .map(FieldView::of_parameter)
                .collect(),
            bodies: bodies(at(route, "/requestBody")),
            answers: entries(at(route, "/responses"))
                .map(|(status, answer)| AnswerView {
                    status: status.to_owned(),
                    description: text(answer, "description"),
                    bodies: bodies(answer),
                })
                .collect(),
        }
    }
}

impl FieldView {
    fn of_parameter(parameter: &Value) -> Self {
        Self {
            name: text(parameter, "name"),
            place: text(parameter, "in"),
            kind: kind(at(parameter, "/schema")),
            is_required: at(parameter, "/required").as_bool().unwrap_or_default(),
            description: text(parameter, "description"),
        }
    }
}

impl SchemaView {
    fn new(name: &str, schema: &Value) -> Self {
        let required: Vec<_> = items(at(schema, "/required")).collect();
        let fields = entries(at(schema, "/properties")).map(|(name, field)| FieldView {
            name: name.to_owned(),
            place: String::new(),
            kind: kind(field),
            is_required: required.iter().any(|one| one.as_str() == Some(name)),
            description: text(field, "description"),
        });
        Self {
            name: name.to_owned(),
            description: text(schema, "description"),
            kind: kind(schema),
            fields: fields.collect(),
        }
    }
}

fn bodies(of: &Value) -> Vec<BodyView> {
    entries(at(of, "/content"))
        .map(|(media, content)| BodyView {
            media: media.to_owned(),
            kind: kind(at(content, "/schema")),
        })
        .collect()
}

/// Describes a schema in a few words.
fn kind(schema: &Value) -> String {
    if let Some(name) = at(schema, "/$ref").as_str() {
        return name.rsplit('/').next().unwrap_or_default().to_owned();
    }
    let mut several = ["oneOf", "anyOf", "allOf"].into_iter();
    if let Some(list) = several.find_map(|key| schema.get(key)?.as_array()) {
        let kinds: Vec<_> = list.iter().map(kind).collect();
        return kinds.join(" or ");
    }
    let values: Vec<_> = items(at(schema, "/enum"))
        .map(ToString::to_string)
        .collect();
    if !values.is_empty() {
        return values.join(", ");
    }
    let name = match at(schema, "/type") {
        Value::String(name) => name.clone(),
        Value::Array(names) => {
            let names: Vec<_> = names.iter().filter_map(Value::as_str).collect();
            names.join(" or ")
        }
        _ => "any".to_owned(),
    };
    match name.as_str() {
        "array" if at(schema, "/items").is_object() => {
            format!("list of {}", kind(at(schema, "/items")))
        }
        _ => name,
    }
}

fn entries(object: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields.map(|(name, value)| (name.as_str(), value))
}

/// The value at a JSON pointer, or null.
fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(object: &Value, name: &str) -> String {
    object
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// The response of `/docs`.
pub(super) fn answer(page: Option<String>) -> Response {
    let Some(page) = page else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let mut response = Html(page).into_response();
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    set(CONTENT_SECURITY_POLICY, POLICY);
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(X_FRAME_OPTIONS, "DENY");
    set(REFERRER_POLICY, "no-referrer");
    response
}

/// The style of the page.
pub(super) async fn style() -> Response {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], STYLE).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Rewrites the document in the tree when this variable is set.
    const WRITE: &str = "DELAYQ_WRITE_OPENAPI";

    #[test]
    fn the_document_in_the_tree_is_that_of_the_routes() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
        let present = serde_json::to_string_pretty(&crate::http::written()).unwrap() + "\n";
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(path, &present).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            written == present,
            "openapi.json is another one: {WRITE}=1 cargo test -p delayq-server the_document writes it"
        );
        let document: Value = serde_json::from_str(&present).unwrap();
        assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    }

    #[test]
    fn every_route_and_schema_of_the_document_is_on_the_page() {
        let document = crate::http::written();
        let page = page(&document).unwrap();
        let paths: Vec<_> = entries(&document["paths"]).collect();
        assert!(paths.len() > 10);
        let mut ids = BTreeSet::new();
        for (path, methods) in paths {
            assert!(page.contains(&format!("<code>{path}</code>")), "{path}");
            for (_, route) in entries(methods) {
                let id = text(route, "operationId");
                assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
                assert!(ids.insert(id.clone()), "two routes have the id {id}");
            }
        }
        for (name, _) in entries(&document["components"]["schemas"]) {
            assert!(page.contains(&format!("id=\"schema-{name}\"")), "{name}");
        }
        assert!(
            !page.contains("<script") && !page.contains("href=\"http") && !page.contains("src=")
        );
    }
}
