//! Errors of the client and the server, and their meaning for a caller.

use redis::{ErrorKind, RedisError};

use delayq_core::Error;
use delayq_core::error::readable_tls;

/// The reason why there is no connection.
#[derive(Clone)]
pub(super) struct ConnectError {
    pub(super) error: Error,
    /// The server is running and will answer soon.
    pub(super) is_busy: bool,
}

impl ConnectError {
    /// The refusal of the server at `place`.
    pub(super) fn of(place: &str, error: &RedisError) -> Self {
        Self {
            is_busy: is_busy(error),
            error: refused(place, error),
        }
    }

    /// The error for a server that is running and will answer soon.
    pub(super) fn busy(place: &str, detail: impl Into<String>) -> Self {
        Self {
            error: Error::unavailable(place, detail),
            is_busy: true,
        }
    }

    /// An error that does not go away with time.
    pub(super) fn lasting(error: Error) -> Self {
        Self {
            error,
            is_busy: false,
        }
    }
}

/// The error for a call without an answer. A call that only reads has lost nothing; for any other
/// call it is unknown whether it was applied.
pub(super) fn lost(place: &str, detail: impl Into<String>, only_reads: bool) -> Error {
    if only_reads {
        return Error::unavailable(place, detail);
    }
    Error::indeterminate(place, detail)
}

pub(super) fn is_no_script(error: &RedisError) -> bool {
    error.code() == Some("NOSCRIPT")
}

/// True if the server is running, and will answer once it has loaded its data or ended a script.
pub(super) fn is_busy(error: &RedisError) -> bool {
    matches!(
        error.code(),
        Some("LOADING" | "BUSY" | "MASTERDOWN" | "TRYAGAIN" | "CLUSTERDOWN")
    ) || text(error).contains("LOADING")
}

/// True if the connection is no longer usable: it broke, or its server has become a replica, and
/// the name may lead to the new primary by now.
pub(super) fn wants_new_connection(error: &RedisError) -> bool {
    error.is_unrecoverable_error() || error.is_io_error() || error.code() == Some("READONLY")
}

/// A setting refused by the client.
pub(super) fn invalid(error: &RedisError) -> Error {
    Error::invalid("setting", format!("Redis cannot be used with it: {error}"))
}

/// The reason why a connection could not be opened.
pub(super) fn refused(place: &str, error: &RedisError) -> Error {
    let said = text(error);
    if let Some(other) = caused(&OTHERS, place, &said) {
        return other;
    }
    if error.kind() == ErrorKind::RESP3NotSupported || said.contains("unknown command 'HELLO'") {
        return Error::misconfigured(
            place,
            "it does not speak RESP3: it is older than Redis 7.0, or has renamed HELLO",
            "use Redis 7.0 or newer, or Valkey",
        );
    }
    if let Some(code) = error.code() {
        return understood(place, code, said)
            .unwrap_or_else(|said| Error::unavailable(place, said));
    }
    if error.kind() == ErrorKind::AuthenticationFailed || said.contains("WRONGPASS") {
        return wrong_password(place, &said);
    }
    let other = || Error::unavailable(place, format!("cannot connect: {said}; {}", hint(place)));
    caused(&DISTRUST, place, &said).unwrap_or_else(other)
}

/// The same if the server's text contains a password: it repeats the input, or the password is a
/// word that servers use.
pub(super) fn unspeakable(place: &str, error: &RedisError) -> Error {
    let is_login = matches!(error.code(), Some("NOAUTH" | "WRONGPASS"))
        || error.kind() == ErrorKind::AuthenticationFailed;
    if is_login {
        return Error::misconfigured(place, "it refuses the user or the password", LOGIN);
    }
    let text = "it refuses the connection, in words that hold the password; is it a Redis?";
    Error::unavailable(place, text)
}

/// The things to check if there is no connection.
pub(super) fn hint(place: &str) -> &'static str {
    if place.starts_with("rediss:") {
        "does it speak TLS at this port? If not, write redis://; if sentinels or nodes name it, set \
         `tls-replication yes` and `tls-cluster yes` on all of them"
    } else {
        "is it running at this address? If it speaks TLS there, write rediss://"
    }
}

/// The reason why a call failed.
pub(super) fn failed(place: &str, error: &RedisError, only_reads: bool) -> Error {
    let said = text(error);
    let Some(code) = error.code() else {
        return lost(place, said, only_reads);
    };
    understood(place, code, said).unwrap_or_else(|said| Error::corrupt(place, said))
}

