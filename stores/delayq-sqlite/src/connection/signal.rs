//! Signal between the processes that have one file open: a task is due earlier than before.
//!
//! The signal is a change of the file's modification time, because a commit itself cannot be
//! observed: the log is written before the commit counts. The file is not opened for this: closing
//! it would drop the locks that `SQLite` holds on it.

#[cfg(target_os = "linux")]
pub(crate) use linux::{Receiver, send};

#[cfg(target_os = "linux")]
mod linux {
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::Path;

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
    use rustix::fs::{AtFlags, CWD, Timestamps, UTIME_NOW, utimensat};
    use rustix::io::Errno;
    use rustix::time::Timespec;

    /// Buffer for some events without a name.
    const EVENTS: usize = 512;

    /// Sends the signal to all processes that have the file at `path` open, including this one. A
    /// failure only costs time: every process checks for commits from time to time.
    pub(crate) fn send(path: &Path) {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        // Only the owner of the file may set one of the two times alone.
        let times = Timestamps {
            last_access: now,
            last_modification: now,
        };
        if let Err(error) = utimensat(CWD, path, &times, AtFlags::empty()) {
            tracing::debug!(path = %path.display(), %error, "cannot signal other processes");
        }
    }

    /// Receives the signals of a file.
    pub(crate) struct Receiver {
        events: OwnedFd,
    }

    impl Receiver {
        /// Listens from now on, if the system has inotify instances left.
        pub(crate) fn new(path: &Path) -> Option<Self> {
            let watch = || {
                let events = inotify::init(CreateFlags::CLOEXEC)?;
                let gone = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
                inotify::add_watch(&events, path, WatchFlags::ATTRIB | gone)?;
                Ok::<_, Errno>(Self { events })
            };
            let heard = watch();
            if let Err(error) = &heard {
                let path = path.display();
                tracing::debug!(%path, %error, "cannot receive signals of other processes; their tasks may start up to 100 ms late");
            }
            heard.ok()
        }

        /// Waits for a signal; `None` once the file is gone.
        pub(crate) fn wait(&self) -> Option<()> {
            let mut buffer = [MaybeUninit::uninit(); EVENTS];
            let mut reader = Reader::new(&self.events, &mut buffer);
            loop {
                match reader.next() {
                    Ok(event) if event.events() == ReadFlags::ATTRIB => {}
                    Err(Errno::INTR) => continue,
                    Ok(_) | Err(_) => return None,
                }
                if reader.is_buffer_empty() {
                    return Some(());
                }
            }
        }
    }
}

/// On other systems every process checks for commits from time to time.
#[cfg(not(target_os = "linux"))]
pub(crate) fn send(_: &std::path::Path) {}
