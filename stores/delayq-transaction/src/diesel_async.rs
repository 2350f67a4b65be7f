//! diesel-async: a connection, inside its `transaction`.

use diesel::sql_query;
use diesel::sql_types::Text;
use diesel_async::{AsyncPgConnection, RunQueryDsl};

use crate::diesel::{Answered, in_its_words};
use crate::error::BoxError;
use crate::transaction::SqlTransaction;

impl SqlTransaction for AsyncPgConnection {
    async fn call(&mut self, statement: &str, request: &str) -> Result<String, BoxError> {
        let query = sql_query(statement).bind::<Text, _>(request);
        let answered = query.get_result::<Answered>(self).await;
        answered.map(|Answered(text)| text).map_err(in_its_words)
    }
}
