//! Whether this store packs far tasks.

use delayq_core::Result;
use delayq_core::store::Concern;

use crate::config::PackFar;
use crate::connection::{Class, Command, Connections};
use crate::scripts::packing::Packing;
use crate::scripts::{Keyspace, Script};

/// The packing that is asked for, or none and the reason, if the server refuses what it needs.
///
/// # Errors
/// `Unavailable` and the like, if the server does not answer.
pub(super) async fn packing(
    connections: &Connections,
    keys: &Keyspace,
    wanted: PackFar,
) -> Result<(Packing, Option<String>)> {
    let packing = Packing::new(wanted);
    if !packing.is_on() {
        return Ok((packing, None));
    }
    if connections.is_cluster() {
        // A slot that moves to another node moves key by key. A script is refused at once if a key
        // that it declares has moved, and in the middle for another one.
        let fault = "a script in a cluster may use the keys that it declares only".to_owned();
        let asked = (wanted != PackFar::Auto).then_some(fault);
        return Ok((Packing::new(PackFar::Off), asked));
    }
    let probe = Command::script(Script::FarProbe.lua(), keys.slot(), &[keys.layouts()], 64);
    let fault = match connections.call(Class::Main, probe).await {
        Ok(denied) => {
            let (mut names, mut fields) = (Vec::new(), denied.fields());
            while !fields.is_empty() {
                names.push(fields.text()?);
            }
            (!names.is_empty()).then(|| format!("its user may not run {}", names.join(", ")))
        }
        Err(error) if error.is_transient() => return Err(error),
        Err(error) => Some(error.to_string()),
    };
    match fault {
        None => Ok((packing, None)),
        Some(fault) => {
            let store = connections.place();
            tracing::warn!(%store, fault, "far tasks are not packed");
            Ok((Packing::new(PackFar::Off), Some(fault)))
        }
    }
}

/// The concern for the reason why far tasks are not packed.
pub(super) fn concern(fault: &str) -> Concern {
    Concern::new(
        format!("far tasks are not packed: {fault}"),
        "they take about twice the memory",
        "use one server, with or without sentinels; let its scripts use keys that they do not declare; \
         grant the commands in the guide; or set pack=off",
    )
}
