use delayq_core::job::IntoTime;

use super::*;

fn at(text: &str) -> Timestamp {
    text.into_time().unwrap()
}

fn berlin(every: &str) -> Schedule {
    Schedule::new(every).unwrap().zone("Europe/Berlin").unwrap()
}

/// The next times after `from`, by the clock of Berlin.
fn times(schedule: &Schedule, from: &str, count: usize) -> Vec<String> {
    let mut time = at(&format!("{from}[Europe/Berlin]"));
    let mut next = || {
        time = schedule.next_after(time).unwrap();
        let text = berlin("* * * * *").in_zone(time);
        text[5..]
            .replace(":00[Europe/Berlin]", "")
            .replace(":00+", "+")
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn a_cron_expression_goes_by_the_clock_of_its_zone() {
    let nine = berlin("0 9 * * MON-FRI");
    let found = times(&nine, "2026-03-27T08:59", 3);
    assert_eq!(
        found,
        ["03-27T09:00+01", "03-30T09:00+02", "03-31T09:00+02"]
    );
    let utc = Schedule::new("0 9 * * *").unwrap();
    let found = times(&utc, "2026-03-28T10:00", 2);
    assert_eq!(found, ["03-29T11:00+02", "03-30T11:00+02"]);
    assert_eq!(nine.to_string(), "0 9 * * MON-FRI Europe/Berlin");
}

#[test]
fn what_the_clocks_skip_is_at_the_change_and_what_they_show_twice_is_once() {
    let found = times(&berlin("30 2 * * *"), "2026-03-28T12:00", 2);
    assert_eq!(found, ["03-29T03:00+02", "03-30T02:30+02"]);
    let found = times(&berlin("0,30 2,3 * * *"), "2026-03-29T00:00", 3);
    assert_eq!(
        found,
        ["03-29T03:00+02", "03-29T03:30+02", "03-30T02:00+02"]
    );
    let found = times(&berlin("0,30 2 * * *"), "2026-10-25T00:00", 3);
    assert_eq!(
        found,
        ["10-25T02:00+02", "10-25T02:30+02", "10-26T02:00+01"]
    );
    let found = times(&berlin("0 */2 * * *"), "2026-10-25T00:00", 2);
    assert_eq!(found, ["10-25T02:00+02", "10-25T04:00+01"]);
}

#[test]
fn an_expression_of_every_hour_goes_on_through_a_change_of_the_clocks() {
    let first = [
        "10-25T02:30+02",
        "10-25T02:00+01",
        "10-25T02:30+01",
        "10-25T03:00+01",
    ];
    for every_hour in ["*", "*/1", "0-23", "0-23/1", "12-23,0-11", " *"] {
        let every = berlin(&format!("*/30 {every_hour} * * *"));
        assert_eq!(times(&every, "2026-10-25T02:10", 4), first, "{every_hour}");
    }
    let found = times(&berlin("*/30 1-23 * * *"), "2026-10-25T02:10", 2);
    assert_eq!(found, ["10-25T02:30+02", "10-25T03:00+01"]);
    let found = times(&berlin("0 * * * *"), "2026-03-29T00:30", 3);
    assert_eq!(
        found,
        ["03-29T01:00+01", "03-29T03:00+02", "03-29T04:00+02"]
    );
    let found = times(&berlin("30 * * * *"), "2026-03-29T01:00", 2);
    assert_eq!(found, ["03-29T01:30+01", "03-29T03:30+02"]);
}

/// Half an hour of daylight saving, and a day that a country left out.
#[test]
fn odd_zones_have_the_same_rules() {
    let zone = |name| Schedule::new("15 2 * * *").unwrap().zone(name).unwrap();
    let lord_howe = zone("Australia/Lord_Howe");
    let next = lord_howe
        .next_after(at("2026-10-03T12:00[Australia/Lord_Howe]"))
        .unwrap();
    assert_eq!(next, at("2026-10-04T02:30+11:00"));
    let apia = zone("Pacific/Apia");
    let next = apia
        .next_after(at("2011-12-29T12:00[Pacific/Apia]"))
        .unwrap();
    assert_eq!(next, at("2011-12-31T00:00+14:00"), "the 30th was left out");
}

/// As the guide shows them.
#[test]
fn last_days_and_numbered_weekdays_are_understood() {
    let found = times(&berlin("0 0 L * *"), "2026-02-01T00:00", 2);
    assert_eq!(found, ["02-28T00:00+01", "03-31T00:00+02"]);
    let found = times(&berlin("0 12 * * MON#1"), "2026-11-01T00:00", 2);
    assert_eq!(found, ["11-02T12:00+01", "12-07T12:00+01"]);
    let found = times(&berlin("*/10 8-17 * * MON-FRI"), "2026-11-27T17:45", 2);
    assert_eq!(found, ["11-27T17:50+01", "11-30T08:00+01"]);
    let found = times(&berlin("0 9 13 * FRI"), "2026-11-12T12:00", 2);
    assert_eq!(
        found,
        ["11-13T09:00+01", "11-20T09:00+01"],
        "either day will do"
    );
}

#[test]
fn an_interval_has_its_multiples() {
    let quarter = Schedule::new("15m").unwrap();
    let next = quarter.next_after(at("2026-11-24T09:15Z"));
    assert_eq!(next, Some(at("2026-11-24T09:30Z")));
    assert!(quarter.has(at("2026-11-24T09:30Z")) && !quarter.has(at("2026-11-24T09:31Z")));
    assert_eq!(Schedule::read(&quarter.to_string()), Ok(quarter));
    let zoned = berlin("0 9  * * MON");
    assert_eq!(Schedule::read(&zoned.to_string()), Ok(zoned));
    let day = Schedule::new("1 day").unwrap();
    assert_eq!(
        day.next_after(at("2026-11-24T09:15Z")),
        Some(at("2026-11-25T00:00Z"))
    );
}

#[test]
fn what_is_no_schedule_is_refused_with_what_to_write() {
    for (bad, why) in [
        ("0 9 * *", "five fields"),
        ("0 0 9 * * *", "five fields"),
        ("0 9 * * * Europe/Berlin", "five fields"),
        ("", "five fields"),
        ("daily", "five fields"),
        ("61 9 * * *", "0..=59"),
        ("0 9 * * FOO", "malformed"),
        ("0 0 31 2 *", "never comes"),
        ("100ms", "1 second"),
        ("1500ms", "whole seconds"),
        ("400 days", "366 days"),
    ] {
        let error = Schedule::new(bad).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("schedule"), "{error}");
    }
    let zoned = |every: &str, zone: &str| Schedule::new(every).unwrap().zone(zone);
    let error = zoned("15m", "Europe/Berlin").unwrap_err().to_string();
    assert!(error.contains("has no zone"), "{error}");
    let error = zoned("0 9 * * *", "Berlin").unwrap_err().to_string();
    assert!(error.contains("Europe/Berlin"), "{error}");
}
