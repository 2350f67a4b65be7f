//! The scripts: one edge each.

use std::sync::OnceLock;

/// A script; its text is in `lua/`, in the file of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Script {
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
    Permit,
    Unstated,
}

const MODEL: &str = include_str!("lua/model.lua");
const LIMIT: &str = include_str!("lua/limit.lua");
const ORDER: &str = include_str!("lua/order.lua");
const DEAD: &str = include_str!("lua/dead.lua");

impl Script {
    /// Every script, so that a new connection can load them all at once.
    pub(super) const ALL: [Self; 29] = [
        Self::Submit,
        Self::Claim,
        Self::Settle,
        Self::Extend,
        Self::Cancel,
        Self::Reschedule,
        Self::Update,
        Self::Find,
        Self::Stats,
        Self::List,
        Self::Histogram,
        Self::Requeue,
        Self::Discard,
        Self::Pause,
        Self::Configure,
        Self::Purge,
        Self::Forget,
        Self::AuditTasks,
        Self::AuditIndex,
        Self::Bury,
        Self::Announce,
        Self::Instances,
        Self::Withdraw,
        Self::Preflight,
        Self::Seal,
        Self::Open,
        Self::Layout,
        Self::Permit,
        Self::Unstated,
    ];

    /// The file's text: the flags in its first line, then the edge.
    fn file(self) -> &'static str {
        match self {
            Self::Submit => include_str!("lua/submit.lua"),
            Self::Claim => include_str!("lua/claim.lua"),
            Self::Settle => include_str!("lua/settle.lua"),
            Self::Extend => include_str!("lua/extend.lua"),
            Self::Cancel => include_str!("lua/cancel.lua"),
            Self::Reschedule => include_str!("lua/reschedule.lua"),
            Self::Update => include_str!("lua/update.lua"),
            Self::Find => include_str!("lua/find.lua"),
            Self::Stats => include_str!("lua/stats.lua"),
            Self::List => include_str!("lua/list.lua"),
            Self::Histogram => include_str!("lua/histogram.lua"),
            Self::Requeue => include_str!("lua/requeue.lua"),
            Self::Discard => include_str!("lua/discard.lua"),
            Self::Pause => include_str!("lua/pause.lua"),
            Self::Configure => include_str!("lua/configure.lua"),
            Self::Purge => include_str!("lua/purge.lua"),
            Self::Forget => include_str!("lua/forget.lua"),
            Self::AuditTasks => include_str!("lua/audit_tasks.lua"),
            Self::AuditIndex => include_str!("lua/audit_index.lua"),
            Self::Bury => include_str!("lua/bury.lua"),
            Self::Announce => include_str!("lua/announce.lua"),
            Self::Instances => include_str!("lua/instances.lua"),
            Self::Withdraw => include_str!("lua/withdraw.lua"),
            Self::Preflight => include_str!("lua/preflight.lua"),
            Self::Seal => include_str!("lua/seal.lua"),
            Self::Open => include_str!("lua/open.lua"),
            Self::Layout => include_str!("lua/layout.lua"),
            Self::Permit => include_str!("lua/permit.lua"),
            Self::Unstated => include_str!("lua/unstated.lua"),
        }
    }

    /// The parts that stand between the first line and the edge.
    fn parts(self) -> &'static [&'static str] {
        match self {
            Self::Claim | Self::Permit | Self::Unstated => &[MODEL, LIMIT],
            Self::List => &[MODEL, ORDER],
            Self::Requeue | Self::Discard => &[MODEL, ORDER, DEAD],
            Self::Layout => &[],
            _ => &[MODEL],
        }
    }

    /// Whether it writes nothing, so that a lost answer has lost nothing.
    pub(super) fn only_reads(self) -> bool {
        self.file().starts_with("#!lua flags=no-writes\n")
    }

    /// The text to load.
    pub(super) fn source(self) -> &'static str {
        static SOURCES: [OnceLock<String>; Script::ALL.len()] =
            [const { OnceLock::new() }; Script::ALL.len()];
        // The discriminants count from 0 in the order of `ALL`, which a test checks.
        SOURCES.get(self as usize).map_or("", |source| {
            source.get_or_init(|| {
                let (flags, edge) = self.file().split_once('\n').unwrap_or_default();
                [&[flags, "\n"], self.parts(), &[edge]].concat().concat()
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_has_its_own_place_and_declares_its_flags_first() {
        for (place, script) in Script::ALL.into_iter().enumerate() {
            assert_eq!(script as usize, place, "{script:?}");
            assert!(script.source().starts_with("#!lua"), "{script:?}");
        }
    }

    #[test]
    fn only_submit_is_refused_when_redis_is_full() {
        for script in Script::ALL {
            let flags = script.source().lines().next().unwrap();
            let may_run = flags.contains("allow-oom") || script.only_reads();
            assert_eq!(may_run, script != Script::Submit, "{script:?}");
        }
    }

    #[test]
    fn every_script_says_what_it_takes_and_returns() {
        for script in Script::ALL {
            for part in ["-- KEYS:", "ARGV:", "-- Returns:"] {
                assert!(script.file().contains(part), "{script:?} lacks {part}");
            }
        }
    }

    #[test]
    fn no_script_uses_a_command_whose_time_grows_with_a_key() {
        for script in Script::ALL {
            for bad in [
                "'KEYS'",
                "'HGETALL'",
                "'HKEYS'",
                "'HVALS'",
                "'DEL'",
                "'SMEMBERS'",
                "0, -1)",
            ] {
                assert!(!script.source().contains(bad), "{script:?} uses {bad}");
            }
        }
    }
}
