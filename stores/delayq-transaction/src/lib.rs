//! A transaction of the application, in which its tasks are born, changed and done.
//!
//! The calls of delayq that take a transaction need one thing of it: to run a statement with one
//! text and return one text. [`SqlTransaction`] is that. A feature of this crate implements it for
//! each of the usual clients of PostgreSQL; for any other client it is a few lines:
//!
//! ```
//! use delayq_transaction::{BoxError, SqlTransaction};
//! # struct Client;
//! # impl Client {
//! #     async fn first_text(&mut self, _: &str, text: &str) -> Result<String, BoxError> {
//! #         Ok(text.to_owned())
//! #     }
//! # }
//!
//! struct Own<'a>(&'a mut Client);
//!
//! impl SqlTransaction for Own<'_> {
//!     async fn call(&mut self, statement: &str, request: &str) -> Result<String, BoxError> {
//!         self.0.first_text(statement, request).await
//!     }
//! }
//! ```

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

#[cfg(feature = "tokio-postgres")]
mod tokio_postgres;

/// Any error of a client.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// An open transaction of the application's own database client.
///
/// A client outside a transaction commits each call by itself.
pub trait SqlTransaction: Send {
    /// Runs `statement` with its one parameter `$1`, the text `request`. Returns the text in the
    /// one column of its one row.
    ///
    /// An error of the server should say its message, its hint and its code: [`SqlError`].
    fn call(
        &mut self,
        statement: &str,
        request: &str,
    ) -> impl Future<Output = Result<String, BoxError>> + Send;
}

/// An answer of a transaction on its way.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<String, BoxError>> + Send + 'a>>;

/// A [`SqlTransaction`] behind a pointer. Every one is this, too.
pub trait DynTransaction: Send {
    /// [`SqlTransaction::call`].
    fn call_dyn<'a>(&'a mut self, statement: &'a str, request: &'a str) -> Answer<'a>;
}

impl<T: SqlTransaction> DynTransaction for T {
    fn call_dyn<'a>(&'a mut self, statement: &'a str, request: &'a str) -> Answer<'a> {
        Box::pin(self.call(statement, request))
    }
}

/// An error that the database gave, in its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// What it says.
    pub message: String,
    /// What to do, if it says that.
    pub hint: Option<String>,
    /// The SQLSTATE, such as `40001`.
    pub code: String,
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (SQLSTATE {})", self.message, self.code)?;
        match &self.hint {
            Some(hint) => write!(f, "; hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl Error for SqlError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_database_says_all_that_the_database_says() {
        let mut error = SqlError {
            message: "unknown option \"dleay_ms\"".to_owned(),
            hint: Some("write delay_ms".to_owned()),
            code: "DQ001".to_owned(),
        };
        let text = "unknown option \"dleay_ms\" (SQLSTATE DQ001)";
        assert_eq!(error.to_string(), format!("{text}; hint: write delay_ms"));
        error.hint = None;
        assert_eq!(error.to_string(), text);
    }
}
