//! Renders the OpenAPI document as a page, on which each route can be tried.
//!
//! Its script is the server's own: it asks this server alone, and the page reads without it.

use askama::Template;
use axum::http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use serde_json::Value;

mod example;

const STYLE: &str = include_str!("../../assets/panel.css");
const SCRIPT: &str = include_str!("../../assets/docs.js");
const SCRIPT_TYPE: &str = "text/javascript; charset=utf-8";
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
     connect-src 'self'; img-src data:; form-action 'none'; frame-ancestors 'none'; \
     base-uri 'none'";

/// The operations with which a reader begins, in their order.
const FIRST: [&str; 6] = ["create_with_id", "create", "find", "claim", "done", "fail"];

/// The page.
#[derive(Template)]
#[template(path = "docs.html")]
struct DocsPage {
    title: String,
    version: String,
    description: String,
    /// Routes by tag, in the order of the document's tags.
    groups: Vec<GroupView>,
    schemas: Vec<SchemaView>,
}

/// The routes of a tag.
struct GroupView {
    tag: String,
    title: String,
    description: String,
    routes: Vec<RouteView>,
}

/// A route.
struct RouteView {
    id: String,
    method: String,
    method_class: String,
    path: String,
    /// Its method and the part of its path that differs from others, for the contents.
    short: String,
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
    /// A value to begin with.
    example: &'static str,
}

/// A body.
struct BodyView {
    media: String,
    kind: String,
    /// The name of its schema, if it has one.
    schema: String,
    /// The content type and the text with which a reader can begin to try the route.
    sent_as: String,
    example: String,
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
    let mut groups: Vec<_> = items(at(document, "/tags")).map(GroupView::new).collect();
    for (path, methods) in entries(at(document, "/paths")) {
        for (method, route) in entries(methods) {
            let tag = at(route, "/tags/0").as_str().unwrap_or("other");
            let view = RouteView::new(document, Address { method, path }, route);
            match groups.iter_mut().find(|group| group.tag == tag) {
                Some(group) => group.routes.push(view),
                None => groups.push(GroupView::other(tag, view)),
            }
        }
    }
    for group in &mut groups {
        group.routes.sort_by_key(RouteView::place);
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

/// Where a route is.
#[derive(Clone, Copy)]
struct Address<'a> {
    method: &'a str,
    path: &'a str,
}

impl GroupView {
    fn new(tag: &Value) -> Self {
        let name = text(tag, "name");
        Self {
            title: capital(&name),
            description: text(tag, "description"),
            tag: name,
            routes: Vec::new(),
        }
    }

    /// The group of a tag that the document does not describe.
    fn other(tag: &str, route: RouteView) -> Self {
        Self {
            tag: tag.to_owned(),
            title: capital(tag),
            description: String::new(),
            routes: vec![route],
        }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}", first.unwrap_or_default(), letters.as_str())
}

impl RouteView {
    fn new(document: &Value, address: Address<'_>, route: &Value) -> Self {
        let Address { method, path } = address;
        let scope = at(route, "/security/0/token/0");
        let own = path.strip_prefix("/v1/{namespace}").unwrap_or(path);
        let own = own.strip_prefix("/types/{task_type}").unwrap_or(own);
        Self {
            id: text(route, "operationId"),
            method: method.to_uppercase(),
            method_class: method.to_owned(),
            path: path.to_owned(),
            short: format!(
                "{} {}",
                method.to_uppercase(),
                if own.is_empty() { path } else { own }
            ),
            summary: text(route, "summary"),
            description: text(route, "description"),
            scope: scope.as_str().unwrap_or_default().to_owned(),
            parameters: items(at(route, "/parameters"))
                .map(FieldView::of_parameter)
                .collect(),
            bodies: bodies(document, at(route, "/requestBody")),
            answers: entries(at(route, "/responses"))
                .map(|(status, answer)| AnswerView {
                    status: status.to_owned(),
                    description: text(answer, "description"),
                    bodies: bodies(document, answer),
                })
                .collect(),
        }
    }

    /// Its place in its group: what everybody begins with, then short paths.
    fn place(&self) -> (usize, usize, String, usize) {
        let methods = ["put", "post", "get", "patch", "delete"];
        let method = methods.iter().position(|one| *one == self.method_class);
        let first = FIRST.iter().position(|one| *one == self.id);
        let depth = self.path.split('/').count();
        (
            first.unwrap_or(FIRST.len()),
            depth,
            self.path.clone(),
            method.unwrap_or(methods.len()),
        )
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
            example: example::parameter(at(parameter, "/name").as_str().unwrap_or_default()),
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
            example: "",
        });
        Self {
            name: name.to_owned(),
            description: text(schema, "description"),
            kind: kind(schema),
            fields: fields.collect(),
        }
    }
}

fn bodies(document: &Value, of: &Value) -> Vec<BodyView> {
    let body = |(media, content): (&str, &Value)| {
        let schema = at(content, "/schema");
        let named = [schema, at(schema, "/items")];
        let mut named = named
            .into_iter()
            .filter_map(|one| at(one, "/$ref").as_str());
        BodyView {
            media: media.to_owned(),
            kind: kind(schema),
            schema: named.next().map_or_else(String::new, last_part),
            sent_as: match media {
                "*/*" => "application/json",
                media => media,
            }
            .to_owned(),
            example: example::body(document, media, schema),
        }
    };
    entries(at(of, "/content")).map(body).collect()
}

/// The name of a schema in a reference to it.
fn last_part(place: &str) -> String {
    place.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Describes a schema in a few words.
fn kind(schema: &Value) -> String {
    if let Some(name) = at(schema, "/$ref").as_str() {
        return last_part(name);
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
    let sheet = format!("{}{STYLE}", delayq_admin::SHEET);
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], sheet).into_response()
}

/// The script that tries routes.
pub(super) async fn script() -> Response {
    ([(CONTENT_TYPE, SCRIPT_TYPE)], SCRIPT).into_response()
}

/// The script that applies the reader's colours.
pub(super) async fn theme() -> Response {
    ([(CONTENT_TYPE, SCRIPT_TYPE)], delayq_admin::THEME_SCRIPT).into_response()
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
        // Nothing is loaded from elsewhere, and no script stands in the page itself.
        assert!(!page.contains("href=\"http") && !page.contains("style=\""));
        for script in page.split("<script").skip(1) {
            assert!(script.starts_with(" src=\"/docs/"), "{script:.60}");
        }
        assert_eq!(
            page.matches("src=").count(),
            page.matches("<script").count()
        );
        // What a reader does first comes first.
        let tasks = page.find("<h2 class=\"group\">Tasks</h2>").unwrap();
        assert!(tasks < page.find("<h2 class=\"group\">Dead letters</h2>").unwrap());
        assert!(!page.contains("<h2 class=\"group\">Other</h2>"));
    }
}
