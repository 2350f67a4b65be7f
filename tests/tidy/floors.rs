//! Floors: a module uses only what stands above it, and a crate only the crates above it.

use crate::source::{is_test, production, used_modules};
use crate::tree::{File, Tree};

/// The modules of one crate, those that use no other first. A new module takes its place here.
struct Crate {
    path: &'static str,
    floors: &'static [&'static str],
    /// The crates of this workspace that it may depend on.
    above: &'static [&'static str],
}

const CRATES: [Crate; 20] = [
    Crate {
        path: "stores/delayq-transaction",
        floors: &[
            "error",
            "transaction",
            "tokio_postgres",
            "sqlx_0_8",
            "sqlx_0_9",
            "diesel",
            "diesel_async",
            "sea_orm",
        ],
        above: &[],
    },
    Crate {
        path: "delayq-core",
        floors: &[
            "time",
            "log_limit",
            "state",
            "error",
            "name",
            "retry",
            "fleet",
            "redacted",
            "task",
            "job",
            "reply",
            "history",
            "worker",
            "registry",
            "extract",
            "operate",
            "chronicle",
            "documents",
            "presence",
            "replies",
            "store",
            "machine",
            "memory",
            "private",
        ],
        above: &["delayq-transaction"],
    },
    Crate {
        path: "stores/delayq-postgres",
        floors: &[
            "error",
            "config",
            "connection",
            "statements",
            "row",
            "columns",
            "type_row",
            "schema",
            "preflight",
            "database",
            "migrate",
            "concerns",
            "wakes",
            "vacuum",
            "trim",
            "upkeep",
            "submit",
            "floors",
            "ends_floor",
            "locals",
            "store",
            "recorded",
            "type_tx",
            "claim",
            "settle",
            "change",
            "audit",
            "dead",
            "operate",
            "presence",
            "chronicle",
            "documents",
            "ends",
            "replies",
            "tasks",
            "outbox_call",
            "outbox",
            "relay",
        ],
        above: &["delayq-core"],
    },
    Crate {
        path: "stores/delayq-history",
        floors: &[
            "page",
            "query",
            "retention",
            "forget",
            "status",
            "month",
            "filter",
            "backend",
            "sqlite",
            "postgres",
            "mysql",
            "sink",
            "store",
        ],
        above: &["delayq-core", "delayq-postgres"],
    },
    Crate {
        path: "stores/delayq-tiered",
        floors: &[
            "options", "far", "counts", "marks", "pair", "trouble", "parts", "late", "change",
            "submit", "operate", "ends", "promoter", "store",
        ],
        above: &["delayq-core"],
    },
    Crate {
        path: "stores/delayq-sqlite",
        floors: &[
            "error",
            "schema",
            "connection",
            "rows",
            "operations",
            "commit",
            "transaction",
            "store",
            "operate",
            "presence",
            "chronicle",
            "documents",
            "ends",
            "replies",
        ],
        above: &["delayq-core"],
    },
    Crate {
        path: "stores/delayq-redis",
        floors: &[
            "config",
            "lock",
            "connection",
            "scripts",
            "memory_limit",
            "preflight",
            "loading",
            "shard",
            "layout",
            "store",
        ],
        above: &["delayq-core"],
    },
    Crate {
        path: "server/delayq-proto",
        floors: &[
            "pb",
            "field",
            "interned",
            "time",
            "error",
            "status",
            "outcome",
            "fleet",
            "submit",
            "claim",
            "settle",
            "task",
            "history",
            "settings",
            "chronicle",
            "instance",
            "documents",
        ],
        above: &["delayq-core"],
    },
    Crate {
        path: "stores/delayq-remote",
        floors: &[
            "address",
            "fuzz",
            "failure",
            "io_thread",
            "remote",
            "store",
            "operate",
            "presence",
            "chronicle",
            "documents",
            "ends",
            "replies",
        ],
        above: &["delayq-core", "delayq-proto"],
    },
    Crate {
        path: "delayq-macros",
        floors: &["name", "parse", "expand"],
        above: &[],
    },
    Crate {
        path: "delayq-plugin",
        floors: &[
            "config",
            "error",
            "call",
            "backoff",
            "poll_grid",
            "host",
            "clock_skew",
            "receipt",
            "batch",
            "skew_log",
            "events",
            "outage",
            "unserved",
            "metric",
            "metered_store",
            "tally",
            "telemetry",
            "slots",
            "company",
            "settings",
            "schedule",
            "recurring",
            "middleware",
            "trace_context",
            "history",
            "health",
            "status",
            "store",
            "url",
            "bulk",
            "within",
            "submit",
            "watcher",
            "workers",
            "attempt",
            "ending",
            "report",
            "type_context",
            "handler",
            "handler_set",
            "plugin",
            "worker_set",
        ],
        above: &[
            "delayq-core",
            "delayq-history",
            "delayq-macros",
            "delayq-postgres",
            "delayq-sqlite",
            "delayq-redis",
            "delayq-remote",
            "delayq-tiered",
            "delayq-transaction",
        ],
    },
    Crate {
        path: "tools/delayq-endpoint",
        floors: &[
            "http_client",
            "eureka",
            "verifier",
            "load",
            "settlements",
            "call",
            "spring",
            "announcement",
            "answer",
            "service",
            "routes",
            "fuzz",
        ],
        above: &["delayq-core", "delayq-plugin"],
    },
    Crate {
        path: "tools/delayq-ops",
        floors: &[
            "text",
            "same_site",
            "span",
            "selection",
            "known_type",
            "look",
            "explain",
            "timeline",
            "forecast",
            "doctor",
            "dead",
            "overview",
            "recurring",
            "search",
            "transfer",
            "lmstfy",
            "fuzz",
            "operator",
        ],
        above: &["delayq-plugin"],
    },
    Crate {
        path: "tools/delayq-testing",
        floors: &["assert", "contract", "faulty", "kit"],
        above: &["delayq-core", "delayq-plugin"],
    },
    Crate {
        path: "tools/delayq-summer",
        floors: &["section", "gate", "shutdown", "start", "plugin"],
        above: &["delayq-plugin"],
    },
    Crate {
        path: "server/delayq-admin",
        floors: &[
            "viewer",
            "surroundings",
            "said",
            "figure",
            "moment",
            "svg",
            "message",
            "tag",
            "fields",
            "flash",
            "key",
            "asset",
            "cache",
            "job",
            "jobs",
            "look",
            "app",
            "visit",
            "sort",
            "shell",
            "notice",
            "admit",
            "page",
            "action",
            "route",
            "admin",
        ],
        above: &["delayq-core", "delayq-plugin", "delayq-ops"],
    },
    Crate {
        path: "tools/delayq-cli",
        floors: &[
            "failure",
            "span",
            "text",
            "output",
            "table",
            "answer",
            "chart",
            "progress",
            "consent",
            "paging",
            "selection",
            "store_url",
            "profile",
            "actor",
            "connection",
            "command",
            "args",
            "main",
        ],
        above: &["delayq-plugin", "delayq-ops", "delayq-admin"],
    },
    Crate {
        path: "server/delayq-service",
        floors: &[
            "kafka_cluster",
            "server_metric",
            "problem",
            "json",
            "stop",
            "grpc_server",
            "body",
            "listener",
            "network",
            "private_file",
            "proxies",
            "same_site",
            "folder_cache",
            "span",
            "pattern_name",
            "policy",
            "recurring",
            "discovery",
            "push",
            "config",
            "draining",
            "limits",
            "brake",
            "pull",
            "place",
            "recorded_store",
            "history_topic",
            "space",
            "access",
            "health",
            "meter",
            "app",
            "context",
            "operation",
            "apply",
            "requests",
            "fuzz",
            "testing",
        ],
        above: &[
            "delayq-core",
            "delayq-proto",
            "delayq-endpoint",
            "delayq-plugin",
            "delayq-ops",
        ],
    },
    Crate {
        path: "server/delayq-fronts",
        floors: &[
            "body",
            "client",
            "listen_error",
            "front",
            "fuzz",
            "beanstalk",
            "grape",
            "lmstfy",
            "spring",
            "task_service",
            "fronts",
        ],
        above: &[
            "delayq-core",
            "delayq-proto",
            "delayq-endpoint",
            "delayq-plugin",
            "delayq-ops",
            "delayq-service",
        ],
    },
    Crate {
        path: "server/delayq-server",
        floors: &[
            "grpc",
            "http",
            "panel",
            "door",
            "fuzz",
            "open_files",
            "say",
            "server",
            "first_token",
            "args",
            "command",
            "main",
        ],
        above: &[
            "delayq-core",
            "delayq-proto",
            "delayq-endpoint",
            "delayq-plugin",
            "delayq-ops",
            "delayq-admin",
            "delayq-service",
            "delayq-fronts",
        ],
    },
];

