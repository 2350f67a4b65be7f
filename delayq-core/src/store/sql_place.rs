//! The place of calls in a SQL database.

use crate::name::Namespace;

/// Where a SQL database takes calls for tasks: the functions `within_v1` of a sender and
/// `done_within_v1` of a worker in a schema. Each has one text parameter, a request in JSON, and
/// answers one text, outcomes in JSON. The tasks may be in
/// the database, or leave it later for the store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqlPlace {
    /// The schema of the function, as it is written in a statement.
    pub schema: String,
    /// The namespace of the tasks.
    pub namespace: Namespace,
}

impl SqlPlace {
    /// The function of `schema`, for tasks of `namespace`.
    #[must_use]
    pub fn new(schema: impl Into<String>, namespace: Namespace) -> Self {
        let schema = schema.into();
        Self { schema, namespace }
    }

    /// The statement that ends the attempt of a worker. As [`statement`](Self::statement).
    #[must_use]
    pub fn done_statement(&self) -> String {
        format!("SELECT {}.done_within_v1($1::text) AS answer", self.schema)
    }

    /// The statement that makes a call. Its parameter `$1` is the request, and its column `answer`
    /// the answer.
    #[must_use]
    pub fn statement(&self) -> String {
        format!("SELECT {}.within_v1($1::text) AS answer", self.schema)
    }
}
