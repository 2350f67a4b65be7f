//! Who may do what: tokens, and the rights that they give.

mod book;
mod everywhere;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod right;
mod secret;
mod token;

pub use book::{NewToken, TokenBook};
pub use everywhere::Everywhere;
pub use right::{Admin, Allowed, Caller, Operate, Read, Right, Submit, Work};
pub use token::{Scope, Token};
