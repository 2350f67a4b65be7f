//! Listening to a cluster: each channel at the node that has its slot.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::super::config::Address;
use super::Listener;
use super::cluster::Cluster;
use super::link::{Link, Purpose, Target};
use super::live::Live;
use super::settings::Settings;

/// How often it is seen to that every connection listens to what it should, when nothing tells of a change. It
/// costs no command.
const LOOK: Duration = Duration::from_millis(250);
/// Subscriptions sent in one go.
const AT_ONCE: usize = 256;

/// A channel that is listened to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Channel {
    pub(in super::super) slot: u16,
    /// What the listener is told once it is listened to: what was sent before is lost.
    pub(in super::super) message: Vec<u8>,
}

/// Channels by their names.
pub(in super::super) type Channels = HashMap<String, Channel>;

/// The connection to one node.
struct Ear {
    link: Arc<Link>,
    /// The connection that listens, and to what.
    heard: Option<(Live, HashSet<String>)>,
}

/// Listens to whatever `wanted` names, as long as the client lives.
pub(super) async fn listen(
    runtime: Handle,
    settings: Arc<Settings>,
    cluster: Arc<Cluster>,
    mut wanted: watch::Receiver<Arc<Channels>>,
    listener: Listener,
) {
    let mut ears: HashMap<Address, Ear> = HashMap::new();
    let mut maps = cluster.maps();
    loop {
        let (map, channels) = (cluster.map(), Arc::clone(&wanted.borrow_and_update()));
        maps.mark_unchanged();
        let masters = map.masters();
        for (_, ear) in ears.extract_if(|address, _| !masters.contains(address)) {
            ear.link.close();
        }
        let mut at: HashMap<&Address, Vec<&String>> = HashMap::new();
        for (name, channel) in channels.iter() {
            if let Some(owner) = map.owner(channel.slot) {
                at.entry(owner).or_default().push(name);
            }
        }
        for (address, names) in at {
            let ear = ears.entry(address.clone()).or_insert_with(|| {
                let purpose = Purpose::Listen {
                    channel: None,
                    listener: Arc::clone(&listener),
                };
                let target = Target::Fixed(address.clone());
                let link = Link::start(&runtime, &settings, target, purpose);
                Ear { link, heard: None }
            });
            let (new, is_all) = ear.listen_to(&names, settings.timeout).await;
            for name in new {
                if let Some(channel) = channels.get(&name) {
                    listener(Some(&channel.message));
                }
            }
            if !is_all {
                cluster.look_again();
            }
        }
        tokio::select! {
            () = sleep(LOOK) => {}
            _ = maps.changed() => {}
            changed = wanted.changed() => if changed.is_err() {
                return;
            }
        }
    }
}

impl Ear {
    /// Listens to those of `names` that it does not listen to yet. Which these are, and whether all went well.
    async fn listen_to(&mut self, names: &[&String], within: Duration) -> (Vec<String>, bool) {
        let Some(live) = self.link.live() else {
            return (Vec::new(), true);
        };
        let is_same = self
            .heard
            .as_ref()
            .is_some_and(|(known, _)| known.is(&live));
        if !is_same {
            self.heard = Some((live.clone(), HashSet::new()));
        }
        let Some((_, heard)) = &mut self.heard else {
            return (Vec::new(), true);
        };
        let missing: Vec<&String> = names
            .iter()
            .copied()
            .filter(|name| !heard.contains(*name))
            .collect();
        let (mut new, mut is_all) = (Vec::new(), true);
        for names in missing.chunks(AT_ONCE) {
            let answers = timeout(within, live.subscribe(names))
                .await
                .unwrap_or_default();
            let answers = answers.into_iter().chain(std::iter::repeat(false));
            for (name, is_heard) in names.iter().zip(answers) {
                is_all &= is_heard;
                if is_heard {
                    heard.insert((*name).clone());
                    new.push((*name).clone());
                }
            }
        }
        (new, is_all)
    }
}
