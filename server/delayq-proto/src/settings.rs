//! Settings, counts and audits of types.

use delayq_core::operate::{AuditReport, Problem, Setting, TypeSettings, TypeStats, TypeTotals};
use delayq_core::{Error, Rate, Result};

use crate::field::required;
use crate::pb;
use crate::time::{read_time, read_time_if, time};

fn number<T: Into<u64>>(setting: Setting<T>) -> Option<pb::NumberSetting> {
    use pb::number_setting::Change;
    let change = match setting {
        Setting::Keep => return None,
        Setting::Unset => Change::Unset(true),
        Setting::To(value) => Change::To(value.into()),
    };
    Some(pb::NumberSetting {
        change: Some(change),
    })
}

fn read_number<T: TryFrom<u64>>(
    field: &'static str,
    sent: Option<pb::NumberSetting>,
) -> Result<Setting<T>> {
    use pb::number_setting::Change;
    match sent.and_then(|sent| sent.change) {
        None => Ok(Setting::Keep),
        Some(Change::Unset(_)) => Ok(Setting::Unset),
        Some(Change::To(value)) => match T::try_from(value) {
            Ok(value) => Ok(Setting::To(value)),
            Err(_) => Err(Error::invalid(field, format!("{value} is too large"))),
        },
    }
}

impl From<TypeSettings> for pb::TypeSettings {
    fn from(settings: TypeSettings) -> Self {
        use pb::rate_setting::Change;
        let rate = match settings.fleet_rate {
            Setting::Keep => None,
            Setting::Unset => Some(Change::Unset(true)),
            Setting::To(rate) => Some(Change::To(rate.into())),
        };
        Self {
            max_pending: number(settings.max_pending),
            shards: settings.shards,
            fleet_concurrency: number(settings.fleet_concurrency),
            fleet_rate: rate.map(|change| pb::RateSetting {
                change: Some(change),
            }),
        }
    }
}

impl TryFrom<pb::TypeSettings> for TypeSettings {
    type Error = Error;

    fn try_from(sent: pb::TypeSettings) -> Result<Self> {
        use pb::rate_setting::Change;
        let mut settings = Self::default();
        settings.max_pending = read_number("settings.max_pending", sent.max_pending)?;
        settings.shards = sent.shards;
        let concurrency = sent.fleet_concurrency;
        settings.fleet_concurrency = read_number("settings.fleet_concurrency", concurrency)?;
        settings.fleet_rate = match sent.fleet_rate.and_then(|sent| sent.change) {
            None => Setting::Keep,
            Some(Change::Unset(_)) => Setting::Unset,
            Some(Change::To(rate)) => Setting::To(Rate::try_from(rate)?),
        };
        Ok(settings)
    }
}

impl From<TypeStats> for pb::TypeStats {
    fn from(stats: TypeStats) -> Self {
        let totals = stats.totals;
        Self {
            now: Some(time(stats.now)),
            scheduled: stats.scheduled,
            due: stats.due,
            running: stats.running,
            dead: stats.dead,
            totals: Some(pb::TypeTotals {
                done: totals.done,
                dead: totals.dead,
                cancelled: totals.cancelled,
                expired: totals.expired,
                failed: totals.failed,
            }),
            remembered: stats.remembered,
            remembered_since: stats.remembered_since.map(time),
            next_due: stats.next_due.map(time),
            paused_until: stats.paused_until.map(time),
            max_pending: stats.max_pending,
            refused: stats.refused,
            fleet_concurrency: stats.fleet_concurrency,
            fleet_rate: stats.fleet_rate.map(Into::into),
        }
    }
}

impl TryFrom<pb::TypeStats> for TypeStats {
    type Error = Error;

    fn try_from(sent: pb::TypeStats) -> Result<Self> {
        let mut totals = TypeTotals::default();
        let counted = sent.totals.unwrap_or_default();
        totals.done = counted.done;
        totals.dead = counted.dead;
        totals.cancelled = counted.cancelled;
        totals.expired = counted.expired;
        totals.failed = counted.failed;
        let mut stats = Self::default();
        stats.now = read_time("now", required("now", sent.now)?)?;
        stats.scheduled = sent.scheduled;
        stats.due = sent.due;
        stats.running = sent.running;
        stats.dead = sent.dead;
        stats.totals = totals;
        stats.remembered = sent.remembered;
        stats.remembered_since = read_time_if("remembered_since", sent.remembered_since)?;
        stats.next_due = read_time_if("next_due", sent.next_due)?;
        stats.paused_until = read_time_if("paused_until", sent.paused_until)?;
        stats.max_pending = sent.max_pending;
        stats.refused = sent.refused;
        stats.fleet_concurrency = sent.fleet_concurrency;
        stats.fleet_rate = sent.fleet_rate.map(TryInto::try_into).transpose()?;
        Ok(stats)
    }
}

impl From<AuditReport> for pb::AuditResponse {
    fn from(report: AuditReport) -> Self {
        let problem = |problem: Problem| pb::AuditProblem {
            id: problem.id,
            what: problem.what,
            repaired: problem.repaired,
        };
        Self {
            checked: report.checked,
            problems: report.problems.into_iter().map(problem).collect(),
        }
    }
}

impl From<pb::AuditResponse> for AuditReport {
    fn from(sent: pb::AuditResponse) -> Self {
        let problem = |sent: pb::AuditProblem| Problem::new(sent.id, sent.what, sent.repaired);
        let mut report = Self::default();
        report.checked = sent.checked;
        report.problems = sent.problems.into_iter().map(problem).collect();
        report
    }
}
