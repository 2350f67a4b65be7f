//! Far tasks, packed by time: the arguments and answers of the scripts that look through them.
//! `far/far.lua` has the layout.

use std::collections::HashSet;

use delayq_core::machine::Gate;
use delayq_core::operate::{AuditReport, Cursor, Page, Problem, merge_pages};
use delayq_core::task::TaskInfo;
use delayq_core::{Result, TaskId, TaskState, Timestamp};

use super::query::{self, StoredTask};
use super::record::{self, Damage};
use super::{Script, ShardKeys, id_of};
use crate::connection::{Command, Fields};

/// Where a walk over the packed tasks of a shard goes on, see `far/walk.lua`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place([String; 3]);

impl Place {
    /// The beginning.
    pub(crate) fn start() -> Self {
        Self(["h", "", ""].map(str::to_owned))
    }

    pub(crate) fn is_end(&self) -> bool {
        self.0.first().is_none_or(String::is_empty)
    }

    /// True before the first bucket of marks is checked.
    fn is_before_marks(&self) -> bool {
        let [kind, at, _] = &self.0;
        kind == "i" && at == "0"
    }

    fn read(fields: &mut Fields) -> Result<Self> {
        Ok(Self([fields.text()?, fields.text()?, fields.text()?]))
    }

    fn add_to(&self, command: Command) -> Command {
        let parts = self.0.iter();
        parts.fold(command, Command::arg)
    }
}

/// One page of the scheduled tasks of a shard, of which some are packed.
#[derive(Debug)]
pub(crate) struct ScheduledPage<'a> {
    keys: &'a ShardKeys,
    after: Option<&'a Cursor>,
    limit: usize,
    pub(crate) place: Place,
    /// The first ones found so far, in order, at most one more than the limit.
    found: Vec<TaskInfo>,
}

impl<'a> ScheduledPage<'a> {
    pub(crate) fn new(keys: &'a ShardKeys, after: Option<&'a Cursor>, limit: usize) -> Self {
        Self {
            keys,
            after,
            limit,
            place: Place::start(),
            found: Vec::new(),
        }
    }

    /// The next step, which looks at some of the packed tasks.
    pub(crate) fn step(&self) -> Command {
        let cut = self.found.get(self.limit);
        let ms = |at: Timestamp| at.as_millis().to_string();
        let command = self
            .keys
            .script(Script::FarPage, 256)
            .number(i64::try_from(self.limit + 1).unwrap_or(1))
            .arg(self.after.map_or(String::new(), |after| ms(after.at)))
            .arg(self.after.map_or("", |after| after.id.as_str()))
            .arg(cut.map_or(String::new(), |cut| ms(cut.at)))
            .arg(cut.map_or("", |cut| cut.id.as_str()));
        self.place.add_to(command)
    }

    pub(crate) fn read(&mut self, mut fields: Fields) -> Result<()> {
        self.place = Place::read(&mut fields)?;
        let gate = query::read_gate(&mut fields)?;
        let mut found = Vec::new();
        while !fields.is_empty() {
            found.push(self.read_one(&gate, &mut fields)?);
        }
        // A task may have been packed again, or moved, between two steps.
        self.leave_out(&found);
        self.found.append(&mut found);
        let place = |task: &TaskInfo| (task.at, task.id.clone());
        self.found.sort_by_key(place);
        self.found.truncate(self.limit + 1);
        Ok(())
    }

    fn read_one(&self, gate: &Gate, fields: &mut Fields) -> Result<TaskInfo> {
        let id = id_of(fields)?;
        let task = StoredTask::packed(id, fields.time()?, fields.bytes()?);
        Ok(task.listed(self.keys, gate))
    }

    fn leave_out(&mut self, tasks: &[TaskInfo]) {
        let ids: HashSet<&TaskId> = tasks.iter().map(|task| &task.id).collect();
        self.found.retain(|task| !ids.contains(&task.id));
    }

    /// The page, with that of the tasks which are not packed. That one may end early.
    pub(crate) fn merged(mut self, unpacked: Page) -> Page {
        let has_more = self.found.len() > self.limit;
        self.found.truncate(self.limit);
        let last = self.found.last().filter(|_| has_more);
        let next = last.map(|task| Cursor::new(task.at, task.id.clone()));
        // A task may have been unpacked since it was found.
        self.leave_out(&unpacked.tasks);
        let mut packed = Page::default();
        packed.next = next;
        packed.tasks = self.found;
        merge_pages(vec![packed, unpacked], TaskState::Scheduled, self.limit)
    }
}

/// Counts some of the packed tasks between these bounds.
pub(crate) fn histogram(keys: &ShardKeys, place: &Place, bounds: &[Timestamp]) -> Command {
    let mut command = place.add_to(keys.script(Script::FarHistogram, 64 + 20 * bounds.len()));
    for bound in bounds {
        command.push(bound.as_millis().to_string());
    }
    command
}

/// Adds the counts of an answer to `counts`. Returns the next place.
pub(crate) fn read_histogram(mut fields: Fields, counts: &mut [u64]) -> Result<Place> {
    let place = Place::read(&mut fields)?;
    for count in counts {
        *count += fields.count()?;
    }
    Ok(place)
}

