//! How types are split, as all instances know it: one hash for the namespace, changed by compare and set.
//!
//! Raising the number of partitions takes three steps, each of which anybody can do again:
//!
//! 1. the registry says that a new generation is being opened;
//! 2. every partition of the older generations is sealed, then the new ones are made, with the pause of the type;
//! 3. the registry says that it is open, and forgets generations that are empty, as they stay so.
//!
//! Who reads a layout that is being opened does what is left of it first. A sealed partition tells whoever comes
//! with an older layout, so nobody has to be told of a new one.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::timeout;

use super::RedisStore;
use super::client::{Command, Lane, Node, Reply};
use super::divide;
use super::keys::Partition;
use super::layout::{self, Layout, MAX_GENERATIONS, Unread};
use super::placing;
use super::scripts::Script;
use super::seek::MAX_LOOKS;
use super::spread::Spread;
use super::together::together;
use crate::error::{Error, Result};
use crate::name::TaskType;
use crate::store::{Durability, MAX_PARTITIONS};

/// Types whose layouts are read in one step.
const TYPES_AT_ONCE: usize = 1_000;

/// A layout, and the text that it was read from: the hold for changing it.
struct Stored {
    text: String,
    layout: Layout,
}

/// Settings of a type that its new partitions take over.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    pause_ms: Option<u64>,
    max_pending: Option<u64>,
}

impl Kept {
    /// Adds those of a partition. The bound is that of the partitions which new tasks went to so far.
    fn take_over(&mut self, other: Self, took_new: bool) {
        self.pause_ms = self.pause_ms.max(other.pause_ms);
        if let Some(most) = other.max_pending.filter(|_| took_new) {
            self.max_pending = Some(self.max_pending.unwrap_or(0).saturating_add(most));
        }
    }
}

impl RedisStore {
    /// How a type is split now.
    pub(super) async fn look(&self, task_type: &TaskType) -> Result<Arc<Spread>> {
        for _ in 0..MAX_LOOKS {
            let stored = self.read_layout(task_type).await?;
            if !stored.layout.is_opening {
                return Ok(self.scope.learn(task_type, stored.layout));
            }
            self.finish_opening(task_type, stored).await?;
        }
        Err(self.unsettled(task_type))
    }

    /// Looks again after a partition has said that `known` is outdated. If it is not, then either the registry has
    /// lost its last change, which a sealed partition still knows, or a partition was lost with its server's data: it
    /// is made again.
    pub(super) async fn look_again(&self, task_type: &TaskType, known: &Spread) -> Result<()> {
        let spread = self.look(task_type).await?;
        if spread.layout != known.layout {
            return Ok(());
        }
        let now = spread.layout.text();
        if let Some(layout) = self.next_layout(&spread).await? {
            let next = layout.text();
            tracing::error!(%task_type, now, next, "the layout has lost a change: restoring it");
            let stored = self.read_layout(task_type).await?;
            self.change_layout(task_type, &stored.text, &layout).await?;
            return self.look(task_type).await.map(drop);
        }
        tracing::error!(%task_type, layout = now, "a partition has lost its data: making it again");
        self.open_newest(&spread, Kept::default()).await
    }

    /// The layout that sealed one of the newest partitions, if any did.
    async fn next_layout(&self, spread: &Spread) -> Result<Option<Layout>> {
        for part in spread.newest() {
            let ask = part.setting("next");
            let reply = self.client.call(Lane::Main, ask).await?;
            if reply == Reply::Nil {
                continue;
            }
            let next = Layout::parse(&reply.fields().text()?).ok();
            if let Some(next) = next.filter(|next| next.is_after(&spread.layout)) {
                return Ok(Some(next));
            }
        }
        Ok(None)
    }

