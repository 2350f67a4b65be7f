//! The servers of two releases on one store, each in a place with an address that stays.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use delayq_tests::redis_server::free_port;

use crate::failure::{Result, ensure};
use crate::http::ask;
use crate::scene::{Release, until};

/// The token of all servers.
pub(crate) const TOKEN: &str = "dq_beside_0123456789abcdef0123456789abcdef";

/// An address, and which release is there.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) port: u16,
    is_present: AtomicBool,
}

impl Place {
    /// The release whose server was started here last.
    pub(crate) fn release(&self) -> Release {
        if self.is_present.load(Ordering::SeqCst) {
            Release::Present
        } else {
            Release::Earlier
        }
    }
}

/// Servers, which die with this value.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) places: Vec<Arc<Place>>,
    children: Vec<Child>,
    programs: [PathBuf; 2],
    url: String,
    folder: PathBuf,
    starts: usize,
}

impl Fleet {
    /// Two servers of the earlier release on the store of this URL.
    pub(crate) fn start(url: &str, folder: &Path, programs: [&PathBuf; 2]) -> Result<Self> {
        let mut fleet = Self {
            places: Vec::new(),
            children: Vec::new(),
            programs: programs.map(Clone::clone),
            url: url.to_owned(),
            folder: folder.to_owned(),
            starts: 0,
        };
        for _ in 0..2 {
            let place = Arc::new(Place {
                port: free_port(),
                is_present: AtomicBool::new(false),
            });
            let child = fleet.launch(&place, Release::Earlier)?;
            fleet.places.push(place);
            fleet.children.push(child);
        }
        Ok(fleet)
    }

    /// Ends the server in a place, by a signal that it may handle or one that it may not, and puts
    /// one of this release there.
    pub(crate) fn swap(&mut self, at: usize, release: Release, signal: &str) -> Result<()> {
        let (Some(place), Some(child)) = (self.places.get(at), self.children.get_mut(at)) else {
            return Err(format!("there is no place {at}").into());
        };
        let place = Arc::clone(place);
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), &child.id().to_string()])
            .status()?;
        ensure(sent.success(), || format!("the server in {at} has ended"))?;
        let status = child.wait()?;
        let is_in_order = status.success() || signal == "KILL";
        ensure(is_in_order, || format!("the server in {at}: {status}"))?;
        let launched = self.launch(&place, release)?;
        if let Some(child) = self.children.get_mut(at) {
            *child = launched;
        }
        Ok(())
    }

    /// Starts a server, and awaits that it is ready.
    fn launch(&mut self, place: &Place, release: Release) -> Result<Child> {
        self.starts += 1;
        let [earlier, present] = &self.programs;
        let is_present = release == Release::Present;
        let program = if is_present { present } else { earlier };
        let log = self.folder.join(format!("server-{}.log", self.starts));
        let log = File::create(log)?;
        place.is_present.store(is_present, Ordering::SeqCst);
        let mut child = Command::new(program)
            .args(["--listen", &format!("127.0.0.1:{}", place.port)])
            .args(["--store", &self.url, "--log", "info"])
            .env("DELAYQ_BOOTSTRAP_TOKEN", TOKEN)
            .env("DELAYQ_STOP__READY_GRACE_MS", "0")
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        until("a server that is ready", || {
            let ended = child.try_wait()?;
            ensure(ended.is_none(), || format!("a server ends: {ended:?}"))?;
            let types = ask(place.port, TOKEN, "GET /v1/default/types", "");
            Ok(types.is_ok_and(|(status, _)| status == 200).then_some(()))
        })?;
        Ok(child)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for child in &mut self.children {
            // Neither fails but for a process that has ended and been waited for.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
