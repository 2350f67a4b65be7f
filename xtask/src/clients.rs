//! Clients of other languages, which tests of the server and programs of the guide use: fetched
//! from the registries of Python, Node, Go and Java into `target/clients`. Without one its tests
//! are left out, and nothing fails. So it is with delayq's own clients, in `clients/`.

use crate::call::{Call, root};

/// Where the tests look for them.
const FOLDER: &str = "target/clients";
/// What the programs in Python need.
const REQUIREMENTS: &str = "server/delayq-server/tests/clients/requirements.txt";
/// The programs in Go.
const GO: &str = "server/delayq-server/tests/clients/go";
/// The same as those of `server/delayq-server/tests/programs`: with other flags the standard
/// library would be compiled once more.
const GO_FLAGS: &str = "-buildvcs=false -modcacherw '-gcflags=all=-N -l'";
/// What has been compiled, also by these tests.
const GO_CACHE: &str = "target/go-cache";
/// The client of gRPC that a page of the guide is about.
const GRPCURL: &str = "github.com/fullstorydev/grpcurl/cmd/grpcurl";
/// The client of PostgreSQL, which programs of the guide import: compiled ahead of them.
const PGX: &str = "github.com/jackc/pgx/v5";
/// The packages for Node, each with its version.
const NODE: [(&str, &str); 2] = [("jackd", "2.2.2"), ("pg", "8.16.3")];
/// The driver of PostgreSQL for Java.
const JDBC: &str = "org.postgresql:postgresql:42.7.7";

/// Fetches all that can be fetched here.
pub(crate) fn install() {
    let told = |name: &str, is_here: bool, how: &str| {
        if is_here {
            println!("  clients in {name}: there");
        } else {
            println!("  clients in {name}: missing ({how}); their tests are left out");
        }
    };
    let how = "python3 with venv, and its package index";
    told("Python", python(), how);
    told("Node", node(), "npm, and its registry");
    told("Go", go(), "go 1.21 or later, and its module proxy");
    told("Java", java(), "java, Maven, and its repository");
    // Beside the build of the workspace, so that the scenarios find them built.
    for language in ["python", "typescript", "go", "java"] {
        let build = format!("clients/{language}/driver/build");
        let is_here = root().join(&build).is_file() && Call::new(&build).succeeds();
        told(&format!("{language}, those of delayq"), is_here, &build);
    }
}

fn python() -> bool {
    let folder = format!("{FOLDER}/python");
    let pip = format!("{folder}/bin/pip");
    let has_pip = Call::new(&format!("{pip} --version")).succeeds();
    let install = format!("{pip} install --quiet --requirement {REQUIREMENTS}");
    let is_here = (has_pip || Call::new(&format!("python3 -m venv {folder}")).succeeds())
        && Call::new(&install).succeeds();
    if !is_here {
        // The tests would take a half of it for all.
        let _ = std::fs::remove_dir_all(root().join(folder));
    }
    is_here
}

fn node() -> bool {
    let folder = root().join(FOLDER).join("node");
    let is_here = || {
        let modules = folder.join("node_modules");
        let is_there = |(name, _)| modules.join(name).join("package.json").is_file();
        NODE.into_iter().all(is_there)
    };
    let install = format!(
        "npm install --no-save --no-audit --no-fund --ignore-scripts --prefix {FOLDER}/node"
    );
    // All at once: it removes what a call does not name.
    let packages = NODE.map(|(name, version)| format!("{name}@{version}"));
    let install = packages.into_iter().fold(Call::new(&install), Call::word);
    is_here() || (std::fs::create_dir_all(&folder).is_ok() && install.succeeds() && is_here())
}

/// Maven keeps what it needs for itself beside the driver.
fn java() -> bool {
    let folder = root().join(FOLDER).join("java");
    let is_here = || folder.join("postgresql.jar").is_file();
    let copy = Call::new("mvn --quiet --batch-mode dependency:copy")
        .word(format!("-Dartifact={JDBC}"))
        .word("-Dmdep.stripVersion=true")
        .word(format!("-DoutputDirectory={}", folder.display()))
        .word(format!("-Dmaven.repo.local={}/maven", folder.display()));
    Call::new("java -version").succeeds() && (is_here() || (copy.succeeds() && is_here()))
}

/// Builds them anew, which takes a moment where nothing has changed. The first time it is a minute,
/// and more with optimization, which they do not need.
fn go() -> bool {
    let folder = root().join(FOLDER).join("go");
    let at = |part: &str| folder.join(part).display().to_string();
    Call::new("go build -o")
        .word(at("bin/"))
        .word("./...")
        .word(GRPCURL)
        .word(PGX)
        .folder(root().join(GO))
        .variable("GOFLAGS", GO_FLAGS)
        .variable("GOTOOLCHAIN", "local")
        .variable("GOMODCACHE", at("modules"))
        .variable("GOCACHE", root().join(GO_CACHE).display().to_string())
        .succeeds()
}
