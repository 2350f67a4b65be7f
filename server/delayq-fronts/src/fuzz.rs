//! Entry points of the fuzz targets common to all fronts.

use axum::http::HeaderValue;

pub use super::beanstalk::fuzz::beanstalk;
use super::client::bearer;
pub use super::grape::fuzz::{grape_course, grape_id, grape_query, grape_shown_id};
pub use super::lmstfy::fuzz::{
    lmstfy_age, lmstfy_attributes, lmstfy_form, lmstfy_jobs, lmstfy_limit, lmstfy_path,
    lmstfy_query, lmstfy_token,
};
pub use super::spring::fuzz::{spring_instance, spring_job, spring_path};
pub use super::task_service::fuzz::{
    grpc_task, http_task, kafka_task, task_form, task_id, task_view, which_task,
};

/// Reads an `Authorization` header, with the token as bearer or as password.
#[must_use]
pub fn front_authorization(value: &[u8]) -> Option<Vec<u8>> {
    let header = HeaderValue::from_bytes(value).ok()?;
    Some(bearer(&header).as_bytes().to_vec())
}
