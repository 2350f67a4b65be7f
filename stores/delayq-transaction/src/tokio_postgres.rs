//! tokio-postgres: a transaction, or a client with one that was begun by a statement.

use tokio_postgres::{Client, Error, GenericClient, Transaction};

use crate::error::{BoxError, SqlError};
use crate::transaction::SqlTransaction;

impl SqlTransaction for Transaction<'_> {
    async fn call(&mut self, statement: &str, request: &str) -> Result<String, BoxError> {
        ask(self, statement, request).await
    }
}

impl SqlTransaction for Client {
    async fn call(&mut self, statement: &str, request: &str) -> Result<String, BoxError> {
        ask(self, statement, request).await
    }
}

async fn ask<C: GenericClient + Sync>(
    client: &C,
    statement: &str,
    request: &str,
) -> Result<String, BoxError> {
    let row = client.query_one(statement, &[&request]).await;
    let text = row.and_then(|row| row.try_get(0));
    text.map_err(in_its_words)
}

/// The text of the client's own error does not have all that the database said.
fn in_its_words(error: Error) -> BoxError {
    let Some(said) = error.as_db_error() else {
        return error.into();
    };
    Box::new(SqlError {
        message: said.message().to_owned(),
        hint: said.hint().map(str::to_owned),
        code: Some(said.code().code().to_owned()),
    })
}
