//! Fleet limits in the settings of a type: they apply to all claimers from their next claim.

use delayq_core::operate::TypeSettings;
use delayq_core::store::AttemptEnd;
use delayq_core::{FleetLimits, Rate, Timestamp};

use super::rig::{Rig, Round, job, usual_type};

pub(super) async fn configure(rig: &Rig, settings: TypeSettings) {
    let configured = rig.store().configure_type(&usual_type(), &settings).await;
    configured.unwrap();
}

/// A claim by a worker with limits of its own.
async fn claim(rig: &Rig, own: FleetLimits) -> Round {
    let request = rig.request().await.fleet(own);
    rig.claim_as(&request).await
}

pub async fn a_limit_in_the_settings_takes_the_place_of_every_claimers_own(rig: &Rig) {
    for id in ["1", "2", "3", "4", "5", "6"] {
        rig.accept(job(id)).await;
    }
    let own = FleetLimits {
        concurrency: Some(4),
        rate: None,
    };
    configure(rig, TypeSettings::default().fleet_concurrency(Some(2))).await;
    let stricter = claim(rig, own).await;
    stricter.assert_order(&["1", "2"]);
    assert!(claim(rig, FleetLimits::NONE).await.tasks.is_empty());
    configure(rig, TypeSettings::default().fleet_concurrency(Some(5))).await;
    let looser = claim(rig, own).await;
    looser.assert_order(&["3", "4", "5"]);
    configure(rig, TypeSettings::default().fleet_concurrency(None)).await;
    assert!(claim(rig, own).await.tasks.is_empty(), "its own again");
    rig.settled(&stricter.tasks[0].lock, AttemptEnd::Done).await;
    claim(rig, FleetLimits::NONE).await.assert_order(&["6"]);
}

pub async fn a_rate_in_the_settings_takes_the_place_of_every_claimers_own(rig: &Rig) {
    for id in ["1", "2", "3", "4"] {
        rig.accept(job(id)).await;
    }
    let rate = |burst| Some(Rate::per_hour(1).with_burst(burst));
    let own = FleetLimits {
        concurrency: None,
        rate: rate(1),
    };
    configure(rig, TypeSettings::default().fleet_rate(rate(3))).await;
    claim(rig, own).await.assert_order(&["1", "2", "3"]);
    let nothing = claim(rig, FleetLimits::NONE).await;
    assert!(nothing.tasks.is_empty());
    assert!(nothing.next_at().is_some_and(|next| next > Timestamp::ZERO));
    configure(rig, TypeSettings::default().fleet_rate(None)).await;
    claim(rig, FleetLimits::NONE).await.assert_order(&["4"]);
}

pub async fn limits_that_cannot_be_kept_are_refused_and_the_others_are_shown(rig: &Rig) {
    let rate = Rate::per_minute(90).with_burst(7);
    let good = TypeSettings::default().fleet_rate(Some(rate));
    configure(rig, good.fleet_concurrency(Some(u32::MAX))).await;
    for bad in [
        TypeSettings::default().fleet_concurrency(Some(0)),
        TypeSettings::default().fleet_rate(Some(Rate::per_second(0))),
    ] {
        let refused = rig.store().configure_type(&usual_type(), &bad).await;
        assert!(refused.is_err(), "{bad:?}");
    }
    configure(rig, TypeSettings::default().max_pending(Some(5))).await;
    let stats = rig.store().stats(&usual_type()).await.unwrap();
    assert_eq!(stats.fleet_rate, Some(rate));
    let others = (stats.fleet_concurrency, stats.max_pending);
    assert_eq!(others, (Some(u32::MAX), Some(5)));
    assert_eq!(rig.store().types().await, Ok(Vec::new()), "it lists none");
}
