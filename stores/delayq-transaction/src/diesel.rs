//! diesel: any connection to PostgreSQL, of libpq or not.

use std::fmt;

use diesel::connection::LoadConnection;
use diesel::deserialize::{self, QueryableByName};
use diesel::pg::Pg;
use diesel::row::NamedRow;
use diesel::sql_types::Text;
use diesel::{Connection, RunQueryDsl, sql_query};

use crate::error::{BoxError, SqlError};
use crate::transaction::SqlTransaction;

/// A connection of diesel. It blocks its thread, as diesel does.
pub struct Diesel<'a, C>(pub &'a mut C);

/// The text in the column `answer`.
pub(crate) struct Answered(pub(crate) String);

impl<C> fmt::Debug for Diesel<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Diesel(..)")
    }
}

impl QueryableByName<Pg> for Answered {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> deserialize::Result<Self> {
        NamedRow::get::<Text, String>(row, "answer").map(Self)
    }
}

impl<C: Connection<Backend = Pg> + LoadConnection + Send> SqlTransaction for Diesel<'_, C> {
    async fn call(&mut self, statement: &str, request: &str) -> Result<String, BoxError> {
        let query = sql_query(statement).bind::<Text, _>(request);
        let answered = query.get_result::<Answered>(self.0);
        answered.map(|Answered(text)| text).map_err(in_its_words)
    }
}

/// With the hint, which the text of diesel's error does not have.
pub(crate) fn in_its_words(error: diesel::result::Error) -> BoxError {
    let diesel::result::Error::DatabaseError(_, said) = error else {
        return error.into();
    };
    Box::new(SqlError {
        message: said.message().to_owned(),
        hint: said.hint().map(str::to_owned),
        code: None,
    })
}
