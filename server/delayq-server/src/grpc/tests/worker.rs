//! The stream of a worker, over a real connection.

use std::time::Duration;

use delayq_plugin::{TaskInfo, TaskState, TaskType};
use delayq_proto::pb;
use pb::attempt_end::{Done, End};
use pb::delayq_client::DelayqClient;
use pb::work_request::Request as Sent;
use pb::work_response::Response as Received;
use tokio::sync::mpsc;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::{Site, asking};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A worker with an open stream.
struct Worker {
    requests: mpsc::UnboundedSender<pb::WorkRequest>,
    responses: Streaming<pb::WorkResponse>,
    _client: DelayqClient<Channel>,
}

impl Site {
    async fn info(&self, id: &str) -> TaskInfo {
        let found = self.space().await.tasks.find("mail", id).await;
        found.unwrap().unwrap()
    }

    async fn worker(&self, credit: u32) -> Worker {
        let mut client = self.client();
        let (requests, mut sent) = mpsc::unbounded_channel();
        let stream = futures_util::stream::poll_fn(move |context| sent.poll_recv(context));
        let request = asking(&self.token, stream);
        let worker = Worker {
            responses: {
                let start = Sent::Start(pb::WorkStart::default());
                requests.send(message(start)).unwrap();
                client.work(request).await.unwrap().into_inner()
            },
            requests,
            _client: client,
        };
        worker.credit(credit);
        worker
    }
}

fn message(request: Sent) -> pb::WorkRequest {
    pb::WorkRequest {
        request: Some(request),
    }
}

impl Worker {
    fn send(&self, request: Sent) {
        self.requests.send(message(request)).unwrap();
    }

    fn credit(&self, tasks: u32) {
        self.send(Sent::Credit(pb::WorkCredit {
            task_type: "mail".to_owned(),
            tasks,
        }));
    }

    fn settle(&self, task: &pb::WorkTask, end: End) {
        let lock = task.task.as_ref().unwrap().lock.clone();
        let settlement = pb::WorkSettlement {
            task_type: task.task_type.clone(),
            lock,
            end: Some(pb::AttemptEnd { end: Some(end) }),
            shard: String::new(),
            reply: Some(b"sent".to_vec()),
            reply_content_type: "text/plain".to_owned(),
        };
        self.send(Sent::Settle(pb::WorkSettle {
            settlements: vec![settlement],
        }));
    }

    async fn next(&mut self) -> Result<Option<Received>, Status> {
        let message = tokio::time::timeout(PATIENCE, self.responses.message());
        let message = message.await.expect("an answer in time")?;
        Ok(message.map(|message| message.response.unwrap()))
    }

    async fn tasks(&mut self, count: usize) -> Vec<pb::WorkTask> {
        let mut tasks = Vec::new();
        while tasks.len() < count {
            match self.next().await.unwrap().unwrap() {
                Received::Tasks(sent) => tasks.extend(sent.tasks),
                other => panic!("{other:?}"),
            }
        }
        tasks
    }
}

fn id(task: &pb::WorkTask) -> String {
    task.task
        .as_ref()
        .unwrap()
        .lock
        .as_ref()
        .unwrap()
        .id
        .clone()
}

