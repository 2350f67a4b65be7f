//! Runs the steps of one scenario.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Map, Value, json};

use crate::books::Books;
use crate::driver::Driver;
use crate::filling::{Filling, span};
use crate::language::Language;
use crate::log::{Log, What};
use crate::pattern::{Names, check};
use crate::scenario::{Scenario, Step};
use crate::server::Server;
use crate::start_gate::Place;

/// Between two looks at the server.
const PAUSE: Duration = Duration::from_millis(50);

/// A call whose answer a later step looks at.
struct Asked {
    driver: String,
    number: u64,
    at: Instant,
}

/// One scenario on its way.
pub(crate) struct Stage<'a> {
    program: &'a Path,
    server: &'a Mutex<Server>,
    /// How long a step may take that says nothing about it.
    patience: Duration,
    log: Arc<Log>,
    filling: Filling,
    drivers: BTreeMap<String, Driver>,
    asked: BTreeMap<String, Asked>,
    /// Drivers that a step has ended.
    ended: Vec<String>,
    /// Drivers whose first line is one of the scenario.
    made_by_it: Vec<String>,
}

impl<'a> Stage<'a> {
    /// With names of its own, and with a driver that another scenario has left.
    pub(crate) fn new(language: &'a Language, server: &'a Mutex<Server>, prefix: String) -> Self {
        Self {
            program: language.program(),
            server,
            patience: language.patience(),
            log: Arc::new(Log::new()),
            filling: Filling {
                prefix,
                names: Names::new(),
            },
            drivers: BTreeMap::new(),
            asked: BTreeMap::new(),
            ended: Vec::new(),
            made_by_it: Vec::new(),
        }
    }

    /// Takes over the driver `app`.
    pub(crate) fn adopt(&mut self, driver: Driver) {
        driver.turn_to(&self.log);
        self.drivers.insert(driver.name.clone(), driver);
    }

    /// The driver `app`, if it can be used again: what it still runs would be told of elsewhere.
    pub(crate) fn leave(&mut self) -> Option<Driver> {
        let driver = self.drivers.remove("app").filter(|driver| driver.is_clean);
        let busy = Books::of(&self.log.lock().entries).busy;
        driver.filter(|driver| !busy.contains(&driver.name))
    }

    pub(crate) fn transcript(&self) -> String {
        self.log.transcript()
    }

    /// Runs all steps, and looks at the books.
    pub(crate) fn run(&mut self, scenario: &Scenario) -> Result<(), String> {
        self.made_by_it = scenario.makers();
        let address = json!(self.server().url());
        self.filling.names.insert("server".to_owned(), address);
        if scenario.names("app") && !self.drivers.contains_key("app") {
            self.start("app", &Step::new())?;
        }
        for (index, step) in scenario.steps.iter().enumerate() {
            let shown = Value::Object(step.clone());
            self.log.write(&format!("step {index} {shown}"));
            let told = |why| format!("step {index} {shown}:\n    {why}");
            self.step(step).map_err(told)?;
            let broken = self.log.lock().broken(&self.ended);
            broken.map_or(Ok(()), |why| Err(told(why)))?;
        }
        // What has come later may have changed the counts.
        let is_count = |step: &&Step| step.contains_key("starts");
        for step in scenario.steps.iter().filter(is_count) {
            self.step(step)
                .map_err(|why| format!("{} at the end: {why}", json!(step)))?;
        }
        let doubles = Books::of(&self.log.lock().entries).doubles;
        let why = "a task ran twice at the same time, and no lock was lost";
        doubles
            .is_empty()
            .then_some(())
            .ok_or_else(|| format!("{why}: {doubles:?}"))
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        let filled = |stage: &Self, key: &str| {
            let value = step.get(key).ok_or(format!("the step has no {key}"))?;
            stage.filling.fill(value)
        };
        let within = |key: &str| match step.get(key).and_then(Value::as_str) {
            Some(text) => span(text),
            None => Ok(self.patience),
        };
        let (verb, whom) = verb(step).ok_or("it has no verb")?;
        let whom = self.filling.fill(whom)?;
        let name = whom.as_str().unwrap_or_default();
        match verb {
            "start" => self.start(name, step),
            "call" => self.call(name, step, within("within")?),
            "answer" => self.answer(name, step, within("within")?),
            "event" => self.event(name, step, within("within")?),
            "none" => self.none(name, &filled(self, "is")?, within("for")?),
            "wait" => {
                self.log.pause(span(name)?);
                Ok(())
            }
            "kill" => self.end(name, Signal::KILL, None, self.patience),
            "terminate" => self.end(name, Signal::TERM, Some(0), within("within")?),
            "pause" => self.driver(name)?.signal(Signal::STOP),
            "resume" => self.driver(name)?.signal(Signal::CONT),
            "server" => self.change_server(name),
            "ask" => {
                let answer = self.ask(&whom, step.get("body"))?;
                step.get("gives")
                    .map_or(Ok(()), |pattern| self.fits(pattern, Some(&answer)))
            }
            "until" => self.until(&whom, step.get("is"), within("within")?),
            "starts" | "abreast" => self.counts(verb, &whom, step),
            _ => Err(format!("there is no step {verb}")),
        }
    }

