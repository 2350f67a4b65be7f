//! `SeaORM` 2: a transaction, or a connection.

use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, Statement,
};

use crate::error::BoxError;
use crate::transaction::SqlTransaction;

impl SqlTransaction for DatabaseTransaction {
    async fn call(&mut self, statement: &str, request: &str) -> Result<String, BoxError> {
        ask(self, statement, request).await
    }
}

impl SqlTransaction for DatabaseConnection {
    async fn call(&mut self, statement: &str, request: &str) -> Result<String, BoxError> {
        ask(self, statement, request).await
    }
}

async fn ask<C: ConnectionTrait>(
    client: &C,
    statement: &str,
    request: &str,
) -> Result<String, BoxError> {
    let values = [request.into()];
    let statement = Statement::from_sql_and_values(DbBackend::Postgres, statement, values);
    let row = client.query_one_raw(statement).await?;
    let row = row.ok_or_else(|| DbErr::RecordNotFound("the answer has no row".to_owned()))?;
    Ok(row.try_get_by_index(0)?)
}
