//! Recorded exchanges of the originals, sent to a front again.
//!
//! A file has a step a line: a request, and what is expected of its answer, with matchers where the
//! answers of two runs differ. The steps of a file share variables, such as `${token}`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

/// The routes of a front: those of its API, and those of its administration.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    pub(crate) api: Router,
    pub(crate) admin: Router,
    /// The folder below `tests/exchanges`.
    pub(crate) folder: &'static str,
    /// Names of steps that may be answered in another way.
    pub(crate) excused: BTreeSet<String>,
}

/// An answer.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

type Variables = BTreeMap<String, String>;

impl Replay {
    /// The exchanges of a folder, with its list of steps that may be answered in another way.
    pub(crate) fn new(api: Router, admin: Router, folder: &'static str) -> Self {
        let list = std::fs::read_to_string(path(folder, "differ_ok.txt")).unwrap_or_default();
        Self {
            api,
            admin,
            folder,
            excused: list.lines().map(str::to_owned).collect(),
        }
    }

    /// Sends the requests of a file one after the other; how many answers were as expected, and
    /// what was not. Some were recorded within a second of each other, which a busy machine does
    /// not manage: what is not as expected has to be so three times.
    pub(crate) async fn file(&self, name: &str) -> (usize, Vec<String>) {
        let file = name.replace(|one: char| !one.is_ascii_alphanumeric(), "");
        let first = self.replay(name, format!("g{file}")).await;
        if first.1.is_empty() {
            return first;
        }
        let second = self.replay(name, format!("g{file}2")).await;
        if second.1.is_empty() {
            return second;
        }
        self.replay(name, format!("g{file}3")).await
    }

    async fn replay(&self, name: &str, ns: String) -> (usize, Vec<String>) {
        let text = std::fs::read_to_string(path(self.folder, name)).unwrap();
        let mut variables = Variables::from([("ns".to_owned(), ns)]);
        let (mut same, mut different) = (0, Vec::new());
        for line in text.lines() {
            let step: Value = serde_json::from_str(line).unwrap();
            if let Some(wait) = step["wait"].as_f64() {
                tokio::time::sleep(Duration::from_secs_f64(wait)).await;
            }
            let answer = self.send(&step, &variables).await;
            let faults = check(&step, &answer, &mut variables);
            let name = format!("{}/{}", text_of(&step["group"]), text_of(&step["name"]));
            if faults.is_empty() {
                same += 1;
            } else if !self.excused.contains(&name) {
                let body = String::from_utf8_lossy(&answer.body);
                different.push(format!("{name}: {}; {body}", faults.join("; ")));
            }
        }
        (same, different)
    }

