//! The Lua scripts, one for each operation on a shard: their texts, arguments and answers.
//!
//! `model.lua` documents the stored data. [`keys`] builds the names, [`record`] the stored formats;
//! each other module encodes the arguments of a script and decodes its answer. Nothing here does
//! I/O.

use std::sync::LazyLock;

pub(crate) mod actions;
pub(crate) mod audit;
pub(crate) mod change;
pub(crate) mod claim;
pub(crate) mod dead;
pub(crate) mod documents;
pub(crate) mod ended;
pub(crate) mod ends;
pub(crate) mod far;
pub(crate) mod figures;
pub(crate) mod keys;
pub(crate) mod packing;
pub(crate) mod query;
pub(crate) mod record;
pub(crate) mod replies;
pub(crate) mod settle;
pub(crate) mod submit;

pub(crate) use keys::{Keyspace, ShardId, ShardKeys};

use crate::connection::{Fields, LuaScript};
use delayq_core::{Error, Result, TaskId, TaskState};

/// Retention of ended tasks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retention {
    /// How long they are remembered, in ms.
    pub(crate) ms: i64,
    /// Minimum number remembered for a type: the older generation alone holds as many when a new
    /// one begins.
    pub(crate) most: usize,
}

/// A script, named after its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Script {
    Submit,
    Claim,
    Settle,
    Extend,
    Cancel,
    Reschedule,
    Update,
    Find,
    Stats,
    List,
    Histogram,
    Requeue,
    Discard,
    Pause,
    Configure,
    Purge,
    Forget,
    AuditTasks,
    AuditIndex,
    Bury,
    Announce,
    Instances,
    Withdraw,
    Preflight,
    Seal,
    Open,
    Layout,
    Drop,
    Ended,
    Note,
    Figures,
    Log,
    Actions,
    Document,
    Reply,
    TakeEnds,
    EndsStatus,
    FarPage,
    FarHistogram,
    FarAudit,
    FarProbe,
}

const MODEL: &str = include_str!("scripts/model.lua");
const AGAIN: &str = include_str!("scripts/again.lua");
const ENDS: &str = include_str!("scripts/ends.lua");
const GATE: &str = include_str!("scripts/gate.lua");
const LIMIT: &str = include_str!("scripts/limit.lua");
const ORDER: &str = include_str!("scripts/order.lua");
const DEAD: &str = include_str!("scripts/dead.lua");
const ACTION: &str = include_str!("scripts/action.lua");
const FAR: &str = include_str!("scripts/far/far.lua");
const WALK: &str = include_str!("scripts/far/walk.lua");

/// Every script in the order of the discriminants, with its file: the flags in the first line, then
/// the operation.
pub(crate) const FILES: [(Script, &str); 41] = [
    (Script::Submit, include_str!("scripts/submit.lua")),
    (Script::Claim, include_str!("scripts/claim.lua")),
    (Script::Settle, include_str!("scripts/settle.lua")),
    (Script::Extend, include_str!("scripts/extend.lua")),
    (Script::Cancel, include_str!("scripts/cancel.lua")),
    (Script::Reschedule, include_str!("scripts/reschedule.lua")),
    (Script::Update, include_str!("scripts/update.lua")),
    (Script::Find, include_str!("scripts/find.lua")),
    (Script::Stats, include_str!("scripts/stats.lua")),
    (Script::List, include_str!("scripts/list.lua")),
    (Script::Histogram, include_str!("scripts/histogram.lua")),
    (Script::Requeue, include_str!("scripts/requeue.lua")),
    (Script::Discard, include_str!("scripts/discard.lua")),
    (Script::Pause, include_str!("scripts/pause.lua")),
    (Script::Configure, include_str!("scripts/configure.lua")),
    (Script::Purge, include_str!("scripts/purge.lua")),
    (Script::Forget, include_str!("scripts/forget.lua")),
    (Script::AuditTasks, include_str!("scripts/audit_tasks.lua")),
    (Script::AuditIndex, include_str!("scripts/audit_index.lua")),
    (Script::Bury, include_str!("scripts/bury.lua")),
    (Script::Announce, include_str!("scripts/announce.lua")),
    (Script::Instances, include_str!("scripts/instances.lua")),
    (Script::Withdraw, include_str!("scripts/withdraw.lua")),
    (Script::Preflight, include_str!("scripts/preflight.lua")),
    (Script::Seal, include_str!("scripts/seal.lua")),
    (Script::Open, include_str!("scripts/open.lua")),
    (Script::Layout, include_str!("scripts/layout.lua")),
    (Script::Drop, include_str!("scripts/drop.lua")),
    (Script::Ended, include_str!("scripts/ended.lua")),
    (Script::Note, include_str!("scripts/note.lua")),
    (Script::Figures, include_str!("scripts/figures.lua")),
    (Script::Log, include_str!("scripts/log.lua")),
    (Script::Actions, include_str!("scripts/actions.lua")),
    (Script::Document, include_str!("scripts/document.lua")),
    (Script::Reply, include_str!("scripts/reply.lua")),
    (Script::TakeEnds, include_str!("scripts/take_ends.lua")),
    (Script::EndsStatus, include_str!("scripts/ends_status.lua")),
    (Script::FarPage, include_str!("scripts/far/page.lua")),
    (
        Script::FarHistogram,
        include_str!("scripts/far/histogram.lua"),
    ),
    (Script::FarAudit, include_str!("scripts/far/audit.lua")),
    (Script::FarProbe, include_str!("scripts/far/probe.lua")),
];

