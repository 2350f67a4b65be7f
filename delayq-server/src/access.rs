//! Who may do what: tokens, and the rights that they give.

mod book;
mod everywhere;
pub(crate) mod fuzz;
mod right;
mod secret;
mod token;

pub(crate) use book::{NewToken, TokenBook};
pub(crate) use everywhere::Everywhere;
pub(crate) use right::{Admin, Allowed, Caller, Operate, Read, Right, Submit, Work};
pub(crate) use token::{Scope, Token};
