//! The APIs of lmstfy and of Grape, as clients of the originals use them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::Value;
use tokio::task::JoinSet;

use crate::Failure;
use crate::connection::Connection;
use crate::create::MESSAGE;
use crate::server::Server;

/// Clients at a time.
const CLIENTS: usize = 64;

/// What a client of an API sends.
#[derive(Debug)]
struct Api {
    name: &'static str,
    address: String,
    header: String,
    publish: (&'static str, &'static str),
    consume: &'static str,
    /// Where an answer of a consume has the id of the job.
    id: &'static str,
    /// The path without the id.
    end: &'static str,
}

/// Jobs a second of each API, by the name of the case: sent one by one, and taken and ended.
pub(crate) async fn run(server: &Server, jobs: usize) -> Result<Vec<(String, f64)>, Failure> {
    let jobs = jobs / CLIENTS * CLIENTS;
    let mut figures = Vec::new();
    for api in [lmstfy(server).await?, grape(server).await?] {
        let api = Arc::new(api);
        let (name, rate) = (api.name, publish(&api, jobs).await?);
        figures.push((format!("{name}: publish, {CLIENTS} clients"), rate));
        let rate = drain(&api, jobs).await?;
        figures.push((format!("{name}: consume and end, {CLIENTS} clients"), rate));
    }
    Ok(figures)
}

async fn lmstfy(server: &Server) -> Result<Api, Failure> {
    let [address, admin, _] = &server.fronts;
    let mut admin = Connection::to(admin, "", "").await?;
    let made = admin
        .post("/token/bench?description=bench", "", b"")
        .await?;
    let made: Value = serde_json::from_slice(&made.body)?;
    let token = made.get("token").and_then(Value::as_str);
    Ok(Api {
        name: "lmstfy's API",
        address: address.clone(),
        header: format!("x-token: {}\r\n", token.ok_or("no token")?),
        publish: ("PUT", "/api/bench/jobs?ttl=0&tries=3"),
        consume: "/api/bench/jobs?ttr=60&timeout=1",
        id: "/job_id",
        end: "/api/bench/jobs/job/",
    })
}

async fn grape(server: &Server) -> Result<Api, Failure> {
    let [.., address] = &server.fronts;
    let header = format!("authorization: Bearer {}\r\n", server.token);
    let mut client = Connection::to(address, "", &header).await?;
    client.post("/api/tube/create?tube=bench", "", b"").await?;
    Ok(Api {
        name: "Grape's API",
        address: address.clone(),
        header,
        publish: ("POST", "/api/job/produce?tube=bench&dtr=0&ttr=60000&jid="),
        consume: "/api/job/consume?tube=bench&max=1&wait=500",
        id: "/0/id",
        end: "/api/job/finish?tube=bench&jid=",
    })
}

async fn publish(api: &Arc<Api>, jobs: usize) -> Result<f64, Failure> {
    let mut open = JoinSet::new();
    let begin = Instant::now();
    for client in 0..CLIENTS {
        let api = Arc::clone(api);
        open.spawn(async move {
            let mut connection = Connection::to(&api.address, "", &api.header).await?;
            let (method, path) = api.publish;
            for n in 0..jobs / CLIENTS {
                let named = path.ends_with('=').then(|| format!("{path}{client}-{n}"));
                let path = named.as_deref().unwrap_or(path);
                let answer = connection.send(method, path, "", &MESSAGE).await?;
                if !(200..300).contains(&answer.status) {
                    return Err(String::from_utf8_lossy(&answer.body).into());
                }
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(client) = open.join_next().await {
        client??;
    }
    Ok(jobs as f64 / begin.elapsed().as_secs_f64())
}

async fn drain(api: &Arc<Api>, jobs: usize) -> Result<f64, Failure> {
    let left = Arc::new(AtomicUsize::new(jobs));
    let mut open = JoinSet::new();
    let begin = Instant::now();
    for _ in 0..CLIENTS {
        let (api, left) = (Arc::clone(api), Arc::clone(&left));
        open.spawn(async move {
            let mut connection = Connection::to(&api.address, "", &api.header).await?;
            while left.load(Ordering::Relaxed) > 0 {
                let answer = connection.send("GET", api.consume, "", b"").await?;
                let job: Value = serde_json::from_slice(&answer.body)?;
                let Some(id) = job.pointer(api.id).and_then(Value::as_str) else {
                    continue;
                };
                let end = format!("{}{id}", api.end);
                let answer = connection.send("DELETE", &end, "", b"").await?;
                if !(200..300).contains(&answer.status) {
                    return Err(String::from_utf8_lossy(&answer.body).into());
                }
                left.fetch_sub(1, Ordering::Relaxed);
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(client) = open.join_next().await {
        client??;
    }
    Ok(jobs as f64 / begin.elapsed().as_secs_f64())
}
