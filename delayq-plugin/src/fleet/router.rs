//! The router: takes the store's wake-ups to the handlers, goes on its rounds through the list of types, and tells
//! the store that this instance is there.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::{ANNOUNCE_INTERVAL, INSTANCE_EXPIRY, InstanceInfo, Wakeup, Wakeups};
use delayq_core::{Error, TaskType};
use tokio::sync::watch;
use tracing::{debug, error, info, warn};

use super::Shared;
use crate::handler::Phase;

/// How often the list of types is read, in polls, for new ones that a pattern matches: usually a wake-up
/// tells earlier.
const POLLS_PER_LISTING: u32 = 5;
/// How often the store is asked whether it can still keep its promises, in polls, and the list of types is
/// read for served ones that are gone. Seldom, as an idle type costs the store one call a poll, and no more.
const POLLS_PER_CHECK: u32 = 600;
/// How long an instance that ends waits for the store to take it off the list. It expires by itself, too.
const WITHDRAW_PATIENCE: Duration = Duration::from_secs(1);

/// Wakes handlers and makes rounds until the fleet stops.
pub(super) struct Router {
    shared: Arc<Shared>,
    wakeups: Wakeups,
    phase: watch::Receiver<Phase>,
    /// This instance, serving what it announced last.
    instance: InstanceInfo,
    trouble: Option<Error>,
    /// Whether the last announcement failed.
    is_unheard: bool,
    next_announcement: Duration,
    next_check: Duration,
    next_listing: Duration,
}

/// Why the router stopped waiting.
enum Event {
    /// Something is due.
    Timer,
    /// A new type is served, or the store has lost data.
    Look,
    End,
}

impl Router {
    pub(super) fn new(shared: Arc<Shared>, wakeups: Wakeups) -> Self {
        let now = shared.settings.clock.elapsed();
        let mut router = Self {
            phase: shared.phase.subscribe(),
            instance: shared.instance.clone(),
            shared,
            wakeups,
            trouble: None,
            is_unheard: false,
            next_announcement: now,
            next_check: Duration::ZERO,
            next_listing: Duration::MAX,
        };
        router.next_check = router.in_polls(POLLS_PER_CHECK);
        router.plan_listing();
        router
    }

    fn now(&self) -> Duration {
        self.shared.settings.clock.elapsed()
    }

    fn in_polls(&self, polls: u32) -> Duration {
        let span = self.shared.settings.poll.saturating_mul(polls);
        self.now().saturating_add(span)
    }

    fn plan_listing(&mut self) {
        if self.shared.roster.has_patterns() {
            self.next_listing = self.in_polls(POLLS_PER_LISTING);
        }
    }

    pub(super) async fn run(mut self) {
        let mut phase = self.phase.clone();
        loop {
            let has_to_look = match self.next_event().await {
                Event::Timer => false,
                Event::Look => true,
                Event::End => break,
            };
            let rounds = self.make_rounds(has_to_look);
            tokio::select! {
                () = rounds => {}
                _ = phase.wait_for(|phase| *phase != Phase::Running) => break,
            }
        }
        self.withdraw().await;
    }

    async fn next_event(&mut self) -> Event {
        let next = self.next_announcement.min(self.next_check);
        let mut timer = (self.shared.settings.clock).sleep_until(next.min(self.next_listing));
        loop {
            tokio::select! {
                wakeup = self.wakeups.next() => match wakeup {
                    Some(wakeup) if self.shared.wake(&wakeup) => return Event::Look,
                    Some(_) => {}
                    None => return Event::End,
                },
                () = &mut timer => return Event::Timer,
                () = self.shared.store_lost_data.notified() => return Event::Look,
                _ = self.phase.wait_for(|phase| *phase != Phase::Running) => return Event::End,
            }
        }
    }

