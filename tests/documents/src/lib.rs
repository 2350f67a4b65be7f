//! The README and the guide, whose Rust snippets are compiled as doc tests.

#[cfg(doctest)]
mod documents;
