//! sqlx 0.8: a connection, or a transaction.

use sqlx_core_0_8::error::Error;
use sqlx_core_0_8::query_scalar::query_scalar;
use sqlx_core_0_8::transaction::Transaction;
use sqlx_postgres_0_8::{PgConnection, PgDatabaseError, Postgres};

use crate::error::{BoxError, SqlError};
use crate::transaction::SqlTransaction;

impl SqlTransaction for PgConnection {
    async fn call(&mut self, statement: &str, request: &str) -> Result<String, BoxError> {
        let answer = query_scalar::<Postgres, String>(statement).bind(request);
        answer.fetch_one(self).await.map_err(in_its_words)
    }
}

impl SqlTransaction for Transaction<'_, Postgres> {
    async fn call(&mut self, statement: &str, request: &str) -> Result<String, BoxError> {
        SqlTransaction::call(&mut **self, statement, request).await
    }
}

/// With the hint, which the client's own text does not have.
fn in_its_words(error: Error) -> BoxError {
    let said = error.as_database_error();
    let Some(said) = said.and_then(|said| said.try_downcast_ref::<PgDatabaseError>()) else {
        return error.into();
    };
    Box::new(SqlError {
        message: said.message().to_owned(),
        hint: said.hint().map(str::to_owned),
        code: Some(said.code().to_owned()),
    })
}
