//! What follows from what a server shows, for each way in which it may hide something.

use super::*;
use crate::config::RedisConfig;

/// What a server shows: fields of HELLO, lines of INFO, pairs of CONFIG GET.
fn snapshot(hello: &str, info: Option<&str>, config: Option<&str>) -> Snapshot {
    let pairs = |text: &str| parse(&text.replace(' ', "\n"));
    Snapshot {
        place: "redis://h:1/0".to_owned(),
        hello: pairs(hello),
        info: info.map(pairs),
        config: config.map(pairs),
    }
}

fn terms(wanted: Durability, assumed: Option<Durability>) -> Terms {
    Terms {
        wanted,
        config: RedisConfig {
            assumed_durability: assumed,
            replicas: Some(2),
            memory_watermark: Some(0.9),
            ..RedisConfig::parse("redis://h").unwrap()
        },
    }
}

const SAFE: &str = "maxmemory-policy:noeviction";
const EVERY_SECOND: &str = "maxmemory-policy:noeviction appendonly:yes appendfsync:everysec";
const ALWAYS: &str = "maxmemory-policy:noeviction appendonly:yes appendfsync:always";

/// What CONFIG GET shows beside a policy that is safe.
fn policy(text: &str) -> String {
    format!("{SAFE} {text}")
}

fn fix(found: &Snapshot, terms: &Terms) -> String {
    match found.durability(terms) {
        Err(Error::Misconfigured { setting, fix, .. }) => format!("{setting}; {fix}"),
        other => panic!("{other:?} is not refused"),
    }
}

#[test]
fn versions_with_script_flags_are_accepted() {
    for (hello, info) in [("version:V", None), ("", Some("redis_version:V"))] {
        let of = |version| {
            let put = |text: &str| text.replace('V', version);
            snapshot(&put(hello), info.map(put).as_deref(), None).check_kind(false)
        };
        for good in ["7.0.0", "7.2.4", "8.6.1", "10.0.0"] {
            assert_eq!(of(good), Ok(()), "{good}");
        }
        for bad in ["6.2.14", "", "x"] {
            assert!(matches!(of(bad), Err(Error::Misconfigured { .. })), "{bad}");
        }
    }
}

#[test]
fn a_server_of_another_kind_is_refused_with_the_url_to_write() {
    let refusal = |hello, is_cluster| {
        let kind = snapshot(hello, None, None).check_kind(is_cluster);
        kind.unwrap_err().to_string()
    };
    let node = refusal("version:7.0.0 mode:cluster role:master", false);
    assert!(node.contains("write redis-cluster://HOST:PORT"), "{node}");
    let single = refusal("version:7.0.0 mode:standalone role:master", true);
    assert!(single.contains("write redis://HOST:PORT"), "{single}");
    let replica = refusal("version:7.0.0 mode:standalone role:replica", false);
    assert!(replica.contains("connect to its primary"), "{replica}");
}

#[test]
fn the_class_follows_from_the_append_only_file() {
    let class = |info: &str, config: &str| {
        let found = snapshot("", Some(info), Some(config));
        found.durability(&terms(Durability::Memory, None)).unwrap()
    };
    for fsync in ["always", "everysec", "no"] {
        let config = policy(&format!("appendfsync:{fsync}"));
        assert_eq!(class("aof_enabled:0", &config), Durability::Memory);
    }
    for fsync in ["everysec", "no"] {
        let config = policy(&format!("appendfsync:{fsync}"));
        assert_eq!(class("aof_enabled:1", &config), Durability::Process);
    }
    assert_eq!(class("aof_enabled:1", ALWAYS), Durability::Disk);
}

#[test]
fn a_class_that_cannot_be_kept_is_refused_with_the_line_to_change() {
    let everysec = "appendfsync:everysec";
    for (aof, wanted, what) in [
        (0, Durability::Process, "set `appendonly yes` in redis.conf"),
        (
            0,
            Durability::Disk,
            "`appendonly yes` and `appendfsync always`",
        ),
        (
            1,
            Durability::Disk,
            "set `appendfsync always` in redis.conf",
        ),
    ] {
        let info = format!("aof_enabled:{aof}");
        let found = snapshot("", Some(&info), Some(&policy(everysec)));
        let message = fix(&found, &terms(wanted, None));
        assert!(message.contains(what), "{message}");
        assert!(message.contains("is asked for"), "{message}");
    }
}

#[test]
fn what_one_command_hides_and_the_other_shows_needs_no_assertion() {
    let disk = terms(Durability::Disk, None);
    assert_eq!(
        snapshot("", None, Some(ALWAYS)).durability(&disk),
        Ok(Durability::Disk)
    );
    let process = terms(Durability::Process, None);
    let info = "maxmemory_policy:noeviction aof_enabled:1";
    let found = snapshot("", Some(info), None);
    assert_eq!(found.durability(&process), Ok(Durability::Process));
    assert_eq!(found.hidden(&process), [""; 0]);
}

#[test]
fn what_is_hidden_has_to_be_asserted_and_the_refusal_says_how() {
    for (info, config, wanted, hidden) in [
        (
            None,
            None,
            Durability::Process,
            "maxmemory-policy, appendonly, appendfsync (INFO and CONFIG GET is",
        ),
        (
            None,
            None,
            Durability::Memory,
            "does not show maxmemory-policy (INFO and CONFIG GET is",
        ),
        (
            Some("maxmemory_policy:noeviction aof_enabled:1"),
            None,
            Durability::Disk,
            "does not show appendfsync (CONFIG GET is",
        ),
        (
            None,
            Some("appendonly:yes appendfsync:always"),
            Durability::Disk,
            "does not show maxmemory-policy (INFO is",
        ),
    ] {
        let found = snapshot("", info, config);
        let message = fix(&found, &terms(wanted, None));
        assert!(message.contains(hidden), "{message}");
        let assertion = format!("`?assume={}` behind the URL", wanted.as_str());
        assert!(message.contains(&assertion), "{message}");
        let asserted = terms(wanted, Some(wanted));
        assert_eq!(found.durability(&asserted), Ok(wanted));
        assert_ne!(found.hidden(&asserted), [""; 0]);
    }
}

