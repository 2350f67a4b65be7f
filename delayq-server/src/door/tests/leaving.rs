//! Clients that go away at every byte of a claim.

use tokio::io::AsyncWriteExt;

use super::{Site, answer, config};

const TYPE: &str = "/v1/default/types/mail";

#[tokio::test]
async fn a_client_killed_at_any_byte_of_its_claim_costs_no_attempt_and_delays_no_task() {
    let site = Site::open(config()).await;
    let claim = site.head(
        "POST",
        &format!("{TYPE}/claim?wait=30s"),
        "content-length: 0\r\n",
    );
    for bytes in 0..=claim.len() {
        let mut leaving = site.connect().await;
        let sent = &claim.as_bytes()[..bytes];
        leaving.write_all(sent).await.unwrap();
        // A whole request waits by the time that the next one is answered, or is not read yet.
        let id = format!("{TYPE}/tasks/t{bytes}");
        if bytes % 2 == 0 {
            drop(leaving);
            site.ask("PUT", &id).await;
        } else {
            let soon = format!("{id}?delay=20");
            let leave = async { drop(leaving) };
            tokio::join!(site.ask("PUT", &soon), leave);
        }
        let mut stays = site.connect().await;
        stays.write_all(claim.as_bytes()).await.unwrap();
        let claimed = answer(&mut stays).await;
        let named = format!("\"id\":\"t{bytes}\"");
        assert!(claimed.contains(&named), "{bytes}: {claimed}");
        assert!(claimed.contains("\"attempt\":1,"), "{bytes}: {claimed}");
    }
}
