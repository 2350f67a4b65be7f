//! Instances with fixed addresses in the configuration.

use delayq_plugin::TaskType;
use url::Url;

use super::config::ServiceConfig;
use super::instance::Instance;

/// All fixed instances.
pub(super) fn instances(config: &ServiceConfig) -> Vec<Instance> {
    let types = config.fixed.iter().filter_map(|(task_type, urls)| {
        let task_type = TaskType::new(task_type).ok()?;
        Some((task_type, urls))
    });
    let instances = types.flat_map(|(task_type, urls)| {
        let parsed = urls.iter().filter_map(|url| Url::parse(url).ok());
        parsed.map(move |url| Instance::configured(&url, &task_type))
    });
    instances.collect()
}
