//! Who may do what: tokens, and the rights that they give.

mod book;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod right;
mod secret;
mod token;

pub use book::{NewToken, TokenBook};
pub use right::{Admin, Caller, Operate, Read, Right, Submit, Work};
pub use token::{Scope, Token};
