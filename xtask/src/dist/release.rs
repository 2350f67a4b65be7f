//! What is released: the version, for which machine, and the time that its files have.

use crate::call::{Call, Failure};

/// A release for one kind of machine.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    pub(crate) version: String,
    /// As rustc names it, such as `x86_64-unknown-linux-gnu`.
    pub(crate) target: String,
    /// The commit, where this is a repository.
    pub(crate) revision: Option<String>,
    /// Of every file, in seconds since 1970: `SOURCE_DATE_EPOCH`, or the time of the commit.
    pub(crate) time: u64,
}

impl Release {
    /// That of this tree, for this machine.
    ///
    /// # Errors
    /// rustc cannot be asked, or `SOURCE_DATE_EPOCH` is no number.
    pub(crate) fn of_this_tree() -> Result<Self, Failure> {
        let version = Call::new("rustc --version --verbose").output();
        let version = version.unwrap_or_default();
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let target = host.ok_or_else(|| Failure("rustc does not tell its host".to_owned()))?;
        let git = |format: &str| {
            let said = Call::new(&format!("git log -1 --format={format}")).output();
            said.map(|text| text.trim().to_owned())
        };
        let time = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(text) => text
                .parse()
                .map_err(|_| Failure("SOURCE_DATE_EPOCH is no number of seconds".to_owned()))?,
            Err(_) => git("%ct").and_then(|text| text.parse().ok()).unwrap_or(0),
        };
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            target: target.to_owned(),
            revision: git("%H"),
            time,
        })
    }

    /// The name of the archive, without its ending.
    pub(crate) fn name(&self) -> String {
        format!("delayq-{}-{}", self.version, self.target)
    }

    /// The version as Debian sorts it: a candidate comes before its release.
    pub(crate) fn debian_version(&self) -> String {
        self.version.replacen('-', "~", 1)
    }

    /// The machine as Debian and images name it.
    ///
    /// # Errors
    /// Neither package nor image is made for it.
    pub(crate) fn architecture(&self) -> Result<&'static str, Failure> {
        let is_linux = self.target.contains("-linux-");
        match self.target.split('-').next() {
            Some("x86_64") if is_linux => Ok("amd64"),
            Some("aarch64") if is_linux => Ok("arm64"),
            _ => Err(Failure(format!(
                "no package and no image is made for {}: use Linux on x86_64 or aarch64",
                self.target
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Release;

    #[test]
    fn a_release_is_named_as_each_kind_of_package_wants_it() {
        let mut release = Release {
            version: "1.2.0-rc.1".to_owned(),
            target: "x86_64-unknown-linux-gnu".to_owned(),
            revision: None,
            time: 0,
        };
        assert_eq!(release.name(), "delayq-1.2.0-rc.1-x86_64-unknown-linux-gnu");
        assert_eq!(release.debian_version(), "1.2.0~rc.1");
        assert_eq!(release.architecture().unwrap(), "amd64");
        release.target = "aarch64-unknown-linux-musl".to_owned();
        assert_eq!(release.architecture().unwrap(), "arm64");
        release.target = "x86_64-apple-darwin".to_owned();
        assert!(release.architecture().is_err());
    }
}
