//! The encoding of a file: UTF-8, with or without a byte order mark.

use super::TransferFault;

/// The mark with which some editors begin a file in UTF-8.
const UTF_8_MARK: &[u8] = &[0xef, 0xbb, 0xbf];
/// The marks of UTF-16, which PowerShell writes with `>`.
const UTF_16_MARKS: [&[u8]; 2] = [&[0xff, 0xfe], &[0xfe, 0xff]];

/// A line without the mark of its file. UTF-16 is refused.
pub(super) fn read(line: &[u8], number: u64) -> Result<&[u8], TransferFault> {
    if number > 1 {
        return Ok(line);
    }
    if UTF_16_MARKS.iter().any(|mark| line.starts_with(mark)) || line.get(1) == Some(&0) {
        let what = "the file is UTF-16, and has to be UTF-8: convert it, as with `iconv -f UTF-16 \
                    -t UTF-8`, or write it with `delayq export --file` instead of `>`";
        return Err(TransferFault::Line(what.to_owned()));
    }
    Ok(line.strip_prefix(UTF_8_MARK).unwrap_or(line))
}
