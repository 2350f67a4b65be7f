//! Tables of figures and of actions.

use delayq_core::Chronicle;
use delayq_core::chronicle::{Action, Figures, MAX_ACTIONS, Spell, Step};

use super::*;

fn action(verb: &str) -> Action {
    Action::new("ann", "cli", verb, "mail.send")
}

#[tokio::test]
async fn the_oldest_action_beyond_the_bound_is_forgotten() {
    let place = Place::new();
    let store = place.open().await;
    let fill = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 10000)
        INSERT INTO actions SELECT 'default', n, 1, '{}' FROM n;
        INSERT INTO actions VALUES ('other', 1, 1, '{}');";
    place.connect().execute_batch(fill).unwrap();
    store.log_action(&action("pause")).await.unwrap();
    let numbers = "SELECT count(*), min(number), max(number) FROM actions WHERE namespace = ?1";
    let numbers = |namespace: &str| -> [i64; 3] {
        let read = |row: &rusqlite::Row<'_>| Ok([row.get(0)?, row.get(1)?, row.get(2)?]);
        let connection = place.connect();
        connection.query_row(numbers, [namespace], read).unwrap()
    };
    let most = i64::try_from(MAX_ACTIONS).unwrap();
    assert_eq!(numbers("default"), [most, 2, most + 1]);
    assert_eq!(numbers("other"), [1, 1, 1]);
}

#[tokio::test]
async fn a_damaged_action_is_shown_and_a_damaged_chunk_is_replaced() {
    let place = Place::new();
    let store = place.open().await;
    store.log_action(&action("pause")).await.unwrap();
    let mut figures = Figures::default();
    figures.started = 3;
    let at = Step::Minute.begin(SystemClock.now());
    let minutes = [Spell { at, figures }];
    store.add_figures(&usual_type(), &minutes).await.unwrap();
    let damage =
        "UPDATE actions SET action = CAST(x'ff7b' AS TEXT); UPDATE figures SET chunk = x'01'";
    place.connect().execute_batch(damage).unwrap();
    let found = store.actions(None, 9).await.unwrap();
    assert_eq!(found[0].action.verb, "unreadable");
    let minutes_now = async || store.figures(&usual_type(), Step::Minute, at).await;
    assert_eq!(minutes_now().await, Ok(Vec::new()));
    store.add_figures(&usual_type(), &minutes).await.unwrap();
    assert_eq!(minutes_now().await.unwrap(), minutes);
}
