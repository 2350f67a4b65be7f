//! Patterns: what a line has to look like. An object asks for a part of an object; an object whose
//! keys begin with `$` asks for a property.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// What was bound by `{"$bind": "name"}`.
pub(crate) type Names = BTreeMap<String, Value>;

/// Whether `found` is as `pattern` says, and otherwise why not. Binds names.
pub(crate) fn check(
    pattern: &Value,
    found: Option<&Value>,
    names: &mut Names,
) -> Result<(), String> {
    match pattern {
        Value::Object(parts) if is_operators(parts) => {
            for (operator, operand) in parts {
                operate(operator, operand, found, names)?;
            }
            Ok(())
        }
        Value::Object(parts) => {
            let Some(Value::Object(object)) = found else {
                return Err(format!("{} is no object", shown(found)));
            };
            for (key, part) in parts {
                let at = |why| format!(".{key}: {why}");
                check(part, object.get(key), names).map_err(at)?;
            }
            Ok(())
        }
        Value::Array(parts) => {
            let items = list(found)?;
            if items.len() != parts.len() {
                return Err(format!("{} items, not {}", items.len(), parts.len()));
            }
            for (index, (part, item)) in parts.iter().zip(items).enumerate() {
                let at = |why| format!("[{index}]: {why}");
                check(part, Some(item), names).map_err(at)?;
            }
            Ok(())
        }
        // A client may leave out what is null.
        Value::Null => held(matches!(found, None | Some(Value::Null)), found, "null"),
        Value::Number(_) => {
            let is_same = found.is_some_and(|found| is_same_number(pattern, found));
            held(is_same, found, pattern)
        }
        _ => held(found == Some(pattern), found, pattern),
    }
}

fn is_operators(parts: &Map<String, Value>) -> bool {
    !parts.is_empty() && parts.keys().all(|key| key.starts_with('$'))
}

fn operate(
    operator: &str,
    operand: &Value,
    found: Option<&Value>,
    names: &mut Names,
) -> Result<(), String> {
    match operator {
        "$bind" => {
            let name = operand.as_str().ok_or("$bind takes a name")?;
            names.insert(name.to_owned(), found.cloned().unwrap_or_default());
            Ok(())
        }
        "$is" => held(operand == kind(found), found, operand),
        "$any" => any(operand, found, names),
        "$not" => {
            let is_so = check(operand, found, &mut names.clone()).is_ok();
            held(!is_so, found, format!("something that is not {operand}"))
        }
        "$has" => {
            let text = found.and_then(Value::as_str).unwrap_or_default();
            let parts = operand
                .as_array()
                .map_or(std::slice::from_ref(operand), Vec::as_slice);
            let mut parts = parts.iter().filter_map(Value::as_str);
            let is_in = parts.all(|part| text.contains(part));
            held(is_in, found, format!("a text with {operand}"))
        }
        "$near" => {
            let [middle, by] = numbers(operand)?;
            between(found, middle - by, middle + by)
        }
        "$after" => {
            let [from, low, high] = numbers(operand)?;
            between(found, from + low, from + high)
        }
        "$least" => between(found, number(operand)?, f64::INFINITY),
        "$count" => {
            let count = list(found)?.len();
            let is_so = operand.as_u64() == u64::try_from(count).ok();
            is_so
                .then_some(())
                .ok_or(format!("{count} items, not {operand}"))
        }
        "$each" => list(found)?
            .iter()
            .enumerate()
            .try_for_each(|(index, item)| {
                check(operand, Some(item), names).map_err(|why| format!("[{index}]: {why}"))
            }),
        "$at" => {
            let (items, parts) = (
                list(found)?,
                operand.as_object().ok_or("$at takes an object")?,
            );
            parts.iter().try_for_each(|(index, part)| {
                let item = index.parse().ok().and_then(|index: usize| items.get(index));
                check(part, item, names).map_err(|why| format!("[{index}]: {why}"))
            })
        }
        "$some" => {
            let items = list(found)?;
            let some = items.iter().find_map(|item| fits(operand, item, names));
            some.ok_or(format!("none of {} is {operand}", shown(found)))
        }
        _ => Err(format!("there is no pattern {operator}")),
    }
}

