//! One connection: its checks of the server, and its statements.

use delayq_core::error::Error;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, Row, Value};

use super::cell::{int, text};
use super::fault::{Outcome, VERSIONS};
use super::sql;

/// A connection with its settings.
#[derive(Debug)]
pub(super) struct Session {
    conn: Conn,
    max_packet: usize,
}

impl Session {
    /// Connects to a server, and checks that it will do.
    pub(super) async fn open(opts: Opts, place: &str) -> Outcome<Self> {
        let conn = Conn::new(opts).await?;
        let mut session = Self {
            conn,
            max_packet: 0,
        };
        let rows = session.rows(sql::SERVER, Vec::new()).await?;
        let server = rows.first().map(Vec::as_slice);
        let Some([version, mode, max_packet, flush]) = server else {
            return Err(Error::unavailable(place, "it does not tell its version").into());
        };
        let version = text(version).unwrap_or_default();
        check_version(&version, place)?;
        let misconfigured =
            |setting: String, fix: &str| Err(Error::misconfigured(place, setting, fix).into());
        if !text(mode).unwrap_or_default().contains("STRICT_ALL_TABLES") {
            let setting = "it does not keep the sql_mode that the history sets, so that it would \
                 cut values off";
            return misconfigured(setting.to_owned(), "connect to the server without a proxy");
        }
        // 3 is more than 1 on MariaDB.
        let flush = int(flush).unwrap_or(0);
        if flush != 1 && flush != 3 {
            return misconfigured(
                format!("innodb_flush_log_at_trx_commit = {flush}: a crash would lose records"),
                "set innodb_flush_log_at_trx_commit = 1 on the server",
            );
        }
        let max_packet = int(max_packet).and_then(|bytes| usize::try_from(bytes).ok());
        session.max_packet = max_packet.unwrap_or(1 << 20);
        Ok(session)
    }

    /// The largest statement that the server takes, in bytes.
    pub(super) fn max_packet(&self) -> usize {
        self.max_packet
    }

    /// Runs a statement without values.
    pub(super) async fn run(&mut self, sql: &str) -> Outcome<()> {
        Ok(self.conn.query_drop(sql).await?)
    }

    /// Runs a statement. Returns the number of rows that it changed.
    pub(super) async fn change(&mut self, sql: &str, values: Vec<Value>) -> Outcome<u64> {
        self.conn.exec_drop(sql, values).await?;
        Ok(self.conn.affected_rows())
    }

    /// The rows that a statement answers.
    pub(super) async fn rows(&mut self, sql: &str, values: Vec<Value>) -> Outcome<Vec<Vec<Value>>> {
        let rows: Vec<Row> = self.conn.exec(sql, values).await?;
        Ok(rows.into_iter().map(cells).collect())
    }

    /// The one number that a statement answers, if there is one.
    pub(super) async fn number(&mut self, sql: &str, values: Vec<Value>) -> Outcome<Option<i64>> {
        let rows = self.rows(sql, values).await?;
        Ok(rows.first().and_then(|row| row.first()).and_then(int))
    }

    /// Says goodbye to the server.
    pub(super) async fn end(self) {
        if let Err(error) = self.conn.disconnect().await {
            tracing::debug!(%error, "a connection to the history has ended by itself");
        }
    }
}

fn cells(mut row: Row) -> Vec<Value> {
    let columns = 0..row.len();
    columns
        .map(|column| row.take(column).unwrap_or(Value::NULL))
        .collect()
}

/// `8.0.36`, or `10.11.6-MariaDB-0+deb12u1`.
fn check_version(version: &str, place: &str) -> Outcome<()> {
    let is_mariadb = version.contains("MariaDB");
    let oldest = if is_mariadb { (10, 6) } else { (8, 0) };
    let mut numbers = version.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next().and_then(|number| number.parse().ok());
    let found: (u32, u32) = (number().unwrap_or(0), number().unwrap_or(0));
    if found >= oldest {
        return Ok(());
    }
    let setting = format!("the server has version {version:?}");
    Err(Error::misconfigured(place, setting, VERSIONS).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_server_is_refused() {
        for new in ["8.0.36", "9.1.0-1", "10.6.0-MariaDB", "11.4.2-MariaDB-log"] {
            assert!(check_version(new, "db").is_ok(), "{new}");
        }
        for old in ["5.7.44-log", "10.5.9-MariaDB", ""] {
            assert!(check_version(old, "db").is_err(), "{old}");
        }
    }
}
