//! The server of a peer: how much memory it takes.

use crate::Failure;

/// What is asked.
#[derive(Debug)]
pub(crate) enum Server {
    /// Redis says what it has allocated.
    Redis { url: String },
    /// Of others, the resident memory of the process.
    Other { pid: u32 },
}

impl Server {
    pub(crate) fn new(url: &str, pid: u32) -> Self {
        if url.starts_with("redis://") {
            let url = url.to_owned();
            return Self::Redis { url };
        }
        Self::Other { pid }
    }

    /// Bytes now.
    pub(crate) async fn memory(&self) -> Result<u64, Failure> {
        let (text, name, unit) = match self {
            Self::Redis { url } => {
                let client = redis::Client::open(url.as_str())?;
                let mut connection = client.get_multiplexed_async_connection().await?;
                let mut info = redis::cmd("INFO");
                let text = info
                    .arg("memory")
                    .query_async::<String>(&mut connection)
                    .await?;
                (text, "used_memory:", 1)
            }
            Self::Other { pid } => {
                let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
                (text, "VmRSS:", 1_024)
            }
        };
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        let value = value.and_then(|value| value.split_whitespace().next());
        let value = value.ok_or_else(|| format!("the server does not tell its {name}"))?;
        Ok(value.parse::<u64>()? * unit)
    }
}
