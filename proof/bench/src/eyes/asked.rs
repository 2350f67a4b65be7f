//! What is asked for: every page, and every operation of the command line that reads.

use delayq_ops::{DeadSelection, dead_groups, doctor, explain, forecast, overview, timeline};
use delayq_plugin::{TaskFilter, TaskState, TaskSubmitService, days, hours};

use super::fill::{DEAD, DRAINED, ERROR_GROUP, FAR, HERD, UNSERVED, dead_id, far_id, unserved_id};
use super::web::Server;
use crate::Failure;

/// Tasks of one page of a list.
const PAGE: usize = 128;

/// Something to be asked for.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    /// A page by its path.
    Page(String),
    Operation(Operation),
}

/// What the command line does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Overview,
    Stats,
    ListScheduled,
    ListDead,
    ListByPrefix,
    ListDone,
    ShowScheduled,
    ShowDead,
    ShowUnserved,
    ForecastHour,
    ForecastMonth,
    ForecastAll,
    DeadGroups,
    CountGroup,
    Doctor,
}

impl Operation {
    const ALL: [Self; 15] = [
        Self::Overview,
        Self::Stats,
        Self::ListScheduled,
        Self::ListDead,
        Self::ListByPrefix,
        Self::ListDone,
        Self::ShowScheduled,
        Self::ShowDead,
        Self::ShowUnserved,
        Self::ForecastHour,
        Self::ForecastMonth,
        Self::ForecastAll,
        Self::DeadGroups,
        Self::CountGroup,
        Self::Doctor,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Overview => "overview",
            Self::Stats => "stats",
            Self::ListScheduled => "list scheduled",
            Self::ListDead => "list dead",
            Self::ListByPrefix => "list scheduled, by a prefix that none has",
            Self::ListDone => "list done",
            Self::ShowScheduled => "explain and timeline, scheduled",
            Self::ShowDead => "explain and timeline, dead",
            Self::ShowUnserved => "explain, unserved",
            Self::ForecastHour => "forecast of a type, 1 h",
            Self::ForecastMonth => "forecast of a herd, 30 d",
            Self::ForecastAll => "forecast of all types, 30 d",
            Self::DeadGroups => "dead groups of all types",
            Self::CountGroup => "dead tasks of a group, counted",
            Self::Doctor => "doctor",
        }
    }

    async fn run(self, tasks: &TaskSubmitService) -> Result<(), Failure> {
        let list = |task_type, state| tasks.list(task_type, state, None, PAGE);
        match self {
            Self::Overview => drop(overview(tasks, "*").await?),
            Self::Stats => {
                tasks.stats(FAR).await?;
            }
            Self::ListScheduled => drop(list(FAR, TaskState::Scheduled).await?),
            Self::ListDead => drop(list(DEAD, TaskState::Dead).await?),
            Self::ListDone => drop(list(DRAINED, TaskState::Done).await?),
            Self::ListByPrefix => {
                let filter = TaskFilter::new().id_prefix("none");
                drop(tasks.list_by(FAR, &filter, None, PAGE).await?);
            }
            Self::ShowScheduled => show(tasks, FAR, &far_id(0)).await?,
            Self::ShowDead => show(tasks, DEAD, &dead_id(0)).await?,
            Self::ShowUnserved => drop(explain(tasks, UNSERVED, &unserved_id(9)).await?),
            Self::ForecastHour => drop(forecast(tasks, FAR, hours(1), 60).await?),
            Self::ForecastMonth => drop(forecast(tasks, HERD, days(30), 30).await?),
            Self::ForecastAll => drop(forecast(tasks, "*", days(30), 30).await?),
            Self::DeadGroups => drop(dead_groups(tasks, "*", &TaskFilter::new()).await?),
            Self::CountGroup => {
                let group = DeadSelection::of(DEAD).group(ERROR_GROUP);
                group.count(tasks).await?;
            }
            Self::Doctor => drop(doctor(tasks).await),
        }
        Ok(())
    }
}

async fn show(tasks: &TaskSubmitService, task_type: &str, id: &str) -> Result<(), Failure> {
    explain(tasks, task_type, id).await?;
    timeline(tasks, task_type, id).await?;
    Ok(())
}

impl Asked {
    pub(crate) fn all() -> Vec<Self> {
        let states = [
            "scheduled",
            "running",
            "dead",
            "done",
            "cancelled",
            "expired",
        ];
        let mut pages = vec![
            "/".to_owned(),
            format!("/type?name={FAR}"),
            format!("/type?name={FAR}&range=30d&ahead=30d"),
            format!("/type?name={HERD}&range=24h&ahead=30d"),
        ];
        pages.extend(states.map(|state| format!("/tasks?type={DEAD}&state={state}")));
        pages.extend([
            format!("/tasks?type={DRAINED}&state=done"),
            format!("/tasks?type={FAR}&by=prefix&q=none"),
            format!("/tasks?type={DEAD}&state=dead&by=error&q=none"),
            format!("/task?type={FAR}&id={}", far_id(0)),
            format!("/task?type={DEAD}&id={}", dead_id(0)),
            format!("/task?type={UNSERVED}&id={}", unserved_id(9)),
            "/dead".to_owned(),
            format!("/dead?type={DEAD}"),
            format!(
                "/dead/requeue?type={DEAD}&by=group&group={}",
                ERROR_GROUP.replace(' ', "+").replace('#', "%23")
            ),
            format!("/tasks/cancel?type={FAR}&by=prefix&q=none"),
            format!("/type/purge?name={DRAINED}&state=done"),
            "/instances".to_owned(),
            "/log".to_owned(),
            "/health".to_owned(),
        ]);
        let pages = pages.into_iter().map(Self::Page);
        pages.chain(Operation::ALL.map(Self::Operation)).collect()
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::Page(path) => format!("`{path}`"),
            Self::Operation(operation) => operation.name().to_owned(),
        }
    }

    pub(crate) async fn ask(
        &self,
        tasks: &TaskSubmitService,
        server: &Server,
    ) -> Result<(), Failure> {
        match self {
            Self::Page(path) => server.get(path).await,
            Self::Operation(operation) => operation.run(tasks).await,
        }
    }
}
