//! The replay: the events of the day are played into the store.

use std::collections::BTreeSet;
use std::error::Error;
use std::time::Duration;

use delayq_plugin::{
    CancelOutcome, Clock, DelayQueueJob, Error as DelayqError, SubmitOutcome, SystemClock,
    TaskState, TaskSubmitService, Timestamp, millis,
};

use crate::day::{Begin, Day};
use crate::event::{Event, Moment, Order};
use crate::lines::Lines;
use crate::outage::wait_out;
use crate::shop::{Cancellation, Shop, say};

/// Plays the events into the store.
pub(crate) struct Replay {
    pub(crate) tasks: TaskSubmitService,
    pub(crate) shop: Shop,
    /// The numbers of the orders that the store has accepted.
    orders: BTreeSet<String>,
    /// Until when the orders so far keep the shop open, in real time.
    end: Timestamp,
}

impl Replay {
    pub(crate) fn new(tasks: TaskSubmitService, shop: Shop) -> Self {
        Self {
            tasks,
            shop,
            orders: BTreeSet::new(),
            end: Timestamp::ZERO,
        }
    }

    /// Begins or continues the day, and acts on what happened while no instance ran: before any
    /// worker starts, so that a payment that came meanwhile still saves its order.
    pub(crate) async fn catch_up(
        &mut self,
        lines: &mut Lines,
        first: Moment,
        speed: f64,
    ) -> Result<Day, Box<dyn Error>> {
        let (day, begin) = wait_out(async || Day::begin(&self.tasks, first, speed).await).await?;
        println!(
            "store: {} · one real second is {} s in the shop",
            self.tasks.store().name(),
            day.speed
        );
        match begin {
            Begin::New => println!("a new day begins"),
            Begin::Continued(ago) => {
                let stats = wait_out(async || self.tasks.stats("order.cancel").await).await?;
                println!(
                    "continuing the day that began {:.1} s ago: {} orders wait for their payment or their \
                     cancellation, {} cancellations were under way",
                    ago.as_secs_f64(),
                    stats.scheduled,
                    stats.running,
                );
            }
        }
        // Events from a pipe are not there yet: the workers do not wait for them.
        let now = if lines.is_live {
            Timestamp::ZERO
        } else {
            SystemClock.now()
        };
        while day.real_time(first) <= now
            && let Some(event) = lines.peek().await?
            && day.real_time(event.time()) <= now
        {
            self.act_on_next(&day, lines).await?;
        }
        Ok(day)
    }

    /// Acts on each event when its time has come, until the day is over.
    pub(crate) async fn play(
        &mut self,
        day: &Day,
        lines: &mut Lines,
    ) -> Result<(), Box<dyn Error>> {
        while let Some(event) = lines.peek().await? {
            self.wait_until(day.real_time(event.time())).await?;
            self.act_on_next(day, lines).await?;
        }
        let end = self.end.plus(millis(500));
        wait_out(async || day.end_at(&self.tasks, end).await).await?;
        while !wait_out(async || day.is_over(&self.tasks).await).await? {
            self.wait_until(SystemClock.now().plus(millis(250))).await?;
        }
        self.sum_up().await
    }

    /// Waits, and tells every few seconds what it waits for.
    async fn wait_until(&self, time: Timestamp) -> Result<(), DelayqError> {
        const PROGRESS: Duration = Duration::from_secs(3);
        loop {
            let left = time.since(SystemClock.now());
            tokio::time::sleep(left.min(PROGRESS)).await;
            if left <= PROGRESS {
                return Ok(());
            }
            let stats = wait_out(async || self.tasks.stats("order.cancel").await).await?;
            let next = stats.next_due.map(|due| due.since(stats.now).as_secs_f64());
            let next = next.map_or(String::new(), |s| {
                format!(", the next deadline is in {s:.1} s")
            });
            say(
                "",
                "...",
                format!("{} orders wait for their payment{next}", stats.scheduled),
            );
        }
    }