    /// Does what is due.
    async fn make_rounds(&mut self, has_to_look: bool) {
        let now = self.now();
        if self.next_check <= now {
            self.shared.check_store(&mut self.trouble).await;
            // The end of a trouble is news, too.
            let polls = if self.trouble.is_some() {
                POLLS_PER_LISTING
            } else {
                POLLS_PER_CHECK
            };
            self.next_check = self.in_polls(polls);
            self.shared.look_at_types().await;
        } else if has_to_look || self.next_listing <= now {
            self.shared.look_at_types().await;
        }
        self.plan_listing();
        let instance = self.instance.clone().serving(&self.shared.served());
        if instance != self.instance || self.next_announcement <= now {
            self.announce(instance).await;
        }
    }

    /// For people only: if it fails, everything else goes on.
    async fn announce(&mut self, instance: InstanceInfo) {
        self.next_announcement = self.now().saturating_add(ANNOUNCE_INTERVAL);
        let announced = self.shared.store.announce(&instance, INSTANCE_EXPIRY).await;
        match &announced {
            Ok(()) => self.instance = instance,
            Err(error) if !self.is_unheard => {
                warn!(%error, "cannot list this instance in the store; trying again");
            }
            Err(error) => debug!(%error, "still cannot list this instance in the store"),
        }
        self.is_unheard = announced.is_err();
    }

    async fn withdraw(&self) {
        let patience = self.now().saturating_add(WITHDRAW_PATIENCE);
        tokio::select! {
            withdrawn = self.shared.store.withdraw(&self.instance.id) => if let Err(error) = withdrawn {
                debug!(%error, "this instance stays in the store's list until it expires");
            },
            () = self.shared.settings.clock.sleep_until(patience) => {}
        }
    }
}

impl Shared {
    /// Wakes whom it concerns; whether a handler has been started for it.
    fn wake(&self, wakeup: &Wakeup) -> bool {
        match wakeup {
            Wakeup::All => {
                self.members()
                    .by_type
                    .values()
                    .for_each(|member| member.wake.notify_one());
                false
            }
            Wakeup::Type(task_type) if self.wake_member(task_type) => false,
            Wakeup::Taken(taken) => {
                if let Some(member) = self.members().by_type.get(&taken.task_type) {
                    member.taken.send_replace(Some(taken.clone()));
                }
                false
            }
            // A new handler looks at once.
            Wakeup::Type(task_type) => self.serve(task_type).unwrap_or_else(|error| {
                error!(%task_type, %error, "cannot serve a new type");
                false
            }),
        }
    }

    fn wake_member(&self, task_type: &TaskType) -> bool {
        let members = self.members();
        let member = members.by_type.get(task_type);
        member.inspect(|member| member.wake.notify_one()).is_some()
    }

    /// Looks for types that appeared since the start, and lists those again that somebody has taken from
    /// the list: they would not be served after the next restart.
    async fn look_at_types(&self) {
        let types = match self.store.types().await {
            Ok(types) => types,
            Err(error) => return warn!(%error, "cannot read the list of types; trying again"),
        };
        for task_type in self.served() {
            if types.contains(&task_type) {
                continue;
            }
            match self.store.register_type(&task_type).await {
                Ok(()) => {
                    warn!(%task_type, "the store had this type listed no more; listed again");
                    self.forget_declared(&task_type);
                }
                Err(error) => warn!(%task_type, %error, "cannot list the type again; trying again"),
            }
        }
        for task_type in types {
            if let Err(error) = self.serve(&task_type) {
                error!(%task_type, %error, "cannot serve a new type");
            }
        }
        if let Err(error) = self.declare().await {
            warn!(%error, "cannot bound the types as their workers ask; trying again");
        }
    }

    /// Has the store look at itself, and logs what is wrong when it begins and when it ends.
    async fn check_store(&self, trouble: &mut Option<Error>) {
        let found = self.store.check().await.err();
        match (&found, &trouble) {
            (Some(error), before) if before.as_ref().map(kind_of) != Some(kind_of(error)) => {
                error!(%error, "the store cannot keep what it promises");
            }
            (None, Some(_)) => {
                info!(
                    store = self.store.name(),
                    "the store can keep what it promises again"
                );
            }
            _ => {}
        }
        *trouble = found;
    }
}

/// Two errors of one kind are one trouble, though their words may differ.
fn kind_of(error: &Error) -> std::mem::Discriminant<Error> {
    std::mem::discriminant(error)
}
