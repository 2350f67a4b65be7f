//! Puts in the protocol of beanstalkd, all sent before the first answer is read; beside beanstalkd
//! itself where it is installed.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Failure;

/// The message of each job, 64 bytes.
const BODY: [u8; 64] = [b'x'; 64];
/// How many puts are written at once.
const PART: usize = 1_000;
/// How often a started server is asked whether it listens, every 10 ms.
const QUESTIONS: usize = 500;

/// A server of the protocol, ended by its process id.
struct Contender {
    child: Child,
    port: u16,
}

impl Drop for Contender {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Puts a second of each contender, by its name.
pub(crate) async fn puts(
    server: &Path,
    folder: &Path,
    jobs: usize,
) -> Result<Vec<(String, String)>, Failure> {
    let (ours, original) = (folder.join("ours"), folder.join("original"));
    std::fs::create_dir(&ours)?;
    std::fs::create_dir(&original)?;
    let contenders: [(&str, &Path, &[&str], Option<&Path>); 4] = [
        ("delayq-server in memory", server, &["beanstalkd"], None),
        (
            "delayq-server on a folder",
            server,
            &["beanstalkd"],
            Some(&ours),
        ),
        ("beanstalkd in memory", Path::new("beanstalkd"), &[], None),
        (
            "beanstalkd with its binlog",
            Path::new("beanstalkd"),
            &[],
            Some(&original),
        ),
    ];
    let mut figures = Vec::new();
    for (name, program, words, data) in contenders {
        let figure = match start(program, words, data).await? {
            Some(contender) => format!("{:.0}/s", rate(&contender, jobs).await?),
            None => "not installed".to_owned(),
        };
        figures.push((format!("puts, one connection, {name}"), figure));
    }
    Ok(figures)
}

/// Starts a server and awaits that it listens; `None` where there is no such program.
async fn start(
    program: &Path,
    words: &[&str],
    data: Option<&Path>,
) -> Result<Option<Contender>, Failure> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut command = Command::new(program);
    command.args(words).args(["-l", "127.0.0.1", "-p"]);
    command.arg(port.to_string()).stdout(Stdio::null());
    if let Some(data) = data {
        command.arg("-b").arg(data);
    }
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let contender = Contender { child, port };
    for _ in 0..QUESTIONS {
        if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
            return Ok(Some(contender));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(format!("{} does not listen", program.display()).into())
}

async fn rate(contender: &Contender, jobs: usize) -> Result<f64, Failure> {
    let stream = TcpStream::connect(("127.0.0.1", contender.port)).await?;
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = stream.into_split();
    let mut put = format!("put 1024 86400 60 {}\r\n", BODY.len()).into_bytes();
    put.extend(BODY);
    put.extend(b"\r\n");
    let part = put.repeat(PART);
    let begin = Instant::now();
    let write = async {
        for _ in 0..jobs / PART {
            writer.write_all(&part).await?;
        }
        Ok::<_, Failure>(())
    };
    let count = async {
        let (mut buffer, mut inserted) = (vec![0; 65_536], 0);
        while inserted < jobs / PART * PART {
            let read = reader.read(&mut buffer).await?;
            let answers = buffer.get(..read).unwrap_or_default();
            let ends = answers.split(|byte| *byte == b'\n').count();
            inserted += ends.saturating_sub(1);
            // As in `OUT_OF_MEMORY` and `JOB_TOO_BIG`.
            if read == 0 || answers.contains(&b'_') {
                return Err("a put was refused".into());
            }
        }
        Ok::<_, Failure>(())
    };
    let (written, counted) = tokio::join!(write, count);
    written?;
    counted?;
    Ok((jobs / PART * PART) as f64 / begin.elapsed().as_secs_f64())
}
