//! Foreign text, made safe for display.

/// True if a character is invisible, or changes how the text after it is shown: controls, direction
/// marks, zero-width spaces, and tags. Line feeds and tabs are the only exceptions.
///
/// The ranges are those of Unicode 16: Cc, the soft hyphen, `Bidi_Control`, the joiners, the line
/// and paragraph separators, invisible operators, the byte order mark, annotations and tags.
#[must_use]
pub fn is_invisible(letter: char) -> bool {
    matches!(
        letter,
        '\0'..='\u{8}'
            | '\u{b}'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{ad}'
            | '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}
