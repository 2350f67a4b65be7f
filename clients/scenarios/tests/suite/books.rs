//! The books of a scenario: which attempts have started, and which ran at the same time.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::log::{Entry, What};

/// An attempt that runs.
struct Open<'a> {
    driver: &'a str,
    task_type: &'a str,
    id: &'a str,
    /// Its lock is, or may be, another one's.
    may_be_lost: bool,
}

/// What the entries of a log say about attempts.
#[derive(Debug, Default)]
pub(crate) struct Books {
    starts: Vec<(String, String)>,
    abreast: Vec<(String, usize)>,
    /// Drivers with attempts that have not ended.
    pub(crate) busy: BTreeSet<String>,
    /// Attempts of a task that ran beside each other although no lock was lost.
    pub(crate) doubles: Vec<String>,
}

impl Books {
    pub(crate) fn of(entries: &[Entry]) -> Self {
        let mut books = Self::default();
        let mut open: Vec<Open<'_>> = Vec::new();
        for entry in entries {
            let of_driver = |one: &Open<'_>| one.driver == entry.driver;
            match &entry.what {
                What::Event(event) => books.event(&entry.driver, event, &mut open),
                What::Ended(_) => open.retain(|one| !of_driver(one)),
                What::Paused => {
                    let of_driver = open.iter_mut().filter(|one| of_driver(one));
                    of_driver.for_each(|one| one.may_be_lost = true);
                }
                What::Answer(_) | What::Garbage(_) => {}
            }
        }
        books.busy = open.iter().map(|one| one.driver.to_owned()).collect();
        books
    }

    fn event<'a>(&mut self, driver: &'a str, event: &'a Value, open: &mut Vec<Open<'a>>) {
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
        let (task_type, id) = (text("type"), text("id"));
        let place = open
            .iter()
            .position(|one| one.driver == driver && one.id == id);
        match text("event") {
            "start" => {
                let is_same = |one: &&Open<'_>| one.task_type == task_type && one.id == id;
                if let Some(other) = open.iter().filter(is_same).find(|one| !one.may_be_lost) {
                    let (first, second) = (other.driver, driver);
                    self.doubles
                        .push(format!("{id} of {task_type}: {first} and {second}"));
                }
                self.starts.push((task_type.to_owned(), id.to_owned()));
                open.push(Open {
                    driver,
                    task_type,
                    id,
                    may_be_lost: false,
                });
                let now = open.iter().filter(|one| one.task_type == task_type).count();
                self.abreast.push((task_type.to_owned(), now));
            }
            "lost" => {
                if let Some(one) = place.and_then(|place| open.get_mut(place)) {
                    one.may_be_lost = true;
                }
            }
            "end" => {
                if let Some(place) = place {
                    open.remove(place);
                }
            }
            _ => {}
        }
    }

    /// How many attempts of a type have started, of one task or of all.
    pub(crate) fn starts(&self, task_type: &str, id: Option<&str>) -> usize {
        self.of_type(task_type, id).count()
    }

    /// How many tasks of a type have started.
    pub(crate) fn tasks(&self, task_type: &str) -> usize {
        self.of_type(task_type, None).collect::<BTreeSet<_>>().len()
    }

    /// The largest number of attempts of a type that ran at the same time.
    pub(crate) fn abreast(&self, task_type: &str) -> usize {
        let of_type = self.abreast.iter().filter(|(known, _)| known == task_type);
        of_type.map(|(_, number)| *number).max().unwrap_or(0)
    }

    fn of_type<'a>(
        &'a self,
        task_type: &'a str,
        id: Option<&'a str>,
    ) -> impl Iterator<Item = &'a (String, String)> {
        let all = self.starts.iter();
        all.filter(move |(known, own)| known == task_type && id.is_none_or(|id| id == own))
    }
}

#[test]
fn two_attempts_at_once_are_a_fault_unless_a_lock_was_lost() {
    use serde_json::json;
    let entry = |driver: &str, what| Entry {
        driver: driver.to_owned(),
        what,
        is_taken: false,
    };
    let event = |driver: &str, event: &str| {
        entry(
            driver,
            What::Event(json!({"event": event, "type": "a", "id": "x"})),
        )
    };
    let double = [event("one", "start"), event("two", "start")];
    let books = Books::of(&double);
    assert_eq!((books.doubles.len(), books.abreast("a")), (1, 2));
    assert_eq!(
        (
            books.starts("a", Some("x")),
            books.tasks("a"),
            books.starts("b", None)
        ),
        (2, 1, 0)
    );
    for between in [
        event("one", "lost"),
        event("one", "end"),
        entry("one", What::Paused),
        entry("one", What::Ended(None)),
    ] {
        let books = Books::of(&[event("one", "start"), between, event("two", "start")]);
        assert_eq!(books.doubles, [""; 0]);
    }
}
