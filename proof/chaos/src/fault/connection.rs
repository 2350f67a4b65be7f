//! Faults of the connections between one process and its Redis, done by the proxy between them.

use std::sync::Arc;

use delayq_plugin::millis;

use super::Kind;
use crate::event::{Explains, Target};
use crate::proxy::{Controls, Mischief};
use crate::run::{Failure, Result, Stage};

/// How long it is waited for a request to cut.
const PATIENCE_MS: u64 = 5_000;

/// The name of a worker or submitter, and the controls of its proxy.
fn victim(stage: &mut Stage) -> Result<(String, Arc<Controls>)> {
    let names: Vec<_> = stage
        .processes()
        .map(|process| process.name().to_owned())
        .collect();
    let name = names
        .get(stage.dice.usize(..names.len()))
        .cloned()
        .unwrap_or_default();
    let controls = stage.controls.get(&name).cloned();
    Ok((
        name,
        controls.ok_or_else(|| Failure("a process without a proxy".to_owned()))?,
    ))
}

/// Cuts one process's connections again and again, before or after a request. The proxy counts.
pub(super) async fn cut(kind: Kind, stage: &mut Stage) -> Result<bool> {
    let span = stage.dice.u64(100..1_000);
    let (name, controls) = victim(stage)?;
    let open = stage.begin(
        &kind.name(),
        Target::Process(name),
        vec![Explains::LostLock],
    );
    let before = controls.cuts();
    controls.set(match kind {
        Kind::CutBefore => Mischief::CutBefore,
        _ => Mischief::CutAfter,
    });
    tokio::time::sleep(millis(span)).await;
    // An idle process calls at least once in each poll.
    for _ in 0..PATIENCE_MS / 10 {
        if controls.cuts() > before {
            break;
        }
        tokio::time::sleep(millis(10)).await;
    }
    controls.set(Mischief::None);
    stage.end(&open);
    Ok(controls.cuts() > before)
}

/// Holds the replies to one process back. The proxy counts.
pub(super) async fn delay(stage: &mut Stage) -> Result<bool> {
    let lock = stage.lock_ms;
    let (span, delay) = (stage.dice.u64(500..2_000), stage.dice.u64(20..lock / 2));
    let (name, controls) = victim(stage)?;
    let explains = vec![Explains::LostLock];
    let open = stage.begin(&Kind::DelayReplies.name(), Target::Process(name), explains);
    let before = controls.delays();
    controls.delay(delay);
    tokio::time::sleep(millis(span)).await;
    controls.delay(0);
    // The last replies that were held back are on their way.
    tokio::time::sleep(millis(delay)).await;
    stage.end(&open);
    Ok(controls.delays() > before)
}
