//! Arguments and answers of `audit_tasks.lua`, `audit_index.lua` and `bury.lua`.

use delayq_core::operate::{AuditReport, Problem};
use delayq_core::{Result, TaskId};

use super::record::{self, Damage};
use super::{Script, ShardKeys};
use crate::connection::{Command, Fields};

/// A key other than the records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Index {
    /// Its index among the keys, from 1.
    key: i64,
    /// The meaning of a bad entry in it.
    what: &'static str,
}

impl Index {
    const fn new(key: i64, what: &'static str) -> Self {
        Self { key, what }
    }
}

pub(crate) const INDEXES: [Index; 8] = [
    Index::new(1, "is scheduled without a record"),
    Index::new(2, "runs without a record"),
    Index::new(3, "has a lock without a record"),
    Index::new(4, "is dead without a record"),
    Index::new(6, "has a trail without a record"),
    Index::new(7, "has a request to run again and does not run"),
    Index::new(8, "its remembered end is damaged"),
    Index::new(9, "its remembered end is damaged"),
];

/// The damage for a letter of `audit_tasks.lua`.
fn structural(letter: char) -> &'static str {
    match letter {
        'n' => "is in no state",
        'i' => "is in several states",
        'l' => "runs without a lock",
        's' => "has a lock without running",
        't' => "its trail is damaged",
        'f' => "its fence is above the largest one given",
        _ => "is damaged",
    }
}

/// One audit of a shard.
#[derive(Debug)]
pub(crate) struct Audit<'a> {
    pub(crate) repair: bool,
    pub(crate) report: &'a mut AuditReport,
}

/// A task as read by the audit.
#[derive(Debug)]
pub(crate) struct Audited {
    pub(crate) id: Vec<u8>,
    state: String,
    record: Vec<u8>,
    wrong: String,
}

impl Audit<'_> {
    fn flag(&self) -> &'static str {
        if self.repair { "1" } else { "0" }
    }

    pub(crate) fn tasks(&self, keys: &ShardKeys, cursor: &str) -> Command {
        let command = keys.script(Script::AuditTasks, 32);
        command.arg(cursor).arg(self.flag())
    }

    pub(crate) fn index(&self, keys: &ShardKeys, index: Index, cursor: &str) -> Command {
        let command = keys.script(Script::AuditIndex, 32).number(index.key);
        command.arg(cursor).arg(self.flag())
    }

    /// Reads the bad entries of an index. Returns the next cursor.
    pub(crate) fn read_index(&mut self, index: Index, mut fields: Fields) -> Result<String> {
        let cursor = fields.text()?;
        while !fields.is_empty() {
            self.add(&fields.bytes()?, index.what, self.repair);
        }
        Ok(cursor)
    }

    /// Adds the structural damage of a task to the report.
    pub(crate) fn note(&mut self, task: &Audited, belongs: bool) {
        self.report.checked += 1;
        if !belongs {
            let what = "is in another shard than its id belongs to: it runs, and no query finds it";
            self.add(&task.id, what, false);
        }
        for letter in task.wrong.chars() {
            self.add(&task.id, structural(letter), self.repair);
        }
    }

    pub(crate) fn add(&mut self, id: &[u8], what: &str, repaired: bool) {
        let id = String::from_utf8_lossy(id);
        self.report.problems.push(Problem::new(id, what, repaired));
    }
}

impl Audited {
    pub(crate) fn read(fields: &mut Fields) -> Result<Self> {
        Ok(Self {
            id: fields.bytes()?,
            state: fields.text()?,
            record: fields.bytes()?,
            wrong: fields.text()?,
        })
    }

    /// The damage of its record, if any. A dead task may be damaged.
    pub(crate) fn damage(&self) -> Option<&'static str> {
        let is_id = std::str::from_utf8(&self.id).is_ok_and(|id| TaskId::new(id).is_ok());
        let what = match record::decode(self.record.clone()) {
            _ if !is_id => "is not a task id",
            Err(Damage::Bad(what)) => what,
            Ok(_) | Err(Damage::Newer(_)) => return None,
        };
        (self.state != "k").then_some(what)
    }

    /// The call that moves it to dead, if it is scheduled. A running task is left to its holder,
    /// which has the undamaged bytes.
    pub(crate) fn bury(&self, keys: &ShardKeys, what: &str) -> Option<Command> {
        (self.state == "s").then(|| {
            keys.script(Script::Bury, 256 + self.record.len())
                .arg(&self.id)
                .arg(&self.record)
                .arg(format!("corrupt: {what}"))
        })
    }
}
