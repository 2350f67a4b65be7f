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

#[cfg(feature = "diesel")]
mod diesel;
#[cfg(feature = "diesel-async")]
mod diesel_async;
mod error;
#[cfg(feature = "sea-orm")]
mod sea_orm;
#[cfg(feature = "sqlx-0_8")]
mod sqlx_0_8;
#[cfg(feature = "sqlx-0_9")]
mod sqlx_0_9;
#[cfg(feature = "tokio-postgres")]
mod tokio_postgres;
mod transaction;

#[cfg(feature = "diesel")]
pub use diesel::Diesel;
pub use error::{BoxError, SqlError};
pub use transaction::{Answer, DynTransaction, SqlTransaction};
