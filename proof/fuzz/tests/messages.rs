//! Messages of gRPC: any bytes are decoded and converted or refused, and what was taken is the same
//! again after its way back.

use bolero::{check, produce};
use delayq_core::chronicle::{Action, LoggedAction, Spell};
use delayq_core::documents::Expected;
use delayq_core::operate::TypeSettings;
use delayq_core::presence::InstanceInfo;
use delayq_core::store::{Claimed, Settlement};
use delayq_core::{Bucket, FleetLimits, Lock, NewTask, TaskInfo, Timestamp, When};
use delayq_fuzz::{Reach, bytes, damage, list};
use delayq_proto::pb;
use prost::Message;

/// Decodes a message and converts it there, back and there again.
macro_rules! both_ways {
    ($bytes:expr, $($sent:ty => $read:ty),* $(,)?) => {{
        let mut taken = 0_u32;
        $(if let Ok(sent) = <$sent>::decode($bytes)
            && let Ok(read) = <$read>::try_from(sent)
        {
            let text = format!("{read:?}");
            let encoded = <$sent>::from(read).encode_to_vec();
            let decoded = <$sent>::decode(&*encoded).expect("what was encoded");
            let again = <$read>::try_from(decoded).expect("what was taken before");
            assert_eq!(format!("{again:?}"), text);
            taken += 1;
        })*
        taken
    }};
}

fn convert(bytes: &[u8]) -> u32 {
    let taken = both_ways!(
        bytes,
        pb::When => When,
        pb::Settlement => Settlement,
        pb::TypeSettings => TypeSettings,
        pb::Spell => Spell,
        pb::Action => Action,
        pb::LoggedAction => LoggedAction,
        pb::FleetLimits => FleetLimits,
        pb::Lock => Lock,
        pb::InstanceInfo => InstanceInfo,
        pb::ClaimResponse => Claimed,
        pb::TaskInfo => TaskInfo,
    );
    // Without an id it gets another one each time.
    if let Ok(sent) = pb::NewTask::decode(bytes) {
        if sent.id.is_empty() {
            let _ = NewTask::try_from(sent);
        } else {
            both_ways!(bytes, pb::NewTask => NewTask);
        }
    }
    if let Ok(sent) = pb::ClaimRequest::decode(bytes) {
        let _ = sent.read(Timestamp::from_millis(7));
    }
    if let Ok(sent) = pb::Bucket::decode(bytes) {
        let _ = Bucket::try_from(sent);
    }
    if let Ok(sent) = pb::Expected::decode(bytes) {
        let _ = Expected::try_from(sent);
    }
    let _ = pb::WorkRequest::decode(bytes);
    let _ = pb::SubmitRequest::decode(bytes);
    taken
}

#[test]
fn any_bytes_are_a_message_or_refused() {
    let reach = Reach::at_least(1);
    check!().with_generator(bytes(24)).for_each(|bytes| {
        reach.count(convert(bytes) > 0);
    });
}

/// Valid messages of several kinds.
fn valid() -> Vec<Vec<u8>> {
    let lock = pb::Lock {
        id: "order-42".to_owned(),
        fence: 1_767_225_600_000_000,
    };
    let task = pb::NewTask {
        task_type: "mail".to_owned(),
        id: "order-42".to_owned(),
        when: Some(When::At(Timestamp::from_millis(1_767_225_600_000)).into()),
        headers: [("shop".to_owned(), "berlin".to_owned())].into(),
        body: Some(pb::new_task::Body::Text("hello".to_owned())),
        ..pb::NewTask::default()
    };
    let bucket = pb::Bucket::from(&Bucket::shard(
        delayq_core::TaskType::new("mail").expect("a name"),
        "2.0",
    ));
    let claim = pb::ClaimRequest {
        namespace: "default".to_owned(),
        bucket: Some(bucket),
        limit: 5,
        ..pb::ClaimRequest::default()
    };
    let settings = TypeSettings::default().max_pending(Some(5)).shards(4);
    let action = Action::new("ann", "::1", "pause", "mail");
    vec![
        lock.encode_to_vec(),
        task.encode_to_vec(),
        claim.encode_to_vec(),
        pb::TypeSettings::from(settings).encode_to_vec(),
        pb::Action::from(action).encode_to_vec(),
        pb::When::from(When::After(std::time::Duration::MAX)).encode_to_vec(),
    ]
}

#[test]
fn a_damaged_message_is_read_the_same_again_or_refused() {
    let (reach, valid) = (Reach::at_least(10), valid());
    let accidents = list(3, produce::<(u16, u8, u8)>());
    check!()
        .with_generator((produce::<u8>(), accidents))
        .for_each(|(which, accidents)| {
            let which = usize::from(*which) % valid.len();
            let Some(message) = valid.get(which) else {
                return;
            };
            let mut message = message.clone();
            damage(&mut message, accidents);
            reach.count(convert(&message) > 0);
        });
}
