//! The examples stand beside this folder, one file or folder each. Here are only the README and the
//! guide, whose Rust snippets are compiled as doc tests.

#[cfg(doctest)]
mod documents;
