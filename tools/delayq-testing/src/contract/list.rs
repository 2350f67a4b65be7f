//! Listing by state, page by page.

use delayq_core::TaskState::{Dead, Running, Scheduled};
use delayq_core::operate::{Cursor, Page};
use delayq_core::store::MAX_BATCH;
use delayq_core::{TaskInfo, TaskState, TaskType, When, hours, minutes};

use super::rig::{LONG, Rig, id, ids, job, usual_type};

async fn page(rig: &Rig, cursor: Option<&Cursor>, limit: usize) -> Page {
    let state = TaskState::Scheduled;
    rig.store()
        .list(&usual_type(), state, cursor, limit)
        .await
        .unwrap()
}

fn listed(page: &Page) -> Vec<&str> {
    ids(page.tasks.iter().map(|task| &task.id))
}

/// Scheduled tasks that are all due in the same millisecond.
async fn schedule_together(rig: &Rig, count: usize) {
    let due_at = rig.now().await.plus(LONG);
    let mut batch = Vec::new();
    for n in 0..count {
        batch.push(rig.task(job(&format!("{n:03}")).at(due_at)).await);
    }
    rig.store().submit(batch).await;
}

pub async fn each_state_is_listed_with_its_tasks_in_full(rig: &Rig) {
    for state in [Scheduled, Running, Dead] {
        rig.bring(state.as_str(), state).await;
    }
    for state in [Scheduled, Running, Dead] {
        let page = rig
            .store()
            .list(&usual_type(), state, None, 10)
            .await
            .unwrap();
        let info: TaskInfo = rig.info(state.as_str()).await;
        assert_eq!(page.tasks, [info]);
        assert_eq!(page.next, None);
    }
}

pub async fn a_listing_is_ordered_by_time_then_id(rig: &Rig) {
    let base = rig.now().await.plus(LONG);
    for (id, minute) in [("b", 2), ("a", 2), ("z", 1), ("y", 3), ("Z", 2)] {
        rig.accept(job(id).at(base.plus(minutes(minute)))).await;
    }
    let page = page(rig, None, 10).await;
    assert_eq!(listed(&page), ["z", "Z", "a", "b", "y"]);
    assert_eq!(page.next, None);
}

pub async fn pages_show_every_task_once_though_all_have_one_due_time(rig: &Rig) {
    schedule_together(rig, 100).await;
    let mut cursor = None;
    let mut seen = Vec::new();
    loop {
        let page = page(rig, cursor.as_ref(), 7).await;
        assert!(page.tasks.len() <= 7);
        seen.extend(page.tasks.into_iter().map(|task| task.id.to_string()));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let expected: Vec<String> = (0..100).map(|n| format!("{n:03}")).collect();
    assert_eq!(seen, expected);
}

/// An id sorts after the ids that are its prefixes.
pub async fn a_page_goes_on_in_order_though_ids_begin_alike(rig: &Rig) {
    let sorted = ["a", "aa", "aaa", "aab", "ab", "b", "ba"];
    let due_at = rig.now().await.plus(LONG);
    for id in sorted.iter().rev() {
        rig.accept(job(id).at(due_at)).await;
    }
    for before in 0..sorted.len() - 1 {
        let cursor = Cursor::new(due_at, id(sorted[before]));
        let page = page(rig, Some(&cursor), 10).await;
        assert_eq!(listed(&page), sorted[before + 1..]);
    }
}

pub async fn a_page_that_ends_with_the_last_task_is_the_last_page(rig: &Rig) {
    schedule_together(rig, 4).await;
    let first = page(rig, None, 2).await;
    assert_eq!(listed(&first), ["000", "001"]);
    let last = page(rig, first.next.as_ref(), 2).await;
    assert_eq!(listed(&last), ["002", "003"]);
    assert_eq!(last.next, None);
}

pub async fn a_cursor_stays_valid_while_tasks_come_and_go(rig: &Rig) {
    schedule_together(rig, 6).await;
    let first = page(rig, None, 3).await;
    let cursor = first.next.unwrap();
    assert_eq!((cursor.at, &cursor.id), (first.tasks[2].at, &id("002")));
    for gone in ["001", "002", "003"] {
        let _ = rig.cancel(gone).await;
    }
    rig.accept(job("0035").at(cursor.at)).await;
    rig.accept(job("0015").at(cursor.at)).await;
    let _ = rig.reschedule("000", When::After(hours(9))).await;
    let second = page(rig, Some(&cursor), 10).await;
    assert_eq!(listed(&second), ["0035", "004", "005", "000"]);
}

pub async fn a_page_is_capped(rig: &Rig) {
    schedule_together(rig, 300).await;
    let first = page(rig, None, usize::MAX).await;
    assert_eq!(first.tasks.len(), MAX_BATCH);
    let second = page(rig, first.next.as_ref(), 1_000_000).await;
    assert_eq!(second.tasks.len(), MAX_BATCH);
    let third = page(rig, second.next.as_ref(), 1_000_000).await;
    assert_eq!((third.tasks.len(), third.next), (300 - 2 * MAX_BATCH, None));
}

pub async fn an_unknown_type_lists_nothing(rig: &Rig) {
    let unknown = TaskType::new("gift.refund").unwrap();
    let page = rig.store().list(&unknown, TaskState::Dead, None, 10).await;
    assert_eq!(page, Ok(Page::default()));
}
