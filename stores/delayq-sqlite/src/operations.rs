//! Operations: each reads its data, asks `delayq_core::machine` for the decision, and writes the
//! result.

pub(crate) mod actions;
pub(crate) mod audit;
pub(crate) mod change;
pub(crate) mod claim;
pub(crate) mod dead;
pub(crate) mod documents;
pub(crate) mod ends;
pub(crate) mod figures;
pub(crate) mod instances;
pub(crate) mod query;
pub(crate) mod replies;
pub(crate) mod settle;
pub(crate) mod submit;
