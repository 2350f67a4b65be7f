//! Bounded queue in front of a thread of the store.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The lane of a command in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Claims, settles, extends, cancels, operators' methods: never queued behind a bulk load.
    Operations,
    /// Submits.
    Submits,
}

impl Lane {
    /// The element for this lane.
    fn of<T>(self, [operations, submits]: [T; 2]) -> T {
        match self {
            Self::Operations => operations,
            Self::Submits => submits,
        }
    }
}

/// Maximum memory of the waiting commands of one lane, in KiB; further callers wait. 64 MiB is a
/// second of work for the writer, and more concurrent callers than an application has.
const LANE_KIB: u32 = 64 << 10;

/// Memory of a command besides its messages, in KiB. Limits a lane to 32,768 commands.
const COMMAND_KIB: u32 = 2;

/// Maximum memory of the commands taken out of one lane at a time, in KiB, so that a transaction
/// with large messages takes no longer than one with many.
const GROUP_KIB: u32 = 8 << 10;

/// A queue of commands for one thread, in two lanes.
pub(crate) struct Queue<C> {
    state: Mutex<QueueState<C>>,
    ready: Condvar,
    room: [Arc<Semaphore>; 2],
    /// Maximum number of tasks taken out of one lane at a time.
    group: usize,
}

struct QueueState<C> {
    lanes: [VecDeque<QueuedCall<C>>; 2],
    /// Number of commands that the thread waits for: it is woken once, not for each of them.
    wanted: usize,
    /// True if the thread has to check for changes, even if the queue is empty.
    is_signalled: bool,
    is_closed: bool,
}

impl<C> QueueState<C> {
    fn is_short(&mut self) -> bool {
        let waiting: usize = self.lanes.iter().map(VecDeque::len).sum();
        let is_signalled = self.is_signalled && waiting == 0;
        !self.is_closed && !is_signalled && waiting < self.wanted
    }
}

struct QueuedCall<C> {
    command: C,
    size: Size,
    _room: Option<OwnedSemaphorePermit>,
}

/// Forecast: the number of commands likely to arrive soon, and how long to wait for them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Expected {
    pub(crate) commands: usize,
    pub(crate) linger: Duration,
}

/// The size of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Number of tasks it touches.
    pub(crate) tasks: usize,
    /// Size of its messages in bytes.
    pub(crate) bytes: usize,
}

impl Size {
    /// One task, without its message.
    pub(crate) const ONE: Self = Self::tasks(1);

    /// `tasks` tasks, without their messages.
    pub(crate) const fn tasks(tasks: usize) -> Self {
        Self { tasks, bytes: 0 }
    }

    /// Maximum number of bytes that its tasks can take up in the file: rows, index entries, partly
    /// filled pages.
    pub(crate) fn stored_bytes(self) -> u64 {
        2 * self.bytes as u64 + 2_048 * self.tasks as u64
    }

    fn kib(self) -> u32 {
        let kib = u32::try_from(self.bytes >> 10).unwrap_or(LANE_KIB);
        kib.saturating_add(COMMAND_KIB).min(LANE_KIB)
    }
}

/// Closes a queue when its thread ends, even by a panic, so that nobody waits for a thread that is
/// gone.
pub(crate) struct CloseOnExit<C>(pub(crate) Arc<Queue<C>>);

impl<C> Drop for CloseOnExit<C> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// The queue takes no more commands.
#[derive(Debug)]
pub(crate) struct QueueClosed;

impl<C> Queue<C> {
    /// A queue whose thread takes commands for up to `group` tasks of each lane at a time.
    pub(crate) fn new(group: usize) -> Self {
        let lane = || Arc::new(Semaphore::new(LANE_KIB as usize));
        Self {
            state: Mutex::new(QueueState {
                lanes: [VecDeque::new(), VecDeque::new()],
                wanted: 1,
                is_signalled: false,
                is_closed: false,
            }),
            ready: Condvar::new(),
            room: [lane(), lane()],
            group,
        }
    }

    /// Queues a command once there is room.
    pub(crate) async fn push(&self, lane: Lane, size: Size, command: C) -> Result<(), QueueClosed> {
        let room = Arc::clone(lane.of(self.room.each_ref()));
        let room = room.acquire_many_owned(size.kib()).await;
        let room = room.map_err(|_| QueueClosed)?;
        let item = QueuedCall {
            command,
            size,
            _room: Some(room),
        };
        self.put(lane, item)
    }

    /// Queues a command even if there is no room, for the store's own clean-up.
    pub(crate) fn push_now(&self, command: C) -> Result<(), QueueClosed> {
        let item = QueuedCall {
            command,
            size: Size::ONE,
            _room: None,
        };
        self.put(Lane::Operations, item)
    }

