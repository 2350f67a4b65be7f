//! What clients of beanstalkd send: any bytes are the same requests however they arrive, and never
//! a panic.

use bolero::check;
use delayq_fuzz::{Reach, bytes, spell};
use delayq_server::fuzz;

/// Parts of the protocol.
const PARTS: [&str; 24] = [
    "put 0 0 1 3\r\nabc\r\n",
    "put 1 2 3 ",
    "put 0 0 1 200\r\n",
    "reserve\r\n",
    "reserve-with-timeout ",
    "reserve-job ",
    "delete ",
    "release 1 2 3",
    "bury 1 2",
    "kick ",
    "kick-job ",
    "touch 18446744073709551615",
    "peek-ready",
    "peek ",
    "stats-tube default",
    "list-tubes\r\n",
    "use a+/;.$_()-9Z",
    "pause-tube a 1",
    "quit\r\n",
    "\r\n",
    "\r",
    "\n",
    " ",
    "4294967296",
];

#[test]
fn requests_are_the_same_however_their_bytes_are_cut() {
    let reach = Reach::at_least(20);
    check!().with_generator(bytes(12)).for_each(|bytes| {
        let text = spell(bytes, &PARTS);
        let whole = fuzz::beanstalk(&[text.as_bytes()], 100);
        let single: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(fuzz::beanstalk(&single, 100), whole, "of {text:?}");
        let _ = fuzz::beanstalk(&[bytes], 100);
        reach.count(whole.iter().any(|request| !request.starts_with("Bad(")));
    });
}