    async fn act_on_next(&mut self, day: &Day, lines: &mut Lines) -> Result<(), DelayqError> {
        let until = match lines.take() {
            None => return Ok(()),
            Some(Event::Placed { time, order }) => match self.placed(day, time, &order).await {
                Ok(due_at) => due_at,
                // The order is at fault, not the store.
                Err(
                    error @ (DelayqError::Conflict { .. }
                    | DelayqError::InvalidName { .. }
                    | DelayqError::InvalidInput { .. }
                    | DelayqError::LimitExceeded { .. }),
                ) => {
                    lines.skip(error);
                    return Ok(());
                }
                Err(error) => return Err(error),
            },
            Some(Event::Paid { time, order }) => {
                self.paid(time, &order).await?;
                day.real_time(time)
            }
        };
        self.end = self.end.max(until);
        Ok(())
    }

    /// Sends the cancellation of an order for later. Returns when it is due, in real time.
    async fn placed(
        &mut self,
        day: &Day,
        time: Moment,
        order: &Order,
    ) -> Result<Timestamp, DelayqError> {
        let length = order.timeout.length;
        let due_at = day.real_time(time).plus(day.real_span(length));
        let job = Cancellation {
            order: order.clone(),
            deadline: time.plus(length),
        };
        let job = DelayQueueJob::new("order.cancel", &job)?
            .id(&order.number)
            .at(due_at);
        // Sending an order again after a restart is harmless: it is known by its number.
        let receipt = wait_out(async || self.tasks.send(job.clone()).await).await?;
        if matches!(receipt.outcome, SubmitOutcome::Accepted { .. }) {
            let text = format!("{}  {:>10}  {}", order.number, order.total, order.customer);
            say(time.clock(), "placed", text);
        }
        self.orders.insert(order.number.clone());
        Ok(due_at)
    }

    async fn paid(&self, time: Moment, number: &str) -> Result<(), DelayqError> {
        let answer = wait_out(async || self.tasks.cancel("order.cancel", number).await).await;
        let text = match answer {
            Ok(CancelOutcome::Cancelled) => {
                say(time.clock(), "saved", format!("{number}  by its payment"));
                return Ok(());
            }
            // Said before the restart, or by another instance.
            Ok(CancelOutcome::Finished(TaskState::Cancelled)) => return Ok(()),
            Ok(CancelOutcome::NotFound) => "it was never placed".to_owned(),
            Ok(_) => "too late: it was cancelled".to_owned(),
            Err(error @ DelayqError::InvalidName { .. }) => error.to_string(),
            Err(error) => return Err(error),
        };
        say(time.clock(), "paid", format!("{number}  {text}"));
        Ok(())
    }

    async fn sum_up(&self) -> Result<(), Box<dyn Error>> {
        let (mut cancelled, mut saved, mut other) = (0, 0, 0);
        for order in &self.orders {
            let found = wait_out(async || self.tasks.find("order.cancel", order).await).await?;
            match found.map(|info| info.state) {
                Some(TaskState::Done) => cancelled += 1,
                Some(TaskState::Cancelled) => saved += 1,
                _ => other += 1,
            }
        }
        println!("\nthe day is over: {} orders", self.orders.len());
        println!("  {saved} saved by their payment, {cancelled} cancelled, {other} neither");
        let late = self.shop.lateness();
        println!(
            "  {} of the cancellations ran in this instance since its start",
            late.len()
        );
        let at = |percent: usize| {
            let place = (late.len() * percent).div_ceil(100).saturating_sub(1);
            late.get(place).map_or(0, Duration::as_millis)
        };
        if !late.is_empty() {
            println!(
                "  late by (ms): min {}, p50 {}, p90 {}, p99 {}, max {}",
                at(0),
                at(50),
                at(90),
                at(99),
                at(100),
            );
        }
        Ok(())
    }
}
