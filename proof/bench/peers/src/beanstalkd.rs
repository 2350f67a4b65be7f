//! beanstalkd, by its text protocol: it has no client of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::future::try_join_all;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::Failure;
use crate::board::Board;
use crate::peer::Peer;
use crate::task::{CONCURRENCY, IN_FLIGHT, Message, Task};

/// Connections that reserve. Each takes its share of what may run at once.
const WORKERS: usize = 4;
/// Seconds until a reserved task is given to somebody else.
const TIME_TO_RUN_S: u32 = 60;

pub(crate) struct Beanstalkd {
    address: String,
    /// One for each caller: commands of a connection are answered in their order.
    senders: Vec<Mutex<Connection>>,
    next: AtomicUsize,
}

impl Beanstalkd {
    pub(crate) async fn open(url: &str) -> Result<Self, Failure> {
        let address = url.trim_start_matches("beanstalkd://").to_owned();
        let senders = (0..IN_FLIGHT).map(|_| Connection::open(&address));
        let senders = try_join_all(senders).await?;
        Ok(Self {
            senders: senders.into_iter().map(Mutex::new).collect(),
            next: AtomicUsize::new(0),
            address,
        })
    }

    fn sender(&self) -> Result<&Mutex<Connection>, Failure> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % IN_FLIGHT;
        self.senders
            .get(turn)
            .ok_or_else(|| "there is a connection for each caller".into())
    }
}

#[async_trait]
impl Peer for Beanstalkd {
    /// Commands sent without waiting for the answers of those before.
    async fn submit_all(&self, tasks: Vec<Task>) -> Result<(), Failure> {
        let mut sender = self.sender()?.lock().await;
        let mut commands = Vec::new();
        for task in &tasks {
            put(&mut commands, task)?;
        }
        sender.send(&commands).await?;
        for _ in &tasks {
            sender.expect("INSERTED").await?;
        }
        Ok(())
    }

    async fn submit(&self, task: Task) -> Result<(), Failure> {
        let mut sender = self.sender()?.lock().await;
        let mut command = Vec::new();
        put(&mut command, &task)?;
        sender.send(&command).await?;
        sender.expect("INSERTED").await
    }

    async fn work(&self, board: Arc<Board>) -> Result<(), Failure> {
        for _ in 0..WORKERS {
            let connection = Connection::open(&self.address).await?;
            let board = Arc::clone(&board);
            tokio::spawn(async move { board.ended(work(connection, &board).await) });
        }
        Ok(())
    }

    async fn unsettled(&self, _count: usize) -> Result<usize, Failure> {
        let mut connection = self.sender()?.lock().await;
        connection.send(b"stats-tube default\r\n").await?;
        let answer = connection.expect_line("OK ").await?;
        let stats = connection.body(answer.trim().parse()?).await?;
        let stats = String::from_utf8(stats)?;
        let mut left = 0;
        for state in ["ready", "reserved", "delayed"] {
            let name = format!("current-jobs-{state}: ");
            let value = stats.lines().find_map(|line| line.strip_prefix(&name));
            left += value.map_or(Ok(0), str::parse::<usize>)?;
        }
        Ok(left)
    }
}

/// Waits for a task, takes what else is ready without waiting, runs and deletes all of it.
async fn work(mut connection: Connection, board: &Board) -> Result<(), Failure> {
    let more = b"reserve-with-timeout 0\r\n".repeat(CONCURRENCY / WORKERS - 1);
    loop {
        connection.send(b"reserve\r\n").await?;
        let mut deletes = Vec::new();
        connection.run_one(board, &mut deletes).await?;
        connection.send(&more).await?;
        for _ in 1..CONCURRENCY / WORKERS {
            connection.run_one(board, &mut deletes).await?;
        }
        connection.send(deletes.concat().as_bytes()).await?;
        for _ in &deletes {
            connection.expect("DELETED").await?;
        }
    }
}

fn put(commands: &mut Vec<u8>, task: &Task) -> Result<(), Failure> {
    let body = serde_json::to_vec(&task.message)?;
    let (delay_s, length) = (task.delay_s(), body.len());
    commands.extend(format!("put 0 {delay_s} {TIME_TO_RUN_S} {length}\r\n").into_bytes());
    commands.extend(body);
    commands.extend(b"\r\n");
    Ok(())
}

struct Connection(BufStream<TcpStream>);

impl Connection {
    async fn open(address: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self(BufStream::new(stream)))
    }

    async fn send(&mut self, commands: &[u8]) -> Result<(), Failure> {
        self.0.write_all(commands).await?;
        Ok(self.0.flush().await?)
    }

    /// The answer to a reserve: runs the task, if there is one, and notes how to delete it.
    async fn run_one(&mut self, board: &Board, deletes: &mut Vec<String>) -> Result<(), Failure> {
        let line = self.line().await?;
        let Some(reserved) = line.strip_prefix("RESERVED ") else {
            return Ok(());
        };
        let (id, length) = reserved
            .trim()
            .split_once(' ')
            .ok_or("a task without a length")?;
        let body = self.body(length.parse()?).await?;
        let message: Message = serde_json::from_slice(&body)?;
        board.started(message.number());
        deletes.push(format!("delete {id}\r\n"));
        Ok(())
    }

    async fn expect(&mut self, word: &str) -> Result<(), Failure> {
        self.expect_line(word).await.map(|_| ())
    }

    /// What follows the word in the next line.
    async fn expect_line(&mut self, word: &str) -> Result<String, Failure> {
        let line = self.line().await?;
        let rest = line.strip_prefix(word).map(str::to_owned);
        rest.ok_or_else(|| format!("{word} was expected, not {line}").into())
    }

    async fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        if self.0.read_line(&mut line).await? == 0 {
            return Err("beanstalkd closed the connection".into());
        }
        Ok(line)
    }

    async fn body(&mut self, length: usize) -> Result<Vec<u8>, Failure> {
        let mut body = vec![0; length + 2];
        self.0.read_exact(&mut body).await?;
        body.truncate(length);
        Ok(body)
    }
}