    /// Raises the number of partitions of a type. Never lowers it: returns how many there are.
    ///
    /// # Errors
    /// `InvalidInput` for a number out of range, for one that the present bound is too small for if that is kept, or
    /// while as many older generations as can be still drain.
    pub(super) async fn raise(
        &self,
        task_type: &TaskType,
        partitions: u32,
        keeps_bound: bool,
    ) -> Result<usize> {
        if !(1..=MAX_PARTITIONS).contains(&partitions) {
            let reason = format!("{partitions} partitions: use 1 to {MAX_PARTITIONS}");
            return Err(Error::InvalidInput(reason));
        }
        let wanted = usize::try_from(partitions).unwrap_or(1);
        for _ in 0..MAX_LOOKS {
            let stored = self.read_layout(task_type).await?;
            if stored.layout.is_opening {
                self.finish_opening(task_type, stored).await?;
                continue;
            }
            let there_are = stored.layout.count();
            if there_are >= wanted {
                self.scope.learn(task_type, stored.layout);
                return Ok(there_are);
            }
            if stored.layout.generations().len() == MAX_GENERATIONS {
                let reason = format!(
                    "{task_type} has been split {MAX_GENERATIONS} times, and the oldest partitions have \
                     not drained: raise their number later"
                );
                return Err(Error::InvalidInput(reason));
            }
            if keeps_bound {
                let bound = self.bound(task_type, &stored.layout).await?;
                divide::check(bound, wanted, task_type)?;
            }
            let suffixes = self.suffixes(task_type, (stored.layout.next_number(), wanted));
            let raised = stored.layout.raised(suffixes);
            self.change_layout(task_type, &stored.text, &raised).await?;
        }
        Err(self.unsettled(task_type))
    }

    /// The bound of a type as its newest partitions keep it.
    async fn bound(&self, task_type: &TaskType, layout: &Layout) -> Result<Option<u64>> {
        let spread = Spread::new(&self.scope.keys, task_type, layout.clone());
        let mut whole: Option<u64> = None;
        for part in spread.newest() {
            let ask = part.setting("max_pending");
            let text = self.client.call(Lane::Main, ask).await?;
            if text != Reply::Nil {
                let own: u64 = text.fields().text()?.parse().unwrap_or(u64::MAX);
                whole = Some(whole.unwrap_or(0).saturating_add(own));
            }
        }
        Ok(whole)
    }

    /// What the partitions of a new generation are named with. On one server it makes no difference.
    fn suffixes(&self, task_type: &TaskType, (number, count): (u32, usize)) -> Vec<u32> {
        let route = self.client.route();
        if !route.is_cluster() {
            return vec![0; count];
        }
        let nodes: Vec<usize> = self.client.servers().iter().map(address).collect();
        let slot = |place| self.scope.keys.partition(task_type, place).slot;
        let owner = |slot| route.node(slot).as_ref().map(address);
        placing::suffixes(task_type, (number, count), &nodes, slot, owner)
    }

    /// Learns how these types are split, so far as that is settled: where to listen for their wake-ups.
    pub(super) async fn learn_all(&self, types: &[TaskType]) -> Result<()> {
        let key = self.scope.keys.layouts();
        for types in types.chunks(TYPES_AT_ONCE) {
            let names = types.iter().map(TaskType::as_str);
            let ask: Vec<&str> = ["HMGET", &key].into_iter().chain(names).collect();
            let ask = Command::read(&ask).at(self.scope.keys.slot());
            let mut layouts = self.client.call(Lane::Main, ask).await?.fields();
            for task_type in types {
                let text = layouts.optional_text()?;
                let layout = text.as_deref().map_or(Ok(Layout::default()), Layout::parse);
                if let Ok(layout) = layout
                    && !layout.is_opening
                {
                    self.scope.learn(task_type, layout);
                }
            }
        }
        Ok(())
    }

    /// Takes generations out of the layout whose partitions are all known to be sealed and empty.
    pub(super) async fn drop_drained(&self, task_type: &TaskType, spread: &Spread) -> Result<()> {
        let drained = spread.drained(|part| self.scope.visits.is_drained(part));
        if drained.is_empty() {
            return Ok(());
        }
        let stored = self.read_layout(task_type).await?;
        let rest = stored.layout.without(&drained);
        if rest != stored.layout {
            self.change_layout(task_type, &stored.text, &rest).await?;
        }
        self.look(task_type).await?;
        for part in spread
            .all()
            .filter(|part| self.scope.visits.is_drained(part))
        {
            self.scope.visits.forget(part);
        }
        Ok(())
    }

    async fn finish_opening(&self, task_type: &TaskType, stored: Stored) -> Result<()> {
        let spread = Spread::new(&self.scope.keys, task_type, stored.layout);
        let sealed = together(spread.older().map(|part| self.seal(part, &stored.text))).await;
        let (mut kept, mut empty) = (Kept::default(), HashSet::new());
        for (part, sealed) in spread.older().zip(sealed) {
            let (own, is_empty) = sealed?;
            kept.take_over(own, spread.is_second_newest(part));
            if is_empty && self.keeps_order() {
                empty.insert(&*part.stem);
            }
        }
        self.open_newest(&spread, kept).await?;
        // Those of a type without tasks so far: nobody needs to ask them first. One that has given a fence still tells it.
        let drained = spread.drained(|part| empty.contains(&*part.stem));
        let opened = spread.layout.opened().without(&drained);
        self.change_layout(task_type, &stored.text, &opened).await?;
        for part in spread.older().filter(|part| empty.contains(&*part.stem)) {
            self.scope.visits.forget(part);
        }
        Ok(())
    }

