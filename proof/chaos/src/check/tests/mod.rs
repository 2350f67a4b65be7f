//! Planted bugs: each history is told twice, with the bug and without. With it, exactly one rule of
//! one promise is broken; without it, everything holds.

use super::{Outcome, Promise};

mod allowance;
mod due;
mod ends;
mod expired_start;
mod fail_over;
mod held;
mod idle;
mod lock;
mod lost;
mod narrow;
mod operate;
mod rollback;
mod run;
mod scene;
mod stall;
mod told;
mod waits;
mod work;

use scene::Scene;

/// Tells `story` without and with its bug (the argument), which breaks `rule` of `promise` and no
/// other.
fn planted(promise: Promise, rule: &'static str, story: impl Fn(&mut Scene, bool)) {
    let told = |bug| {
        let mut scene = Scene::new();
        story(&mut scene, bug);
        scene.verdict()
    };
    let (good, bad) = (told(false), told(true));
    assert_eq!(good.outcome(), Outcome::Held, "without the bug:\n{good}");
    let broken: Vec<_> = bad.broken.keys().copied().collect();
    assert_eq!(broken, [(promise, rule)], "with the bug:\n{bad}");
    let named = &bad.violations[0];
    let about_a_task = named.task.is_some();
    assert_eq!(about_a_task, !named.history.is_empty(), "{bad}");
}
