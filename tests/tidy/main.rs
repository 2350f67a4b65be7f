//! The house rules that no compiler checks. Every rule says what to do instead, and has a test of
//! its own that plants a violation and sees it found.

mod circles;
mod code;
mod files;
mod floors;
mod lua;
mod markdown;
mod shape;
mod source;
mod tree;

use tree::{File, Tree};

/// Fails with every violation of a rule, one a line.
fn assert_tidy(violations: impl IntoIterator<Item = String>) {
    let violations: Vec<_> = violations.into_iter().collect();
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}

/// Applies a rule about single files to all of them.
fn assert_each(rule: impl Fn(&File) -> Vec<String>) {
    assert_tidy(Tree::of_the_workspace().files().flat_map(rule));
}

#[test]
fn the_rules_speak_of_files_that_exist() {
    let tree = Tree::of_the_workspace();
    let one_of_a_kind = [code::TIME, code::KEYS].map(str::to_owned);
    assert_tidy(one_of_a_kind.into_iter().filter(|path| !tree.has(path)));
    assert_tidy(floors::missing(&tree));
}

#[test]
fn no_file_is_too_long_to_read_in_one_sitting() {
    assert_each(code::length);
}

#[test]
fn every_file_is_named_after_what_it_holds() {
    assert_each(files::name);
}

#[test]
fn nothing_is_left_to_do_and_no_test_is_left_out() {
    assert_each(code::unfinished);
}

#[test]
fn the_time_of_day_is_read_in_one_place() {
    assert_each(code::time_of_day);
}

#[test]
fn the_names_of_redis_keys_are_built_in_one_place() {
    assert_each(code::key_prefix);
}

#[test]
fn a_module_only_uses_what_stands_above() {
    assert_each(floors::modules);
}

#[test]
fn no_files_of_a_crate_use_each_other_in_a_circle() {
    assert_tidy(circles::circles(&Tree::of_the_workspace()));
}

#[test]
fn a_crate_only_depends_on_those_above() {
    assert_tidy(floors::crates(&Tree::of_the_workspace()));
}

#[test]
fn the_methods_of_a_type_stand_in_one_block_beside_it() {
    assert_tidy(shape::impls(&Tree::of_the_workspace()));
}

#[test]
fn no_parameter_is_a_tuple() {
    assert_each(shape::tuples);
}

#[test]
fn comments_are_as_narrow_as_code() {
    assert_each(code::comment_width);
}

#[test]
fn every_redis_script_says_what_it_takes_and_returns() {
    assert_each(lua::header);
}

#[test]
fn every_package_is_in_the_workspace_and_has_its_lints() {
    assert_tidy(files::packages(&Tree::of_the_workspace()));
}

#[test]
fn the_files_that_every_reader_looks_for_are_there() {
    assert_tidy(files::required(&Tree::of_the_workspace()));
}

#[test]
fn every_link_in_the_documents_leads_somewhere() {
    assert_tidy(markdown::links(&Tree::of_the_workspace()));
}

#[test]
fn every_package_is_in_the_readme() {
    assert_tidy(files::unnamed(&Tree::of_the_workspace()));
}

#[test]
fn the_readme_is_short_and_complete() {
    assert_tidy(markdown::readme(&Tree::of_the_workspace()));
}

#[test]
fn every_page_of_the_guide_is_in_its_summary() {
    assert_tidy(markdown::summary(&Tree::of_the_workspace()));
}
