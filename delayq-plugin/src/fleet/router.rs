//! The router: takes the store's wake-ups to the handlers, and goes on its rounds through the list of types.

use std::sync::Arc;

use delayq_core::store::{Wakeup, Wakeups};
use delayq_core::{Error, TaskType};
use tracing::{error, info, warn};

use super::Shared;
use crate::handler::Phase;

/// How often the list of types is read, in polls, for new ones that a pattern matches: usually a wake-up
/// tells earlier.
const POLLS_PER_LISTING: u32 = 5;
/// How often the store is asked whether it can still keep its promises, in polls, and the list of types is
/// read for served ones that are gone. Seldom, as an idle type costs the store one call a poll, and no more.
const POLLS_PER_CHECK: u32 = 600;

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

/// Wakes the handlers that the store's wake-ups name, until the fleet stops.
pub(super) async fn route(shared: Arc<Shared>, mut wakeups: Wakeups) {
    let clock = Arc::clone(&shared.settings.clock);
    let mut phase = shared.phase.subscribe();
    let poll = shared.settings.poll;
    let (listing, checking) = (
        poll.saturating_mul(POLLS_PER_LISTING),
        poll.saturating_mul(POLLS_PER_CHECK),
    );
    let mut trouble = None;
    let mut next_check = clock.elapsed().saturating_add(checking);
    loop {
        let mut next_look = next_check;
        if shared.roster.has_patterns() {
            next_look = next_look.min(clock.elapsed().saturating_add(listing));
        }
        let mut timer = clock.sleep_until(next_look);
        loop {
            tokio::select! {
                wakeup = wakeups.next() => match wakeup {
                    Some(wakeup) if shared.wake(&wakeup) => break,
                    Some(_) => {}
                    None => return,
                },
                () = &mut timer => break,
                () = shared.store_lost_data.notified() => break,
                _ = phase.wait_for(|phase| *phase != Phase::Running) => return,
            }
        }
        let rounds = async {
            if next_check <= clock.elapsed() {
                shared.check_store(&mut trouble).await;
                // The end of a trouble is news, too.
                let pause = if trouble.is_some() { listing } else { checking };
                next_check = clock.elapsed().saturating_add(pause);
            }
            shared.look_at_types().await;
        };
        tokio::select! {
            () = rounds => {}
            _ = phase.wait_for(|phase| *phase != Phase::Running) => return,
        }
    }
}
