//! Workers on the stream `Work` of gRPC.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use delayq_proto::pb;
use futures_util::stream::poll_fn;
use pb::attempt_end::{Done, End};
use pb::delayq_client::DelayqClient;
use pb::work_request::Request as Sent;
use pb::work_response::Response as Received;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::Request;
use tonic::metadata::MetadataValue;
use tonic::transport::Endpoint;

use crate::server::Server;
use crate::{Failure, create};

/// Tasks that a worker takes at a time.
const CREDIT: u32 = 1_024;
/// The type of the tasks.
const TYPE: &str = "worked";

/// Tasks a second, from a backlog that is due, each settled on the stream that it came on.
pub(crate) async fn drain(server: &Server, workers: usize, tasks: usize) -> Result<f64, Failure> {
    let tasks = tasks / 64 * 64;
    create::fill(server, TYPE, "delay=0", 64, tasks).await?;
    let left = Arc::new(AtomicUsize::new(tasks));
    let mut open = JoinSet::new();
    let begin = Instant::now();
    for _ in 0..workers {
        let uri = format!("http://{}", server.address);
        let token = format!("Bearer {}", server.token);
        open.spawn(worker(uri, token, Arc::clone(&left)));
    }
    // The one that settles the last task ends; the others hear nothing more.
    let first = open.join_next().await.ok_or("there are no workers")?;
    first??;
    Ok(tasks as f64 / begin.elapsed().as_secs_f64())
}

async fn worker(uri: String, token: String, left: Arc<AtomicUsize>) -> Result<(), Failure> {
    let channel = Endpoint::from_shared(uri)?.connect().await?;
    let (requests, mut sent) = mpsc::unbounded_channel();
    let say = |request| {
        let request = pb::WorkRequest {
            request: Some(request),
        };
        requests.send(request).map_err(|_| "the stream has ended")
    };
    let credit = |tasks| {
        Sent::Credit(pb::WorkCredit {
            task_type: TYPE.to_owned(),
            tasks,
        })
    };
    let mut request = Request::new(poll_fn(move |context| sent.poll_recv(context)));
    let bearer: MetadataValue<_> = token.parse()?;
    request.metadata_mut().insert("authorization", bearer);
    say(Sent::Start(pb::WorkStart::default()))?;
    say(credit(CREDIT))?;
    let mut client = DelayqClient::new(channel).max_decoding_message_size(64 << 20);
    let mut responses = client.work(request).await?.into_inner();
    while let Some(response) = responses.message().await? {
        match response.response {
            Some(Received::Tasks(tasks)) => {
                let count = u32::try_from(tasks.tasks.len())?;
                let settlements = tasks.tasks.into_iter().map(done).collect();
                say(Sent::Settle(pb::WorkSettle { settlements }))?;
                say(credit(count))?;
            }
            Some(Received::Settled(settled)) => {
                let is_settled = |one: &&pb::WorkSettledOne| {
                    matches!(one.result, Some(pb::work_settled_one::Result::Outcome(_)))
                };
                let count = settled.results.iter().filter(is_settled).count();
                if left.fetch_sub(count, Ordering::Relaxed) == count {
                    return Ok(());
                }
            }
            _ => {}
        }
    }
    Err("the stream ended too early".into())
}

fn done(task: pb::WorkTask) -> pb::WorkSettlement {
    pb::WorkSettlement {
        task_type: task.task_type,
        lock: task.task.and_then(|task| task.lock),
        end: Some(pb::AttemptEnd {
            end: Some(End::Done(Done::default())),
        }),
        shard: task.shard,
        reply: None,
        reply_content_type: String::new(),
    }
}
