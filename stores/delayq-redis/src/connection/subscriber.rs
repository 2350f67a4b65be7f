//! Subscriptions in a cluster: each channel at the node that has its slot.

use std::collections::{HashMap, HashSet};
use std::iter::repeat;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::Listener;
use super::cluster::Cluster;
use super::reconnecting::{Purpose, Reconnecting};
use super::settings::Settings;
use super::target::Target;
use super::wire::Wire;
use crate::config::Address;

/// How often the subscriptions of every connection are compared with the wanted ones without notice
/// of a change. This takes no command.
const COMPARE: Duration = Duration::from_millis(250);
/// Subscriptions sent in one pipeline.
const AT_ONCE: usize = 256;

/// A channel that is listened to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Channel {
    pub(crate) slot: u16,
    /// The message for the listener once the channel is subscribed: earlier messages are lost.
    pub(crate) message: Vec<u8>,
}

/// Channels by their names.
pub(crate) type Channels = HashMap<String, Channel>;

/// The subscriptions at one node.
struct Subscriptions {
    connection: Arc<Reconnecting>,
    /// The subscribed connection and its channels.
    subscribed: Option<(Wire, HashSet<String>)>,
}

/// Listens to the wanted channels, as long as the client lives.
pub(super) async fn listen(
    settings: Arc<Settings>,
    cluster: Arc<Cluster>,
    mut wanted: watch::Receiver<Arc<Channels>>,
    listener: Listener,
) {
    let mut nodes: HashMap<Address, Subscriptions> = HashMap::new();
    let mut maps = cluster.maps();
    loop {
        let (map, channels) = (cluster.map(), Arc::clone(&wanted.borrow_and_update()));
        maps.mark_unchanged();
        let masters = map.masters();
        for (_, node) in nodes.extract_if(|address, _| !masters.contains(address)) {
            node.connection.close();
        }
        let mut by_owner: HashMap<&Address, Vec<&String>> = HashMap::new();
        for (name, channel) in channels.iter() {
            if let Some(owner) = map.owner(channel.slot) {
                by_owner.entry(owner).or_default().push(name);
            }
        }
        for (address, names) in by_owner {
            let node = nodes.entry(address.clone()).or_insert_with(|| {
                let purpose = Purpose::Listen {
                    channel: None,
                    listener: Arc::clone(&listener),
                };
                let target = Target::Fixed(address.clone());
                Subscriptions {
                    connection: Reconnecting::start(&settings, target, purpose),
                    subscribed: None,
                }
            });
            let on_subscribed = |name: &String| {
                if let Some(channel) = channels.get(name) {
                    listener(Some(&channel.message));
                }
            };
            if node.misses(&names, settings.timeout, on_subscribed).await {
                cluster.ask_again();
            }
        }
        tokio::select! {
            () = sleep(COMPARE) => {}
            _ = maps.changed() => {}
            changed = wanted.changed() => if changed.is_err() {
                return;
            }
        }
    }
}

impl Subscriptions {
    /// Subscribes to those of `names` that are not subscribed yet. Returns true if the node has
    /// refused one: its slot is elsewhere.
    async fn misses(
        &mut self,
        names: &[&String],
        within: Duration,
        on_subscribed: impl Fn(&String),
    ) -> bool {
        let Some(wire) = self.connection.wire() else {
            return false;
        };
        let is_same = |known: &Wire| Arc::ptr_eq(&known.ended, &wire.ended);
        let known = self.subscribed.take().filter(|(known, _)| is_same(known));
        let mut subscribed = known.map_or_else(HashSet::new, |(_, subscribed)| subscribed);
        let is_missing = |name: &&&String| !subscribed.contains(**name);
        let missing: Vec<&String> = names.iter().filter(is_missing).copied().collect();
        let mut is_refused = false;
        for names in missing.chunks(AT_ONCE) {
            let answers = timeout(within, wire.subscribe(names)).await;
            let answers = answers.unwrap_or_default().into_iter();
            for (name, is_subscribed) in names.iter().zip(answers.chain(repeat(false))) {
                is_refused |= !is_subscribed;
                if is_subscribed {
                    subscribed.insert((*name).clone());
                    on_subscribed(name);
                }
            }
        }
        self.subscribed = Some((wire, subscribed));
        is_refused
    }
}