    fn driver(&mut self, name: &str) -> Result<&mut Driver, String> {
        self.drivers
            .get_mut(name)
            .ok_or(format!("{name} is not started"))
    }

    fn server(&self) -> std::sync::MutexGuard<'a, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fits(&mut self, pattern: &Value, found: Option<&Value>) -> Result<(), String> {
        let pattern = self.filling.fill(pattern)?;
        check(&pattern, found, &mut self.filling.names)
    }

    fn start(&mut self, name: &str, step: &Step) -> Result<(), String> {
        let mut variables = self.server().variables();
        for (key, value) in step
            .get("env")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let value = self.filling.fill(value)?;
            variables.push((key.clone(), value.as_str().unwrap_or_default().to_owned()));
        }
        let place = Place::take();
        let driver = Driver::start(name, self.program, &variables, &self.log)?;
        self.ended.retain(|ended| ended != name);
        self.drivers.insert(name.to_owned(), driver);
        if !self.made_by_it.iter().any(|made| made == name) {
            // Its times count from here on.
            let first = self.driver(name)?.greet()?;
            let asked = Asked {
                driver: name.to_owned(),
                number: first,
                at: Instant::now(),
            };
            self.look_at(&asked, &Step::new(), self.patience)?;
        }
        drop(place);
        Ok(())
    }

    fn call(&mut self, name: &str, step: &Step, within: Duration) -> Result<(), String> {
        let filled = self
            .filling
            .fill(step.get("do").ok_or("the call has no `do`")?)?;
        let Value::Object(call) = filled else {
            return Err("`do` is an object".to_owned());
        };
        let number = self.driver(name)?.call(&call)?;
        let asked = Asked {
            driver: name.to_owned(),
            number,
            at: Instant::now(),
        };
        match step.get("as").and_then(Value::as_str) {
            Some(later) => {
                self.asked.insert(later.to_owned(), asked);
                Ok(())
            }
            None => self.look_at(&asked, step, within),
        }
    }

    fn answer(&mut self, name: &str, step: &Step, within: Duration) -> Result<(), String> {
        let asked = self
            .asked
            .remove(name)
            .ok_or(format!("no call is named {name}"))?;
        self.look_at(&asked, step, within)
    }

    /// Waits for an answer, and compares it: `gives` what is in `ok`, `fails` what is in `error`,
    /// `answers` all of it, `took` the milliseconds since the call.
    fn look_at(&mut self, asked: &Asked, step: &Step, within: Duration) -> Result<(), String> {
        let ended = self.ended.clone();
        let found = self.log.wait(within, |heard| {
            let answer = heard.entries.iter().find_map(|entry| match &entry.what {
                What::Answer(line) if entry.driver == asked.driver => {
                    (line.get("n") == Some(&json!(asked.number))).then(|| line.clone())
                }
                _ => None,
            });
            answer.map(Ok).or_else(|| heard.broken(&ended).map(Err))
        });
        let answer = found.ok_or(format!("{} has not answered in {within:?}", asked.driver))??;
        let took = u64::try_from(asked.at.elapsed().as_millis()).unwrap_or(u64::MAX);
        let pattern = match (step.get("gives"), step.get("fails"), step.get("answers")) {
            (Some(ok), None, None) => json!({"ok": ok, "error": {"$is": "absent"}}),
            (None, Some(error), None) => json!({"error": error, "ok": {"$is": "absent"}}),
            (None, None, Some(whole)) => whole.clone(),
            (None, None, None) => json!({"error": {"$is": "absent"}}),
            _ => return Err("one of gives, fails and answers".to_owned()),
        };
        let told = |why| format!("{why}\n    the answer: {answer}");
        self.fits(&pattern, Some(&answer)).map_err(told)?;
        let pattern = step.get("took").unwrap_or(&Value::Null);
        if pattern.is_null() {
            return Ok(());
        }
        self.fits(pattern, Some(&json!(took)))
            .map_err(|why| format!("took (ms): {why}"))
    }

    fn event(&mut self, name: &str, step: &Step, within: Duration) -> Result<(), String> {
        let pattern = self
            .filling
            .fill(step.get("is").ok_or("the event has no `is`")?)?;
        let (names, ended) = (self.filling.names.clone(), self.ended.clone());
        let prefix = self.filling.prefix.clone();
        let found = self.log.wait(within, |heard| {
            let of_driver = |driver: &str| name == "*" || driver == name;
            for entry in heard.entries.iter_mut().filter(|entry| !entry.is_taken) {
                let What::Event(event) = &entry.what else {
                    continue;
                };
                // A driver may still have tasks of a scenario before.
                let task_type = event.get("type").and_then(Value::as_str);
                if task_type.is_some_and(|name| !name.starts_with(&prefix)) {
                    continue;
                }
                let mut bound = names.clone();
                if of_driver(&entry.driver) && check(&pattern, Some(event), &mut bound).is_ok() {
                    entry.is_taken = true;
                    return Some(Ok((entry.driver.clone(), bound)));
                }
            }
            heard.broken(&ended).map(Err)
        });
        let (driver, names) = found.ok_or(format!("no such event of {name} in {within:?}"))??;
        self.filling.names = names;
        if let Some(by) = step.get("by").and_then(Value::as_str) {
            self.filling.names.insert(by.to_owned(), json!(driver));
        }
        Ok(())
    }

    fn none(&mut self, name: &str, pattern: &Value, span: Duration) -> Result<(), String> {
        let names = self.filling.names.clone();
        let found = self.log.wait(span, |heard| {
            let entries = heard.entries.iter().filter(|entry| !entry.is_taken);
            let mut of_driver = entries.filter(|entry| name == "*" || entry.driver == name);
            of_driver.find_map(|entry| match &entry.what {
                What::Event(event) => {
                    let is_so = check(pattern, Some(event), &mut names.clone()).is_ok();
                    is_so.then(|| event.clone())
                }
                _ => None,
            })
        });
        found.map_or(Ok(()), |event| Err(format!("there is one: {event}")))
    }

    /// Ends a driver by a signal, and waits until it is gone.
    fn end(
        &mut self,
        name: &str,
        signal: Signal,
        code: Option<i32>,
        within: Duration,
    ) -> Result<(), String> {
        self.ended.push(name.to_owned());
        let is_end = |what: &What| matches!(what, What::Ended(_));
        let before = self.log.lock().entries.len();
        self.driver(name)?.signal(signal)?;
        let found = self.log.wait(within, |heard| {
            let mut later = heard.entries.iter().skip(before);
            let end = later.find(|entry| entry.driver == name && is_end(&entry.what));
            end.map(|entry| match entry.what {
                What::Ended(code) => code,
                _ => None,
            })
        });
        let found = found.ok_or(format!("{name} has not ended in {within:?}"))?;
        self.drivers.remove(name);
        let is_as_wanted = code.is_none() || found == code;
        is_as_wanted
            .then_some(())
            .ok_or(format!("{name} has ended with {found:?}, not {code:?}"))
    }

    fn change_server(&mut self, change: &str) -> Result<(), String> {
        let mut server = self.server();
        match change {
            "kill" => {
                server.kill();
                Ok(())
            }
            "start" => server.start(),
            "pause" => server.signal(Signal::STOP),
            "resume" => server.signal(Signal::CONT),
            _ => Err(format!("the server cannot {change}")),
        }
    }

    /// Sends a request of the form `GET path`; a body that is no text is sent as JSON.
    fn ask(&self, request: &Value, body: Option<&Value>) -> Result<Value, String> {
        let request = request.as_str().unwrap_or_default();
        let (method, path) = request.split_once(' ').ok_or("write METHOD PATH")?;
        let body = match body {
            None => String::new(),
            Some(body) => match self.filling.fill(body)? {
                Value::String(text) => text,
                json => json.to_string(),
            },
        };
        let door = self.server().door();
        let (status, body) = door.ask(method, path, &body)?;
        self.log
            .write(&format!("server: {request}: {status} {body}"));
        Ok(json!({"status": status, "body": body}))
    }

    /// Asks the server itself until its answer is as it should be: a client does not judge itself.
    fn until(&mut self, what: &Value, is: Option<&Value>, within: Duration) -> Result<(), String> {
        let path = match (what.get("get"), what.get("find")) {
            (Some(Value::String(path)), None) => path.clone(),
            (None, Some(Value::Array(names))) => match names.as_slice() {
                [Value::String(task_type), Value::String(id)] => {
                    format!("types/{task_type}/tasks/{}", percent(id))
                }
                _ => return Err("write [TYPE, ID]".to_owned()),
            },
            _ => return Err("write find or get".to_owned()),
        };
        let (door, end) = (self.server().door(), Instant::now() + within);
        loop {
            let asked = door.ask("GET", &path, "");
            let found = asked.map(|(status, body)| if status == 404 { Value::Null } else { body });
            let why = match found {
                Ok(found) => match self.fits(is.unwrap_or(&Value::Null), Some(&found)) {
                    Ok(()) => return Ok(()),
                    Err(why) => format!("{why}\n    the server: {found}"),
                },
                Err(why) => why,
            };
            if Instant::now() > end {
                return Err(why);
            }
            self.log.pause(PAUSE);
        }
    }

    /// Waits for the counts: the server may know of an attempt before its driver was heard.
    fn counts(&mut self, verb: &str, of: &Value, step: &Step) -> Result<(), String> {
        let pattern = |key| self.filling.fill(step.get(key).unwrap_or(&Value::Null));
        let (is, tasks) = (pattern("is")?, pattern("tasks")?);
        let mut why = String::new();
        let fits = self.log.wait(self.patience, |heard| {
            match counted(&Books::of(&heard.entries), verb, of, &[&is, &tasks]) {
                Ok(()) => Some(()),
                Err(other) => {
                    why = other;
                    None
                }
            }
        });
        fits.ok_or(why)
    }
}