/// The meaning of a refusal by the server. None of these refusals has changed anything.
fn understood(place: &str, code: &str, said: String) -> Result<Error, String> {
    Ok(match code {
        "OOM" => Error::full(
            place,
            "its memory is at maxmemory: raise maxmemory, or let workers drain it",
        ),
        "MISCONF" => Error::read_only(
            place,
            format!("it cannot write to its disk; free space, see its log ({said})"),
        ),
        "READONLY" => Error::read_only(place, "it is a replica: connect to its primary"),
        "LOADING" | "BUSY" | "MASTERDOWN" | "TRYAGAIN" | "CLUSTERDOWN" | "NOREPLICAS" => {
            Error::unavailable(place, said)
        }
        "MOVED" | "ASK" | "CROSSSLOT" => Error::misconfigured(
            place,
            "it is a node of a cluster",
            "write redis-cluster://HOST:PORT for it",
        ),
        "NOAUTH" | "WRONGPASS" => wrong_password(place, &said),
        "NOPERM" => not_permitted(place, &said),
        "ERR" if said.contains("DB index") => Error::misconfigured(
            place,
            format!("it has no database of this number ({said})"),
            "write a smaller number behind the host, or raise `databases` in its configuration",
        ),
        "WRONGTYPE" => Error::corrupt(
            place,
            "a key of delayq holds something else: who else writes to `delayq:*`?",
        ),
        "DAMAGED" => damaged(&said),
        _ if NOT_PERMITTED.iter().any(|sign| said.contains(sign)) => not_permitted(place, &said),
        _ if said.contains("max number of clients") => Error::unavailable(place, said),
        _ => return Err(said),
    })
}

/// The reason why the server cannot wait for replicas to sync.
pub(super) fn cannot_wait(place: &str, error: &RedisError) -> Error {
    let setting = format!(
        "it cannot wait until replicas have synced a write ({})",
        text(error)
    );
    let fix = match error.code() {
        Some("NOPERM") => "let its user do so with ACL SETUSER USER +waitaof",
        _ => "use Redis 7.2 or newer with `appendonly yes`, or write confirm=received",
    };
    Error::misconfigured(place, setting, fix)
}

/// Parses `DAMAGED KEY FIELD VALUE`: a script has found garbage in a field.
fn damaged(said: &str) -> Error {
    let mut words = said.splitn(4, ' ').skip(1);
    let (key, field) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let value = words.next().unwrap_or_default();
    // Redis appends the position in the script.
    let value = value
        .split_once(" script: ")
        .map_or(value, |(value, _)| value);
    Error::corrupt(
        format!("{key}, field {field}"),
        format!("{value:?} is no number below 2^53: set or delete the field"),
    )
}

fn wrong_password(place: &str, said: &str) -> Error {
    let setting = format!("it refuses the user or the password ({said})");
    Error::misconfigured(place, setting, LOGIN)
}

fn not_permitted(place: &str, said: &str) -> Error {
    let setting = format!("its user may not do what delayq needs ({said})");
    Error::misconfigured(place, setting, grant_to(said))
}

/// The command that grants the rights to the user named by the server, if it names one: that user
/// has a password already.
fn grant_to(said: &str) -> String {
    let (_, behind) = said.split_once("User ").unwrap_or_default();
    let user = behind.split_once(" has no permissions");
    grant(
        user.map(|(user, _)| user)
            .filter(|user| !user.contains(' ')),
    )
}

/// The command that grants the user the rights needed by the store.
pub(crate) fn grant(user: Option<&str>) -> String {
    let named = |user| GRANT.replace(NO_NAME, &format!("{user} ~"));
    user.map_or_else(|| GRANT.to_owned(), named)
}

/// The same for a sentinel, which has users of its own.
pub(super) fn of_sentinel(mut error: Error) -> Error {
    if let Error::Misconfigured { fix, .. } = &mut error {
        if fix == LOGIN {
            SENTINEL_LOGIN.clone_into(fix);
        } else if fix.contains(SERVER_RIGHTS) {
            SENTINEL_GRANT.clone_into(fix);
        }
    }
    error
}

/// Grants a user the rights that the store needs on a server that holds data: its keys, its
/// channels, and each command that it sends or that a script calls, in alphabetical order. Some are
/// needed only with sentinels, with a cluster or with replicas. `info` and `config|get` can be left
/// out if the durability is assumed and the store does not wait for replicas.
pub(crate) const GRANT: &str = "let it do so with \
    ACL SETUSER USER ~delayq:* &delayq:* +asking +cluster|info +cluster|myid +cluster|replicas \
    +cluster|slots +config|get +evalsha +hdel +hexists +hget +hlen +hmget +hscan +hset +hsetnx +info +lindex +llen +lpos +lpush +lrange +lrem +lset +ltrim +pexpire +publish +rename +role +rpush \
    +sadd +script|load +select +sismember +spublish +srem +sscan +ssubscribe +subscribe +time +type +unlink +wait +xadd \
    +xdel +xlen +xrange +zadd +zcard +zcount +zrange +zrangebyscore +zrem +zscan +zscore";

/// The place for the user in [`GRANT`].
const NO_NAME: &str = "USER ~";

/// A part of the rights on a server that holds data, which those on a sentinel do not have.
const SERVER_RIGHTS: &str = " ~delayq:* ";

