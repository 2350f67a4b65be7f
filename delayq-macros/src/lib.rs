//! The `#[task_worker]` attribute of delayq.
//!
//! Applications use it through `delayq-plugin`, which re-exports it. Structure: `parse` reads the
//! attribute and the item and reports all mistakes; `expand` writes the code.

mod expand;
mod name;
mod parse;

use proc_macro::TokenStream;

#[doc = include_str!("task_worker.md")]
#[proc_macro_attribute]
pub fn task_worker(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::task_worker(attribute.into(), item.into()).into()
}
