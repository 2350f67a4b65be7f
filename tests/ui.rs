//! Each mistake with `#[task_worker]` gives one error, which points at it and says what to write.
//!
//! One file per mistake, named for it, with the compiler's words beside it. After a change of words
//! write them anew with `TRYBUILD=overwrite cargo test -p delayq-tests --test ui`, and read them.

#[test]
fn one_mistake_gives_one_error_that_says_what_to_write() {
    trybuild::TestCases::new().compile_fail("ui/*.rs");
}
