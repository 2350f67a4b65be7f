//! Access: callers, their tokens, and the rights of a token.

mod book;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod right;
mod secret;
mod token;

pub use book::{NewToken, TokenBook};
pub use right::{Admin, Caller, Operate, Read, Right, Submit, Work};
pub use token::{Scope, Token};
