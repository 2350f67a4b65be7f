//! A day of the shop, replayed: which event happens when on the real clock.
//!
//! The plan of the day is kept in the store, as the message of the task that ends the day. So an
//! instance that is killed and started again, or a second one beside it, plays the same day.

use std::time::Duration;

use delayq_plugin::{
    Clock, DelayQueueJob, Error, SystemClock, TaskState, TaskSubmitService, Timestamp, When, days,
};
use serde::{Deserialize, Serialize};

use crate::event::Moment;

/// The type and id of the task that ends the day.
const CLOSE: (&str, &str) = ("shop.close", "today");

/// How the day of the shop is laid over real time.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Day {
    /// The time of its first event in the shop.
    first: Moment,
    /// The real time of its first event.
    started_at: Timestamp,
    /// Shop seconds in a real one.
    pub(crate) speed: f64,
}

/// Whether a day began now, or an earlier run began it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Begin {
    New,
    /// It began so long ago.
    Continued(Duration),
}

impl Day {
    /// The day that is under way in the store, or a new one.
    pub(crate) async fn begin(
        tasks: &TaskSubmitService,
        first: Moment,
        speed: f64,
    ) -> Result<(Self, Begin), Error> {
        if let Some(day) = Self::under_way(tasks).await? {
            return Ok((
                day,
                Begin::Continued(SystemClock.now().since(day.started_at)),
            ));
        }
        // What is remembered of an earlier day would be taken for today's.
        for state in [TaskState::Done, TaskState::Cancelled] {
            tasks.purge("order.cancel", state).await?;
        }
        let day = Self {
            first,
            started_at: SystemClock.now(),
            speed,
        };
        // Open end: it is moved to the right time once the last event is known.
        let (close, today) = CLOSE;
        let job = DelayQueueJob::new(close, &day)?
            .id(today)
            .after(days(365))
            .keep();
        tasks.send(job).await?;
        // Another instance may have been quicker: the day in the store counts.
        Ok((Self::under_way(tasks).await?.unwrap_or(day), Begin::New))
    }

    async fn under_way(tasks: &TaskSubmitService) -> Result<Option<Self>, Error> {
        let found = tasks.find(CLOSE.0, CLOSE.1).await?;
        let Some(message) = found.and_then(|info| info.message) else {
            return Ok(None);
        };
        let read = serde_json::from_slice(&message);
        read.map(Some)
            .map_err(|e| Error::invalid("plan of the day", e.to_string()))
    }

    /// The real time of a moment in the shop.
    pub(crate) fn real_time(&self, moment: Moment) -> Timestamp {
        self.started_at
            .plus(self.real_span(moment.since(self.first)))
    }

    /// The real length of a span in the shop.
    pub(crate) fn real_span(&self, span: Duration) -> Duration {
        Duration::try_from_secs_f64(span.as_secs_f64() / self.speed).unwrap_or(Duration::MAX)
    }

    /// Ends the day at `time`, or now if that is past.
    pub(crate) async fn end_at(
        &self,
        tasks: &TaskSubmitService,
        time: Timestamp,
    ) -> Result<(), Error> {
        tasks
            .reschedule(CLOSE.0, CLOSE.1, When::At(time))
            .await
            .map(|_| ())
    }

    /// Whether the end of the day has been run, and no cancellation is left.
    pub(crate) async fn is_over(&self, tasks: &TaskSubmitService) -> Result<bool, Error> {
        let closed = tasks
            .find(CLOSE.0, CLOSE.1)
            .await?
            .is_none_or(|info| info.state.is_ended());
        let stats = tasks.stats("order.cancel").await?;
        Ok(closed && stats.scheduled + stats.running == 0)
    }
}
