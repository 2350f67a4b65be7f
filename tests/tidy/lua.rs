//! Every Redis script is one edge and begins with what a reader needs.

use crate::tree::File;

/// The parts of a header after its purpose, in this order.
const PARTS: [&str; 3] = ["KEYS:", "ARGV:", "Returns:"];

/// A script begins with `#!lua`, then a comment: the purpose, KEYS, ARGV, what it returns. A part
/// that several scripts are put together from begins with its purpose.
pub(crate) fn header(file: &File) -> Vec<String> {
    if !file.has_extension("lua") {
        return Vec::new();
    }
    let is_script = file.text.starts_with("#!lua");
    let comment = file.text.lines().skip(usize::from(is_script));
    let comment: Vec<_> = comment.map_while(|line| line.strip_prefix("-- ")).collect();
    if comment
        .first()
        .is_none_or(|purpose| purpose.starts_with(PARTS[0]))
    {
        return vec![file.at(1, "begin with `-- ` and the purpose in a sentence")];
    }
    if !is_script {
        return Vec::new();
    }
    let comment = comment.join("\n");
    let places = PARTS.map(|part| comment.find(part));
    if places.iter().all(Option::is_some) && places.is_sorted() {
        return Vec::new();
    }
    vec![file.at(
        2,
        "the header gives the purpose, then `KEYS:`, `ARGV:` with units, `Returns:`",
    )]
}

#[test]
fn a_script_without_a_full_header_is_found() {
    let good =
        "#!lua flags=no-writes\n-- Counts.\n-- KEYS: 1 due. ARGV: none.\n-- Returns: a count.\n";
    assert_eq!(header(&File::new("a.lua", good)), [""; 0]);
    assert_eq!(
        header(&File::new(
            "part.lua",
            "-- Places in a sorted set.\n\nlocal a = 1\n"
        )),
        [""; 0]
    );
    for bad in [
        "local a = 1\n",
        "#!lua\nlocal a = 1\n",
        "#!lua\n-- KEYS: 1\n-- ARGV: none\n-- Returns: nothing\n",
        "#!lua\n-- Counts.\n-- KEYS: 1\n-- Returns: nothing\n",
        "#!lua\n-- Counts.\n-- KEYS: 1\nlocal a = 1\n-- ARGV: none\n-- Returns: nothing\n",
    ] {
        assert_eq!(header(&File::new("a.lua", bad)).len(), 1, "{bad}");
    }
    assert_eq!(header(&File::new("a.rs", "local a")), [""; 0]);
}