    /// Whether a fail-over that keeps what the registry says keeps every seal before it, too.
    fn keeps_order(&self) -> bool {
        let is_replicated = self.scope.options.durability == Durability::Replicated;
        is_replicated || !self.client.route().is_cluster()
    }

    /// What the partition says of the type, and whether it is empty for ever.
    async fn seal(&self, part: &Partition, layout: &str) -> Result<(Kept, bool)> {
        let command = part.script(Script::Seal, layout.len()).arg(layout);
        let mut fields = self.run(Lane::Main, part, command).await?;
        let mut number = || Ok(fields.text()?.parse().ok());
        let kept = Kept {
            pause_ms: number()?,
            max_pending: number()?,
        };
        Ok((kept, fields.flag()?))
    }

    /// Makes the newest partitions of a type that are not there.
    async fn open_newest(&self, spread: &Spread, kept: Kept) -> Result<()> {
        let text = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
        let open = async |(part, most): (&Arc<Partition>, Option<u64>)| {
            let command = part
                .script(Script::Open, 32)
                .arg(&part.open)
                .arg(text(kept.pause_ms))
                .arg(text(most));
            self.run(Lane::Main, part, command).await.map(drop)
        };
        let shares = divide::bounds(kept.max_pending, spread.newest().count());
        let opened = together(spread.newest().zip(shares).map(open)).await;
        opened.into_iter().collect()
    }

    async fn read_layout(&self, task_type: &TaskType) -> Result<Stored> {
        let key = self.scope.keys.layouts();
        let ask = Command::read(&["HGET", &key, task_type.as_str()]).at(self.scope.keys.slot());
        let reply = self.client.call(Lane::Main, ask).await?;
        if reply == Reply::Nil {
            return Ok(Stored {
                text: String::new(),
                layout: Layout::default(),
            });
        }
        let text = reply.fields().text()?;
        let layout = Layout::parse(&text).map_err(|unread| {
            let field = format!("{key}, field {task_type}");
            match unread {
                Unread::Damaged => Error::Corrupt {
                    key: field,
                    detail: format!("{text:?} does not say how the type is split"),
                },
                Unread::Newer(found) => Error::Incompatible {
                    what: field,
                    found,
                    supported: layout::VERSION,
                },
            }
        })?;
        Ok(Stored { text, layout })
    }

    /// Changes the layout of a type if it is still what was read; else somebody else has changed it.
    async fn change_layout(&self, task_type: &TaskType, read: &str, layout: &Layout) -> Result<()> {
        let (key, slot) = (self.scope.keys.layouts(), self.scope.keys.slot());
        let text = layout.text();
        let command = Command::script(Script::Layout, slot, [key].iter(), 256)
            .arg(task_type.as_str())
            .arg(read)
            .arg(&text);
        if self
            .client
            .call(Lane::Main, command)
            .await?
            .fields()
            .flag()?
        {
            tracing::info!(%task_type, layout = text, "the partitions of a type have changed");
        }
        Ok(())
    }
}

/// A number of its own for each node that is there at the same time.
fn address(node: &Arc<Node>) -> usize {
    Arc::as_ptr(node).addr()
}

/// How often the list of types is read in a cluster, to listen to all of them. A new type is heard of at once,
/// unless the message is lost.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);

/// Listens to every type there is, as long as the store lives.
pub(super) async fn listen(store: Weak<RedisStore>) {
    while let Some(store) = store.upgrade() {
        let types = async {
            let types = store.all_types().await?;
            store.learn_all(&types).await?;
            Ok::<_, Error>(types)
        };
        match types.await {
            Ok(types) => store.client.listen_to(store.scope.channels(&types)),
            Err(error) => tracing::debug!(%error, "cannot read the types to listen to"),
        }
        let scope = Arc::clone(&store.scope);
        drop(store);
        // Not before the next message: it may name a type that is not known yet.
        let _ = timeout(LISTEN_AGAIN, scope.unknown.notified()).await;
    }
}
