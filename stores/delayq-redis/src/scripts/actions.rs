//! Log of actions: a list in the namespace, latest first, whose numbers have no gaps.

use delayq_core::chronicle::{Action, LoggedAction, MAX_ACTIONS, decode_action, encode_action};
use delayq_core::{Result, Timestamp};

use super::{Keyspace, Script};
use crate::connection::{Command, Fields};

/// Adds an action.
pub(crate) fn log(keys: &Keyspace, action: &Action) -> Command {
    call(keys, Script::Log)
        .arg(encode_action(action))
        .arg(MAX_ACTIONS.to_string())
}

/// Reads up to `most` actions (not 0) with numbers below `before`.
pub(crate) fn read(keys: &Keyspace, before: Option<u64>, most: usize) -> Command {
    call(keys, Script::Actions)
        .arg(before.map(|before| before.to_string()).unwrap_or_default())
        .arg(most.to_string())
}

/// Decodes the answer to [`read`].
pub(crate) fn actions(mut fields: Fields) -> Result<Vec<LoggedAction>> {
    let mut number = fields.int()?.unsigned_abs();
    let mut actions = Vec::new();
    while !fields.is_empty() {
        actions.push(action(number, &fields.bytes()?));
        number = number.saturating_sub(1);
    }
    Ok(actions)
}

/// A stored action, `NUMBER MS JSON`. The number follows from its position; a damaged action is
/// shown as such.
fn action(number: u64, stored: &[u8]) -> LoggedAction {
    let mut parts = stored.splitn(3, |byte| *byte == b' ');
    let mut next = || parts.next();
    let (_, ms, action) = (next(), next(), next());
    let ms = ms.and_then(|ms| std::str::from_utf8(ms).ok()?.parse().ok());
    let (ms, action) = ms.zip(action).unwrap_or((0, stored));
    LoggedAction::new(number, Timestamp::from_millis(ms), decode_action(action))
}

fn call(keys: &Keyspace, script: Script) -> Command {
    Command::script(script.lua(), keys.slot(), &[keys.actions()], 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_read_as_earlier_releases_wrote_it_and_damage_is_shown() {
        let stored = br#"7 1767225600000 {"v":1,"actor":"ann","origin":"cli","verb":"pause","task_type":"mail.send","end":"done"}"#;
        let logged = action(7, stored);
        assert_eq!(logged.at.as_millis(), 1_767_225_600_000);
        assert_eq!(
            logged.action,
            Action::new("ann", "cli", "pause", "mail.send")
        );
        for damaged in [&b""[..], b"7", b"7 x {}", b"7 1 {", b"\xff \xff \xff"] {
            assert_eq!(action(7, damaged).action.verb, "unreadable", "{damaged:?}");
        }
    }
}
