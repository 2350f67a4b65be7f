//! The files of a declared state: TOML or JSON, one or several, merged into one document.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::Refusal;

/// Where a value may be `{ env = "NAME" }` or `{ file = "PATH" }` instead. `*` is any name.
const REFERENCES: [&[&str]; 6] = [
    &["tokens", "*", "secret"],
    &["namespaces", "*", "types", "*", "target", "http", "url"],
    &[
        "namespaces",
        "*",
        "types",
        "*",
        "target",
        "http",
        "headers",
        "*",
    ],
    &[
        "namespaces",
        "*",
        "types",
        "*",
        "target",
        "http",
        "secrets",
        "*",
    ],
    &[
        "namespaces",
        "*",
        "types",
        "*",
        "target",
        "grpc",
        "metadata",
        "*",
    ],
    &["namespaces", "*", "recurring", "*", "message"],
];

/// Reads files, and the TOML and JSON files of folders in the order of their names.
///
/// # Errors
/// A file cannot be read or parsed, a reference leads nowhere, or two files say the same thing.
pub(super) fn read(paths: &[PathBuf]) -> Result<Value, Refusal> {
    let mut whole = Value::Object(Map::new());
    for path in paths {
        let files = files_of(path)?;
        if files.is_empty() {
            let text = format!("{}: the folder has no file .toml or .json", path.display());
            return Err(Refusal::new(text));
        }
        for file in files {
            merge(&mut whole, read_file(&file)?, "")
                .map_err(|place| Refusal::at(file.display(), format!("{place} is there twice")))?;
        }
    }
    Ok(whole)
}

fn files_of(path: &Path) -> Result<Vec<PathBuf>, Refusal> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).map_err(|error| Refusal::at(path.display(), error))?;
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| Refusal::at(path.display(), error))?;
        if is_toml(&entry.path()) || is_json(&entry.path()) {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "toml")
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "json")
}

fn read_file(file: &Path) -> Result<Value, Refusal> {
    let at = |error: &dyn std::fmt::Display| Refusal::at(file.display(), error);
    let text = std::fs::read_to_string(file).map_err(|error| at(&error))?;
    let text = text.trim_start_matches('\u{feff}');
    let mut value = if is_toml(file) {
        let table = text.parse::<toml::Table>();
        let table = table.map_err(|error| at(&place_of(&error, text)))?;
        json_of(toml::Value::Table(table))
    } else if is_json(file) {
        // TOML refuses a name that is there twice, and so does this.
        serde_json::from_str::<Distinct>(text)
            .map_err(|error| at(&error))?
            .0
    } else {
        return Err(at(&"a file of the state ends in .toml or .json"));
    };
    if !value.is_object() {
        return Err(at(&"a state is an object"));
    }
    let folder = file.parent().unwrap_or(Path::new(""));
    for path in REFERENCES {
        resolve(&mut value, path, folder).map_err(|error| at(&error))?;
    }
    Ok(value)
}

/// What is wrong and where, without the line itself: it may have a secret.
fn place_of(error: &toml::de::Error, text: &str) -> String {
    let start = error.span().map_or(0, |span| span.start);
    let before = text.get(..start).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count()
        + 1;
    format!("line {line}, column {column}: {}", error.message())
}

/// The same value, with its times as texts.
fn json_of(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(is_true) => is_true.into(),
        toml::Value::Datetime(time) => Value::String(time.to_string()),
        toml::Value::Array(list) => list.into_iter().map(json_of).collect(),
        toml::Value::Table(table) => {
            let fields = table.into_iter();
            fields.map(|(name, value)| (name, json_of(value))).collect()
        }
    }
}

/// A JSON value whose objects have no name twice.
struct Distinct(Value);

impl<'de> serde::Deserialize<'de> for Distinct {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(DistinctVisitor).map(Self)
    }
}

struct DistinctVisitor;

impl<'de> serde::de::Visitor<'de> for DistinctVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, is_true: bool) -> Result<Value, E> {
        Ok(is_true.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        while let Some(Distinct(one)) = list.next_element()? {
            read.push(one);
        }
        Ok(read.into())
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut read = Map::new();
        while let Some((name, Distinct(value))) = map.next_entry::<String, Distinct>()? {
            if read.contains_key(&name) {
                let text = format!("{name:?} is there twice");
                return Err(serde::de::Error::custom(text));
            }
            read.insert(name, value);
        }
        Ok(read.into())
    }
}

/// Puts what references stand for in their places.
fn resolve(value: &mut Value, path: &[&str], folder: &Path) -> Result<(), String> {
    let Some((name, rest)) = path.split_first() else {
        if let Value::Object(reference) = value {
            *value = Value::String(referred(reference, folder)?);
        }
        return Ok(());
    };
    match value {
        Value::Object(fields) if *name == "*" => fields
            .values_mut()
            .try_for_each(|field| resolve(field, rest, folder)),
        Value::Array(list) if *name == "*" => list
            .iter_mut()
            .try_for_each(|one| resolve(one, rest, folder)),
        Value::Object(fields) => match fields.get_mut(*name) {
            Some(field) => resolve(field, rest, folder),
            None => Ok(()),
        },
        // What it is then, the form of the whole says.
        _ => Ok(()),
    }
}

/// The text that a reference stands for, without the ends of its last lines.
fn referred(reference: &Map<String, Value>, folder: &Path) -> Result<String, String> {
    let mut fields = reference.iter();
    match (fields.next(), fields.next()) {
        (Some((kind, Value::String(name))), None) if kind == "env" => std::env::var(name)
            .map_err(|_| format!("env {name:?}: there is no such variable, or it is no text")),
        (Some((kind, Value::String(name))), None) if kind == "file" => {
            let file = folder.join(name);
            let text = std::fs::read_to_string(&file);
            let text = text.map_err(|error| format!("file {}: {error}", file.display()))?;
            let text = text
                .trim_start_matches('\u{feff}')
                .trim_end_matches(['\r', '\n']);
            Ok(text.to_owned())
        }
        _ => Err("a reference is { env = \"NAME\" } or { file = \"PATH\" }".to_owned()),
    }
}

/// Adds `other` to `whole`.
///
/// # Errors
/// The name of what both have.
fn merge(whole: &mut Value, other: Value, place: &str) -> Result<(), String> {
    match (whole, other) {
        (Value::Object(whole), Value::Object(other)) => {
            for (name, value) in other {
                let dot = if place.is_empty() { "" } else { "." };
                let place = format!("{place}{dot}{name}");
                match whole.get_mut(&name) {
                    Some(known) => merge(known, value, &place)?,
                    None => drop(whole.insert(name, value)),
                }
            }
            Ok(())
        }
        // Every file may say whose state it is.
        (known, value) if place == "name" && *known == value => Ok(()),
        _ => Err(place.to_owned()),
    }
}
