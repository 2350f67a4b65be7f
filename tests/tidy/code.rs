//! Rules about the lines of a source file.

use crate::tree::File;

/// Longest source file outside tests. Longer ones hold more than one noun.
const MAX_LINES: usize = 500;
/// Longest line with a comment: rustfmt looks at code alone.
const MAX_COLUMNS: usize = 100;
/// The one file that may read the time of day.
pub(crate) const TIME: &str = "delayq-core/src/time.rs";
/// The one file that may build the names of keys.
pub(crate) const KEYS: &str = "stores/delayq-redis/src/scripts/keys.rs";

/// The rules look for words that they must not contain themselves.
const UNFINISHED: [(&str, &str); 5] = [
    (concat!("todo", "!"), "finish it"),
    (
        concat!("unimplemented", "!"),
        "finish it, or answer with an error",
    ),
    (
        concat!("#[", "ignore"),
        "make the test run always, or delete it",
    ),
    (concat!("FIX", "ME"), "do it now"),
    (concat!("TO", "DO"), "do it now"),
];

pub(crate) fn length(file: &File) -> Vec<String> {
    let lines = file.text.lines().count();
    let is_test = file.path.starts_with("tests/") || file.path.contains("/tests/");
    if !file.has_extension("rs") || is_test || lines <= MAX_LINES {
        return Vec::new();
    }
    let what =
        format!("{lines} lines, {MAX_LINES} at most: give its second noun a file of its own");
    vec![file.at(lines, what)]
}

/// Comments, which rustfmt leaves as they are.
pub(crate) fn comment_width(file: &File) -> Vec<String> {
    let mark = match file.path.rsplit_once('.') {
        Some((_, "rs")) => "//",
        Some((_, "lua")) => "--",
        _ => return Vec::new(),
    };
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let columns = line.chars().count();
        let comment = line.trim_start().strip_prefix(mark);
        // A row of a table cannot be broken.
        let is_comment = comment.is_some_and(|text| {
            let text = text.trim_start_matches(['/', '!']).trim_start();
            !text.starts_with('|')
        });
        if is_comment && columns > MAX_COLUMNS {
            let what = format!("{columns} columns, {MAX_COLUMNS} at most: break the comment");
            found.push(file.at(index + 1, what));
        }
    }
    found
}

/// Looks at comments, too.
pub(crate) fn unfinished(file: &File) -> Vec<String> {
    if !file.has_extension("rs") && !file.has_extension("lua") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for (word, instead) in UNFINISHED {
            if line.contains(word) {
                found.push(file.at(index + 1, format!("{word}: {instead}")));
            }
        }
    }
    found
}

pub(crate) fn time_of_day(file: &File) -> Vec<String> {
    let clock = concat!("SystemTime", "::now");
    let instead =
        format!("{clock}: take a Clock, or SystemClock.now(); only {TIME} reads the time");
    lines_with(file, |line| line.contains(clock), TIME, &instead)
}

/// Tests may look into Redis from outside, with the names spelled out.
pub(crate) fn key_prefix(file: &File) -> Vec<String> {
    let prefixes = [
        concat!("\"", "delayq:"),
        concat!("'", "delayq:"),
        concat!("delayq:", "{"),
    ];
    if file.path.starts_with("tests/") {
        return Vec::new();
    }
    let instead =
        format!("the prefix of keys: ask {KEYS} for the name, so that one place builds names");
    lines_with(
        file,
        |line| {
            // The URL of a server is no key.
            let line = line.replace(concat!("delayq:", "//"), "");
            prefixes.iter().any(|p| line.contains(p))
        },
        KEYS,
        &instead,
    )
}

/// The code lines that `is_bad` finds, in Rust and Lua files other than `allowed`.
fn lines_with(
    file: &File,
    is_bad: impl Fn(&str) -> bool,
    allowed: &str,
    instead: &str,
) -> Vec<String> {
    if file.path == allowed || !(file.has_extension("rs") || file.has_extension("lua")) {
        return Vec::new();
    }
    let bad = file.code().filter(|(_, line)| is_bad(line));
    bad.map(|(number, _)| file.at(number, instead)).collect()
}

#[test]
fn a_long_file_is_found_unless_it_is_a_test() {
    let text = "a\n".repeat(MAX_LINES + 1);
    let found = length(&File::new("delayq-core/src/task.rs", &text));
    assert!(
        found[0].starts_with("delayq-core/src/task.rs:501: 501 lines"),
        "{found:?}"
    );
    assert!(length(&File::new("tests/lifecycle.rs", &text)).is_empty());
    assert!(length(&File::new("Cargo.lock", &text)).is_empty());
    assert!(length(&File::new("a.rs", &"a\n".repeat(MAX_LINES))).is_empty());
}

#[test]
fn a_comment_that_is_too_wide_is_found_and_code_is_not() {
    let wide = "a".repeat(MAX_COLUMNS);
    for (path, text) in [
        ("a.rs", format!("    /// {wide}")),
        ("a.lua", format!("-- {wide}")),
    ] {
        assert_eq!(comment_width(&File::new(path, &text)).len(), 1, "{path}");
    }
    assert_eq!(
        comment_width(&File::new("a.rs", &format!("let a = {wide};"))),
        [""; 0]
    );
    assert_eq!(
        comment_width(&File::new("a.md", &format!("// {wide}"))),
        [""; 0]
    );
}

#[test]
fn what_is_unfinished_is_found_in_code_and_comments() {
    for (word, instead) in UNFINISHED {
        let found = unfinished(&File::new(
            "a.rs",
            &format!("fn a() {{\n    // {word}\n}}\n"),
        ));
        assert_eq!(found, [format!("a.rs:2: {word}: {instead}")]);
        assert_eq!(unfinished(&File::new("a.md", word)), [""; 0]);
    }
}

#[test]
fn a_second_place_that_reads_the_time_of_day_is_found() {
    let text = concat!(
        "use std::time::SystemTime;\nlet a = SystemTime",
        "::now();\n"
    );
    assert!(time_of_day(&File::new("a/src/b.rs", text))[0].starts_with("a/src/b.rs:2: "));
    assert!(time_of_day(&File::new(TIME, text)).is_empty());
    let comment = concat!("// not SystemTime", "::now()\n");
    assert!(time_of_day(&File::new("a/src/b.rs", comment)).is_empty());
}

#[test]
fn a_second_place_that_builds_keys_is_found() {
    for text in [
        concat!("let key = format!(\"", "delayq:{{{ns}}}\");"),
        concat!("redis.call('GET', '", "delayq:types')"),
    ] {
        for path in ["stores/delayq-redis/src/store.rs", "a.lua"] {
            assert_eq!(
                key_prefix(&File::new(path, text)).len(),
                1,
                "{path}: {text}"
            );
        }
        assert!(key_prefix(&File::new(KEYS, text)).is_empty());
        assert!(key_prefix(&File::new("tests/crash.rs", text)).is_empty());
    }
    assert!(key_prefix(&File::new("a.rs", "//! delayq: a queue\n")).is_empty());
}