impl Crate {
    fn of(file: &File) -> Option<&'static Self> {
        let is_in = |known: &&Self| {
            let rest = file.path.strip_prefix(known.path);
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        CRATES.iter().find(is_in)
    }

    fn floor(&self, module: &str) -> Option<usize> {
        self.floors.iter().position(|floor| *floor == module)
    }
}

/// Floors without a module: the rules would look at nothing.
pub(crate) fn missing(tree: &Tree) -> Vec<String> {
    let mut gone = Vec::new();
    for known in &CRATES {
        for floor in known.floors {
            let path = format!("{}/src/{floor}", known.path);
            if !tree.has(&path) && !tree.has(&format!("{path}.rs")) {
                gone.push(format!("{path} does not exist: take it off the list"));
            }
        }
    }
    gone
}

/// The path of the module that a file holds; empty for lib.rs and mod.rs at the root.
fn module_of<'a>(known: &Crate, file: &'a File) -> Option<Vec<&'a str>> {
    let path = file.path.strip_prefix(known.path)?;
    let path = path.strip_prefix("/src/")?.strip_suffix(".rs")?;
    let mut module: Vec<&str> = path.split('/').collect();
    if module.last() == Some(&"mod") || module == ["lib"] {
        module.pop();
    }
    Some(module)
}