#[tokio::test]
async fn a_worker_gets_as_many_tasks_as_it_asked_for_and_settles_them() {
    let site = Site::open().await;
    site.send(&["a", "b", "c"]).await;
    let mut worker = site.worker(2).await;
    let tasks = worker.tasks(2).await;
    assert_eq!(tasks.iter().map(id).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(site.info("c").await.state, TaskState::Scheduled);
    worker.settle(&tasks[0], End::Done(Done::default()));
    let Received::Settled(settled) = worker.next().await.unwrap().unwrap() else {
        panic!("no answer to a settlement");
    };
    let outcome = i32::from(pb::SettleOutcome::Settled);
    let result = pb::work_settled_one::Result::Outcome(outcome);
    assert_eq!(settled.results[0].result, Some(result));
    let done = site.info("a").await;
    assert_eq!(done.state, TaskState::Done);
    let (space, mail) = (site.space().await, TaskType::new("mail").unwrap());
    let reply = space.tasks.store().reply(&mail, &done.id).await.unwrap();
    let reply = reply.unwrap();
    assert_eq!(
        (reply.body.as_slice(), reply.content_type.as_str()),
        (&b"sent"[..], "text/plain")
    );
    assert_eq!(Some(reply.fence), done.settled_fence);
    worker.credit(1);
    assert_eq!(id(&worker.tasks(1).await[0]), "c");
}

#[tokio::test]
async fn locks_last_longer_when_the_worker_says_so() {
    let site = Site::open().await;
    site.send(&["a"]).await;
    let mut worker = site.worker(1).await;
    let task = worker.tasks(1).await.remove(0);
    let before = site.info("a").await.at;
    worker.send(Sent::Extend(pb::WorkExtend {
        locks: vec![pb::WorkLock {
            task_type: task.task_type.clone(),
            lock: task.task.as_ref().unwrap().lock.clone(),
            shard: String::new(),
        }],
        lock_for: Some(delayq_proto::span(Duration::from_hours(1))),
    }));
    let Received::Extended(extended) = worker.next().await.unwrap().unwrap() else {
        panic!("no answer to an extension");
    };
    assert_eq!(extended.results.len(), 1);
    assert!(site.info("a").await.at > before.plus(Duration::from_mins(50)));
}

#[tokio::test]
async fn what_a_lost_worker_held_is_given_back_at_once_without_costing_an_attempt() {
    let site = Site::open().await;
    site.send(&["a", "b"]).await;
    let mut lost = site.worker(10).await;
    assert_eq!(lost.tasks(2).await.len(), 2);
    let mut other = site.worker(10).await;
    // The connection goes, not the stream alone.
    drop(lost);
    for task in other.tasks(2).await {
        let task = task.task.unwrap();
        let history = task.history.unwrap();
        assert_eq!(
            (task.attempt, history.releases, history.lock_expiries),
            (1, 1, 0)
        );
    }
}

#[tokio::test]
async fn a_worker_that_ends_its_stream_gets_its_answers_and_gives_the_rest_back() {
    let site = Site::open().await;
    site.send(&["a", "b"]).await;
    let mut worker = site.worker(2).await;
    let tasks = worker.tasks(2).await;
    worker.settle(&tasks[0], End::Done(Done::default()));
    let (closed, _) = mpsc::unbounded_channel();
    worker.requests = closed;
    let answer = worker.next().await.unwrap();
    assert!(matches!(answer, Some(Received::Settled(_))), "{answer:?}");
    assert_eq!(worker.next().await.unwrap(), None);
    assert_eq!(site.info("a").await.state, TaskState::Done);
    let given_back = site.info("b").await;
    assert_eq!(given_back.state, TaskState::Scheduled);
    assert_eq!((given_back.attempt, given_back.history.releases), (0, 1));
    // The worker ends what it no longer holds.
    let mut second = site.worker(0).await;
    second.settle(&tasks[1], End::Done(Done::default()));
    let Received::Settled(settled) = second.next().await.unwrap().unwrap() else {
        panic!("no answer to a settlement");
    };
    let lost = pb::work_settled_one::Result::Outcome(pb::SettleOutcome::LockLost.into());
    assert_eq!(settled.results[0].result, Some(lost));
    assert_eq!(site.info("b").await.state, TaskState::Scheduled);
}

#[tokio::test]
async fn a_settlement_of_another_stream_counts() {
    let site = Site::open().await;
    site.send(&["a"]).await;
    let mut first = site.worker(1).await;
    let task = first.tasks(1).await.remove(0);
    let mut second = site.worker(0).await;
    second.settle(&task, End::Done(Done::default()));
    let Received::Settled(settled) = second.next().await.unwrap().unwrap() else {
        panic!("no answer to a settlement");
    };
    let settled_by = pb::work_settled_one::Result::Outcome(pb::SettleOutcome::Settled.into());
    assert_eq!(settled.results[0].result, Some(settled_by));
    assert_eq!(site.info("a").await.state, TaskState::Done);
}

#[tokio::test]
async fn a_second_start_ends_the_stream_with_what_is_wrong() {
    let site = Site::open().await;
    let mut worker = site.worker(0).await;
    worker.send(Sent::Start(pb::WorkStart::default()));
    let refused = worker.next().await.unwrap_err();
    assert!(refused.message().contains("start"), "{refused}");
}