#[test]
fn an_assertion_that_is_too_weak_is_none() {
    let found = snapshot("", None, None);
    let message = fix(&found, &terms(Durability::Disk, Some(Durability::Process)));
    assert!(message.contains("`?assume=disk`"), "{message}");
    // One that is stronger than what is asked for is.
    let class = found.durability(&terms(Durability::Process, Some(Durability::Disk)));
    assert_eq!(class, Ok(Durability::Disk));
}

#[test]
fn an_assertion_that_contradicts_what_is_seen_is_refused() {
    for (config, assumed, what) in [
        (EVERY_SECOND, Durability::Disk, "appendfsync is everysec"),
        (
            "maxmemory-policy:noeviction appendonly:no",
            Durability::Process,
            "appendonly is no",
        ),
        (
            "maxmemory-policy:allkeys-lru appendonly:yes",
            Durability::Process,
            "maxmemory-policy is \"allkeys-lru\"",
        ),
    ] {
        let found = snapshot("", None, Some(config));
        let message = fix(&found, &terms(Durability::Memory, Some(assumed)));
        assert!(message.contains(what), "{message}");
    }
}

#[test]
fn what_is_seen_is_not_made_weaker_by_an_assertion() {
    let found = snapshot("", None, Some(ALWAYS));
    let class = found.durability(&terms(Durability::Memory, Some(Durability::Process)));
    assert_eq!(class, Ok(Durability::Disk));
}

/// Two replicas that are there, and one that is not yet.
const TWO: &str = "min_slaves_good_slaves:2 connected_slaves:3 slave0:ip=a,port=1,state=online,lag=0 \
    slave1:ip=b,port=1,state=online,lag=1 slave2:ip=c,port=1,state=wait_bgsave,lag=0";

#[test]
fn a_master_that_writes_without_its_replicas_is_refused() {
    let wanted = terms(Durability::Replicated, None);
    let of = |text: &str| snapshot("", Some(TWO), Some(&policy(text)));
    let good = of("min-replicas-to-write:2 min-replicas-max-lag:10");
    assert_eq!(good.durability(&wanted), Ok(Durability::Replicated));
    let few = fix(&of("min-replicas-to-write:1"), &wanted);
    assert!(few.contains("is 1, so"), "{few}");
    assert!(
        few.contains("set `min-replicas-to-write 2` in redis.conf"),
        "{few}"
    );
    let off = fix(
        &of("min-replicas-to-write:2 min-replicas-max-lag:0"),
        &wanted,
    );
    assert!(off.contains("set `min-replicas-max-lag 10`"), "{off}");
}

#[test]
fn a_master_without_enough_replicas_is_unavailable_for_now() {
    let info = TWO.replace(
        "slave1:ip=b,port=1,state=online",
        "slave1:ip=b,port=1,state=send_bulk",
    );
    let config = policy("min-replicas-to-write:2");
    let found = snapshot("", Some(&info), Some(&config));
    let error = found
        .durability(&terms(Durability::Replicated, None))
        .unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(
        error
            .to_string()
            .contains("1 of its replicas are connected, and 2"),
        "{error}"
    );
}

#[test]
fn replicas_that_a_server_does_not_show_are_asserted_and_not_against_what_it_shows() {
    let (plain, asserted) = (
        terms(Durability::Replicated, None),
        terms(Durability::Replicated, Some(Durability::Replicated)),
    );
    let info = format!("maxmemory_policy:noeviction {TWO}");
    for hidden in [snapshot("", Some(&info), None), snapshot("", None, None)] {
        let message = fix(&hidden, &plain);
        assert!(message.contains("min-replicas-to-write"), "{message}");
        assert!(message.contains("`?assume=replicated`"), "{message}");
        assert_eq!(hidden.durability(&asserted), Ok(Durability::Replicated));
    }
    // INFO has no field for good replicas where the setting is 0.
    let off = snapshot(
        "",
        Some("maxmemory_policy:noeviction connected_slaves:2"),
        None,
    );
    let message = fix(&off, &asserted);
    assert!(message.contains("min-replicas-to-write is 0"), "{message}");
}

#[test]
fn a_server_that_could_not_write_its_file_takes_nothing_while_it_has_to() {
    for (aof, status, is_fine) in [
        (1, "ok", true),
        (1, "err", false),
        (0, "err", true),
        (0, "ok", true),
    ] {
        let info = format!("aof_enabled:{aof} aof_last_write_status:{status}");
        let found = snapshot("", Some(&info), None).check_disk();
        assert_eq!(found.is_ok(), is_fine, "{info}");
        assert!(!matches!(found, Err(error) if !matches!(error, Error::ReadOnly { .. })));
    }
}

#[test]
fn a_server_that_is_full_up_to_the_mark_has_no_room() {
    let of = |used: u32| {
        let info = format!("used_memory:{used} maxmemory:1000");
        snapshot("", Some(&info), None).check_memory_limit(&terms(Durability::Memory, None))
    };
    assert_eq!(of(899), Ok(()));
    assert!(matches!(of(900), Err(Error::Full { .. })));
    let hidden = snapshot("", None, None).check_memory_limit(&terms(Durability::Memory, None));
    assert_eq!(hidden, Ok(()));
}
