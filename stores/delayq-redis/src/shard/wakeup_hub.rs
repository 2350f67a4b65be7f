//! Wake-ups between instances: messages published and received by this one.
//!
//! A message is `TYPE INSTANCE`, followed by ` SHARD` for a shard. A claim that took tasks while
//! others wait appends two spaces, then the time of the next claim (ms or -1), the last fence, and
//! its own time.

use std::collections::HashSet;
use std::sync::Mutex;

use delayq_core::store::{Wakeup, Wakeups};
use delayq_core::{Bucket, TaskId, TaskType, Timestamp};
use tokio::sync::{Notify, broadcast};

use super::stagger::{Stagger, Taken, number_of};
use crate::lock::lock;

/// Number of wake-ups that a slow listener may be behind before it is told to check every type.
const WAKEUP_BUFFER: usize = 1_024;

/// The wake-ups of one store.
#[derive(Debug)]
pub(crate) struct WakeupHub {
    /// The name of this store in its messages, so that it ignores its own: its own handlers are
    /// woken directly.
    instance: String,
    sender: broadcast::Sender<Wakeup>,
    pub(crate) stagger: Stagger,
    is_cluster: bool,
    /// Types whose channels are subscribed in a cluster.
    heard: Mutex<HashSet<TaskType>>,
    /// Notified when there may be unknown types or shards.
    pub(crate) unknown: Notify,
}

impl WakeupHub {
    pub(crate) fn new(is_cluster: bool) -> Self {
        let instance = TaskId::generate().to_string();
        Self {
            stagger: Stagger::new(&instance),
            instance,
            sender: broadcast::Sender::new(WAKEUP_BUFFER),
            is_cluster,
            heard: Mutex::default(),
            unknown: Notify::new(),
        }
    }

    /// The name of this store in its messages.
    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    pub(crate) fn subscribe(&self) -> Wakeups {
        Wakeups::new(self.sender.subscribe())
    }

    /// The message that wakes the handlers of a bucket in other instances. In a cluster without a
    /// sender, it also wakes them here.
    pub(crate) fn message(&self, bucket: &Bucket) -> String {
        message(bucket, &self.instance)
    }

    /// Sets the types whose channels are subscribed from now on.
    pub(crate) fn set_heard(&self, types: &[TaskType]) {
        *lock(&self.heard) = types.iter().cloned().collect();
    }

    /// Wakes this instance's handler of a bucket.
    pub(crate) fn wake(&self, bucket: &Bucket) {
        self.stagger.woken(bucket);
        self.send(Wakeup::Bucket(bucket.clone()));
    }

    fn send(&self, wakeup: Wakeup) {
        // An error means that there is no listener to wake.
        let _ = self.sender.send(wakeup);
    }

    /// Handles a message; `None` means that some may have been missed. Anybody may publish, also by
    /// hand: a message that names no type is ignored.
    pub(crate) fn hear(&self, message: Option<&[u8]>) {
        let Some(message) = message else {
            self.stagger.woken_all();
            self.send(Wakeup::All);
            return;
        };
        let Ok(message) = std::str::from_utf8(message) else {
            return;
        };
        if message.is_empty() {
            // From now on new types are noticed, and some may already be new.
            self.unknown.notify_one();
            return;
        }
        let (head, left) = match message.split_once("  ") {
            Some((head, left)) => (head, Some(left)),
            None => (message, None),
        };
        let mut words = head.split(' ');
        let Ok(task_type) = TaskType::new(words.next().unwrap_or_default()) else {
            return;
        };
        let by = words.next().unwrap_or_default();
        let is_own = by == self.instance;
        let bucket = match words.next() {
            Some(shard) => Bucket::shard(task_type, shard),
            None => Bucket::whole(task_type),
        };
        if is_own {
            if left.is_none() && self.stagger.drop_outdated(&bucket) {
                self.send(Wakeup::Bucket(bucket));
            }
            return;
        }
        match left {
            Some(left) => self.hear_of_taken(&bucket, by, left),
            None => self.hear_of_earlier(&bucket),
        }
    }

    fn hear_of_taken(&self, bucket: &Bucket, by: &str, left: &str) {
        let numbers: Vec<i64> = left
            .split(' ')
            .map_while(|word| word.parse().ok())
            .collect();
        let [next_ms, fence, now_ms, ..] = *numbers else {
            return;
        };
        let taken = Taken {
            by: number_of(by),
            now: Timestamp::from_millis(now_ms),
            fence: u64::try_from(fence).unwrap_or(0),
            next_at: (next_ms >= 0).then(|| Timestamp::from_millis(next_ms)),
        };
        self.stagger.taken(bucket, taken);
    }

    fn hear_of_earlier(&self, bucket: &Bucket) {
        if self.is_cluster && !lock(&self.heard).contains(bucket.task_type()) {
            self.unknown.notify_one();
        }
        self.wake(bucket);
    }
}

