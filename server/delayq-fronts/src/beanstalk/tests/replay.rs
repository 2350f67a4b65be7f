//! The answers of beanstalkd, recorded, are those of this server.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Client, start};

const RECORDED: &str = include_str!("../../../../../tests/exchanges/beanstalk/beanstalk.jsonl");

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_recorded_answer_is_given_again() {
    let mut scenarios: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in RECORDED.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let name = line["scenario"].as_str().unwrap().to_owned();
        scenarios.entry(name).or_default().push(line);
    }
    let played = scenarios.into_iter().map(|(name, lines)| play(name, lines));
    let played: Vec<Vec<String>> = futures_util::future::join_all(played).await;
    let different: Vec<String> = played.into_iter().flatten().collect();
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// What differs.
async fn play(name: String, lines: Vec<Value>) -> Vec<String> {
    let address = start().await;
    let mut clients = BTreeMap::new();
    let mut different = Vec::new();
    for line in lines {
        let number = line["conn"].as_u64().unwrap();
        let client = match clients.entry(number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Client::connect(address).await),
        };
        tokio::time::sleep(seconds(&line["wait"])).await;
        let text = text(&line["send"]);
        client.send(&text).await;
        let first = seconds(&line["answer_within"]);
        let answer = if first.is_zero() {
            String::new()
        } else {
            client.read(first).await
        };
        let (got, want) = (normal(&answer, &line["recv"]), &line["recv"]);
        if got != *want {
            let begin = text.get(..40).unwrap_or(&text);
            different.push(format!("{name}: {begin:?}: want {want}, got {got}"));
        }
    }
    different
}

fn seconds(value: &Value) -> Duration {
    Duration::from_secs_f64(value.as_f64().unwrap())
}

fn text(send: &Value) -> String {
    if let Some(text) = send.as_str() {
        return text.to_owned();
    }
    let bytes = usize::try_from(send["body_bytes"].as_u64().unwrap()).unwrap();
    format!(
        "{}\r\n{}\r\n",
        send["head"].as_str().unwrap(),
        "x".repeat(bytes)
    )
}

/// An answer in the form of the recording, without the values that it leaves out.
fn normal(answer: &str, want: &Value) -> Value {
    if !(answer.starts_with("OK ") && answer.contains("---\n")) {
        return answer.into();
    }
    let items = answer.lines().filter_map(|line| line.strip_prefix("- "));
    let items: Vec<&str> = items.map(str::trim).collect();
    if !items.is_empty() {
        return json!({"list": items});
    }
    let mut entries = Map::new();
    for (name, value) in answer.lines().filter_map(|line| line.split_once(": ")) {
        let is_left_out = want["yaml"].get(name).is_some_and(Value::is_null);
        let value = value.trim_matches('"');
        let value = if is_left_out {
            Value::Null
        } else {
            value.into()
        };
        entries.insert(name.to_owned(), value);
    }
    json!({"yaml": entries})
}