/// The text of each script, in the order of [`FILES`].
static TEXTS: LazyLock<Vec<LuaScript>> = LazyLock::new(|| {
    let texts = FILES.iter().map(|(script, file)| script.text(file));
    texts.map(LuaScript::new).collect()
});

impl Script {
    /// Every script, so that a new connection can load them all at once.
    pub(crate) fn all() -> &'static [LuaScript] {
        &TEXTS
    }

    /// The script in the form that is loaded.
    pub(crate) fn lua(self) -> &'static LuaScript {
        // A test compares the discriminants with the order of `FILES`.
        TEXTS.get(self as usize).expect("every script has a text")
    }

    /// The parts inserted between the first line and the operation.
    fn parts(self) -> &'static [&'static str] {
        match self {
            Self::Claim => &[MODEL, FAR, ENDS, AGAIN, LIMIT],
            Self::Find => &[MODEL, FAR, AGAIN, GATE],
            Self::List => &[MODEL, AGAIN, GATE, ORDER],
            Self::Submit => &[MODEL, FAR, AGAIN],
            Self::Cancel | Self::Purge => &[MODEL, FAR, ENDS, AGAIN],
            Self::Settle => &[MODEL, ENDS, AGAIN],
            Self::AuditIndex => &[MODEL, AGAIN],
            Self::Update | Self::Reschedule | Self::Seal | Self::Drop | Self::Stats => {
                &[MODEL, FAR]
            }
            Self::FarPage | Self::FarHistogram => &[MODEL, GATE, ORDER, FAR, WALK],
            Self::FarAudit => &[MODEL, ORDER, FAR, WALK],
            Self::Requeue => &[MODEL, ORDER, DEAD],
            Self::Discard => &[MODEL, ENDS, ORDER, DEAD],
            Self::Bury | Self::TakeEnds | Self::EndsStatus => &[MODEL, ENDS],
            Self::Log | Self::Actions => &[MODEL, ACTION],
            Self::Layout | Self::FarProbe => &[],
            _ => &[MODEL],
        }
    }

    /// Builds the script to load from its file.
    fn text(self, file: &str) -> String {
        let (flags, operation) = file.split_once('\n').unwrap_or_default();
        [&[flags, "\n"], self.parts(), &[operation]]
            .concat()
            .concat()
    }
}

/// The state for a script's letter. A task in no index counts as scheduled.
pub(crate) fn state_of(letter: &str) -> Result<TaskState> {
    Ok(match letter {
        "s" | "?" => TaskState::Scheduled,
        "r" => TaskState::Running,
        "k" => TaskState::Dead,
        "d" => TaskState::Done,
        "c" => TaskState::Cancelled,
        "e" => TaskState::Expired,
        _ => return Err(unexpected(format!("{letter:?} is no letter of a state"))),
    })
}

/// The next field as a task's id.
pub(crate) fn id_of(fields: &mut Fields) -> Result<TaskId> {
    let id = fields.text()?;
    TaskId::new(&id).map_err(|_| Error::corrupt(id, "stored as a task's id, and is none"))
}

/// The error for an unexpected answer of a script.
pub(crate) fn unexpected(detail: String) -> Error {
    Error::corrupt("unexpected reply of a script", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_is_listed_once_in_the_order_of_the_discriminants() {
        for (index, (script, _)) in FILES.into_iter().enumerate() {
            assert_eq!(script as usize, index, "{script:?}");
        }
    }

    #[test]
    fn every_script_begins_with_its_flags_and_says_what_it_takes_and_returns() {
        for (script, file) in FILES {
            assert!(script.text(file).starts_with("#!lua"), "{script:?}");
            for part in ["-- KEYS:", "ARGV:", "-- Returns:"] {
                assert!(file.contains(part), "{script:?} lacks {part}");
            }
        }
    }

    #[test]
    fn only_submit_is_refused_when_redis_is_full() {
        for (script, file) in FILES {
            let text = script.text(file);
            let flags = text.lines().next().unwrap();
            let may_run = flags.contains("allow-oom") || flags.contains("no-writes");
            assert_eq!(may_run, script != Script::Submit, "{script:?}");
        }
    }

    #[test]
    fn no_script_uses_a_command_whose_time_grows_with_a_key() {
        let slow = [
            "'KEYS'",
            "'HGETALL'",
            "'HKEYS'",
            "'HVALS'",
            "'DEL'",
            "'SMEMBERS'",
            "0, -1)",
        ];
        for (script, file) in FILES {
            for command in slow {
                assert!(
                    !script.text(file).contains(command),
                    "{script:?} uses {command}"
                );
            }
        }
    }
}
