//! The servers that tests start, as the packages of a system have them.

use crate::call::Call;
use crate::program_folders::program_folders;

/// delayq's scripts use flags and functions of Redis 7.0.
pub(crate) const REDIS: Server = Server {
    name: "redis-server",
    oldest: (7, 0),
    package: "redis-server",
    brew: "redis",
    port: 6379,
    others: "  Fedora, RHEL       sudo dnf install redis
  Arch               sudo pacman -S redis
  Alpine             sudo apk add redis",
    page: "https://redis.io/docs/latest/operate/oss_and_stack/install/",
};

/// PostgreSQL; the package of Debian has the client's programs, too.
pub(crate) const POSTGRES: Server = Server {
    name: "postgres",
    oldest: (14, 0),
    package: "postgresql",
    brew: "postgresql@17",
    port: 5432,
    others: "  Fedora, RHEL       sudo dnf install postgresql-server
  Arch               sudo pacman -S postgresql
  Alpine             sudo apk add postgresql",
    page: "https://www.postgresql.org/download/",
};

/// MariaDB, a database for histories; the package of Debian has the client's program, too.
pub(crate) const MARIADB: Server = Server {
    name: "mariadbd",
    oldest: (10, 6),
    package: "mariadb-server",
    brew: "mariadb",
    port: 3306,
    others: "  Fedora, RHEL       sudo dnf install mariadb-server
  Arch               sudo pacman -S mariadb
  Alpine             sudo apk add mariadb mariadb-client",
    page: "https://mariadb.org/download/",
};

/// What the tests start, and who has it.
#[derive(Debug)]
pub(crate) struct Server {
    /// The program.
    pub(crate) name: &'static str,
    /// The oldest version that will do.
    oldest: (u32, u32),
    /// The package of Debian.
    pub(crate) package: &'static str,
    /// The formula of Homebrew.
    pub(crate) brew: &'static str,
    /// Where a service that comes with the package listens.
    pub(crate) port: u16,
    /// What a person calls on other systems.
    others: &'static str,
    /// Where newer versions are.
    page: &'static str,
}

impl Server {
    /// Whether one that is new enough is installed.
    pub(crate) fn is_here(&self) -> bool {
        self.version().is_some_and(|found| found >= self.oldest)
    }

    /// The same, told to a person.
    pub(crate) fn judge(&self) -> bool {
        let Self { name, oldest, .. } = self;
        let Some((major, minor)) = self.version() else {
            println!("  {name}: missing, and the tests start real servers");
            return false;
        };
        let is_new_enough = (major, minor) >= *oldest;
        if is_new_enough {
            println!("  {name}: found, version {major}.{minor}");
        } else {
            let (oldest, minor_oldest) = oldest;
            println!("  {name}: {major}.{minor} is too old, {oldest}.{minor_oldest} is needed");
        }
        is_new_enough
    }

    /// What a person has to do.
    pub(crate) fn by_hand(&self) -> String {
        let Self {
            name,
            oldest: (major, minor),
            package,
            brew,
            others,
            page,
            ..
        } = self;
        format!(
            "{name} {major}.{minor} or newer is needed; install it by hand, then run this again:
  Debian, Ubuntu     sudo apt-get install {package}
{others}
  macOS              brew install {brew}
  newer than your system has it: {page}
or test without it: cargo xtask test --skip install (the tests that need it then fail)"
        )
    }

    fn version(&self) -> Option<(u32, u32)> {
        let call = Call::new(self.name).word("--version");
        version(&with_all_folders(call).output()?)
    }
}

/// The call, with all folders that the tests look for programs in.
pub(crate) fn with_all_folders(call: Call) -> Call {
    match std::env::join_paths(program_folders()) {
        Ok(path) => call.variable("PATH", path.to_string_lossy()),
        Err(_) => call,
    }
}

/// The version in `Redis server v=7.0.15 sha=00000000:0 ..`, `postgres (PostgreSQL) 15.14 ..`, or
/// `mariadbd  Ver 10.11.6-MariaDB ..`.
fn version(text: &str) -> Option<(u32, u32)> {
    text.split_whitespace().find_map(|word| {
        let number = word.strip_prefix("v=").unwrap_or(word);
        let mut parts = number.split(|one: char| !one.is_ascii_digit());
        let major = parts.next()?.parse().ok()?;
        // There is none in 18beta1.
        let is_minor = number.contains('.');
        let minor = parts.next().filter(|_| is_minor);
        Some((
            major,
            minor.and_then(|minor| minor.parse().ok()).unwrap_or(0),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_what_a_server_prints() {
        let text = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4";
        assert_eq!(version(text), Some((7, 0)));
        assert_eq!(version("Redis server v=8.10.0 sha=0"), Some((8, 10)));
        let text = "postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)";
        assert_eq!(version(text), Some((15, 14)));
        assert_eq!(version("postgres (PostgreSQL) 18beta1"), Some((18, 0)));
        let text = "mariadbd  Ver 10.11.6-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64";
        assert_eq!(version(text), Some((10, 11)));
        assert_eq!(version("command not found"), None);
        assert!(Some((6, 2)) < Some(REDIS.oldest) && (10, 0) > REDIS.oldest);
    }
}
