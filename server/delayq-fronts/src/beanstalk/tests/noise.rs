//! Noise: bytes that are no orders, or those of others, in any pieces.

use super::super::input::Input;
use super::{Client, start};

/// Lines that end somewhere within.
const PIECES: [&[u8]; 16] = [
    b"put 0 0 1 3\r\nabc\r\n",
    b"put 0 0 1 300\r\n",
    b"put 1 2",
    b"\r\n",
    b"\r",
    b"\n",
    b"\0\xff\xfe",
    b"reserve-with-timeout 0\r\n",
    b"delete 18446744073709551615\r\n",
    b"use a\r\nwatch b\r\nignore default\r\n",
    b"stats-job 1\r\n",
    b"release 1 1 1\r\n",
    b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    b"kick 4294967295\r\n",
    b"pause-tube a 0\r\n",
    b"touch -1\r\n",
];

/// Numbers that look random, the same in each run.
fn random() -> impl FnMut() -> usize {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap()
    }
}

#[test]
fn lines_of_noise_are_read_without_a_panic_or_growth() {
    // What is found by chance is the fuzz target's.
    let most = if cfg!(feature = "soak") {
        1_000_000
    } else {
        100_000
    };
    let mut next = random();
    let mut input = Input::new(65_535);
    let mut lines = 0;
    while lines < most {
        let piece = PIECES[next() % PIECES.len()];
        let cut = if next().is_multiple_of(7) {
            next() % (piece.len() + 1)
        } else {
            piece.len()
        };
        input.buffer().extend_from_slice(&piece[..cut]);
        while input.next().is_some() {
            lines += 1;
        }
        lines += 1;
        assert!(input.buffer().len() < 2 * 65_535);
    }
}

#[test]
fn requests_are_the_same_however_their_bytes_are_cut() {
    let mut next = random();
    let text: Vec<u8> = (0..2_000)
        .flat_map(|_| PIECES[next() % PIECES.len()])
        .copied()
        .collect();
    let read = |sizes: &mut dyn FnMut() -> usize| {
        let mut input = Input::new(100);
        let (mut rest, mut requests) = (text.as_slice(), Vec::new());
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(sizes().clamp(1, rest.len()));
            input.buffer().extend_from_slice(piece);
            requests.extend(std::iter::from_fn(|| input.next()));
            rest = behind;
        }
        requests
    };
    let whole = read(&mut || usize::MAX);
    assert!(whole.len() > 1_000);
    assert_eq!(read(&mut || 1), whole);
    assert_eq!(read(&mut || next() % 50), whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_sent_noise_is_served_and_so_are_others() {
    let address = start().await;
    let mut noisy = Client::connect(address).await;
    let mut next = random();
    for _ in 0..20 {
        let text: String = (0..200)
            .map(|_| ["nope\r\n", "put x\r\n", "\r\n", "stats-job a\r\n"][next() % 4])
            .collect();
        noisy.send(&text).await;
        let mut lines = 0;
        while lines < 200 {
            let heard = noisy.read(std::time::Duration::from_secs(5)).await;
            assert!(!heard.is_empty() && !heard.contains("closed"));
            lines += heard.matches("\r\n").count();
        }
    }
    noisy.expect("list-tube-used", "USING default").await;
    let mut other = Client::connect(address).await;
    other.expect("put 0 0 9 1\r\na", "INSERTED 1").await;
    noisy.expect("reserve", "RESERVED 1 1\r\na").await;
}
