//! Errors of clients and databases.

use std::error::Error;
use std::fmt;

/// Any error of a client.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// An error that the database gave, in its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// What it says.
    pub message: String,
    /// What to do, if it says that.
    pub hint: Option<String>,
    /// The SQLSTATE, such as `40001`, if the client tells it.
    pub code: Option<String>,
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(code) = &self.code {
            write!(f, " (SQLSTATE {code})")?;
        }
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
            code: Some("DQ001".to_owned()),
        };
        let text = "unknown option \"dleay_ms\" (SQLSTATE DQ001)";
        assert_eq!(error.to_string(), format!("{text}; hint: write delay_ms"));
        error.hint = None;
        assert_eq!(error.to_string(), text);
        error.code = None;
        assert_eq!(error.to_string(), error.message);
    }
}
