//! Access: callers, their tokens, and the rights of a token.

mod book;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod right;
mod secret;
mod token;

pub use book::{Admission, NewToken, TokenBook};
pub use right::{Admin, Caller, Operate, Read, Right, Submit, Work, client_address};
pub use secret::SecretHash;
pub use token::{Scope, Token};
