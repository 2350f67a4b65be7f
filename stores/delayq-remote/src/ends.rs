//! Recorded ends: not supported yet, so that [`configure_type`] refuses the setting.
//!
//! [`configure_type`]: delayq_core::Operate::configure_type

use async_trait::async_trait;
use delayq_core::history::Ends;

use crate::remote::RemoteStore;

#[async_trait]
impl Ends for RemoteStore {}
