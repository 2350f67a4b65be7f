//! What every call of one store shares: its names, its settings, and what it knows of the types.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, broadcast};

use super::client::{Channel, Channels, Command, Listener};
use super::keys::{Keyspace, Partition};
use super::layout::Layout;
use super::record::span_ms;
use super::scripts::Script;
use super::spread::Spread;
use super::turns::Turns;
use super::visits::Visits;
use crate::name::{TaskId, TaskType};
use crate::store::{MAX_RETAINED, StoreOptions, Taken, Wakeup};
use crate::time::Timestamp;

/// Wake-ups that a slow listener may be behind before it is told to look at every type.
const WAKEUP_BUFFER: usize = 1_024;

/// The namespace as this instance uses it.
#[derive(Debug)]
pub(super) struct Scope {
    pub(super) keys: Keyspace,
    pub(super) options: StoreOptions,
    pub(super) wakeups: broadcast::Sender<Wakeup>,
    /// Stands behind the type in every wake-up that this instance publishes, so that it does not hear
    /// itself: its own handlers have been woken directly.
    sender: String,
    /// Types that this instance has listed.
    listed: Mutex<HashSet<TaskType>>,
    /// As this instance knows the types. One that it has asked nothing about is taken for one that is not split:
    /// the first partition that is asked knows better.
    spreads: Mutex<HashMap<TaskType, Arc<Spread>>>,
    pub(super) visits: Visits,
    pub(super) turns: Turns,
    /// Each partition has a channel of its own then, which only the node of its slot knows of.
    is_cluster: bool,
    /// Types that are listened to in a cluster.
    heard: Mutex<HashSet<TaskType>>,
    /// Told when there may be others, or other partitions.
    pub(super) unknown: Notify,
}

impl Scope {
    pub(super) fn new(options: StoreOptions, is_cluster: bool, patience: Duration) -> Arc<Self> {
        let sender = TaskId::generate().to_string();
        Arc::new(Self {
            turns: Turns::new(&sender),
            visits: Visits::new(patience.min(options.call_timeout)),
            is_cluster,
            heard: Mutex::default(),
            unknown: Notify::new(),
            keys: Keyspace::new(options.namespace.clone()),
            options,
            wakeups: broadcast::Sender::new(WAKEUP_BUFFER),
            sender,
            listed: Mutex::default(),
            spreads: Mutex::default(),
        })
    }

    /// A claim: its script takes one key more, of this instance's own.
    pub(super) fn claim_script(&self, part: &Partition) -> Command {
        let own = part.claim(&self.sender);
        let keys = part.keys.iter().chain([&own]);
        Command::script(Script::Claim, part.slot, keys, 256)
    }

    /// Where the tasks of a type are, as far as is known.
    pub(super) fn spread(&self, task_type: &TaskType) -> Arc<Spread> {
        if let Some(spread) = self.spreads().get(task_type) {
            return Arc::clone(spread);
        }
        self.learn(task_type, Layout::default())
    }

    /// Remembers how a type is split.
    pub(super) fn learn(&self, task_type: &TaskType, layout: Layout) -> Arc<Spread> {
        let mut spreads = self.spreads();
        if let Some(known) = spreads
            .get(task_type)
            .filter(|known| known.layout == layout)
        {
            return Arc::clone(known);
        }
        let spread = Arc::new(Spread::new(&self.keys, task_type, layout));
        let known = spreads.insert(task_type.clone(), Arc::clone(&spread));
        if known.is_some() {
            self.unknown.notify_one();
        }
        spread
    }

    fn spreads(&self) -> std::sync::MutexGuard<'_, HashMap<TaskType, Arc<Spread>>> {
        // A map is never half changed by a panic.
        self.spreads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The command that lists a type.
    pub(super) fn list_type(&self, task_type: &TaskType) -> Command {
        let list = Command::write(&["SADD", &self.keys.types(), task_type.as_str()]);
        list.at(self.keys.slot())
    }

    pub(super) fn is_listed(&self, task_type: &TaskType) -> bool {
        self.listed().contains(task_type)
    }

    pub(super) fn set_listed(&self, task_type: &TaskType) {
        self.listed().insert(task_type.clone());
    }

    fn heard(&self) -> std::sync::MutexGuard<'_, HashSet<TaskType>> {
        // A set is never half changed by a panic.
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listed(&self) -> std::sync::MutexGuard<'_, HashSet<TaskType>> {
        // A set is never half changed by a panic.
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn retention_ms(&self) -> i64 {
        span_ms(self.options.retention)
    }

    /// Ends that one of the two generations holds: the elder one alone has all that has to be remembered
    /// when the younger one begins.
    pub(super) fn generation() -> i64 {
        i64::try_from(MAX_RETAINED).unwrap_or(i64::MAX)
    }

    /// Where a script publishes that a partition's first due time has become earlier.
    pub(super) fn wake_channel(&self, part: &Partition) -> String {
        if self.is_cluster {
            return part.wake_channel();
        }
        self.keys.wake_channel()
    }

    /// What it publishes.
    pub(super) fn wake_message(&self, part: &Partition) -> String {
        wake_message(part, &self.sender)
    }

    /// What this instance calls itself.
    pub(super) fn sender(&self) -> &str {
        &self.sender
    }

    /// Whether channels have slots.
    pub(super) fn is_cluster(&self) -> bool {
        self.is_cluster
    }

    /// What a script of the namespace publishes to wake the handlers of a type in other instances.
    pub(super) fn type_message(&self, task_type: &TaskType) -> String {
        format!("{task_type} {}", self.sender)
    }