    fn put(&self, lane: Lane, item: QueuedCall<C>) -> Result<(), QueueClosed> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(QueueClosed);
        }
        lane.of(state.lanes.each_mut()).push_back(item);
        let is_ready = !state.is_short();
        drop(state);
        if is_ready {
            self.ready.notify_one();
        }
        Ok(())
    }

    /// The waiting commands, up to a group. Empty if none arrived in time, or after a signal;
    /// `None` once the queue is closed and empty. Waits up to `patience` for the first command, and
    /// then up to `expected.linger` for the expected number.
    pub(crate) fn take(&self, patience: Duration, expected: Expected) -> Option<Vec<C>> {
        let mut state = self.wait(self.lock(), 1, patience);
        state.wanted = expected.commands;
        if state.is_short() && !state.lanes.iter().all(VecDeque::is_empty) {
            state = self.wait(state, expected.commands, expected.linger);
        }
        let mut group = Vec::new();
        for lane in &mut state.lanes {
            let (mut tasks, mut kib) = (0, 0);
            while tasks < self.group
                && kib < GROUP_KIB
                && let Some(item) = lane.pop_front()
            {
                tasks += item.size.tasks;
                kib += item.size.kib();
                group.push(item.command);
            }
        }
        let is_over = group.is_empty() && state.is_closed;
        (!is_over).then_some(group)
    }

    /// Waits until this many commands are queued.
    fn wait<'a>(
        &self,
        mut state: MutexGuard<'a, QueueState<C>>,
        wanted: usize,
        time: Duration,
    ) -> MutexGuard<'a, QueueState<C>> {
        state.wanted = wanted;
        let end = self
            .ready
            .wait_timeout_while(state, time, QueueState::is_short);
        let (mut state, _) = end.unwrap_or_else(PoisonError::into_inner);
        state.wanted = 1;
        state
    }

    /// Lets the thread check for changes: at once if it is idle, or else after the next commands.
    pub(crate) fn signal(&self) -> Result<(), QueueClosed> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(QueueClosed);
        }
        state.is_signalled = true;
        drop(state);
        self.ready.notify_one();
        Ok(())
    }

    /// True if there was a signal since the last call.
    pub(crate) fn was_signalled(&self) -> bool {
        std::mem::take(&mut self.lock().is_signalled)
    }

    /// Takes no more commands; queued ones are still run.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.room.iter().for_each(|room| room.close());
        self.ready.notify_all();
    }

    /// Closes the queue and drops the queued commands: their callers get an error at once.
    pub(crate) fn abandon(&self) {
        self.close();
        drop(std::mem::take(&mut self.lock().lanes));
    }

    /// Ignores poisoning: a panic cannot leave the lanes half changed.
    fn lock(&self) -> MutexGuard<'_, QueueState<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> fmt::Debug for Queue<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(20);

    fn group(taken: Option<Vec<u32>>) -> Vec<u32> {
        taken.unwrap_or_default()
    }

    async fn push(queue: &Queue<u32>, lane: Lane, command: u32, bytes: usize) -> bool {
        let size = Size { tasks: 1, bytes };
        let pushed = tokio::time::timeout(PATIENCE, queue.push(lane, size, command));
        pushed.await.is_ok_and(|pushed| pushed.is_ok())
    }

    #[tokio::test]
    async fn edges_are_taken_before_submits() {
        let queue = Queue::new(2);
        for command in 0..4 {
            assert!(push(&queue, Lane::Submits, command, 0).await);
        }
        assert!(push(&queue, Lane::Operations, 9, 0).await);
        let take = || group(queue.take(PATIENCE, Expected::default()));
        assert_eq!(take(), [9, 0, 1]);
        assert_eq!(take(), [2, 3]);
        assert_eq!(take(), [0; 0]);
    }

    #[tokio::test]
    async fn a_full_lane_takes_nothing_until_there_is_room_again() {
        let queue = Queue::new(1);
        let largest = (LANE_KIB as usize) << 10;
        assert!(push(&queue, Lane::Submits, 1, largest).await);
        assert!(!push(&queue, Lane::Submits, 2, 0).await);
        assert!(
            push(&queue, Lane::Operations, 3, 0).await,
            "the other lane is free"
        );
        assert_eq!(group(queue.take(PATIENCE, Expected::default())), [3, 1]);
        assert!(push(&queue, Lane::Submits, 2, 0).await);
    }

    #[tokio::test]
    async fn a_group_with_large_messages_is_smaller() {
        let queue = Queue::new(100);
        for command in 0..4 {
            assert!(push(&queue, Lane::Submits, command, 4 << 20).await);
        }
        let take = || group(queue.take(PATIENCE, Expected::default()));
        assert_eq!((take(), take()), (vec![0, 1], vec![2, 3]));
    }

    #[tokio::test]
    async fn a_closed_queue_hands_out_what_is_in_line_and_takes_nothing() {
        let queue = Queue::new(100);
        assert!(push(&queue, Lane::Operations, 1, 0).await);
        queue.close();
        assert!(!push(&queue, Lane::Operations, 2, 0).await);
        assert_eq!(group(queue.take(PATIENCE, Expected::default())), [1]);
        let end = queue.take(PATIENCE, Expected::default());
        assert_eq!(end, None);
    }

    #[test]
    fn a_thread_is_woken_once_as_many_as_hoped_for_are_there() {
        let queue = Arc::new(Queue::new(100));
        let pusher = Arc::clone(&queue);
        assert!(queue.push_now(1).is_ok());
        let pushing = std::thread::spawn(move || (2..=3).all(|n| pusher.push_now(n).is_ok()));
        let expected = Expected {
            commands: 3,
            linger: Duration::from_secs(30),
        };
        assert_eq!(group(queue.take(PATIENCE, expected)), [1, 2, 3]);
        assert!(pushing.join().unwrap());
    }
}