    async fn send(&self, step: &Value, variables: &Variables) -> Answer {
        let query = step["query"].as_array().into_iter().flatten().map(|pair| {
            let part = |at: usize| filled(text_of(&pair[at]), variables);
            (part(0), part(1))
        });
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(query);
        let (path, query) = (filled(text_of(&step["path"]), variables), form.finish());
        let mark = if query.is_empty() { "" } else { "?" };
        let mut request = Request::builder()
            .method(text_of(&step["method"]))
            .uri(format!("{path}{mark}{query}"));
        for (name, value) in step["headers"].as_object().into_iter().flatten() {
            request = request.header(name, filled(text_of(value), variables));
        }
        let request = request.body(Body::from(body_of(&step["body"], variables)));
        let router = match text_of(&step["srv"]) {
            "admin" => self.admin.clone(),
            _ => self.api.clone(),
        };
        let mut request = request.unwrap();
        request.extensions_mut().insert(super::somebody());
        let (head, body) = router.oneshot(request).await.unwrap().into_parts();
        Answer {
            status: head.status,
            headers: head.headers,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }
}

fn path(folder: &str, name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/exchanges");
    root.join(folder).join(name)
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A text with its variables filled in.
fn filled(text: &str, variables: &Variables) -> String {
    variables
        .iter()
        .fold(text.to_owned(), |text, (name, value)| {
            text.replace(&format!("${{{name}}}"), value)
        })
}

fn body_of(body: &Value, variables: &Variables) -> Vec<u8> {
    if let Some(text) = body["text"].as_str() {
        return filled(text, variables).into_bytes();
    }
    if let Some(base64) = body["b64"].as_str() {
        return STANDARD.decode(base64).unwrap();
    }
    let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    if let Some([text, times]) = body["fill"].as_array().map(Vec::as_slice) {
        return text_of(text).repeat(number(times)).into_bytes();
    }
    if let Some([elements, characters]) = body["json_fill"].as_array().map(Vec::as_slice) {
        let element = "x".repeat(number(characters));
        return serde_json::to_vec(&vec![element; number(elements)]).unwrap();
    }
    Vec::new()
}

/// What is not as expected; takes the variables that the step saves.
fn check(step: &Value, answer: &Answer, variables: &mut Variables) -> Vec<String> {
    let mut faults = Vec::new();
    if step["status"].as_u64() != Some(u64::from(answer.status.as_u16())) {
        faults.push(format!("status {}, got {}", step["status"], answer.status));
    }
    for (name, wanted) in step["rheaders"].as_object().into_iter().flatten() {
        let got = answer.headers.get(name);
        let got = got.map(|got| String::from_utf8_lossy(got.as_bytes()).into_owned());
        let got = got.map_or(Value::Null, Value::String);
        compare(wanted, &got, name, variables, &mut faults);
    }
    let json: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    if let Some(wanted) = step.get("rjson") {
        compare(wanted, &json, "body", variables, &mut faults);
    }
    let text = String::from_utf8_lossy(&answer.body);
    if let Some(wanted) = step["rtext"].as_str()
        && filled(wanted, variables) != text
    {
        faults.push(format!("text {wanted:?}"));
    }
    if step["rempty"] == true && !text.is_empty() {
        faults.push("no body".to_owned());
    }
    for line in step["rlines"].as_array().into_iter().flatten() {
        let line = filled(text_of(line), variables);
        if !has_line(&text, &line) {
            faults.push(format!("no line like {line}"));
        }
    }
    for (name, key) in step["save"].as_object().into_iter().flatten() {
        let mut value = &json;
        for part in text_of(key).split('.').filter(|part| !part.is_empty()) {
            value = match part.parse::<usize>() {
                Ok(index) => &value[index],
                Err(_) => &value[part],
            };
        }
        variables.insert(name.clone(), text_of(value).to_owned());
    }
    faults
}

fn compare(wanted: &Value, got: &Value, at: &str, variables: &Variables, faults: &mut Vec<String>) {
    match (wanted, got) {
        (Value::Object(one), Value::Object(other)) => {
            let one: BTreeMap<_, _> = one
                .iter()
                .map(|(name, wanted)| (filled(name, variables), wanted))
                .collect();
            for (name, wanted) in &one {
                let got = other.get(name).unwrap_or(&Value::Null);
                compare(wanted, got, &format!("{at}.{name}"), variables, faults);
            }
            let more = other.keys().filter(|name| !one.contains_key(name.as_str()));
            faults.extend(more.map(|name| format!("{at}.{name} is not expected")));
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (wanted, got) in one.iter().zip(other) {
                compare(wanted, got, at, variables, faults);
            }
        }
        (Value::String(matcher), got) if matcher.starts_with('<') && matcher.ends_with('>') => {
            if !matches(matcher, got) {
                faults.push(format!("{at} {matcher}, got {got}"));
            }
        }
        (Value::String(wanted), Value::String(got)) if filled(wanted, variables) == *got => {}
        (wanted, got) if wanted == got => {}
        _ => faults.push(format!("{at} {wanted}, got {got}")),
    }
}

/// Whether a value is one of those that a matcher stands for.
fn matches(matcher: &str, got: &Value) -> bool {
    let text = text_of(got);
    match matcher {
        "<any>" => true,
        "<ulid>" => text.len() == 26 && text.parse::<ulid::Ulid>().is_ok(),
        "<ulid1>" => text
            .get(1..)
            .is_some_and(|rest| rest.parse::<ulid::Ulid>().is_ok()),
        "<jobid>" => {
            let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_:".contains(&byte);
            !text.is_empty() && text.bytes().all(is_word)
        }
        matcher => {
            let range = matcher.trim_matches(['<', '>']).strip_prefix("int");
            let mut ends = range.unwrap_or_default().split(':').skip(1);
            let mut end = || ends.next().and_then(|end| end.parse::<f64>().ok());
            let (low, high) = (end().unwrap_or(f64::MIN), end().unwrap_or(f64::MAX));
            range.is_some() && got.as_f64().is_some_and(|got| (low..=high).contains(&got))
        }
    }
}

/// Whether a text has this line. Of patterns it knows `^`, `[{ ]` and `\w+` or `[0-9A-Z]{26}` for a
/// word, and characters that are escaped.
fn has_line(text: &str, pattern: &str) -> bool {
    let pattern = pattern.replace("[0-9A-Z]{26}", r"\w+").replace("[{ ]", "");
    let (begin, pattern) = match pattern.strip_prefix('^') {
        Some(rest) => (true, rest.to_owned()),
        None => (false, pattern),
    };
    let parts: Vec<_> = pattern
        .split(r"\w+")
        .map(|part| part.replace('\\', ""))
        .collect();
    text.lines().any(|line| {
        let mut rest = line;
        for (number, part) in parts.iter().enumerate() {
            let Some(at) = rest.find(part.as_str()) else {
                return false;
            };
            let (skipped, behind) = rest.split_at(at);
            let is_first = number == 0;
            let is_word = |one: char| one.is_ascii_alphanumeric() || "-_".contains(one);
            if (is_first && begin && at > 0) || (!is_first && !skipped.chars().all(is_word)) {
                return false;
            }
            rest = behind.get(part.len()..).unwrap_or_default();
        }
        true
    })
}
