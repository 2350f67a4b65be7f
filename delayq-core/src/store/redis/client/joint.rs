//! Commands of several callers that go to a server in one batch, with one wait for its replicas. Each caller gets its
//! own answers, and goes on with them whatever becomes of the others.

use tokio::sync::{mpsc, oneshot};

use super::batch::Batch;
use super::command::Command;
use super::live::{Answer, Live};

/// What became of a command, and the command itself if it has to be sent elsewhere.
pub(super) type Sent = (Answer, Option<Command>);

/// A batch that waits for its callers.
pub(in super::super) struct Joint {
    seats: usize,
    boarding: mpsc::Receiver<Group>,
}

/// The place of one caller in it.
pub(in super::super) struct Seat(mpsc::Sender<Group>);

struct Group {
    commands: Vec<Command>,
    answers: oneshot::Sender<Vec<Sent>>,
}

impl Joint {
    /// A batch of so many callers.
    pub(in super::super) fn new(seats: usize) -> (Self, Vec<Seat>) {
        let (seat, boarding) = mpsc::channel(seats.max(1));
        let all = vec![seat; seats].into_iter().map(Seat).collect();
        (Self { seats, boarding }, all)
    }

    /// Sends it once every caller has added its commands or has gone, and ends with the answers, or when nobody
    /// waits for them any more.
    pub(in super::super) async fn send(mut self, live: Live) {
        let (mut commands, mut callers) = (Vec::new(), Vec::with_capacity(self.seats));
        while callers.len() < self.seats
            && let Some(group) = self.boarding.recv().await
        {
            callers.push((group.commands.len(), group.answers));
            commands.extend(group.commands);
        }
        let answers = tokio::select! {
            answers = live.travel(commands) => answers,
            () = nobody(&mut callers) => return,
        };
        let mut answers = answers.into_iter();
        for (count, caller) in callers {
            // One that went away wants no answers.
            let _ = caller.send(answers.by_ref().take(count).collect());
        }
    }
}

/// Completes once no caller waits.
async fn nobody(callers: &mut [(usize, oneshot::Sender<Vec<Sent>>)]) {
    for (_, caller) in callers {
        caller.closed().await;
    }
}

impl Seat {
    /// Adds commands; `None` when their answers are lost.
    pub(super) async fn send(self, commands: Vec<Command>) -> Option<Vec<Sent>> {
        let (answers, own) = oneshot::channel();
        let group = Group { commands, answers };
        self.0.send(group).await.ok()?;
        drop(self);
        own.await.ok()
    }
}

/// The answers to a batch, with the commands that were not run here.
pub(super) fn sent(batch: &Batch, answers: Vec<Answer>) -> impl Iterator<Item = Sent> {
    answers.into_iter().enumerate().map(|(at, answer)| {
        let is_elsewhere = matches!(answer, Answer::Redirect(_));
        let command = is_elsewhere.then(|| batch.command(at)).flatten();
        (answer, command)
    })
}
