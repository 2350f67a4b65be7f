//! Labels of one type's metrics.

use metrics::{Counter, Gauge, Histogram, Label, SharedString, counter, gauge, histogram};

use super::table::NAMESPACE;

/// The labels of all metrics of a type. Handles are kept, as creating one allocates.
#[derive(Clone, Debug)]
pub(crate) struct TypeLabels {
    pub(super) namespace: SharedString,
    pub(super) task_type: SharedString,
}

impl TypeLabels {
    fn labels(&self) -> Vec<Label> {
        vec![
            Label::new(NAMESPACE, self.namespace.clone()),
            Label::new("type", self.task_type.clone()),
        ]
    }

    fn with(&self, key: &'static str, value: &'static str) -> Vec<Label> {
        let mut labels = self.labels();
        labels.push(Label::from_static_parts(key, value));
        labels
    }

    pub(super) fn counter(&self, name: &'static str) -> Counter {
        counter!(name, self.labels())
    }

    pub(super) fn counter_of(
        &self,
        name: &'static str,
        key: &'static str,
        value: &'static str,
    ) -> Counter {
        counter!(name, self.with(key, value))
    }

    pub(super) fn histogram(&self, name: &'static str) -> Histogram {
        histogram!(name, self.labels())
    }

    pub(super) fn gauge(&self, name: &'static str) -> Gauge {
        gauge!(name, self.labels())
    }

    pub(super) fn gauge_of(
        &self,
        name: &'static str,
        key: &'static str,
        value: &'static str,
    ) -> Gauge {
        gauge!(name, self.with(key, value))
    }
}
