//! The frames of RESP, the protocol of Redis: where one ends and the next begins.

/// The length of the first whole frame in `bytes`; `None` while it is not whole, or is no frame.
pub(super) fn frame(bytes: &[u8]) -> Option<usize> {
    let kind = *bytes.first()?;
    let line = 1 + bytes
        .get(1..)?
        .windows(2)
        .position(|pair| pair == b"\r\n")?;
    let after = line + 2;
    let number = || {
        std::str::from_utf8(bytes.get(1..line)?)
            .ok()?
            .parse::<i64>()
            .ok()
    };
    match kind {
        b'$' | b'!' | b'=' => {
            // A negative length stands for "nothing", which has no bytes.
            let Ok(length) = usize::try_from(number()?) else {
                return Some(after);
            };
            let end = after.checked_add(length)?.checked_add(2)?;
            (end <= bytes.len()).then_some(end)
        }
        b'*' | b'~' | b'>' => frames(bytes, after, number()?),
        b'%' | b'|' => frames(bytes, after, number()?.checked_mul(2)?),
        _ => Some(after),
    }
}

/// The end of `count` frames that begin at `start`.
fn frames(bytes: &[u8], start: usize, count: i64) -> Option<usize> {
    let mut end = start;
    for _ in 0..count {
        end += frame(bytes.get(end..)?)?;
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_ends_where_its_last_part_does() {
        for whole in [
            "+OK\r\n",
            ":12\r\n",
            "$-1\r\n",
            "$0\r\n\r\n",
            "$4\r\na\r\nb\r\n",
            "*0\r\n",
            "*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
            "%1\r\n+a\r\n:1\r\n",
            ">2\r\n+a\r\n+b\r\n",
            "_\r\n",
        ] {
            let bytes = format!("{whole}+next\r\n").into_bytes();
            assert_eq!(frame(&bytes), Some(whole.len()), "{whole:?}");
            for cut in 0..whole.len() {
                assert_eq!(frame(&bytes[..cut]), None, "{whole:?} cut to {cut}");
            }
        }
    }
}
