//! The sentences, as they stand in `scenarios.json`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

const SENTENCES: &str = include_str!("../../scenarios.json");

/// One step: an object, see `clients/README.md`.
pub(crate) type Step = Map<String, Value>;

/// One sentence, and the steps that show it.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    /// Languages for which it does not hold, each with the reason.
    #[serde(default)]
    pub(crate) not_for: BTreeMap<String, String>,
    pub(crate) steps: Vec<Step>,
}

impl Scenario {
    /// All of them.
    pub(crate) fn all() -> Vec<Self> {
        serde_json::from_str(SENTENCES).expect("scenarios.json is a list of scenarios")
    }

    /// Whether it stops its server: no other scenario may be on it.
    pub(crate) fn needs_a_server(&self) -> bool {
        self.steps.iter().any(|step| step.contains_key("server"))
    }

    /// The drivers that it makes an app of in its own way.
    pub(crate) fn makers(&self) -> Vec<String> {
        let of_step = |step: &Step| {
            let verb = step.get("do")?.get("do")?.as_str()?;
            let driver = step.get("call")?.as_str()?;
            (verb == "app").then(|| driver.to_owned())
        };
        self.steps.iter().filter_map(of_step).collect()
    }

    /// Whether it has something to do with this driver.
    pub(crate) fn names(&self, driver: &str) -> bool {
        let mut steps = self.steps.iter();
        steps.any(|step| step.values().any(|value| value == driver))
    }
}

#[test]
fn every_sentence_is_there_once_and_what_is_left_out_has_a_reason() {
    let all = Scenario::all();
    let mut names: Vec<_> = all.iter().map(|scenario| &scenario.name).collect();
    names.sort();
    let number = names.len();
    names.dedup();
    assert_eq!(names.len(), number);
    for scenario in &all {
        assert!(!scenario.steps.is_empty(), "{}", scenario.name);
        assert!(
            scenario.not_for.values().all(|reason| !reason.is_empty()),
            "{}",
            scenario.name
        );
    }
}