    /// The command that tells other instances of a new type, where they would not hear of its first task.
    pub(super) fn announcement(&self, task_type: &TaskType) -> Option<Command> {
        let message = self.type_message(task_type);
        let publish = || Command::write(&["SPUBLISH", &self.keys.wake_channel(), &message]);
        self.is_cluster.then(|| publish().at(self.keys.slot()))
    }

    /// What to listen to in order to hear of these types.
    pub(super) fn channels(&self, types: &[TaskType]) -> Channels {
        let mut channels = Channels::with_capacity(types.len() + 1);
        let own = Channel {
            slot: self.keys.slot(),
            message: Vec::new(),
        };
        channels.insert(self.keys.wake_channel(), own);
        for task_type in types {
            for part in self.spread(task_type).all() {
                let channel = Channel {
                    slot: part.slot,
                    message: wake_message(part, "").into_bytes(),
                };
                channels.insert(part.wake_channel(), channel);
            }
        }
        *self.heard() = types.iter().cloned().collect();
        channels
    }

    /// Wakes this instance's handler of `part`.
    pub(super) fn wake(&self, part: &Partition) {
        self.visits.wake(part);
        self.turns.woken(part);
        self.tell(Wakeup::Type(part.task_type.clone()));
    }

    /// Wakes this instance's handlers of a type.
    pub(super) fn wake_type(&self, task_type: &TaskType) {
        self.tell(Wakeup::Type(task_type.clone()));
    }

    fn tell(&self, wakeup: Wakeup) {
        // Without a listener there is nobody to wake.
        let _ = self.wakeups.send(wakeup);
    }

    /// Hears the wake-ups of other instances.
    pub(super) fn listener(self: &Arc<Self>) -> Listener {
        let scope = Arc::clone(self);
        Arc::new(move |message| match message {
            None => {
                scope.visits.wake_all();
                scope.tell(Wakeup::All);
            }
            Some(message) => scope.hear(message),
        })
    }

    /// What another instance has taken, of a type that is not split, concerns who has asked for it.
    fn hear_of_taken(&self, task_type: TaskType, by: &str, left: &[&str]) {
        let spread = self.spreads().get(&task_type).cloned();
        let part = spread.as_ref().and_then(|spread| spread.single());
        let numbers: Vec<i64> = left.iter().map_while(|word| word.parse().ok()).collect();
        let (Some(part), [next_due, fence, now, ..]) = (part, &*numbers) else {
            return;
        };
        let Ok(fence) = u64::try_from(*fence) else {
            return;
        };
        let next_due = Some(*next_due).filter(|ms| *ms >= 0);
        let next_due = next_due.map(Timestamp::from_millis);
        let now = Timestamp::from_millis(*now);
        let turn = self.turns.taken(part, by, (now, next_due));
        self.tell(Wakeup::Taken(Taken {
            task_type,
            fence,
            next_due,
            turn,
        }));
    }

    /// Anybody may publish, by hand too: what is no type is not listened to.
    fn hear(&self, message: &[u8]) {
        let Ok(message) = std::str::from_utf8(message) else {
            return;
        };
        let mut words = message.split(' ');
        let (name, sender) = (words.next().unwrap_or_default(), words.next());
        if sender == Some(&self.sender) {
            return;
        }
        if message.is_empty() {
            // From now on new types are heard of, and some may be new already.
            self.unknown.notify_one();
        }
        if let Ok(task_type) = TaskType::new(name) {
            if let [_, by, "", left @ ..] = &*message.split(' ').collect::<Vec<_>>() {
                self.hear_of_taken(task_type, by, left);
                return;
            }
            if self.is_cluster && !self.heard().contains(&task_type) {
                self.unknown.notify_one();
            }
            // A partition that this instance does not know yet is found with the next poll.
            let part = words.next().unwrap_or_default();
            let spread = self.spreads().get(&task_type).cloned();
            let parts = spread.iter().flat_map(|spread| spread.all());
            for part in parts.filter(|known| known.name == part) {
                self.visits.wake(part);
                self.turns.woken(part);
            }
            self.tell(Wakeup::Type(task_type));
        }
    }
}

/// What wakes the handlers of a partition: type, sender, and which partition, if it is not the only one.
fn wake_message(part: &Partition, sender: &str) -> String {
    let (task_type, name) = (&part.task_type, &part.name);
    match (sender, &**name) {
        ("", "") => task_type.to_string(),
        (sender, "") => format!("{task_type} {sender}"),
        (sender, name) => format!("{task_type} {sender} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::broadcast::error::TryRecvError;

    use super::*;

    #[test]
    fn nobody_has_more_patience_than_a_call_may_take() {
        let options = StoreOptions::default();
        let most = options.call_timeout;
        for (given, expected) in [(Duration::MAX, most), (most / 2, most / 2)] {
            let scope = Scope::new(options.clone(), true, given);
            assert_eq!(scope.visits.patience, expected);
        }
    }

    #[test]
    fn an_instance_hears_others_and_not_itself() {
        let scope = Scope::new(StoreOptions::default(), false, Duration::ZERO);
        let mut wakeups = scope.wakeups.subscribe();
        let task_type = TaskType::new("a:b").unwrap();
        let listener = scope.listener();
        let part = Arc::clone(scope.spread(&task_type).single().unwrap());
        listener(Some(scope.wake_message(&part).as_bytes()));
        listener(Some(b"not a type\xff"));
        listener(Some(b""));
        assert_eq!(wakeups.try_recv(), Err(TryRecvError::Empty));
        listener(Some(b"a:b somebody"));
        listener(Some(b"a:b"));
        listener(None);
        let heard = [(); 3].map(|()| wakeups.try_recv().unwrap());
        let woken = Wakeup::Type(task_type);
        assert_eq!(heard, [woken.clone(), woken, Wakeup::All]);
    }
}