/// The message of `instance` about a bucket.
pub(crate) fn message(bucket: &Bucket, instance: &str) -> String {
    let task_type = bucket.task_type();
    match bucket.shard_name() {
        "" => format!("{task_type} {instance}"),
        shard => format!("{task_type} {instance} {shard}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use delayq_core::store::Claimed;
    use futures_util::FutureExt;

    use super::super::stagger::OwnClaim;
    use super::*;

    async fn heard(messages: &[&str]) -> Vec<Wakeup> {
        let hub = WakeupHub::new(false);
        let mut wakeups = hub.subscribe();
        for message in messages {
            hub.hear(Some(message.as_bytes()));
        }
        drop(hub);
        let mut all = Vec::new();
        while let Some(wakeup) = wakeups.next().await {
            all.push(wakeup);
        }
        all
    }

    #[tokio::test]
    async fn a_message_wakes_the_bucket_that_it_names() {
        let a = || TaskType::new("a").unwrap();
        let whole = Wakeup::Bucket(Bucket::whole(a()));
        assert_eq!(heard(&["a x", "a"]).await, [whole.clone(), whole]);
        let shard = Wakeup::Bucket(Bucket::shard(a(), "1.3"));
        assert_eq!(heard(&["a x 1.3"]).await, [shard]);
    }

    #[tokio::test]
    async fn neither_an_own_message_nor_garbage_nor_what_another_took_wakes() {
        let hub = WakeupHub::new(false);
        let mut wakeups = hub.subscribe();
        let bucket = Bucket::whole(TaskType::new("a").unwrap());
        hub.hear(Some(hub.message(&bucket).as_bytes()));
        for message in ["", " x", "/ x", "a x  -1 5 6", "a x  what"] {
            hub.hear(Some(message.as_bytes()));
        }
        hub.hear(Some(&[0xff]));
        drop(hub);
        assert_eq!(wakeups.next().await, None);
    }

    #[tokio::test]
    async fn what_may_have_been_missed_wakes_everybody() {
        let hub = WakeupHub::new(false);
        let mut wakeups = hub.subscribe();
        hub.hear(None);
        assert_eq!(wakeups.next().await, Some(Wakeup::All));
    }

    #[test]
    fn in_a_cluster_what_is_not_listened_to_is_looked_for_and_what_is_is_not() {
        let is_looked_for = |hub: &WakeupHub| hub.unknown.notified().now_or_never().is_some();
        for (is_cluster, message, expected) in [
            (true, "a x", true),
            (true, "b x", false),
            (true, "b x 1.0", false),
            // A channel has been subscribed.
            (true, "", true),
            (false, "a x", false),
        ] {
            let hub = WakeupHub::new(is_cluster);
            hub.set_heard(&[TaskType::new("b").unwrap()]);
            hub.hear(Some(message.as_bytes()));
            assert_eq!(is_looked_for(&hub), expected, "{message:?}");
        }
    }

    /// Found in review: a message that another instance published before this one's own submit, and
    /// that arrived after it, hid the task for up to a poll.
    #[tokio::test]
    async fn an_own_wake_up_outdates_what_was_published_before_it() {
        let hub = WakeupHub::new(false);
        let mut wakeups = hub.subscribe();
        let bucket = Bucket::whole(TaskType::new("a").unwrap());
        claimed_nothing(&hub, &bucket);
        hub.hear(Some(b"a x  60000 7 1005"));
        assert!(hub.stagger.known(&bucket).is_some());
        for _ in 0..2 {
            hub.hear(Some(hub.message(&bucket).as_bytes()));
            assert!(hub.stagger.known(&bucket).is_none());
        }
        drop(hub);
        assert_eq!(wakeups.next().await, Some(Wakeup::Bucket(bucket)));
        assert_eq!(wakeups.next().await, None, "woken once");
    }

    fn claimed_nothing(hub: &WakeupHub, bucket: &Bucket) {
        let at = Timestamp::from_millis;
        let own = OwnClaim {
            sent: Instant::now(),
            round_trip: Duration::ZERO,
            sub_ms: Duration::ZERO,
            next_at: Some(at(1_005)),
            tells: false,
        };
        let nothing = Claimed::nothing(at(1_000), at(1_000));
        hub.stagger.claimed(bucket, &nothing, own);
    }

    #[test]
    fn what_another_instance_took_is_not_claimed_until_somebody_wakes_the_bucket() {
        for wakes in ["a", "a x", "a x 1.0"] {
            let hub = WakeupHub::new(false);
            let bucket = Bucket::whole(TaskType::new("a").unwrap());
            claimed_nothing(&hub, &bucket);
            hub.hear(Some(b"a x  60000 7 1005"));
            assert!(hub.stagger.known(&bucket).is_some());
            hub.hear(Some(wakes.as_bytes()));
            let is_other = wakes.ends_with("1.0");
            assert_eq!(hub.stagger.known(&bucket).is_some(), is_other, "{wakes}");
        }
    }
}