pub(crate) fn modules(file: &File) -> Vec<String> {
    let Some(known) = Crate::of(file).filter(|_| !is_test(file)) else {
        return Vec::new();
    };
    let Some(module) = module_of(known, file) else {
        return Vec::new();
    };
    let Some(own) = module.first().copied() else {
        return Vec::new();
    };
    let Some(own_floor) = known.floor(own) else {
        let what = format!("{own} has no floor: give it one in CRATES of tests/tidy/floors.rs");
        return vec![file.at(1, what)];
    };
    let mut found = Vec::new();
    for (line, used) in used_modules(&production(file), &module) {
        let what = match known.floor(&used) {
            Some(floor) if floor <= own_floor => continue,
            Some(_) => format!("{own} uses {used}, which stands below it: move what it needs up"),
            None => {
                format!("crate::{used}: name the module that it comes from, or give it a floor")
            }
        };
        found.push(file.at(line, what));
    }
    found
}

/// The dependencies of each crate on others of this workspace, but for those of its tests.
pub(crate) fn crates(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for known in &CRATES {
        let Some(manifest) = tree.get(&format!("{}/Cargo.toml", known.path)) else {
            continue;
        };
        let mut section = "";
        for (index, line) in manifest.text.lines().enumerate() {
            if line.starts_with('[') {
                section = line;
            }
            let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
            let is_ours = section == "[dependencies]" && name.starts_with("delayq-");
            if is_ours && !known.above.contains(&name) {
                let what = format!("{} must not depend on {name}", known.path);
                found.push(manifest.at(index + 1, what));
            }
        }
    }
    found
}

#[test]
fn a_use_of_a_lower_floor_is_found_in_every_form() {
    for text in [
        "use crate::store::Store;\n",
        "use crate::{error::Error, store::{self, Lock}};\n",
        "use super::store::Store;\n",
        "fn a() {}\n\nfn b() { crate::store::c(); }\n",
    ] {
        let found = modules(&File::new("delayq-core/src/task.rs", text));
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(
            found[0].contains("task uses store, which stands below it"),
            "{found:?}"
        );
    }
    let third = "\n\nuse crate::worker::TaskWorker;\n";
    let third = File::new("delayq-core/src/task.rs", third);
    assert!(modules(&third)[0].starts_with("delayq-core/src/task.rs:3: "));
    let deep = File::new(
        "stores/delayq-redis/src/connection/link.rs",
        "use super::super::shard::Shard;\n",
    );
    assert!(modules(&deep)[0].contains("connection uses shard"));
}

#[test]
fn a_use_of_a_higher_floor_is_fine_and_so_are_tests_and_comments() {
    let text = "//! [`crate::store`]\nuse crate::{name::TaskId, time::{Clock, Timestamp}};\n\n\
                pub(crate) fn a() {}\n\n#[cfg(test)]\nmod tests {\n    use crate::store::Store;\n}\n";
    for path in ["delayq-core/src/task.rs", "delayq-core/src/store/bucket.rs"] {
        assert_eq!(modules(&File::new(path, text)), [""; 0]);
    }
    let root = File::new("delayq-core/src/lib.rs", "pub use crate::store::Store;");
    assert_eq!(modules(&root), [""; 0]);
}

#[test]
fn a_module_without_a_floor_is_found_by_name_and_in_use() {
    assert!(modules(&File::new("delayq-core/src/cron.rs", ""))[0].contains("cron has no floor"));
    let found = modules(&File::new("delayq-core/src/job.rs", "use crate::Error;\n"));
    assert!(
        found[0].contains("crate::Error: name the module"),
        "{found:?}"
    );
}

#[test]
fn a_store_that_depends_on_another_is_found_and_tests_may() {
    let path = "stores/delayq-redis/Cargo.toml";
    let good =
        "[dependencies]\ndelayq-core.workspace = true\n[dev-dependencies]\ndelayq-sqlite = \"1\"\n";
    assert_eq!(crates(&Tree::of(&[(path, good)])), [""; 0]);
    let bad = "[dependencies]\ndelayq-sqlite = { workspace = true }\n";
    assert_eq!(crates(&Tree::of(&[(path, bad)])).len(), 1);
}

#[test]
fn a_floor_without_a_module_is_found() {
    let gone = missing(&Tree::of(&[("delayq-core/src/time.rs", "")]));
    let floors: usize = CRATES.iter().map(|known| known.floors.len()).sum();
    assert_eq!(gone.len(), floors - 1, "{gone:?}");
}
