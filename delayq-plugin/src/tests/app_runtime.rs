//! A plugin that outlives the runtime that it was started on.

use std::io::Write;
use std::sync::{Arc, Mutex};

use delayq_core::{DelayQueueJob, TaskState, VirtualClock, WorkerOptions, seconds};
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, mpsc};

use super::{Stubborn, builder, memory, until};

const ENDED: &str = "the runtime that the plugin was started on has ended";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Does something whose lines of this thread are logged here.
    fn hear<T>(&self, act: impl FnOnce() -> T) -> T {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || log.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, act)
    }

    fn count(&self, text: &str) -> usize {
        String::from_utf8_lossy(&self.0.lock().unwrap())
            .matches(text)
            .count()
    }
}

#[test]
fn a_plugin_whose_runtime_has_ended_claims_nothing_more_and_leaves_the_list() {
    let clock = VirtualClock::default();
    let store = memory(&clock);
    let (starts, mut started) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let open = async || {
        let worker = Stubborn {
            starts: starts.clone(),
            gate: Arc::clone(&gate),
        };
        let builder = builder(&store, &clock).worker("job", WorkerOptions::DEFAULT, worker);
        builder.start().await.unwrap()
    };
    let app = Builder::new_current_thread().enable_all().build().unwrap();
    let plugin = app.block_on(open());
    let tasks = plugin.submit_service();
    let send = async |id: &str| {
        tasks
            .send(DelayQueueJob::raw("job", "x").id(id))
            .await
            .unwrap()
    };
    app.block_on(async {
        send("1").await;
        started.recv().await.unwrap();
        until(async || !plugin.instances().await.unwrap().is_empty()).await;
    });
    let log = Log::default();
    log.hear(|| drop(app));
    let looker = Builder::new_current_thread().enable_all().build().unwrap();
    looker.block_on(async {
        send("2").await;
        // As long as it claims, it does so in each second, and says when it has done all it can.
        for _ in 0..14 {
            clock.advance(seconds(1));
            plugin.until_idle().await;
        }
        let releases = async |id| {
            let task = tasks.find("job", id).await.unwrap().unwrap();
            assert_eq!(task.state, TaskState::Scheduled);
            task.history.releases
        };
        assert_eq!((releases("1").await, releases("2").await), (1, 0));
        let handler = plugin.health().await.handlers.remove(0);
        assert_eq!((handler.stopped, handler.running), (Some(ENDED), 0));
        until(async || plugin.instances().await.unwrap().is_empty()).await;
        // Another instance goes on with both.
        let alive = open().await;
        gate.add_permits(2);
        for id in ["1", "2"] {
            until(async || {
                let task = tasks.find("job", id).await.unwrap().unwrap();
                task.state == TaskState::Done
            })
            .await;
        }
        assert!(alive.health().await.is_ok());
    });
    log.hear(|| drop((plugin, looker)));
    assert_eq!(log.count(ENDED), 1);
}
