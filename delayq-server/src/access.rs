//! Who may do what: tokens, and the rights that they give.

mod book;
mod right;
mod secret;
mod token;

pub(crate) use book::{NewToken, TokenBook};
pub(crate) use right::{Allowed, Operate, Read, Submit};
pub(crate) use token::{Scope, Token};
