//! The transaction of an application.

use std::future::Future;
use std::pin::Pin;

use crate::error::BoxError;

/// An open transaction of the application's own database client.
///
/// A client outside a transaction commits each call by itself.
pub trait SqlTransaction: Send {
    /// Runs `statement` with its one parameter `$1`, the text `request`. Returns the text in the
    /// one column of its one row.
    ///
    /// An error of the server should say its message, its hint and its code, as a
    /// [`SqlError`](crate::SqlError) does.
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