/// An audit of the packed tasks of a shard.
#[derive(Debug)]
pub(crate) struct FarAudit {
    pub(crate) place: Place,
    repair: bool,
    /// The packed tasks that were seen, and not unpacked by this audit.
    seen: u64,
    /// The marks that were counted.
    marks: u64,
    /// A task has no mark, so that as many marks as tasks say nothing.
    is_hidden: bool,
    /// The count, and the number of its changes, that the last step told.
    told: Option<(u64, u64)>,
    /// Somebody else packed or unpacked a task between two steps.
    is_disturbed: bool,
    /// Ids of tasks with damaged records, to be unpacked.
    damaged: Vec<Vec<u8>>,
}

impl FarAudit {
    pub(crate) fn new(repair: bool) -> Self {
        Self {
            place: Place::start(),
            repair,
            seen: 0,
            marks: 0,
            is_hidden: false,
            told: None,
            is_disturbed: false,
            damaged: Vec::new(),
        }
    }

    pub(crate) fn step(&self, keys: &ShardKeys) -> Command {
        let command = self.place.add_to(keys.script(Script::FarAudit, 64));
        command.arg(if self.repair { "1" } else { "0" })
    }

    /// Adds what a step has found to the report. `belongs` is true for the ids that may be here.
    pub(crate) fn read(
        &mut self,
        mut fields: Fields,
        belongs: impl Fn(&[u8]) -> bool,
        report: &mut AuditReport,
    ) -> Result<()> {
        self.place = self.read_counts(&mut fields)?;
        while !fields.is_empty() {
            let (id, record, wrong) = (fields.bytes()?, fields.bytes()?, fields.text()?);
            let id_text = String::from_utf8_lossy(&id).into_owned();
            let mut add = |what: &str, repaired| {
                let problem = Problem::new(id_text.clone(), what, repaired);
                report.problems.push(problem);
            };
            if wrong == "o" {
                add("marks a packed task that does not exist", self.repair);
                continue;
            }
            let is_unpacked = self.repair && wrong.contains(['j', 'd', 'w']);
            self.seen += u64::from(!is_unpacked);
            self.is_hidden |= wrong.contains('m');
            for letter in wrong.chars() {
                add(structural(letter), self.repair);
            }
            if !belongs(&id) {
                add(
                    "is in another shard than its id belongs to: it runs, and no query finds it",
                    false,
                );
            }
            report.checked += 1;
            match record::decode(record) {
                Err(Damage::Bad(_)) if self.repair && !is_unpacked => self.damaged.push(id),
                Err(Damage::Bad(what)) if !wrong.contains('d') => add(what, false),
                _ => {}
            }
        }
        // As many marks as tasks, each of which has one: every mark leads to a task.
        let is_sound = self.marks == self.seen && !self.is_hidden && !self.is_disturbed;
        if is_sound && self.place.is_before_marks() {
            self.place = Place::default();
        }
        Ok(())
    }

    /// Reads the next place, and whether the count was changed by others since the last step.
    fn read_counts(&mut self, fields: &mut Fields) -> Result<Place> {
        let place = Place::read(fields)?;
        let (before, changes, count) = (fields.count()?, fields.count()?, fields.count()?);
        self.is_disturbed |= self.told.is_some_and(|(_, changes)| changes != before);
        self.told = Some((count, changes));
        self.marks += fields.count()?;
        Ok(place)
    }

    /// The call that unpacks a task whose damage was found by the last step, when it is to be
    /// repaired: what follows moves it to dead, as it does with any damaged task.
    pub(crate) fn unpack(&mut self, keys: &ShardKeys) -> Option<Command> {
        let id = self.damaged.pop()?;
        let command = keys.script(Script::FarAudit, 192).arg("b");
        Some(command.arg(id).arg("").arg("1"))
    }

    pub(crate) fn read_unpacked(&mut self, mut fields: Fields) -> Result<()> {
        self.seen = self.seen.saturating_sub(1);
        self.read_counts(&mut fields).map(drop)
    }

    /// Adds a wrong count to the report, unless tasks were packed or unpacked during the audit.
    /// Returns the call that corrects it.
    pub(crate) fn end(&self, keys: &ShardKeys, report: &mut AuditReport) -> Option<Command> {
        let (count, changes) = self.told.filter(|_| !self.is_disturbed)?;
        if count == self.seen {
            return None;
        }
        let what = format!("has {} packed tasks and counts {count}", self.seen);
        let problem = Problem::new(keys.task_type().to_string(), what, self.repair);
        report.problems.push(problem);
        let place = Place(["c".to_owned(), changes.to_string(), self.seen.to_string()]);
        let command = place.add_to(keys.script(Script::FarAudit, 64));
        self.repair.then(|| command.arg("1"))
    }
}

/// The damage for a letter of `far/audit.lua`.
fn structural(letter: char) -> &'static str {
    match letter {
        'm' => "is packed and no mark leads to it",
        'j' => "is packed and in another state, too",
        'd' => "its packed record is damaged",
        'w' => "is packed in the wrong place",
        'z' => "is packed and not among those to be unpacked",
        _ => "is damaged",
    }
}
