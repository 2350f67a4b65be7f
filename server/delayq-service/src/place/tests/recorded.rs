//! The records of ended tasks of a namespace that moves, and the setting of its types.

use delayq_core::Operate;
use delayq_core::history::{Ends, KeptMessage, Recording};

use super::*;
use crate::config::Recordings;
use crate::recorded_store::tell_all;

fn with_history(folder: &TempDir) -> Config {
    let history = folder.path().join("history.sqlite");
    Config {
        history: Some(format!("sqlite:{}", history.display())),
        ..config(folder)
    }
}

#[tokio::test]
async fn a_store_is_left_once_its_records_are_shipped() {
    let folder = tempfile::tempdir().unwrap();
    let one = Instance::start_with(with_history(&folder)).await;
    let mover = one.mover();
    mover.begin(Some("b".to_owned())).await.unwrap();
    assert_eq!(one.phase(), Phase::Preparing);
    // A type that nobody has told yet whether to record.
    one.send("1", Duration::ZERO).await.unwrap();
    drive(&mover, Phase::Moving).await;
    let held = one.claim_one().await;
    assert_eq!(one.done(held).await, SettleOutcome::Settled);
    for _ in 0..9 {
        mover.advance().await.unwrap();
        assert_eq!(one.phase(), Phase::Moving);
    }
    let ends = one.place.ends(9).await.unwrap();
    assert_eq!(ends.len(), 1);
    let positions: Vec<_> = ends.into_iter().map(|end| end.position).collect();
    assert_eq!(one.place.remove_ends(&positions).await, Ok(1));
    drive(&mover, Phase::Done).await;
    one.send("2", Duration::ZERO).await.unwrap();
    let held = one.claim_one().await;
    one.done(held).await;
    assert_eq!(one.place.ends_status().await.unwrap().waiting, 1);
}

#[tokio::test]
async fn a_history_that_is_off_is_off_for_the_types_that_had_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(&folder);
    assert!(!config.recordings().tells(), "types stay as they are");
    config.history_record = "off".to_owned();
    assert_eq!(config.recordings(), Recordings::of_all(Recording::Off));
    let one = Instance::start_with(config).await;
    one.send("1", hours(1)).await.unwrap();
    let on = TypeSettings::default().history(Some(KeptMessage::Whole));
    one.place.configure_type(&job_type(), &on).await.unwrap();
    let off = Recordings::of_all(Recording::Off);
    tell_all(&*one.place, &off, false).await.unwrap();
    assert_eq!(one.tasks.stats("job").await.unwrap().history, None);
    let _ = one.tasks.cancel("job", "1").await.unwrap();
    assert_eq!(one.place.ends_status().await.unwrap().waiting, 0);
}
