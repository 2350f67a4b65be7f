//! The list of running instances.

use delayq_core::presence::{InstanceId, InstanceInfo};
use delayq_core::{TaskType, Timestamp};

use super::rig::{LONG, Rig, SHORT, usual_type};

pub(super) fn instance(host: &str) -> InstanceInfo {
    let started_at = Timestamp::from_millis(1_767_225_600_000);
    let instance = InstanceInfo::new(InstanceId::generate(), host, 17, started_at);
    instance.serving(&[TaskType::new("mail.send").unwrap(), usual_type()])
}

pub(super) async fn announce(rig: &Rig, instance: &InstanceInfo) {
    rig.store().announce(instance, LONG).await.unwrap();
}

pub(super) async fn hosts(rig: &Rig) -> Vec<String> {
    let instances = rig.store().instances().await.unwrap();
    instances
        .into_iter()
        .map(|instance| instance.host)
        .collect()
}

pub async fn an_announced_instance_is_listed_as_it_said(rig: &Rig) {
    assert_eq!(rig.store().instances().await, Ok(Vec::new()));
    let mut told = instance("shop-3");
    let before = rig.now().await;
    announce(rig, &told).await;
    let after = rig.now().await;
    let found = rig.store().instances().await.unwrap().remove(0);
    assert!((before..=after).contains(&found.seen_at), "{found:?}");
    told.seen_at = found.seen_at;
    assert_eq!(found, told);
}

pub async fn an_announcement_takes_the_place_of_the_one_before(rig: &Rig) {
    let first = instance("shop-3");
    announce(rig, &first).await;
    let before = rig.store().instances().await.unwrap().remove(0);
    rig.pass(SHORT).await;
    announce(rig, &first.clone().serving(&[])).await;
    let found = rig.store().instances().await.unwrap();
    assert_eq!((found.len(), found[0].type_count), (1, 0));
    assert!(found[0].seen_at > before.seen_at);
}

pub async fn instances_are_told_apart_by_their_identity_alone(rig: &Rig) {
    // A restarted container has the same name and the same pid.
    let (one, other) = (instance("shop-3"), instance("shop-3"));
    announce(rig, &one).await;
    announce(rig, &other).await;
    let mut ids = vec![one.id, other.id];
    ids.sort();
    let found = rig.store().instances().await.unwrap();
    let found: Vec<_> = found.into_iter().map(|instance| instance.id).collect();
    assert_eq!(found, ids, "in the order of their identities");
}

pub async fn a_silent_instance_is_forgotten(rig: &Rig) {
    let silent = instance("silent");
    rig.store().announce(&silent, SHORT).await.unwrap();
    announce(rig, &instance("there")).await;
    rig.pass(SHORT).await;
    assert_eq!(hosts(rig).await, ["there"]);
    announce(rig, &silent).await;
    assert_eq!(hosts(rig).await.len(), 2);
}

pub async fn a_withdrawn_instance_is_forgotten_at_once(rig: &Rig) {
    let (gone, there) = (instance("gone"), instance("there"));
    announce(rig, &gone).await;
    announce(rig, &there).await;
    rig.store().withdraw(&gone.id).await.unwrap();
    assert_eq!(hosts(rig).await, ["there"]);
    // A repeat, and an instance that was never listed.
    rig.store().withdraw(&gone.id).await.unwrap();
    let never = InstanceId::generate();
    rig.store().withdraw(&never).await.unwrap();
    assert_eq!(hosts(rig).await, ["there"]);
}

pub async fn an_instance_is_listed_in_its_namespace_and_lists_no_type(rig: &Rig) {
    let other = rig.with_retention(rig.options().retention).await;
    announce(rig, &instance("here")).await;
    announce(&other, &instance("there")).await;
    assert_eq!(hosts(rig).await, ["here"]);
    assert_eq!(rig.store().types().await, Ok(Vec::new()));
}
