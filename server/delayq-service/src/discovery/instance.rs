//! An instance of an application, as it is called.

use std::collections::BTreeSet;

use delayq_endpoint::{SPRING_PATH, WORK_PATH};
use delayq_plugin::TaskType;
use url::Url;

/// An instance that serves some types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Where it is called.
    pub url: String,
    /// How.
    pub form: Form,
    /// The types that it serves.
    pub types: BTreeSet<TaskType>,
    /// Who says that it may be called.
    pub trust: Trust,
}

/// How an instance is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// The message as the body, the facts of the attempt as headers.
    Own,
    /// As the Spring delay queue calls an application, whose name begins the type.
    Spring {
        /// The name, in lower case.
        app: String,
    },
}

/// Who says that an instance may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The configuration, which names it.
    Configured,
    /// A registry, or itself: only networks that are allowed.
    Announced,
}

impl Instance {
    /// The instance at a URL of the configuration. A URL without a path is given the usual one; the
    /// path of the Spring delay queue means its form.
    pub(super) fn configured(url: &Url, task_type: &TaskType) -> Self {
        let mut url = url.clone();
        if url.path() == "/" {
            url.set_path(WORK_PATH);
        }
        let form = if url.path() == SPRING_PATH {
            // The name of the application is what stands before the last hyphen.
            let app = task_type.as_str().rsplit_once('-').map(|(app, _)| app);
            let app = app.unwrap_or_default().to_owned();
            Form::Spring { app }
        } else {
            Form::Own
        };
        Self {
            url: url.to_string(),
            form,
            types: [task_type.clone()].into(),
            trust: Trust::Configured,
        }
    }
}
