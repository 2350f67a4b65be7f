//! Mistakes with `#[task_worker]` that need a compiler: each gives one error, which points at the
//! mistake and says what to write.
//!
//! Two kinds of case are in `ui`. In the first the words are the compiler's own, about the code
//! that the macro writes. In the second they are the macro's, and what it writes beside its error
//! has to compile, or there would be a second error: one case for each way in which it mends an
//! item. All other mistakes are in `tests/ui`, where the macro runs without a compiler.
//!
//! After a change of words write them anew with
//! `TRYBUILD=overwrite cargo test -p delayq-ui-tests`, and read them.

#[test]
fn one_mistake_gives_one_error_of_the_compiler() {
    trybuild::TestCases::new().compile_fail("ui/*.rs");
}
