//! An application under load: two instances, each with a type of its own beside the shared one.

use std::time::Duration;

use delayq_plugin::{Clock, SystemClock, TaskSubmitService, Timestamp, seconds};
use delayq_tests::instance::Instance;
use delayq_tests::instance::history::History;
use delayq_tests::instance::log::What;
use delayq_tests::instance::plan::{Load, Plan, Served};
use delayq_tests::instance::scene::{Fault, Scene};
use delayq_tests::rig::until;

const INSTANCE: &str = env!("CARGO_BIN_EXE_instance");

/// What the issue of a fail-over adds to the time after which a server is taken for dead.
const GRACE: Duration = seconds(3);

/// The type of each instance alone, and the one of both.
const OWN: [&str; 2] = ["a", "b"];
const SHARED: &str = "shared";
/// A type of both whose tasks are rather lost than run twice.
const ONCE: &str = "once";

/// The application.
pub(crate) struct Application {
    scene: Scene,
    pub(crate) service: TaskSubmitService,
    instances: Vec<Instance>,
    /// When something was done to the store.
    struck: Vec<Timestamp>,
}

impl Application {
    /// Starts it on the store of this URL, with every write confirmed by a replica, and awaits that
    /// it works.
    pub(crate) async fn start(url: &str) -> Self {
        Self::start_with(&format!("{url}?durability=replicated")).await
    }

    /// Starts it on the store of this URL, and awaits that it works.
    pub(crate) async fn start_with(url: &str) -> Self {
        let mut scene = Scene::on(INSTANCE, url.to_owned());
        let service = scene.service().await;
        let mut instances = Vec::new();
        for own in OWN {
            let mut plan = scene.plan([own, SHARED]);
            plan.served.push(Served {
                at_most_once: true,
                ..Served::new(ONCE)
            });
            let load = Load {
                senders: 2,
                pause_ms: 30,
                ..Load::of(&[own, SHARED, ONCE])
            };
            let load = Some(load);
            instances.push(scene.start(&Plan { load, ..plan }).await);
        }
        let mut application = Self {
            scene,
            service,
            instances,
            struck: Vec::new(),
        };
        application.works_after(SystemClock.now()).await;
        application
    }

    /// Awaits that every instance sends, and every handler of each works, after `time`.
    pub(crate) async fn works_after(&mut self, time: Timestamp) {
        for instance in &mut self.instances {
            let more = instance.count(What::is_sent) + 50;
            let sent = instance.nth("an acknowledgement", more, What::is_sent);
            sent.await;
        }
        for (instance, own) in self.instances.iter().zip(OWN) {
            for task_type in [own, SHARED, ONCE] {
                resumes(&self.scene, &instance.name, task_type, time).await;
            }
        }
    }

    /// Notes that something was done to the store since `from`, and awaits that all works again.
    pub(crate) async fn survives(&mut self, from: Timestamp) {
        self.struck.push(from);
        self.works_after(SystemClock.now()).await;
        let to = SystemClock.now();
        self.scene.note(Fault::Outage { from, to });
    }

    /// How many submits have failed so far.
    pub(crate) fn refused(&mut self) -> usize {
        let count = |instance: &mut Instance| instance.count(What::is_refused);
        self.instances.iter_mut().map(count).sum()
    }

    /// How many submits were acknowledged so far.
    pub(crate) fn accepted(&mut self) -> usize {
        let count = |instance: &mut Instance| instance.count(What::is_sent);
        self.instances.iter_mut().map(count).sum()
    }

    /// Ends the load, and holds everything against the promises: what was acknowledged is done, no
    /// handler stalled, and from `from` on nothing was away for longer than `down_after` and 3 s,
    /// or 3 s more than it took to replace a server: where nobody wins a vote, the next one comes
    /// late.
    ///
    /// `replaced`: when a server was replaced, also where nobody had asked for it.
    pub(crate) async fn end(
        mut self,
        from: Timestamp,
        down_after: Duration,
        replaced: impl FnOnce() -> Vec<Timestamp>,
    ) {
        let until = SystemClock.now();
        for instance in &mut self.instances {
            instance.quiet().await;
        }
        self.scene.drained(&self.service).await;
        let replaced = replaced();
        let down_after = down_after.max(self.slowest_vote(&replaced));
        for at in replaced {
            let (from, to) = (at.minus(down_after + GRACE), at.plus(GRACE));
            self.scene.note(Fault::Outage { from, to });
        }
        let mut history = self.scene.history();
        check_once(&history);
        history
            .accepted
            .retain(|task, _| !task.starts_with(&format!("{ONCE}/")));
        history.check_starts();
        let done = history.check_done(&self.service).await;
        let foreign = history.refused.iter().find(|(_, _, transient)| !transient);
        assert_eq!(foreign, None, "every failure of an outage is transient");
        println!(
            "{done} accepted and done; {} submits failed",
            history.refused.len()
        );
        for (instance, own) in self.instances.iter_mut().zip(OWN) {
            let sent = instance
                .events()
                .iter()
                .filter(|event| event.what.is_sent());
            let mut silences = vec![(
                "acks",
                silence(&self.scene, sent.map(|event| event.at), (from, until)),
            )];
            for task_type in [own, SHARED, ONCE] {
                let prefix = format!("{task_type}/");
                let starts = history
                    .attempts
                    .iter()
                    .filter(|(task, _)| task.starts_with(&prefix));
                let starts = starts.flat_map(|(_, attempts)| attempts);
                let own = starts.filter(|start| start.name == instance.name);
                silences.push((
                    task_type,
                    silence(&self.scene, own.map(|start| start.at), (from, until)),
                ));
            }
            println!("{}: longest silences {silences:?}", instance.name);
            for (what, silence) in silences {
                assert!(silence <= down_after + GRACE, "{what}: {silence:?}");
            }
        }
    }

    /// How long it took at most until a server was replaced to which something was done.
    fn slowest_vote(&self, replaced: &[Timestamp]) -> Duration {
        let ends = self.struck.iter().skip(1).map(Some).chain([None]);
        let votes = self.struck.iter().zip(ends).filter_map(|(from, end)| {
            let votes = replaced.iter().filter(|at| *at > from);
            let first = votes.filter(|at| end.is_none_or(|end| *at < end)).min();
            first.map(|at| at.since(*from))
        });
        votes.max().unwrap_or_default()
    }
}

/// The longest time between two of these moments.
fn silence(
    scene: &Scene,
    at: impl Iterator<Item = i64>,
    (from, until): (Timestamp, Timestamp),
) -> Duration {
    let (from, until) = (from.as_millis(), until.as_millis());
    let mut at: Vec<i64> = at.filter(|at| (from..=until).contains(at)).collect();
    at.extend([from, until]);
    at.sort_unstable();
    let gaps = at.windows(2).map(|pair| scene.between(pair[0], pair[1]));
    gaps.max().unwrap_or_default()
}

/// No task of the type that is rather lost was started twice.
fn check_once(history: &History) {
    for (task, attempts) in &history.attempts {
        if task.starts_with(&format!("{ONCE}/")) {
            assert_eq!(attempts.len(), 1, "{task}: {attempts:#?}");
        }
    }
}

/// Awaits that the instance `name` starts a task of this type after `time`.
async fn resumes(scene: &Scene, name: &str, task_type: &str, time: Timestamp) {
    let prefix = format!("{task_type}/");
    until(&format!("work of {name} on {task_type}"), || {
        let history = scene.history();
        let found = history.first_start_after(time, |task, start| {
            start.name == name && task.starts_with(&prefix)
        });
        std::future::ready(found)
    })
    .await;
}
