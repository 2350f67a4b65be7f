//! Instances by the types that they serve.

use std::collections::HashMap;
use std::sync::Arc;

use delayq_plugin::TaskType;

use super::Instance;

/// Instances by the exact name of their type.
#[derive(Debug, Default)]
pub struct Index(HashMap<TaskType, Vec<Arc<Instance>>>);

impl Index {
    pub fn new(instances: impl IntoIterator<Item = Arc<Instance>>) -> Self {
        let mut index: HashMap<_, Vec<_>> = HashMap::new();
        for instance in instances {
            for task_type in &instance.types {
                let of_type = index.entry(task_type.clone()).or_default();
                of_type.push(Arc::clone(&instance));
            }
        }
        Self(index)
    }

    /// The instances of a type.
    pub fn of(&self, task_type: &TaskType) -> &[Arc<Instance>] {
        self.0.get(task_type).map_or(&[], Vec::as_slice)
    }

    /// All types.
    pub fn types(&self) -> impl Iterator<Item = &TaskType> {
        self.0.keys()
    }
}