/// Creates the user that the store needs on a sentinel.
const SENTINEL_GRANT: &str = "let it do so with \
    ACL SETUSER delayq on >PASSWORD +sentinel|master +sentinel|get-master-addr-by-name \
    +sentinel|replicas on each sentinel";

const LOGIN: &str = "write redis://USER:PASSWORD@HOST, with what is no letter or digit in them \
    percent-encoded; `ACL LIST` on the server shows its users";

/// Texts of servers for a missing right, without a code of its own: in a script, Redis from 7.2 on
/// and Valkey; in a script, Redis 7.0; and the client, when it was not admitted to a database.
const NOT_PERMITTED: [&str; 3] = [
    "ACL failure in script",
    "The user executing the script can't",
    "has no permissions to run",
];

/// Signs in the text of a failed connection, their meaning, and the change to make.
type Cause = (&'static [&'static str], &'static str, &'static str);

/// The error for the first cause with a sign in `said`.
pub(super) fn caused(causes: &[Cause], place: &str, said: &str) -> Option<Error> {
    let has_sign = |(signs, ..): &&Cause| signs.iter().any(|sign| said.contains(sign));
    let (_, setting, fix) = causes.iter().find(has_sign)?;
    let setting = format!("{setting} ({said})");
    Some(Error::misconfigured(place, setting, *fix))
}

/// Reasons why one side does not trust the other; the first match counts. The signs are texts of
/// the client, whose errors have no public type. A certificate `of this client` is the one named by
/// `cert=`.
const DISTRUST: [Cause; 11] = [
    (
        &["certificate not valid for name"],
        "its certificate is for another host",
        "connect by a name that stands in the certificate, or have one issued for this name",
    ),
    (
        &["invalid peer certificate: certificate expired"],
        "its certificate has expired",
        "renew the file of its `tls-cert-file`; if it has not, set the clock of this machine",
    ),
    (
        &["invalid peer certificate: certificate not valid yet"],
        "its certificate is not valid yet",
        "set the clock of this machine, or have it issued anew",
    ),
    (
        &[
            "invalid peer certificate: UnknownIssuer",
            "invalid peer certificate: BadSignature",
        ],
        "its certificate is not signed by an authority that is trusted here",
        "write ca=FILE with the certificate of that authority (PEM)",
    ),
    (
        &["invalid peer certificate"],
        "its certificate cannot be used",
        "have the file of its `tls-cert-file` issued anew, signed by an authority",
    ),
    // The client reads these files for each connection, even if an authority is given.
    (
        &[
            "failed to read PEM from file",
            "opening directory",
            "failed to open file",
        ],
        "the certificates of the system cannot be read",
        "mend or unset SSL_CERT_FILE and SSL_CERT_DIR; SSL_CERT_FILE may name the same file as ca=",
    ),
    (
        &["alert: CertificateRequired", "alert: HandshakeFailure"],
        "it asks for a certificate of this client",
        "write cert=FILE and key=FILE, signed by the authority in its `tls-ca-cert-file`; or set \
         `tls-auth-clients no` in redis.conf",
    ),
    (
        &["alert: UnknownCA"],
        "it does not trust the authority of the certificate of this client",
        "have that signed by the authority in its `tls-ca-cert-file`, and name it with cert= and key=",
    ),
    (
        &["alert: CertificateExpired"],
        "the certificate of this client has expired",
        "renew the file that cert= names, and start again",
    ),
    (
        &["alert: ProtocolVersion"],
        "it speaks neither TLS 1.2 nor 1.3",
        "set `tls-protocols \"TLSv1.2 TLSv1.3\"` in redis.conf",
    ),
    (
        &["received fatal alert"],
        "it refuses the certificate of this client",
        "see its log; the files are those that cert= and key= name",
    ),
];

/// Signs that the other end is a different kind of process.
const OTHERS: [Cause; 2] = [
    (
        &["unknown command 'SENTINEL'"],
        "it is no sentinel",
        "write the port of the sentinel, 26379 unless it is set; or redis://HOST:PORT for a server",
    ),
    (
        &["unknown command 'SCRIPT'", "unknown command 'CLUSTER'"],
        "it is a sentinel, or has renamed a command that delayq needs",
        "write redis-sentinel://HOST:PORT/MASTER for sentinels",
    ),
];

const SENTINEL_LOGIN: &str = "write sentinel_password= and, unless it is `default`, sentinel_user= behind the \
    `?` of the URL: sentinels have users of their own";

/// The text of the error without the client's own words. A server repeats the arguments of a
/// command that it does not know, and those of HELLO are the login.
pub(super) fn text(error: &RedisError) -> String {
    let said = match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => readable_tls(&error.to_string()).into_owned(),
    };
    let end = said.find(", with args beginning with");
    end.and_then(|end| said.get(..end))
        .map_or_else(|| said.clone(), str::to_owned)
}

#[cfg(test)]
mod tests;