/// Binds names only if it fits.
fn fits(pattern: &Value, item: &Value, names: &mut Names) -> Option<()> {
    let mut bound = names.clone();
    check(pattern, Some(item), &mut bound).ok()?;
    *names = bound;
    Some(())
}

fn any(operand: &Value, found: Option<&Value>, names: &mut Names) -> Result<(), String> {
    let mut whys = Vec::new();
    for pattern in list(Some(operand))? {
        let mut bound = names.clone();
        match check(pattern, found, &mut bound) {
            Ok(()) => {
                *names = bound;
                return Ok(());
            }
            Err(why) => whys.push(why),
        }
    }
    Err(whys.join("; nor "))
}

fn kind(found: Option<&Value>) -> &'static str {
    match found {
        None => "absent",
        Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "bool",
        Some(Value::Number(_)) => "number",
        Some(Value::String(_)) => "text",
        Some(Value::Array(_)) => "list",
        Some(Value::Object(_)) => "object",
    }
}

fn list(found: Option<&Value>) -> Result<&[Value], String> {
    match found {
        Some(Value::Array(items)) => Ok(items),
        other => Err(format!("{} is no list", shown(other))),
    }
}

fn number(value: &Value) -> Result<f64, String> {
    value.as_f64().ok_or(format!("{value} is no number"))
}

fn numbers<const N: usize>(operand: &Value) -> Result<[f64; N], String> {
    let given: Result<Vec<f64>, String> = list(Some(operand))?.iter().map(number).collect();
    let wrong = |_| format!("{operand} is no list of {N} numbers");
    given?.try_into().map_err(wrong)
}

fn between(found: Option<&Value>, low: f64, high: f64) -> Result<(), String> {
    let is_so = found
        .and_then(Value::as_f64)
        .is_some_and(|found| (low..=high).contains(&found));
    held(is_so, found, format!("from {low} to {high}"))
}

fn is_same_number(pattern: &Value, found: &Value) -> bool {
    pattern == found || (found.is_number() && pattern.as_f64() == found.as_f64())
}

fn held(is_so: bool, found: Option<&Value>, wanted: impl std::fmt::Display) -> Result<(), String> {
    is_so
        .then_some(())
        .ok_or_else(|| format!("{} is not {wanted}", shown(found)))
}

fn shown(found: Option<&Value>) -> String {
    let text = found.map_or("nothing".to_owned(), Value::to_string);
    crate::log::cut(&text, 300)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_asked_for_has_to_be_there_and_the_rest_is_free() {
        let found = json!({"a": {"b": [1, "x"], "n": null}, "t": 1_500, "more": true});
        let mut names = Names::new();
        for good in [
            json!({"a": {"b": [1.0, "x"]}}),
            json!({"a": {"n": null, "absent": null}, "t": {"$near": [1_400, 100]}}),
            json!({"t": {"$after": [1_000, 500, 600], "$is": "number", "$bind": "t"}}),
            json!({"a": {"b": {"$count": 2, "$some": {"$has": "x"}}}}),
            json!({"t": {"$any": ["x", {"$least": 1_500}]}}),
            json!({"a": {"absent": {"$is": "absent"}, "b": {"$each": {"$not": null}}}}),
        ] {
            assert_eq!(check(&good, Some(&found), &mut names), Ok(()), "{good}");
        }
        assert_eq!(names.get("t"), Some(&json!(1_500)));
        for bad in [
            json!({"a": {"b": [1]}}),
            json!({"a": {"b": [1, "y"]}}),
            json!({"t": {"$near": [1_400, 99]}}),
            json!({"t": {"$after": [1_000, 501, 600]}}),
            json!({"absent": false}),
            json!({"t": {"$any": ["x", null]}}),
            json!({"t": {"$unknown": 1}}),
        ] {
            assert!(check(&bad, Some(&found), &mut names).is_err(), "{bad}");
        }
    }
}
