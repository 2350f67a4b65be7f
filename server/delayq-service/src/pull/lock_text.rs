//! The text form of a lock for clients.

use std::fmt;
use std::str::FromStr;

use delayq_plugin::store::Bucket;
use delayq_plugin::{Lock, TaskId, TaskType};

/// The lock of one attempt: `FENCE-TRIED`, or `FENCE-TRIED-SHARD` for a sharded type. It
/// contains everything that a settlement needs, so any server can settle it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockText {
    pub fence: u64,
    /// The number of attempts that a retry policy counts, this one included.
    pub tried: u32,
    shard: String,
}

impl LockText {
    /// The lock of a task claimed from `bucket`.
    pub fn new(bucket: &Bucket, fence: u64, tried: u32) -> Self {
        Self {
            fence,
            tried,
            shard: bucket.shard_name().to_owned(),
        }
    }

    /// The bucket that the task was claimed from.
    pub fn bucket(&self, task_type: &TaskType) -> Bucket {
        if self.shard.is_empty() {
            Bucket::whole(task_type.clone())
        } else {
            Bucket::shard(task_type.clone(), self.shard.as_str())
        }
    }

    /// The lock of the task `id`.
    pub fn of(&self, id: TaskId) -> Lock {
        Lock {
            id,
            fence: self.fence,
        }
    }
}

impl fmt::Display for LockText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.fence, self.tried)?;
        if self.shard.is_empty() {
            return Ok(());
        }
        write!(f, "-{}", self.shard)
    }
}

impl FromStr for LockText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(3, '-');
        let fence = parts.next().and_then(|part| part.parse().ok());
        let tried = parts.next().and_then(|part| part.parse().ok());
        let shard = parts.next().unwrap_or_default();
        let is_shard = shard.len() <= 64
            && shard
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-|".contains(&byte));
        match (fence, tried) {
            (Some(fence), Some(tried)) if is_shard && fence < 1 << 53 => Ok(Self {
                fence,
                tried,
                shard: shard.to_owned(),
            }),
            _ => Err(format!(
                "{:?} is no lock: give the lock as the claim answered it",
                text.get(..text.floor_char_boundary(80)).unwrap_or_default()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_survives_its_way_as_text_and_anything_else_is_refused() {
        let task_type = TaskType::new("mail").unwrap();
        for bucket in [
            Bucket::whole(task_type.clone()),
            Bucket::shard(task_type.clone(), "2.0"),
        ] {
            let lock = LockText::new(&bucket, 1_767_225_600_000_000, 3);
            let read: LockText = lock.to_string().parse().unwrap();
            assert_eq!((&read, read.bucket(&task_type)), (&lock, bucket));
        }
        for bad in [
            "",
            "7",
            "-1",
            "7-",
            "a-1",
            "7-1-a b",
            "9007199254740992-1",
            "7--1",
        ] {
            assert!(bad.parse::<LockText>().is_err(), "{bad}");
        }
    }
}
