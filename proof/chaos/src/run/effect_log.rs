//! The effect log: a process of its own that no fault is done to, with independent evidence of what
//! the workers did. It takes an effect only with a fence not below the largest that it has seen for
//! the task. It also counts the locks under which somebody is in the middle of an effect for one
//! task.
//!
//! A request is a line, `enter`, `write` or `leave`, the fence, and the task; the answer is a line.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

use super::child::say_up;
use super::failure::{Result, failure};
use crate::event::What;
use crate::record::Recorder;

/// How long an effect that is broken off waits for the effect log.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct Seen {
    largest: HashMap<String, u64>,
    /// The locks under which somebody is at work; several workers of one type share a lock.
    inside: HashMap<String, Vec<u64>>,
}

#[derive(Debug)]
struct EffectLog {
    recorder: Recorder,
    seen: Mutex<Seen>,
}

/// Takes effects until the process ends.
pub(crate) async fn serve(socket: &Path, recorder: Recorder) -> Result<()> {
    let listener = UnixListener::bind(socket)?;
    say_up();
    let seen = Mutex::default();
    attend_all(listener, Arc::new(EffectLog { recorder, seen })).await
}

async fn attend_all(listener: UnixListener, log: Arc<EffectLog>) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let log = Arc::clone(&log);
        tokio::spawn(async move {
            // A worker that was killed ends its connection in any way.
            let _ = log.attend(stream).await;
        });
    }
}

impl EffectLog {
    async fn attend(&self, stream: UnixStream) -> Result<()> {
        let (reader, mut writer) = stream.into_split();
        let mut lines = BufReader::new(reader).lines();
        let mut inside = None;
        while let Ok(Some(line)) = lines.next_line().await {
            let mut words = line.splitn(3, ' ');
            let (Some(verb), Some(Ok(fence)), Some(task)) =
                (words.next(), words.next().map(str::parse), words.next())
            else {
                return failure(format!("no request of an effect log: {line:?}"));
            };
            match verb {
                "enter" => {
                    self.enter(task, fence);
                    inside = Some((task.to_owned(), fence));
                }
                "write" => self.write(task, fence),
                _ => {
                    self.leave(task, fence);
                    inside = None;
                }
            }
            if writer.write_all(b"ok\n").await.is_err() {
                break;
            }
        }
        // The worker has gone in the middle of its effect.
        if let Some((task, fence)) = inside {
            self.leave(&task, fence);
        }
        Ok(())
    }

    /// The lock is held while the event is written, so that events are in the order of what they
    /// tell.
    fn enter(&self, task: &str, fence: u64) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let inside = seen.inside.entry(task.to_owned()).or_default();
        let others = inside.iter().filter(|other| **other != fence).count();
        inside.push(fence);
        let (task, others) = (task.to_owned(), u32::try_from(others).unwrap_or(u32::MAX));
        self.recorder.record(What::EffectBegun {
            task,
            fence,
            others,
        });
    }

    fn leave(&self, task: &str, fence: u64) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inside) = seen.inside.get_mut(task) {
            if let Some(place) = inside.iter().position(|one| *one == fence) {
                inside.swap_remove(place);
            }
            if inside.is_empty() {
                seen.inside.remove(task);
            }
        }
        let task = task.to_owned();
        self.recorder.record(What::EffectEnded { task, fence });
    }

    fn write(&self, task: &str, fence: u64) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let largest = seen.largest.entry(task.to_owned()).or_default();
        let is_stale = fence < *largest;
        *largest = fence.max(*largest);
        let task = task.to_owned();
        self.recorder.record(if is_stale {
            What::EffectRefused { task, fence }
        } else {
            What::EffectAccepted { task, fence }
        });
    }
}

/// A worker's way to the effect log. Each effect has a connection to itself, and gives it back at
/// its end.
#[derive(Debug)]
pub(crate) struct Effects {
    socket: std::path::PathBuf,
    idle: Mutex<Vec<BufReader<UnixStream>>>,
}

/// An effect that has begun. Dropped before its end, it ends, too: nobody else may be said to be
/// beside it because its end was not yet heard of. Only a process that dies leaves that to its
/// connections.
#[derive(Debug)]
pub(crate) struct Effect<'a> {
    effects: &'a Effects,
    /// Until it has ended.
    connection: Option<BufReader<UnixStream>>,
    task: String,
    fence: u64,
}

impl Effects {
    /// Effects on the log behind `socket`.
    pub(crate) fn on(socket: std::path::PathBuf) -> Self {
        Self {
            socket,
            idle: Mutex::default(),
        }
    }

    /// Begins an effect.
    pub(crate) async fn begin(&self, task: String, fence: u64) -> io::Result<Effect<'_>> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let connection = match idle {
            Some(connection) => connection,
            None => BufReader::new(UnixStream::connect(&self.socket).await?),
        };
        let mut effect = Effect {
            effects: self,
            connection: Some(connection),
            task,
            fence,
        };
        effect.ask("enter").await?;
        Ok(effect)
    }
}

impl Effect<'_> {
    /// Does what it is about, and ends it.
    pub(crate) async fn finish(mut self) -> io::Result<()> {
        self.ask("write").await?;
        self.ask("leave").await?;
        let mut idle = self
            .effects
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        idle.extend(self.connection.take());
        Ok(())
    }

    async fn ask(&mut self, verb: &str) -> io::Result<()> {
        let request = self.request(verb);
        let Some(connection) = &mut self.connection else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        connection.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        connection.read_line(&mut answer).await?;
        Ok(())
    }

    fn request(&self, verb: &str) -> String {
        format!("{verb} {} {}\n", self.fence, self.task)
    }

    /// Says that it is over, and hears that this has been noted.
    fn break_off(&self, connection: UnixStream) -> io::Result<()> {
        let mut connection = connection.into_std()?;
        connection.set_nonblocking(false)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.write_all(self.request("leave").as_bytes())?;
        connection.shutdown(Shutdown::Write)?;
        // It ends when all that was asked has been answered.
        connection.read_to_end(&mut Vec::new())?;
        Ok(())
    }
}

impl Drop for Effect<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            // EffectLog that have gone need not be told.
            let _ = self.break_off(connection.into_inner());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_effect_that_is_dropped_has_ended_when_the_next_one_begins() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("effects");
        let recorder = Recorder::open(folder.path(), "effects", 1, "default").unwrap();
        let (listens, seen) = (UnixListener::bind(&socket).unwrap(), Mutex::default());
        let log = Arc::new(EffectLog { recorder, seen });
        tokio::spawn(attend_all(listens, Arc::clone(&log)));
        let effects = Effects::on(socket);
        for fence in 1..=200 {
            let effect = effects.begin("mail/a".to_owned(), fence).await.unwrap();
            assert_eq!(log.seen.lock().unwrap().inside["mail/a"], [fence]);
            drop(effect);
        }
        assert!(log.seen.lock().unwrap().inside.is_empty());
    }
}