/// Compares what the books have: `is` and `tasks` are patterns.
fn counted(
    books: &Books,
    verb: &str,
    of: &Value,
    is_and_tasks: &[&Value; 2],
) -> Result<(), String> {
    let [is, tasks] = is_and_tasks;
    let names = &mut Names::new();
    if verb == "abreast" {
        let most = books.abreast(of.as_str().unwrap_or_default());
        return check(is, Some(&json!(most)), names);
    }
    let Some([Value::String(task_type), id]) = of.as_array().map(Vec::as_slice) else {
        return Err("write [TYPE, ID]".to_owned());
    };
    let starts = books.starts(task_type, id.as_str());
    check(is, Some(&json!(starts)), names)?;
    if tasks.is_null() {
        return Ok(());
    }
    check(tasks, Some(&json!(books.tasks(task_type))), names)
}

/// The verb of a step, and its object.
fn verb(step: &Map<String, Value>) -> Option<(&str, &Value)> {
    const VERBS: [&str; 15] = [
        "start",
        "call",
        "answer",
        "event",
        "none",
        "wait",
        "kill",
        "terminate",
        "pause",
        "resume",
        "server",
        "ask",
        "until",
        "starts",
        "abreast",
    ];
    let mut verbs = VERBS.into_iter();
    verbs.find_map(|verb| Some((verb, step.get(verb)?)))
}

/// A segment of a path.
fn percent(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_~:".contains(&byte);
    let encoded = text.bytes().map(|byte| match byte {
        b'.' if text.len() > 2 => ".".to_owned(),
        byte if plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    encoded.collect()
}
