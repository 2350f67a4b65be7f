//! What shows a secret, and which fields are refused.

use super::*;

#[test]
fn a_text_with_one_of_the_passwords_gives_it_away_and_no_other() {
    let url = "redis-sentinel://u:hunter2@h/orders?sentinel_password=hunter3";
    let config = RedisConfig::parse(url).unwrap();
    for (text, is_secret) in [("a hunter2", true), ("hunter3 b", true), ("hunter", false)] {
        assert_eq!(config.is_secret_in(text), is_secret, "{text}");
    }
    let empty = RedisConfig::parse("redis://u:@h").unwrap();
    assert!(!empty.is_secret_in("hunter2"));
}

#[test]
fn fields_are_checked_as_a_url_is() {
    let good = RedisConfig::parse("redis://h").unwrap();
    assert_eq!(good.check(), Ok(()));
    let none = RedisConfig {
        replicas: Some(0),
        ..good
    };
    assert!(matches!(none.check(), Err(Error::InvalidInput { .. })));
}
